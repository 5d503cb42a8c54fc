"""Solving a fixed-point system on the physical branch.

With the randomness switched off (``Sigma = 0``) the solution is ``A^{-1}``. For every strength
``t`` in [0, 1] of the self-energy the system is that of a model with its randomness scaled by
``sqrt(t)``, so the physical solution is one smooth path from t = 0 to t = 1. The solver follows it
by Newton's method with a step of its own for every point, and stops on the residual of the
equation. Where A is singular (an inverse that exists by its randomness alone), every inverse
``M^{-1}`` starts as ``(t M + 1 - t)^{-1}``.

>>> from rmtsym.matrices import *
>>> from rmtsym.dyson import derive
>>> n, p = dimensions("n p")
>>> gamma, c = sp.symbols("gamma c", positive=True)
>>> Z = Gaussian("Z", p, n)
>>> system = derive(Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n, {n: 1, p: c})
>>> solution = solve(system, {gamma: 1, c: 1})
>>> print(round(solution.value, 12))
0.61803398875
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import sympy as sp

from rmtsym.compilation import Array, CompiledSystem, Point, compile_system, solve_linear
from rmtsym.errors import BranchError, ConvergenceError, InputError
from rmtsym.system import FixedPointSystem


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver returns.

    ``value``: the expression's value (a float, or an array of the parameters' shape);
    ``residual``: the largest relative residual of the fixed-point equations; ``unknowns``: the
    scalar unknowns, one array per component of the system, points first; ``converged``: where the
    residual met the tolerance; ``digits``: None in double precision; ``notes``: how inputs were
    read.
    """

    value: Any
    residual: Any
    unknowns: tuple[Array, ...]
    converged: Any
    digits: int | None = None
    notes: tuple[str, ...] = ()

    def __float__(self) -> float:
        return float(self.value)


@dataclass(frozen=True)
class Continuation:
    """Newton's method along the strength of the randomness.

    ``tolerance`` bounds ``max |Phi(u) - u| / max |u|``; ``first`` is the first step in t;
    ``corrections`` the Newton steps allowed at each t; ``steps`` the values of t allowed.
    """

    tolerance: float = 1e-13
    first: float = 1e-2
    corrections: int = 8
    steps: int = 400

    def __call__(self, point: Point, component: int) -> tuple[Array, Array]:
        """The unknowns at t = 1 and their relative residuals; nan where the path was lost."""
        start = Point(point.compiled, point.values, point.numbers)
        batch = point.batch or (1,)
        whole = start if point.batch else _as_batch(start)
        u, residual = self._path(whole, component, np.zeros(batch))
        for shift in (1.0, -1.0):
            lost = np.flatnonzero(~np.isfinite(residual))
            if len(lost) and point.compiled.core[component].inverses:
                found, size = self._path(whole.take(lost), component, np.full(len(lost), shift))
                u[lost], residual[lost] = found, size
        return (u, residual) if point.batch else (u[0], residual[0])

    def _path(self, whole: Point, component: int, shift: Array) -> tuple[Array, Array]:
        batch = whole.batch
        count = whole.count(component)
        start = whole.phi(component, whole._zeros(count), shift=shift)[0]
        u = np.array(np.broadcast_to(start, (*batch, count)))
        t = np.zeros(batch)
        h = np.full(batch, self.first)
        active = np.all(np.isfinite(u) & (np.abs(u) < 1e12), axis=-1)
        u[~active] = np.nan
        residual = np.full(batch, np.inf)
        tangent = np.zeros_like(u)
        for _ in range(self.steps):
            chosen = np.flatnonzero(active)
            if len(chosen) == 0:
                break
            here = whole if len(chosen) == len(active) else whole.take(chosen)
            goal = np.minimum(1.0, t[chosen] + h[chosen])
            guess = u[chosen] + (goal - t[chosen])[:, None] * tangent[chosen]
            found, size, good, slope = self._correct(here, component, guess, goal, shift[chosen])
            accepted = chosen[good]
            u[accepted] = found[good]
            tangent[accepted] = slope[good]
            t[accepted] = goal[good]
            residual[accepted] = size[good]
            h[accepted] *= 2
            h[chosen[~good]] /= 4
            active[accepted] = t[accepted] < 1
            lost = active & (h < 1e-16)
            active &= ~lost
        u[t < 1] = np.nan
        residual[t < 1] = np.inf
        return u, residual

    def _correct(
        self, point: Point, component: int, u: Array, t: Array, shift: Array
    ) -> tuple[Array, Array, Array, Array]:
        identity = np.eye(u.shape[-1])
        previous = np.full(len(u), np.inf)
        good = np.zeros(len(u), dtype=bool)
        dead = np.zeros(len(u), dtype=bool)
        slope = np.zeros_like(u)
        size = np.full(len(u), np.inf)
        for step in range(self.corrections):
            value, inverses = point.phi(component, u * t[:, None], shift=shift * (1 - t))
            difference = value - u
            size = np.max(np.abs(difference), axis=-1) / np.max(np.abs(u), axis=-1)
            with np.errstate(invalid="ignore"):
                dead |= ~np.isfinite(size) | ((step > 1) & (size > 4 * previous))
            good = (size < self.tolerance) & ~dead
            loose = size < 1e-6
            if np.all(good | dead):
                break
            jacobian = point.jacobian(component, inverses)
            system = identity - jacobian * t[:, None, None]
            system[dead] = identity
            update = solve_linear(system, np.where(dead[:, None], 0, difference)[..., None])[..., 0]
            moving = ~(good | dead)
            u = np.where(moving[:, None], u + update, u)
            stalled = (size >= previous * 0.5) & (size < 1e-9) & loose
            good |= stalled & ~dead
            if np.all(good | dead):
                break
            previous = size
        inverses = point.inverses(component, u * t[:, None], shift=shift * (1 - t))
        jacobian = point.jacobian(component, inverses)
        system = identity - jacobian * t[:, None, None]
        system[dead] = identity
        with np.errstate(invalid="ignore"):
            right = jacobian @ u[..., None]
            if np.any(shift):
                right -= (shift[:, None] * point.shift_slope(component, inverses))[..., None]
            slope = solve_linear(system, np.where(dead[:, None, None], 0, right))[..., 0]
        return u, size, good, slope


