"""Factorisations of ``A + shift * I`` for solutions and traces of inverses: one LAPACK call each.

``solve(right, transposed)`` gives ``A^{-1} right``, or ``A'^{-1} right``; ``trace(power)`` of a
symmetric A gives ``tr A^{-power}``. Right-hand sides and results may be stacks: one array for each
of many values of a scalar.

>>> factorise("cholesky", 3.0 * np.eye(2), 1.0).trace(1)
array([[0.5]])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import scipy.linalg as sl
from scipy.linalg import lapack

from rmtsym.errors import SimulationError
from rmtsym.sampling import Array
from rmtsym.unlocked import sytrd


class _Cholesky:
    def __init__(self, array: Array, shift: float) -> None:
        array = array if array.flags.f_contiguous else array.T
        index = np.arange(len(array))
        array[index, index] += shift
        (potrf, self.potrs) = lapack.get_lapack_funcs(("potrf", "potrs"), (array,))
        self.lower, info = potrf(array, lower=1, overwrite_a=1, clean=0)
        if info != 0:
            raise SimulationError(
                f"Cholesky stopped at pivot {info} of {len(array)}: the matrix is positive "
                "definite, but not to this precision; use float64 or a larger shift"
            )

    def solve(self, right: Array, transposed: bool) -> Array:
        if right.ndim == 3:
            return _stacked(lambda b: self.solve(b, transposed), right)
        return cast(Array, self.potrs(self.lower, right, lower=1)[0])

    def trace(self, power: int) -> Array:
        if power == 1:
            (trtri,) = lapack.get_lapack_funcs(("trtri",), (self.lower,))
            inverse = np.tril(trtri(self.lower, lower=1)[0])
            return np.full((1, 1), float(np.vdot(inverse, inverse)))
        lower = np.tril(self.lower)
        singular = sl.svdvals(lower, check_finite=False)
        return np.full((1, 1), float((singular ** (-2.0 * power)).sum()))


class _LU:
    def __init__(self, array: Array, shift: float) -> None:
        self.flipped = not array.flags.f_contiguous
        array = array.T if self.flipped else array
        index = np.arange(len(array))
        array[index, index] += shift
        (getrf, self.getrs) = lapack.get_lapack_funcs(("getrf", "getrs"), (array,))
        self.lu, self.pivots, info = getrf(array, overwrite_a=1)
        if info > 0:
            raise SimulationError(f"a matrix to be inverted is singular (pivot {info} is zero)")

    def solve(self, right: Array, transposed: bool) -> Array:
        if right.ndim == 3:
            return _stacked(lambda b: self.solve(b, transposed), right)
        trans = int(transposed != self.flipped)
        return cast(Array, self.getrs(self.lu, self.pivots, right, trans=trans)[0])

    def trace(self, power: int) -> Array:
        result = identity = np.eye(len(self.lu), dtype=self.lu.dtype)
        for _ in range(power):
            result = self.solve(result, False)
        return np.full((1, 1), float((result * identity).sum()))


class _Tridiagonal:
    """``A = P T P'``; every shift is then a tridiagonal solve."""

    def __init__(self, array: Array, shift: Any) -> None:
        array = array if array.flags.f_contiguous else array.T
        self.shifts = np.atleast_1d(np.asarray(shift, array.dtype).reshape(-1))
        (self.ormqr,) = lapack.get_lapack_funcs(("ormqr",), (array,))
        reflectors, self.d, self.e, self.tau = sytrd(array)
        self.reflectors = np.asfortranarray(reflectors[1:, :-1])

    def _rotate(self, columns: Array, trans: str) -> Array:
        columns = np.array(columns, order="F")
        tail = np.asfortranarray(columns[1:])
        work = int(self.ormqr("L", trans, self.reflectors, self.tau, tail, -1)[1][0])
        columns[1:] = self.ormqr("L", trans, self.reflectors, self.tau, tail, work)[0]
        return columns

    def solve(self, right: Array, transposed: bool) -> Array:
        count, columns = len(self.shifts), right.shape[-1]
        if right.ndim == 3:
            flat = right.transpose(1, 0, 2).reshape(right.shape[1], -1)
            inside = self._rotate(flat, "T").reshape(-1, count, columns)
        else:
            rotated = self._rotate(right, "T")
            inside = np.broadcast_to(rotated[:, None], (len(rotated), count, columns))
        (gtsv,) = lapack.get_lapack_funcs(("gtsv",), (inside,))
        solved = np.empty((len(inside), count, columns), inside.dtype)
        for k, shift in enumerate(self.shifts):
            *_, solved[:, k], info = gtsv(self.e, self.d + shift, self.e, inside[:, k])
            if info > 0:
                raise SimulationError("a matrix to be inverted is singular")
        back = self._rotate(solved.reshape(len(solved), -1), "N")
        return cast(Array, back.reshape(len(solved), count, columns).transpose(1, 0, 2))

    def trace(self, power: int) -> Array:
        values = sl.eigvalsh_tridiagonal(self.d, self.e)
        return cast(Array, ((values + self.shifts[:, None]) ** (-power)).sum(1).reshape(-1, 1, 1))


class _Small:
    """Arrays of a few rows, possibly one for each value."""

    def __init__(self, array: Array, shift: Any) -> None:
        self.array = array + shift * np.eye(array.shape[-1])

    def solve(self, right: Array, transposed: bool) -> Array:
        array = np.swapaxes(self.array, -1, -2) if transposed else self.array
        try:
            return cast(Array, np.linalg.solve(array, right))
        except np.linalg.LinAlgError as error:
            raise SimulationError("a matrix to be inverted is singular") from error

    def trace(self, power: int) -> Array:
        inverse = np.linalg.matrix_power(np.linalg.inv(self.array), power)
        return np.asarray(np.trace(inverse, axis1=-2, axis2=-1)).reshape(-1, 1, 1)


def _stacked(solve: Callable[[Array], Array], right: Array) -> Array:
    count, rows, columns = right.shape
    flat = solve(right.transpose(1, 0, 2).reshape(rows, count * columns))
    return flat.reshape(rows, count, columns).transpose(1, 0, 2)


def factorise(method: str, array: Array, shift: Any) -> Any:
    """Cholesky, LU, tridiagonal or small factorisation of ``array + shift * I``, in place."""
    kinds = {"cholesky": _Cholesky, "lu": _LU, "tridiagonal": _Tridiagonal, "small": _Small}
    return kinds[method](array, shift)
