"""Solving a fixed-point system on the physical branch, all points at once.

:mod:`rmtsym.continuation` finds the branch, :mod:`rmtsym.dense` what it lost. The last digits are
found in extended precision; where these do not hold the accuracy asked for,
:mod:`rmtsym.precision` takes over.

>>> from rmtsym.matrices import *
>>> from rmtsym.dyson import derive
>>> n, p = dimensions("n p")
>>> gamma, c = sp.symbols("gamma c", positive=True)
>>> Z = Gaussian("Z", p, n)
>>> system = derive(Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n, {n: 1, p: c})
>>> solution = solve(system, {gamma: [1, 1e-12], c: 1})
>>> solution.value.round(12)
array([6.18033989e-01, 9.99999500e+05])
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
import sympy as sp

from rmtsym.compilation import CompiledSystem, Point, by_symbol, compile_system
from rmtsym.continuation import Continuation, solve_core
from rmtsym.dense import DenseContinuation
from rmtsym.errors import (
    BranchError,
    ConvergenceError,
    FailedPointsWarning,
    InputError,
    PrecisionError,
    RmtsymError,
)
from rmtsym.linalg import Array
from rmtsym.programs import Programs, programs
from rmtsym.rounding import EPSILON, Values, in_double, in_extended, narrow_type
from rmtsym.system import FixedPointSystem

CHUNK = 2048
"""Points worked on together: their arrays stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver returns.

    ``value``: the expression's value (a float, or an array of the parameters' shape);
    ``residual``: the largest relative residual of the fixed-point equations; ``unknowns``: the
    scalar unknowns, one array per component of the system, points first; ``converged``: where the
    value holds the accuracy asked for; ``correct_digits``: the digits that double precision alone
    supports there; ``refined``: where more precision was used; ``digits``: the digits vouched for
    (None in double precision); ``notes``: how inputs were read.
    """

    value: Any
    residual: Any
    unknowns: tuple[Array, ...]
    converged: Any
    digits: int | None = None
    correct_digits: Any = None
    refined: Any = False
    notes: tuple[str, ...] = ()

    @property
    def condition(self) -> Any:
        """Estimated relative condition: relative error of the value per unit of rounding."""
        return None if self.correct_digits is None else 10.0 ** (16 - self.correct_digits)

    def __float__(self) -> float:
        return float(self.value)


EXTENDED_DIGITS = 19
"""What an extended double holds; as quick to compute as double precision."""


def _extended(value: Any, key: Any) -> Any:
    """A number or array as extended doubles, exact numbers rounded once."""
    if isinstance(value, str):
        from rmtsym.parsing import exact_number

        value = exact_number(value)
    if hasattr(value, "_mpf_"):
        value = sp.Float(value, 2 * EXTENDED_DIGITS)
    if isinstance(value, (sp.Basic, Fraction)):
        if getattr(value, "free_symbols", None):
            raise InputError(f"got {key} = {value}; pass a number for every symbol")
        number = sp.sympify(value)
        if number.is_real is False:
            return _extended(sp.re(number), key) + np.clongdouble(1j) * _extended(
                sp.im(number), key
            )
        high = float(number)
        low = float(number - sp.Rational(*high.as_integer_ratio())) if np.isfinite(high) else 0.0
        value = np.longdouble(high) + np.longdouble(low)
    array = np.asarray(value)
    if array.dtype.kind == "O":
        array = np.array([_extended(x, key) for x in array.ravel()]).reshape(array.shape)
    if array.dtype.kind not in "fciub" or not np.all(np.isfinite(array)):
        raise InputError(f"got {key} = {value!r}; pass finite numbers")
    return array.astype(np.clongdouble if array.dtype.kind == "c" else np.longdouble)


def bind(
    system: FixedPointSystem,
    values: Mapping[Any, Any],
    nonlinearities: Mapping[Any, Any] | None = None,
    digits: int | None = None,
) -> dict[Any, Any]:
    """Parameter values with the Hermite symbols filled in from their nonlinearities."""
    full = by_symbol(system, values)
    for entry in system.hermite_symbols:
        if entry.symbol not in full and entry.symbol in system.parameters:
            tau = entry.tau.subs(full) if entry.tau.free_symbols else entry.tau
            full[entry.symbol] = entry.value(nonlinearities or {}, tau, digits)
    return full


def solve(
    system: FixedPointSystem | CompiledSystem,
    values: Mapping[Any, Any],
    *,
    nonlinearities: Mapping[Any, Any] | None = None,
    method: Continuation | None = None,
    accuracy: float = 1e-10,
    strict: bool = True,
) -> Solution:
    """Solve a system and evaluate its expression, at one point or at many.

    Parameters
    ----------
    values : every symbol of ``system.parameters``, as such or by name, numbers or arrays that
        broadcast together;
        symbols of Hermite coefficients may be left to ``nonlinearities``.
    accuracy : relative accuracy asked for; points where double (and extended) precision cannot
        hold it are refined with more digits, and ``Solution.refined`` says which.
    strict : raise at the first point that fails; otherwise such points are nan.

    Raises
    ------
    ConvergenceError
        with the place and the residual, if a point was not solved (``strict`` only).
    InputError
        for values that are missing or not finite numbers.
    """
    compiled = programs(system)
    follow = method or Continuation()
    try:
        bound = bind(compiled.system, values, nonlinearities, EXTENDED_DIGITS)
    except PrecisionError:  # a function given as a program knows double precision only
        bound = bind(compiled.system, values, nonlinearities)
    used = [
        _extended(v, s) for s, v in zip(compiled.parameters, compiled.arguments(bound), strict=True)
    ]
    relative = {value for _, value in compiled.system.sizes}
    for symbol, v in zip(compiled.parameters, used, strict=True):
        wrong = np.ravel(v)[np.ravel((v.real <= 0) | (v.imag != 0))]
        if symbol in relative and wrong.size:
            raise InputError(f"got {symbol} = {wrong[0]:.6g}; a relative size is positive")
    try:
        shape = np.broadcast_shapes(*(v.shape for v in used))
    except ValueError as mismatch:
        shapes = ", ".join(
            f"{s} {v.shape}" for s, v in zip(compiled.parameters, used, strict=True) if v.shape
        )
        raise InputError(
            f"got arrays that do not broadcast together: {shapes}; give them one shape"
        ) from mismatch
    points = int(np.prod(shape))
    flat = [np.broadcast_to(v, shape).reshape(points) for v in used]
    chunk = max(1, CHUNK // compiled.atoms)
    parts = [
        _chunk(compiled, [v[i : i + chunk] for v in flat], follow, accuracy, strict)
        for i in range(0, points, chunk)
    ]
    value, residual, error, digits = (
        np.concatenate([getattr(p[0], name) if j < 3 else p[1] for p in parts])
        for j, name in enumerate(("value", "residual", "error", ""))
    )
    unknowns = [
        np.concatenate([p[0].unknowns[c] for p in parts]) for c in range(len(compiled.cores))
    ]
    refined = np.zeros(points, dtype=bool)
    converged = error < accuracy
    exact = by_symbol(compiled.system, values)
    for place in np.flatnonzero(~converged & ~np.isnan(residual)) if accuracy < np.inf else ():
        near = [u[place] for u in unknowns] if np.isfinite(residual[place]) else None
        found = _refine(compiled.system, exact, nonlinearities, shape, int(place), accuracy, near)
        if found is not None:
            value[place] = complex(found.value) if np.iscomplexobj(value) else found.value
            residual[place] = found.residual
            for mine, other in zip(unknowns, found.unknowns, strict=True):
                mine[place] = other
            converged[place] = refined[place] = True
    value[~np.isfinite(residual)] = np.nan
    solution = Solution(
        _shaped(value, shape),
        _shaped(residual, shape),
        tuple(u if shape else u[0] for u in unknowns),
        _shaped(converged, shape),
        None,
        _shaped(digits, shape),
        _shaped(refined, shape),
    )
    if strict:
        _require_all(compiled.parameters, flat, solution)
    return solution


def _require_all(
    parameters: Sequence[sp.Symbol], flat: Sequence[Array], solution: Solution
) -> None:
    converged = np.ravel(solution.converged)
    if np.all(converged):
        return
    bad = int(np.argmin(converged))
    where = ", ".join(f"{s} = {v[bad]}" for s, v in zip(parameters, flat, strict=True))
    raise ConvergenceError(
        f"no solution on the physical branch found{' at ' * bool(where)}{where} "
        f"(residual {np.ravel(solution.residual)[bad]:.1e}); "
        "check that every inverse exists there, or pass strict=False to keep other points",
        solution,
    )


def _by_arrays(
    compiled: Programs, component: int, x: Sequence[Array], v: Array, done: Array
) -> None:
    """Points that were lost, once more along the strength in small steps of its own scale."""
    left = np.flatnonzero(~done)
    if not len(left):
        return
    point = Point(compile_system(compiled.system), tuple(one[left] for one in x), (len(left),))
    with np.errstate(all="ignore"):
        u, residual = DenseContinuation()(point, component)
    v[:, left] = u.T[list(compiled.cores[component].kept)]
    done[left] = np.isfinite(residual)


def _refine(
    system: FixedPointSystem,
    values: Mapping[Any, Any],
    nonlinearities: Any,
    shape: tuple[int, ...],
    place: int,
    accuracy: float,
    near: Any,
) -> Solution | None:
    """One point with more digits; None where that fails too. Floats stand for themselves here."""
    from rmtsym.precision import refine

    def pick(value: Any) -> Any:
        if isinstance(value, np.ndarray) or np.ndim(value):
            value = np.broadcast_to(np.asarray(value), shape).reshape(-1)[place]
        if isinstance(value, (complex, np.complexfloating)):
            return pick(float(value.real)) + sp.I * pick(float(value.imag))
        if isinstance(value, (float, np.floating)):
            return sp.Rational(*float(value).as_integer_ratio())
        return value

    digits = max(10, int(np.ceil(-np.log10(max(accuracy, 1e-15)))) + 2)
    try:
        return refine(
            system,
            {key: pick(value) for key, value in values.items()},
            nonlinearities=nonlinearities,
            digits=digits,
            start=near,
        )
    except RmtsymError:
        return None


def _chunk(
    compiled: Programs, x: list[Array], method: Continuation, accuracy: float, strict: bool
) -> tuple[Values, Array]:
    """What is found at a chunk of points, and the digits that double precision supports.

    A point where a coefficient is not real, as ``sqrt(1 - r^2)`` at r = 2, has a nan for residual.
    """
    points = len(x[0]) if x else 1
    narrow = [one.astype(narrow_type(one)) for one in x]
    with np.errstate(all="ignore"):
        k = compiled.coefficients(dict(zip(compiled.parameters, narrow, strict=True)))
    undefined = np.zeros(points, dtype=bool)
    for expression, number in zip(compiled.expressions, (*k.a, *k.s, *k.o), strict=True):
        undefined |= np.isnan(number)
        if strict and np.any(undefined):
            bad = int(np.argmax(undefined))
            where = ", ".join(
                f"{s} = {v[bad]}"
                for s, v in zip(compiled.parameters, x, strict=True)
                if expression.has(s)
            )
            raise InputError(
                f"got {where}, where {expression}, a coefficient of the equations, is no real "
                "number; give values inside its domain"
            )
    if np.any(undefined):
        return _beside_undefined(compiled, x, method, accuracy, undefined)
    found = [solve_core(compiled, core, k, points, method) for core in compiled.cores]
    for component, (v, reached) in enumerate(found):
        _by_arrays(compiled, component, narrow, v, reached)
    vs, done = [v for v, _ in found], np.all([d for _, d in found], axis=0)
    if points == 1:
        result, double = in_extended(compiled, x, vs)
    else:
        result = in_double(compiled, narrow, vs)
        double = result.error.copy()
        poor = np.flatnonzero(done & ~(result.error < accuracy))
        if len(poor):
            better, double[poor] = in_extended(
                compiled, [one[poor] for one in x], [v[:, poor] for v in vs]
            )
            for name in ("value", "residual", "error"):
                getattr(result, name)[poor] = getattr(better, name)
            for mine, other in zip(result.unknowns, better.unknowns, strict=True):
                mine[poor] = other
    result.error[~done] = result.residual[~done] = double[~done] = np.inf
    return result, np.clip(-np.log10(np.maximum(double, EPSILON)), 0, 15.6)


def _beside_undefined(
    compiled: Programs, x: list[Array], method: Continuation, accuracy: float, undefined: Array
) -> tuple[Values, Array]:
    """A chunk whose undefined points are nan: a defined one is solved in their place."""
    points, defined = len(undefined), np.flatnonzero(~undefined)
    if len(defined):
        place = np.where(undefined, defined[0], np.arange(points))
        found, digits = _chunk(compiled, [one[place] for one in x], method, accuracy, False)
    else:
        tables = [np.full((points, len(c.pairs)), np.nan) for c in compiled.system.components]
        value, residual, error = np.empty((3, points))
        found, digits = Values(value, residual, error, tables), np.zeros(points)
    found.value[undefined] = found.residual[undefined] = np.nan
    found.error[undefined] = np.inf
    return found, np.where(undefined, 0.0, digits)


def _shaped(value: Array, shape: tuple[int, ...]) -> Any:
    return value.reshape(shape) if shape else cast(Any, value.reshape(-1)[0].item())


def require_physical(condition: Any, message: str, solution: Solution) -> None:
    """Raise ``BranchError`` unless the condition holds at every converged point."""
    if not np.all(condition):
        raise BranchError(message, solution)


def without_failures(solution: Solution, physical: Array) -> Solution:
    """A grid with nan where a point failed, and a warning that counts them; an error if all did."""
    converged = np.asarray(solution.converged) & physical
    if np.all(converged):
        return solution
    failed = int(np.sum(~converged))
    worst = np.asarray(solution.residual)[~converged].max()
    message = (
        f"{failed} of {converged.size} points were not solved on the physical branch (residual up "
        f"to {worst:.1e})"
    )
    if not np.any(converged):
        raise ConvergenceError(f"{message}; check that every inverse exists there", solution)
    warnings.warn(f"{message}; their values are nan", FailedPointsWarning, stacklevel=5)
    return replace(solution, value=np.where(converged, solution.value, np.nan), converged=converged)
