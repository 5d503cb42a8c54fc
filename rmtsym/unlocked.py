"""``gemm``, ``syrk`` and ``sytrd`` of SciPy's library, called with the interpreter lock released.

SciPy's wrappers of the last two hold the lock for the whole call, so threads would take turns;
NumPy's product runs in a second thread pool, whose idle threads spin beside SciPy's. All three are
reached through ``scipy.linalg.cython_blas``, so one pool serves a whole evaluation.

>>> import numpy as np
>>> a = np.asfortranarray(np.arange(6.0).reshape(2, 3))
>>> bool(np.allclose(syrk(a, True), np.tril(a.T @ a)))
True
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from rmtsym.sampling import Array

_INT = ctypes.c_int


@lru_cache(maxsize=8)
def _routine(name: str, arguments: int) -> Any:
    table = cython_lapack if name.endswith("trd") else cython_blas
    capsule = table.__pyx_capi__[name]
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = get_pointer(capsule, get_name(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)


def _letter(array: Array) -> tuple[str, Any]:
    return ("d", ctypes.c_double) if array.dtype == np.float64 else ("s", ctypes.c_float)


def _check(array: Array) -> None:
    if array.dtype not in (np.float64, np.float32) or not array.flags.f_contiguous:
        raise TypeError(f"got {array.dtype}; expected a Fortran-ordered float array")


def gemm(left: Array, right: Array) -> Array:
    """``left @ right`` in C order; each operand is C- or Fortran-ordered.

    >>> import numpy as np
    >>> a = np.arange(6.0).reshape(2, 3)
    >>> bool(np.allclose(gemm(a, a.T), a @ a.T))
    True
    """
    for operand in (left, right):
        _check(operand if operand.flags.f_contiguous else operand.T)
    result = np.empty((left.shape[0], right.shape[1]), left.dtype)
    letter, kind = _letter(left)
    # Fortran sees the transposes: result' = right' left'
    m, n, k = _INT(right.shape[1]), _INT(left.shape[0]), _INT(right.shape[0])
    ref = ctypes.byref
    (trans_a, lda), (trans_b, ldb) = (
        (ctypes.c_char(b"N"), _INT(max(1, x.shape[1])))
        if x.flags.c_contiguous
        else (ctypes.c_char(b"T"), _INT(max(1, x.shape[0])))
        for x in (right, left)
    )
    one, zero, ldc = kind(1), kind(0), _INT(max(1, right.shape[1]))
    _routine(letter + "gemm", 13)(
        ref(trans_a), ref(trans_b), ref(m), ref(n), ref(k), ref(one), right.ctypes.data, ref(lda),
        left.ctypes.data, ref(ldb), ref(zero), result.ctypes.data, ref(ldc),
    )  # fmt: skip
    return result


def syrk(array: Array, transposed: bool) -> Array:
    """Lower triangle of ``a' a`` (transposed) or ``a a'``, zeros above."""
    _check(array)
    rows, columns = array.shape
    size, inner = (columns, rows) if transposed else (rows, columns)
    result = np.zeros((size, size), array.dtype, order="F")
    letter, kind = _letter(array)
    n, k = _INT(size), _INT(inner)
    lda, ldc = _INT(max(1, rows)), _INT(max(1, size))
    one, zero = kind(1), kind(0)
    uplo, trans = ctypes.c_char(b"L"), ctypes.c_char(b"T" if transposed else b"N")
    ref = ctypes.byref
    _routine(letter + "syrk", 10)(
        ref(uplo), ref(trans), ref(n), ref(k), ref(one), array.ctypes.data, ref(lda),
        ref(zero), result.ctypes.data, ref(ldc),
    )  # fmt: skip
    return result


def sytrd(array: Array) -> tuple[Array, Array, Array, Array]:
    """Tridiagonal form of a symmetric array (lower triangle), which is overwritten.

    Returns the reflectors, the diagonal, the off-diagonal and the factors of the reflectors.
    """
    _check(array)
    size = len(array)
    letter, _ = _letter(array)
    d, e, tau = (np.empty(max(1, k), array.dtype) for k in (size, size - 1, size - 1))
    work = np.empty(64 * size, array.dtype)
    n, lda, lwork, info = _INT(size), _INT(size), _INT(len(work)), _INT(0)
    uplo = ctypes.c_char(b"L")
    ref = ctypes.byref
    _routine(letter + "sytrd", 10)(
        ref(uplo), ref(n), array.ctypes.data, ref(lda), d.ctypes.data, e.ctypes.data,
        tau.ctypes.data, work.ctypes.data, ref(lwork), ref(info),
    )  # fmt: skip
    if info.value != 0:  # pragma: no cover - an argument in the wrong place
        raise ValueError(f"sytrd refused argument {-info.value}")
    return array, d, e[: size - 1], tau[: size - 1]
