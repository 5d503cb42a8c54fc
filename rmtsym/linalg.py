"""Inverses and solutions of small systems: many at once, in any number type.

>>> inverse(2, [2.0, 0.0, 0.0, 4.0])
[0.5, 0.0, 0.0, 0.25]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from rmtsym.tape import is_known

Array: TypeAlias = npt.NDArray[Any]


def solve_linear(matrix: Array, right: Array) -> Array:
    """``matrix^{-1} right`` for one matrix of any numbers; Gauss-Jordan with pivoting."""
    size = matrix.shape[0]
    work = np.concatenate([matrix, right], axis=1)
    for step in range(size):
        pivot = step + max(range(size - step), key=lambda i: _magnitude(work[step + i, step]))
        if pivot != step:
            work[[step, pivot]] = work[[pivot, step]]
        if _magnitude(work[step, step]) == 0:
            raise ZeroDivisionError("singular matrix")
        work[step] = work[step] / work[step, step]
        for row in range(size):
            if row != step and not is_known(work[row, step], 0):
                work[row] = work[row] - work[row, step] * work[step]
    return work[:, size:]


def _magnitude(value: Any) -> Any:
    lower = getattr(value, "abs_lower", None)
    return abs(value) if lower is None else lower()


def inverse(size: int, entries: Sequence[Any]) -> list[Any]:
    """The inverse of a matrix given by its entries row by row: numbers, or arrays of one shape."""
    if not any(isinstance(x, np.ndarray) for x in entries):
        if all(isinstance(x, (int, float, complex)) for x in entries):
            return list(_inverse(np.array(entries).reshape(size, size)).ravel().tolist())
        matrix = np.array(entries, dtype=object).reshape(size, size)
        unit = np.eye(size, dtype=int).astype(object)
        return list(solve_linear(matrix, unit).ravel())
    arrays = np.broadcast_arrays(*entries)
    if arrays[0].dtype == object:
        flat = zip(*(x.ravel() for x in arrays), strict=True)
        columns = zip(*(inverse(size, list(one)) for one in flat), strict=True)
        return [np.array(x, dtype=object).reshape(arrays[0].shape) for x in columns]
    stacked = np.stack(arrays, axis=-1)
    found = _inverse(stacked.reshape(*stacked.shape[:-1], size, size))
    return list(np.moveaxis(found.reshape(stacked.shape), -1, 0))


def _inverse(matrix: Array) -> Array:
    """Batched inverse with rows and columns brought to one scale; nan where singular."""
    with np.errstate(all="ignore"):
        rows = 1 / np.max(np.abs(matrix), axis=-1, keepdims=True)
        columns = 1 / np.max(np.abs(matrix * rows), axis=-2, keepdims=True)
        scaled = matrix * rows * columns
        scaled[~np.all(np.isfinite(scaled), axis=(-1, -2))] = np.eye(matrix.shape[-1]) * np.nan
        double: Any = np.result_type(matrix.dtype, np.float32)
        if double in (np.longdouble, np.clongdouble):
            double = np.complex128 if np.iscomplexobj(matrix) else np.float64
        found = inverses(scaled.astype(double))
        if matrix.dtype in (np.longdouble, np.clongdouble):
            found = found.astype(matrix.dtype)
            for _ in range(2):
                found = found + found @ (np.eye(matrix.shape[-1]) - scaled @ found)
        return cast(Array, found * np.swapaxes(columns, -1, -2) * np.swapaxes(rows, -1, -2))


def inverses(matrix: Array) -> Array:
    """Inverses over the last two axes, of floats as they stand; nan where singular."""
    try:
        return cast(Array, np.linalg.inv(matrix))
    except np.linalg.LinAlgError:
        if matrix.ndim == 2:
            return np.full_like(matrix, np.nan)
        return np.stack([inverses(part) for part in matrix])


def solutions(matrix: Array, right: Array) -> Array:
    """``matrix^{-1} right`` over the last two axes, of floats as they stand; nan where singular."""
    try:
        return cast(Array, np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        if matrix.ndim == 2:
            return np.full(right.shape, np.nan, dtype=np.result_type(matrix, right))
        return np.stack([solutions(m, r) for m, r in zip(matrix, right, strict=True)])


def solve_batch(matrix: Array, right: Array) -> Array:
    """``matrix^{-1} right`` over the last two axes, for floats of any width or objects."""
    if matrix.dtype != object:
        return _inverse(matrix) @ right
    if matrix.ndim == 2:
        return solve_linear(matrix, right)
    return np.stack([solve_batch(m, r) for m, r in zip(matrix, right, strict=True)])
