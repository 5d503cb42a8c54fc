"""The physical solution of one component, followed along a path at many points at once.

Far out in the ridge parameters (``gamma -> inf``, or ``Im z -> inf``) the equations are solved by
iteration; from there the solution is one smooth path. Newton's method follows it in ``log gamma``
(or ``log Im z``), where every unknown is nearly a power, with a step of its own for each point.
Systems without a ridge start where the randomness is switched off (``Sigma = 0``) and follow its
strength.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rmtsym.linalg import Array
from rmtsym.programs import AnyCore, Coefficients, Programs, run


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


ABOVE_AXIS = Continuation(limit=0.5, near=0.3)
"""Beside complex ridges: as functions of log Im z the unknowns are analytic for |Im log| < pi/2
only, and another root lies close to the real axis."""


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


def relative_size(change: Array, v: Array, floor: Array) -> Array:
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
        if np.iscomplexobj(v):
            m = replace(m, limit=min(m.limit, ABOVE_AXIS.limit), near=min(m.near, ABOVE_AXIS.near))
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
                flat = run(self.core.follow, v, a, s, da, ds, k=path.k)
                if len(flat) == 1:
                    flat = np.full((3 * count, len(place)), np.nan)
                change, rate = flat[count : 2 * count], flat[2 * count :]
                e = relative_size(change, v, np.abs(rate))
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
        v = v + run(core.residual, v, a, [0 * value for value in s], k=path.k)
        size = np.full(len(x), np.inf)
        for _ in range(sweeps):
            before, change = size, run(core.residual, v, a, s, k=path.k)
            v = v + change
            size = relative_size(change, v, floor)
    return v, (size < 1e-6) | ((size < 1e-3) & (size < 0.3 * before))


FAR = (10.0, 1e4, 1e8, 1e14, 1e22)
NEAR = (-1.0, -3.0, -8.0, -16.0, -32.0, -64.0)
"""Ridges, and logarithms of the strength, from which the iteration is tried."""


def solve_core(
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