def _as_batch(point: Point) -> Point:
    values = tuple(np.atleast_1d(np.asarray(value)) for value in point.values)
    return Point(point.compiled, values, point.numbers, (1,))


def _numeric(values: Mapping[Any, Any]) -> dict[Any, Any]:
    found = {}
    for key, value in values.items():
        symbol = sp.Symbol(key) if isinstance(key, str) else key
        if isinstance(value, sp.Basic):
            if value.free_symbols:
                raise InputError(f"got {key} = {value}; pass a number for every symbol")
            value = complex(value) if not value.is_real else float(value)
        array = np.asarray(value)
        if array.dtype.kind in "iub":
            array = array.astype(float)
        if array.dtype.kind == "O":
            array = np.array([float(x) for x in array.ravel()]).reshape(array.shape)
        if array.dtype.kind not in "fc" or not np.all(np.isfinite(array)):
            raise InputError(f"got {key} = {value!r}; pass finite numbers")
        found[symbol] = array if array.ndim else array.item()
    return found


def bind(
    system: FixedPointSystem,
    values: Mapping[Any, Any],
    nonlinearities: Mapping[Any, Any] | None = None,
    digits: int | None = None,
) -> dict[Any, Any]:
    """Parameter values with the Hermite symbols filled in from their nonlinearities."""
    full = dict(values)
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
    strict: bool = True,
) -> Solution:
    """Solve a system in double precision and evaluate its expression.

    Parameters
    ----------
    values : every symbol of ``system.parameters``, numbers or arrays that broadcast together;
        symbols of Hermite coefficients may be left to ``nonlinearities``.
    strict : raise at the first point that fails; otherwise such points are nan.

    Raises
    ------
    ConvergenceError
        with the place and the residual, if a point was not solved (``strict`` only).
    """
    compiled = system if isinstance(system, CompiledSystem) else compile_system(system)
    numbers = _numeric(bind(compiled.system, values, nonlinearities))
    missing = [s for s in compiled.parameters if s not in numbers]
    if missing:
        raise InputError(
            f"got no value for {', '.join(map(str, missing))}; "
            f"this system needs {', '.join(map(str, compiled.parameters))}"
        )
    used = [numbers[s] for s in compiled.parameters]
    shape = np.broadcast_shapes(*(np.shape(v) for v in used))
    flat = {
        s: (np.broadcast_to(v, shape).ravel() if shape else v)
        for s, v in zip(compiled.parameters, used, strict=True)
    }
    point = compiled.at(flat)
    follow = method or Continuation()
    us, residuals = [], []
    for component in range(len(compiled.system.components)):
        if point.count(component):
            u, size = follow(point, component)
        else:
            u, size = point._zeros(0), np.zeros(point.batch)
        us.append(u)
        residuals.append(size)
    residual = np.max(np.stack(residuals), axis=0) if residuals else np.zeros(point.batch)
    converged = np.isfinite(residual)
    with np.errstate(all="ignore"):
        value = np.asarray(point.value(us))
    solution = Solution(
        _shaped(value, shape), _shaped(residual, shape), tuple(us), _shaped(converged, shape)
    )
    if strict and not np.all(converged & np.isfinite(value)):
        bad = int(np.argmin(np.ravel(converged & np.isfinite(value))))
        where = ", ".join(
            f"{s} = {np.ravel(np.broadcast_to(v, shape))[bad] if shape else v}"
            for s, v in flat.items()
        )
        raise ConvergenceError(
            f"no solution on the physical branch found at {where} "
            f"(residual {np.ravel(residual)[bad]:.1e}); "
            "check that every inverse exists there, or pass strict=False to keep other points",
            solution,
        )
    return solution


def _shaped(value: Array, shape: tuple[int, ...]) -> Any:
    if shape:
        return np.broadcast_to(value, (int(np.prod(shape)),)).reshape(shape)
    return cast(Any, np.asarray(value).item())


def require_physical(condition: Any, message: str, solution: Solution) -> None:
    """Raise ``BranchError`` unless the condition holds at every converged point."""
    if not np.all(condition):
        raise BranchError(message, solution)
