r"""Gaussian moments of functions known only by their values, in double precision.

With u_f = f exp(-t^2/4), E f(xi) g(xi) is the integral of u_f u_g/sqrt(2 pi).  Gauss-Legendre
panels are halved until they agree with their halves, so jumps and kinks are closed in upon; every
tolerance is relative to the integral of |u_f u_g|.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np

from rmtsym.errors import NonlinearityError

Function = Callable[[Any], Any]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
AT_ENDS = np.linalg.solve(
    np.polynomial.legendre.legvander(NODES, 11).T,
    np.polynomial.legendre.legvander(np.array([-1.0, 1.0]), 11).T,
)
CENTRE, FAR = 8.0, 53.0  # exp(-t^2/4) is a normal double up to FAR
GAP = 1 / 16
RADII = (0.0, *range(int(CENTRE), int(FAR) + 1, 5))
OUTER = np.arange(CENTRE, FAR, 1 / 8)
EDGES = np.concatenate([-OUTER[:0:-1], np.linspace(-CENTRE, CENTRE, 1025), OUTER[1:]])
NEGLIGIBLE = math.log(1e-17)
EXACT, FINITE = 1e-14, 1e-4  # doubt of a number asked for, and of one that need only be finite
REFUSED = 1000  # times that doubt
ROUNDS, PANELS_AT_ONCE, PANELS = 1100, 2**16, 2**20
ORDERS_AT_ONCE = 8
EPSILON = sys.float_info.epsilon


class Amplitude:
    """u_f/2^exponent, as one row."""

    def __init__(self, function: Function) -> None:
        self.function, self.exponent = function, 0

    def values(self, x: Any) -> Any:
        try:
            with np.errstate(all="ignore"):
                given = np.asarray(self.function(x.copy()))
            if np.iscomplexobj(given):
                raise TypeError("its values are complex")
            values = given.astype(np.float64)
        except NonlinearityError:
            raise
        except Exception as error:
            raise NonlinearityError(
                f"f does not take a NumPy array to a real one ({error}); use NumPy's functions, "
                "numpy.vectorize, or a formula"
            ) from error
        if values.shape != x.shape:
            raise NonlinearityError("the function must keep the shape of its array")
        return values

    def log(self, x: Any) -> Any:
        with np.errstate(divide="ignore"):
            return (np.log(np.abs(self.values(x))) - x * x / 4)[None]

    def __call__(self, x: Any) -> Any:
        values = self.values(x)
        lost = ~np.isfinite(values)
        if lost.any():  # one point has no weight, two span an interval
            first, last = np.where(lost, x, np.inf).min(1), np.where(lost, x, -np.inf).max(1)
            apart = last - first > 8 * np.spacing(np.abs(x).max(1))
            if apart.any():
                raise NonlinearityError(
                    "nu = E f(xi)^2 is infinite, or the function gives nan or infinity, "
                    f"near t = {first[apart][0]:.6g}"
                )
            values[lost] = 0.0
        return (np.ldexp(values, -self.exponent) * np.exp(-x * x / 4))[None]

    def normalise(self, seen: float) -> None:
        """Set the exponent, where log|u| has been seen; narrower peaks of f are looked for."""
        values = np.abs(self.values(_between(-CENTRE, CENTRE, 1 / 1024)))
        peak = values.max(initial=0.0, where=np.isfinite(values))
        top = max(seen, math.log(peak) if peak else seen)
        self.exponent = math.ceil(top / math.log(2)) if top > -math.inf else 0


class Hermite:
    """he_k exp(-t^2/4) for the given orders, a row each."""

    def __init__(self, orders: range) -> None:
        self.orders = orders

    def log(self, x: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(np.abs(self(x)))

    def __call__(self, x: Any) -> Any:
        older, old = np.zeros_like(x), np.exp(-x * x / 4)
        rows = []
        for k in range(self.orders.stop):
            if k in self.orders:
                rows.append(old)
            older, old = old, (x * old - math.sqrt(k) * older) / math.sqrt(k + 1)
        return np.array(rows)


Side = Amplitude | Hermite


def coefficients(function: Function, orders: range) -> list[float]:
    """E f(xi) he_k(xi) for the given orders, where E f(xi)^2 is finite."""
    found: list[float] = []
    for start in orders[::ORDERS_AT_ONCE]:
        f, block = Amplitude(function), range(start, min(start + ORDERS_AT_ONCE, orders.stop))
        found += [_number(mean, f.exponent) for mean in _means(f, Hermite(block))]
    return found


def energy(function: Function) -> float:
    """E f(xi)^2."""
    f = Amplitude(function)
    (mean,) = _means(f, f)
    if 0 < mpmath.ldexp(mean, 2 * f.exponent) < sys.float_info.min:
        raise NonlinearityError("nu = E f(xi)^2 is below double precision; scale f")
    return _number(mean, 2 * f.exponent)


def product(function: Function, other: Function) -> float:
    """E f(xi) g(xi)."""
    f, g = Amplitude(function), Amplitude(other)
    (mean,) = _means(f, g)
    return _number(mean, f.exponent + g.exponent)


def _number(mantissa: float, exponent: int) -> float:
    try:
        return math.ldexp(mantissa, exponent)
    except OverflowError:
        value = mpmath.nstr(mpmath.ldexp(mantissa, exponent), 5)
        raise NonlinearityError(f"{value} exceeds double precision; scale f") from None


def _between(start: float, stop: float, gap: float) -> Any:
    return start + gap * (np.arange((stop - start) / gap) + 0.381966)


def _means(left: Amplitude, right: Side) -> list[float]:
    """The integrals of left times every row of right."""
    edges, count = _edges(left, right)

    def rows(x: Any) -> Any:
        u = left(x)
        v = u if right is left else right(x)
        # u^2 must be finite; and a jump of f can be too narrow to be seen in f^2 alone
        return np.concatenate([u * v, u * u] if isinstance(right, Hermite) else [u * v, u, v])

    goals = [EXACT] * count + ([FINITE] if isinstance(right, Hermite) else [EXACT, EXACT])
    with np.errstate(over="ignore", invalid="ignore"):
        integrals = _integrals(rows, edges, np.array(goals))
    return list((integrals[:count] / math.sqrt(2 * math.pi)).tolist())


def _edges(left: Amplitude, right: Side) -> tuple[Any, int]:
    """Panels as far out as left times right counts, and its number of rows; sets exponents."""
    views = [_view(left, right, sign) for sign in (-1, 1)]
    peaks = np.maximum(*((u + v).max(1, keepdims=True) for u, v, _, _ in views))
    left.normalise(max(u.max() for u, _, _, _ in views))
    if isinstance(right, Amplitude) and right is not left:
        right.normalise(max(v.max() for _, v, _, _ in views))
    reach = []
    for u, v, t, fault in views:
        counts = (u + v > peaks + NEGLIGIBLE).any(0)
        end = t > t[-1] - 1
        grows = u[:, end].max() > u[:, t > t[-1] / 2].max() - 0.01
        if counts[end].any() or (grows and isinstance(right, Hermite)) or t[-1] < CENTRE - GAP:
            raise NonlinearityError(
                f"nu = E f(xi)^2 is infinite, or f leaves double precision: {fault}"
            )
        reach.append(max(CENTRE, t[counts].max(initial=0) + GAP))
    return np.unique(np.clip(EDGES, -reach[0], reach[1])), len(peaks)


def _view(left: Amplitude, right: Side, sign: int) -> tuple[Any, Any, Any, str]:
    """log|left|, log|right| and |t| on one side of 0, where finite, and what ends them."""
    found, fault = [], f"it still counts at t = {sign * FAR:g}"
    for start, stop in pairwise(RADII):
        t = _between(start, stop, GAP)
        try:
            u = left.log(sign * t)
            v = u if right is left else right.log(sign * t)
        except NonlinearityError as error:
            if not start:
                raise
            fault = str(error)
            break
        lost = ~((u < np.inf).all(0) & (v < np.inf).all(0))
        end = int(lost.argmax()) if lost.any() else len(t)
        found.append((u[:, :end], v[:, :end], t[:end]))
        if lost.any():
            what = "overflows" if np.inf in (u[0, end], v[0, end]) else "is nan"
            fault = f"f {what} at t = {sign * t[end]:.6g}"
            break
    u, v, t = (np.concatenate(part, axis=-1) for part in zip(*found, strict=True))
    if not t.size:
        raise NonlinearityError(fault)
    return u, v, t, fault


def _integrals(rows: Function, edges: Any, goals: Any) -> Any:
    """The integral of every row, to its goal relative to the integral of its modulus.

    A panel is doubted by its halves, and these by their values at the ends, beyond the last node.
    """

    def panels(a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
        half, ulp = (b - a) / 2, EPSILON * np.maximum(np.abs(a), np.abs(b))
        inner = (a + half)[:, None] + half[:, None] * NODES
        values = rows(np.column_stack([a + ulp, inner, b - ulp]))
        inner, ends = values[..., 1:-1], values[..., [0, -1]]
        hidden = np.abs(inner @ AT_ENDS - ends).sum(-1) * (1 - NODES[-1]) * half
        return values, inner @ WEIGHTS * half, np.abs(inner) @ WEIGHTS * half, hidden

    low, high = edges[:-1], edges[1:]
    _, whole, _, _ = panels(low, high)
    total, size, doubt = np.zeros((3, len(goals)))
    work, wrong = 0, np.array([True])
    for _ in range(ROUNDS):
        middle, count = (low + high) / 2, len(low)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        values, sums, sizes, hidden = panels(low, high)
        error = np.abs(sums[:, :count] + sums[:, count:] - whole)
        error += hidden[:, :count] + hidden[:, count:]
        scale = size + sizes.sum(1)
        if not np.isfinite(scale).all():
            break
        rough = doubt + error.sum(1) > goals * scale
        large = error > (goals * scale)[:, None] / 1000
        wrong = large[rough].any(0)
        if wrong.any():  # unless the rounding of t explains it
            steps = np.abs(np.diff(values)).sum(-1) * np.maximum(np.abs(low), np.abs(high))
            noise = EPSILON * (steps[:, :count] + steps[:, count:])
            wrong = (large & (error > noise))[rough].any(0)
        again = np.tile(wrong, 2)
        total += sums.compress(~again, axis=1).sum(1)
        size += sizes.compress(~again, axis=1).sum(1)
        doubt += error.compress(~wrong, axis=1).sum(1)
        low, high, whole = low[again], high[again], sums[:, again]
        work += count
        if not wrong.any() or len(low) > PANELS_AT_ONCE or work > PANELS:
            break
    if wrong.any() or (doubt > REFUSED * goals * size).any():
        raise NonlinearityError(
            "nu = E f(xi)^2 is infinite, or the function is too rough, or computed in less than "
            "double precision"
        )
    return total
