"""Values at solved points, and how far rounding lets them be trusted.

Each value is computed in two precisions; by how much they differ is the error of the lower one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmtsym.continuation import relative_size
from rmtsym.linalg import Array
from rmtsym.programs import Coefficients, Programs, run
from rmtsym.source import EXTENDED, MATH, NUMPY, Numbers


@dataclass
class Values:
    """Values, relative residuals, relative errors and unknowns of a chunk of points."""

    value: Array
    residual: Array
    error: Array
    unknowns: list[Array]


def _evaluate(
    compiled: Programs, x: Sequence[Array], vs: Sequence[Array], numbers: Numbers, steps: int
) -> tuple[Array, Array, list[Array], Coefficients]:
    """Newton's last steps, then value and residual, in one number type."""
    values = dict(zip(compiled.parameters, x, strict=True))
    k = compiled.coefficients(values, numbers)
    points = vs[0].shape[1]
    residual = np.zeros(points)
    polished = []
    for core, start in zip(compiled.cores, vs, strict=True):
        v = start
        for _ in range(steps if core.count else 0):
            flat = run(core.step, v, k.a, k.s, k=k)
            if len(flat) == 1:
                flat = np.full((2 * core.count, points), np.nan)
            v = v + flat[core.count :]
            size = relative_size(flat[: core.count], v, np.abs(v) * 0).astype(float)
        residual = np.maximum(residual, size if core.count else 0)
        polished.append(v)
    if points == 1:
        plain = {s: np.asarray(one).reshape(-1)[0].item() for s, one in values.items()}
        scalars = MATH if numbers is NUMPY else numbers
        try:
            value = compiled.value(plain, [v[:, 0].tolist() for v in polished], scalars, k.single())
        except (ZeroDivisionError, OverflowError, ValueError):
            value = np.nan
    else:
        value = compiled.value(values, polished, numbers, k)
    kind = np.result_type(float, np.asarray(value).dtype)
    return np.array(np.broadcast_to(value, points), dtype=kind), residual, polished, k


EPSILON = float(np.finfo(float).eps)
SAFETY = 20.0
"""Two precisions differ by the error of the lower one; the higher one's is stated this much larger
than the ratio of their roundings makes it."""


def in_double(compiled: Programs, x: Sequence[Array], vs: Sequence[Array]) -> Values:
    """Values in double precision; their errors from what single precision makes of them."""
    with np.errstate(all="ignore"):
        value, residual, polished, k = _evaluate(compiled, x, vs, NUMPY, 1)
        less = [one.astype(_single(one)) for one in x]
        rough = _evaluate(compiled, less, [v.astype(_single(v)) for v in polished], NUMPY, 2)[0]
        gap = _gap(value, rough) * (EPSILON / float(np.finfo(np.float32).eps))
        unknowns = compiled.unknowns(polished, k)
    table = _stacked(unknowns, len(value), polished[0].dtype)
    return Values(value, residual, np.maximum(gap, EPSILON), table)


def _gap(value: Array, rough: Array) -> Array:
    """The relative error of an evaluation in lower precision; inf where it is worthless."""
    gap = np.where(value == rough, 0, np.abs((rough - value) / value)).astype(float)
    return np.where(gap < 0.1, SAFETY * gap, np.inf)


def _single(x: Array) -> Any:
    return np.complex64 if np.iscomplexobj(x) else np.float32


def in_extended(
    compiled: Programs, x: Sequence[Array], vs: Sequence[Array]
) -> tuple[Values, Array]:
    """Values in extended precision; their errors, and those of double precision."""
    with np.errstate(all="ignore"):
        narrow = [one.astype(narrow_type(one)) for one in x]
        wide = [v.astype(np.result_type(v.dtype, np.longdouble)) for v in vs]
        value, residual, polished, k = _evaluate(compiled, x, wide, EXTENDED, 2)
        rough = _evaluate(compiled, narrow, [v.astype(narrow_type(v)) for v in polished], NUMPY, 1)[
            0
        ]
        gap = _gap(value, rough)
        unknowns = compiled.unknowns(polished, k)
    dtype = narrow_type(value)
    error = np.maximum(gap * (float(np.finfo(np.longdouble).eps) / EPSILON), EPSILON)
    table = _stacked(unknowns, len(value), dtype)
    return Values(value.astype(dtype), residual, error, table), gap


def narrow_type(x: Array) -> Any:
    """The double precision type that holds x."""
    return np.complex128 if np.iscomplexobj(x) else np.float64


def _stacked(unknowns: list[list[Any]], points: int, dtype: Any) -> list[Array]:
    found = []
    for one in unknowns:
        table = np.empty((points, len(one)), dtype=dtype)
        for column, value in enumerate(one):
            table[:, column] = value
        found.append(table)
    return found
