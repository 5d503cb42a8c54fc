"""Solving a fixed-point system on the physical branch, all points at once.

Far out in the ridge parameters (``gamma -> inf``, or ``Im z -> inf``) the equations are solved by
iteration; from there the solution is one smooth path. Newton's method follows it in ``log gamma``
(or ``log Im z``), where every unknown is nearly a power, with a step of its own for each point.
Systems without a ridge start where the randomness is switched off (``Sigma = 0``) and follow its
strength. The last digits are found in extended precision; where these do not hold the accuracy
asked for, :mod:`rmtsym.precision` takes over.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
import sympy as sp

from rmtsym.compilation import EXTENDED, MATH, NUMPY, CompiledSystem, Numbers, Point, compile_system
from rmtsym.dense import DenseContinuation
from rmtsym.errors import BranchError, ConvergenceError, InputError, RmtsymError
from rmtsym.linalg import inverse
from rmtsym.programs import AnyCore, Array, Coefficients, Programs, programs
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


@dataclass(frozen=True)
class Continuation:
    """Newton's method along a path.

    ``step``: the first step in the logarithm of the path's parameter; ``limit``: the largest;
    ``near``: relative size of Newton's first correction up to which a step is trusted;
    ``iterations``: of Newton's method for one point in all.
    """

    step: float = 2.3
    limit: float = 14.0
    near: float = 0.6
    iterations: int = 500


class _Path:
    """Coefficients along a path whose parameter x ends at 0."""

    def __init__(self, compiled: Programs, k: Coefficients) -> None:
        self.compiled, self.k = compiled, k

    def take(self, chosen: Any) -> _Path:
        return type(self)(self.compiled, self.k.take(chosen))

    def at(self, x: Array) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """a, s and their rates in x."""
        raise NotImplementedError


class _Ridge(_Path):
    """Ridges times e^x; where they are complex, their imaginary parts."""

    def at(self, x: Array) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        factor = np.exp(x)
        a: list[Any] = list(self.k.a)
        da: list[Any] = [0.0] * len(a)
        for place, _, _ in self.compiled.ridges:
            value = np.asarray(a[place])
            if np.iscomplexobj(value):
                a[place] = value.real + 1j * value.imag * factor
                da[place] = 1j * value.imag * factor
            else:
                a[place] = da[place] = value * factor
        return a, self.k.s, da, [0.0] * len(self.k.s)


class _Strength(_Path):
    """The self-energy times e^x, every inverse ``M^{-1}`` as ``(M + shift (1 - e^x))^{-1}``."""

    shift = 0.0

    def at(self, x: Array) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        factor = np.exp(x)
        a: list[Any] = list(self.k.a)
        da: list[Any] = [0.0] * len(a)
        s = [value * factor for value in self.k.s]
        if self.compiled.shift is not None and self.shift:
            a[self.compiled.shift] = self.shift * (1 - factor)
            da[self.compiled.shift] = -self.shift * factor
        return a, s, da, s


class _ShiftedUp(_Strength):
    shift = 1.0


class _ShiftedDown(_Strength):
    shift = -1.0


def _run(program: Any, v: Array, *lists: list[Any], k: Coefficients) -> Array:
    """A program of (v, a, s, l, ...) at many points; at one, on plain numbers, which is faster."""
    points = v.shape[1]
    if points == 1:
        k = k.single()
        plain = [[x.item() if isinstance(x, np.ndarray) else x for x in one] for one in lists]
        try:
            found = program(
                v[:, 0].tolist(), *plain[:2], k.l, *plain[2:], mean=k.mean, inverse=inverse
            )
        except (ZeroDivisionError, OverflowError):
            return np.full((1, 1), np.nan)
        return np.array(found)[:, None]
    found = program(v, *lists[:2], k.l, *lists[2:], mean=k.mean, inverse=inverse)
    result = np.empty((len(found), points), dtype=np.result_type(*found))
    for row, value in zip(result, found, strict=True):
        row[:] = value
    return result


def _size(change: Array, v: Array, floor: Array) -> Array:
    """The largest relative change of an unknown, inf where it is not a number."""
    with np.errstate(all="ignore"):
        ratio = np.abs(change) / np.maximum(np.abs(v), floor)
        ratio = np.where(change == 0, 0, ratio)
        largest = np.max(ratio, axis=0, initial=0)
        return np.where(np.all(np.isfinite(ratio), axis=0), largest, np.inf)


def _ahead(v: Array, power: Array, bend: Array, x: Array) -> Array:
    """The unknowns a way x along the path.

    Powers whose exponent changes at the rate ``bend``; straight lines where one changes sign.
    """
    with np.errstate(all="ignore"):
        turn = np.clip((bend * x).real, -0.5, 0.5) if v.dtype == float else bend * x
        curved = np.exp((power + turn / 2) * x)
        straight = 1 + power * np.clip(x, -1.5, 1.5)
        return np.where(v == 0, 0, v * np.where(np.abs(power) < 1.5, curved, straight))


class _Tracker:
    """Follows one component at a chunk of points from x to 0."""

    def __init__(self, core: AnyCore, path: _Path, method: Continuation) -> None:
        self.core, self.path, self.method = core, path, method

    def follow(self, v: Array, x: Array) -> tuple[Array, Array]:
        """The unknowns at x = 0 from good guesses at x; and where that succeeded."""
        m, count, points = self.method, *v.shape
        result, done = np.full_like(v, np.nan), np.zeros(points, dtype=bool)
        place = np.flatnonzero(np.all(np.isfinite(v), axis=0))
        v, goal = v[:, place], x[place]
        base, start, slope, bend = v, goal, np.zeros_like(v), np.zeros_like(v)
        h = np.full(len(place), m.step)
        first, last = np.full(len(place), np.nan), np.full(len(place), np.inf)
        path = self.path.take(place)
        for _ in range(m.iterations):
            if not len(place):
                break
            with np.errstate(all="ignore"):
                a, s, da, ds = path.at(goal)
                flat = _run(self.core.follow, v, a, s, da, ds, k=path.k)
                if len(flat) == 1:
                    flat = np.full((3 * count, len(place)), np.nan)
                change, rate = flat[count : 2 * count], flat[2 * count :]
                e = _size(change, v, np.abs(rate))
                fresh = np.isnan(first)
                first = np.where(fresh, e, first)
                moved = v + change
                final = goal == 0
                good = np.where(
                    final,
                    (e < 1e-10) | ((e < 1e-5) & (e > 0.3 * last)),
                    (e < 1e-5) | (~fresh & (e < 3e-3) & (e < 0.05 * last)),
                )
                lost = ~good & ((e > m.near) | (e > 0.25 * last))
                growth = np.where(fresh | (e == 0), 3.0, np.sqrt(0.06 * first / e))
                growth = np.clip(growth, 0.5, 3.0)
            v = np.where(lost, v, moved)
            last = e
            ended = good & final
            if np.any(ended):
                result[:, place[ended]] = v[:, ended]
                done[place[ended]] = True
            turn = (good | lost) & ~ended
            if np.any(turn):
                onward = good & ~final
                base = np.where(onward, v, base)
                with np.errstate(all="ignore"):
                    power = rate / v
                    curve = (power - slope) / (goal - start)
                    curve = np.where(np.isfinite(curve) & (slope != 0), curve, 0)
                bend = np.where(onward, curve, bend)
                slope = np.where(onward, power, slope)
                h = np.where(onward, np.minimum(h * growth, m.limit), h)
                h = np.where(lost, np.where(start == goal, 0, h / 3), h)
                start = np.where(onward, goal, start)
                ahead = np.where(start > 0, np.maximum(start - h, 0.0), np.minimum(start + h, 0.0))
                v = np.where(turn, _ahead(base, slope, bend, ahead - start), v)
                goal = np.where(turn, ahead, goal)
                first = np.where(turn, np.nan, first)
                last = np.where(turn, np.inf, last)
            keep = ~ended & (h > 1e-9)
            if not np.all(keep):
                place, path = place[keep], path.take(keep)
                v, base = v[:, keep], base[:, keep]
                slope, bend = slope[:, keep], bend[:, keep]
                goal, start, h = goal[keep], start[keep], h[keep]
                first, last = first[keep], last[keep]
        return result, done


def _iterate(core: AnyCore, path: _Path, x: Array, sweeps: int = 8) -> tuple[Array, Array]:
    """``v <- Phi(v)`` from Sigma = 0 at x; and where it contracts fast."""
    a, s, _, _ = path.at(x)
    v = np.zeros((core.count, len(x)), dtype=np.result_type(float, *a, *s))
    floor = np.zeros(v.shape)
    with np.errstate(all="ignore"):
        v = v + _run(core.residual, v, a, [0 * value for value in s], k=path.k)
        size = np.full(len(x), np.inf)
        for _ in range(sweeps):
            before, change = size, _run(core.residual, v, a, s, k=path.k)
            v = v + change
            size = _size(change, v, floor)
    return v, (size < 1e-6) | ((size < 1e-3) & (size < 0.3 * before))


FAR = (10.0, 1e4, 1e8, 1e14, 1e22)
NEAR = (-1.0, -3.0, -8.0, -16.0, -32.0, -64.0)
"""Ridges, and logarithms of the strength, from which the iteration is tried."""


def _core(
    compiled: Programs, core: AnyCore, k: Coefficients, points: int, method: Continuation
) -> tuple[Array, Array]:
    """The unknowns of one component at a chunk of points, and where they were found."""
    real = [np.broadcast_to(x, points) for x in (*k.a, *k.s)]
    v = np.full((core.count, points), np.nan, dtype=np.result_type(float, *real))
    if not core.count:
        return v, np.ones(points, dtype=bool)
    done = np.zeros(points, dtype=bool)
    path: _Path = _Ridge(compiled, k)
    if compiled.ridges:
        ridge = np.full(points, np.inf)
        for place, _, sign in compiled.ridges:
            value = np.broadcast_to(k.a[place], points)
            size = np.abs(value.imag) if np.iscomplexobj(value) else sign * value
            ridge = np.minimum(ridge, np.where(size > 0, size, -np.inf))
        x = np.full(points, np.nan)
        left = np.flatnonzero(ridge > 0)
        for far in FAR:
            if not len(left):
                break
            x[left] = np.maximum(0.0, np.log(far / ridge[left]))
            v[:, left], good = _iterate(core, path.take(left), x[left])
            left = left[~good]
        v[:, left] = np.nan
        v[:, ~(ridge > 0)] = np.nan
        v, done = _Tracker(core, path, method).follow(v, x)
    without = ~(ridge > 0) if compiled.ridges else ~done
    for strength in (_Strength, _ShiftedUp, _ShiftedDown):
        left = np.flatnonzero(without & ~done)
        if not len(left) or (strength.shift and compiled.shift is None):
            break
        path = strength(compiled, k).take(left)
        x = np.full(len(left), NEAR[0])
        start, rest = v[:, left], np.arange(len(left))
        for near in NEAR:
            x[rest] = near
            start[:, rest], good = _iterate(core, path.take(rest), x[rest])
            rest = rest[~good]
            if not len(rest):
                break
        start[:, rest] = np.nan
        v[:, left], done[left] = _Tracker(core, path, method).follow(start, x)
    return v, done


# -- values and how far they can be trusted ------------------------------------------------------


@dataclass
class _Values:
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
            flat = _run(core.step, v, k.a, k.s, k=k)
            if len(flat) == 1:
                flat = np.full((2 * core.count, points), np.nan)
            v = v + flat[core.count :]
            size = _size(flat[: core.count], v, np.abs(v) * 0).astype(float)
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


def _in_double(compiled: Programs, x: Sequence[Array], vs: Sequence[Array]) -> _Values:
    """Values in double precision; their errors from what single precision makes of them."""
    with np.errstate(all="ignore"):
        value, residual, polished, k = _evaluate(compiled, x, vs, NUMPY, 1)
        less = [one.astype(_single(one)) for one in x]
        rough = _evaluate(compiled, less, [v.astype(_single(v)) for v in polished], NUMPY, 2)[0]
        gap = _gap(value, rough) * (EPSILON / float(np.finfo(np.float32).eps))
        unknowns = compiled.unknowns(polished, k)
    table = _stacked(unknowns, len(value), polished[0].dtype)
    return _Values(value, residual, np.maximum(gap, EPSILON), table)


def _gap(value: Array, rough: Array) -> Array:
    """The relative error of an evaluation in lower precision; inf where it is worthless."""
    gap = np.where(value == rough, 0, np.abs((rough - value) / value)).astype(float)
    return np.where(gap < 0.1, SAFETY * gap, np.inf)


def _single(x: Array) -> Any:
    return np.complex64 if np.iscomplexobj(x) else np.float32


def _in_extended(
    compiled: Programs, x: Sequence[Array], vs: Sequence[Array]
) -> tuple[_Values, Array]:
    """Values in extended precision; their errors, and those of double precision."""
    with np.errstate(all="ignore"):
        narrow = [one.astype(_narrow(one)) for one in x]
        wide = [v.astype(np.result_type(v.dtype, np.longdouble)) for v in vs]
        value, residual, polished, k = _evaluate(compiled, x, wide, EXTENDED, 2)
        rough = _evaluate(compiled, narrow, [v.astype(_narrow(v)) for v in polished], NUMPY, 1)[0]
        gap = _gap(value, rough)
        unknowns = compiled.unknowns(polished, k)
    dtype = _narrow(value)
    error = np.maximum(gap * (float(np.finfo(np.longdouble).eps) / EPSILON), EPSILON)
    table = _stacked(unknowns, len(value), dtype)
    return _Values(value.astype(dtype), residual, error, table), gap


def _narrow(x: Array) -> Any:
    return np.complex128 if np.iscomplexobj(x) else np.float64


def _stacked(unknowns: list[list[Any]], points: int, dtype: Any) -> list[Array]:
    found = []
    for one in unknowns:
        table = np.empty((points, len(one)), dtype=dtype)
        for column, value in enumerate(one):
            table[:, column] = value
        found.append(table)
    return found


# -- the door -------------------------------------------------------------------------------------


def _extended(value: Any, key: Any) -> Any:
    """A number or array as extended doubles, exact numbers rounded once."""
    if isinstance(value, str):
        from rmtsym.parsing import exact_number

        value = exact_number(value)
    if isinstance(value, (sp.Basic, Fraction)) or hasattr(value, "_mpf_"):
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
    full = {sp.Symbol(key) if isinstance(key, str) else key: v for key, v in values.items()}
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
    values : every symbol of ``system.parameters``, numbers or arrays that broadcast together;
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
    bound = bind(compiled.system, values, nonlinearities)
    used = [
        _extended(v, s) for s, v in zip(compiled.parameters, compiled.arguments(bound), strict=True)
    ]
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
        _chunk(compiled, [v[i : i + chunk] for v in flat], follow, accuracy)
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
    exact = {sp.Symbol(key) if isinstance(key, str) else key: v for key, v in values.items()}
    for place in np.flatnonzero(~converged) if accuracy < np.inf else ():
        near = [u[place] for u in unknowns] if np.isfinite(residual[place]) else None
        found = _refine(compiled.system, exact, nonlinearities, shape, int(place), accuracy, near)
        if found is not None:
            value[place], residual[place] = found.value, found.residual
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
    point = Point(
        compile_system(compiled.system), tuple(one[left] for one in x), NUMPY, (len(left),)
    )
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
    compiled: Programs, x: list[Array], method: Continuation, accuracy: float
) -> tuple[_Values, Array]:
    """What is found at a chunk of points, and the digits that double precision supports."""
    points = len(x[0]) if x else 1
    narrow = [one.astype(_narrow(one)) for one in x]
    k = compiled.coefficients(dict(zip(compiled.parameters, narrow, strict=True)))
    found = [_core(compiled, core, k, points, method) for core in compiled.cores]
    for component, (v, reached) in enumerate(found):
        _by_arrays(compiled, component, narrow, v, reached)
    vs, done = [v for v, _ in found], np.all([d for _, d in found], axis=0)
    if points == 1:
        result, double = _in_extended(compiled, x, vs)
    else:
        result = _in_double(compiled, narrow, vs)
        double = result.error.copy()
        poor = np.flatnonzero(done & ~(result.error < accuracy))
        if len(poor):
            better, double[poor] = _in_extended(
                compiled, [one[poor] for one in x], [v[:, poor] for v in vs]
            )
            for name in ("value", "residual", "error"):
                getattr(result, name)[poor] = getattr(better, name)
            for mine, other in zip(result.unknowns, better.unknowns, strict=True):
                mine[poor] = other
    result.error[~done] = result.residual[~done] = double[~done] = np.inf
    return result, np.clip(-np.log10(np.maximum(double, EPSILON)), 0, 15.6)


def _shaped(value: Array, shape: tuple[int, ...]) -> Any:
    return value.reshape(shape) if shape else cast(Any, value.reshape(-1)[0].item())


def require_physical(condition: Any, message: str, solution: Solution) -> None:
    """Raise ``BranchError`` unless the condition holds at every converged point."""
    if not np.all(condition):
        raise BranchError(message, solution)
