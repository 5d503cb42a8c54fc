r"""Gaussian moments E[f(xi) he_k(xi)] and E f(xi)^2 to any number of digits.

f is cut into analytic panes; an analytic pane on the whole line is integrated by the trapezoidal
rule, any other by the tanh-sinh rule (H. Takahasi and M. Mori, 1974): both converge
exponentially, the second through integrable singularities at the ends.  The integrand is
evaluated in balls, so rounding is accounted for; the truncation error is the difference of two
levels, and the enclosures of ``rmtsym.enclosure`` prove what is only estimated here.  All orders
k share the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache

import mpmath
import sympy
from flint import arb
from sympy import Expr, Symbol

from rmtsym.balls import (
    BITS_PER_DIGIT,
    BallFunction,
    compile_ball,
    constant_ball,
    log2_abs,
    log2_lower,
    precision,
    to_mpf,
)
from rmtsym.errors import ConvergenceError, NonlinearityError
from rmtsym.panes import Pane, Panes, split

LOG2_E = math.log2(math.e)
ORDERS_AT_ONCE = 16
MAX_LEVEL = 12
ZERO_MARGIN = 160


def hermite_growth(t: float, k: int) -> float:
    """An upper bound of log2 |he_k(t)|: Cramer's inequality, and t^k/sqrt(k!) beyond the zeros."""
    bound = 0.12 + t * t / 4 * LOG2_E
    if t > 2 * math.sqrt(k) and t >= 1:
        bound = min(bound, k * math.log2(t) - math.lgamma(k + 1) / 2 * LOG2_E)
    return bound


@lru_cache(maxsize=512)
def check_square_integrable(f: Expr, symbol: Symbol) -> None:
    """Raise NonlinearityError, naming the place, unless E f(xi)^2 is finite.

    >>> t = Symbol("t", real=True)
    >>> check_square_integrable(1 / t, t)
    Traceback (most recent call last):
    rmtsym.errors.NonlinearityError: nu = E f(xi)^2 is infinite: f = 1/t grows like |t - 0|^-1 at t = 0
    """
    panes, function = split(f, symbol), compile_ball(f, symbol)
    for point in panes.singular:
        for side in (-1, 1):
            with precision(4000):
                s = constant_ball(point)
                near, nearer = (function(s + side * arb(2) ** (-n), False) for n in (500, 1000))
                sizes = log2_lower(near), log2_abs(nearer)
            power = (sizes[1] - sizes[0]) / 500 if math.isfinite(sizes[0]) else -math.inf
            if power > 0.499 or nearer.is_nan():
                raise NonlinearityError(
                    f"nu = E f(xi)^2 is infinite: f = {sympy.sstr(f)} grows like "
                    f"|t - {sympy.sstr(point)}|^-{power:.3g} at t = {sympy.sstr(point)}"
                )
    for side, name in ((-1, "-oo"), (1, "oo")):
        excess = []
        for t in (997.3, 9973.1, 99733.7):
            with precision(256):
                value = function(arb(side * t), False)
            if value.is_nan() or not value.is_finite():
                excess.append(math.inf if panes.complete else -math.inf)
            else:
                excess.append(2 * log2_abs(value) - t * t / 2 * LOG2_E)
        if excess[-1] > -2 * math.log2(t) or excess[1] > 0:
            raise NonlinearityError(
                f"nu = E f(xi)^2 is infinite: f = {sympy.sstr(f)} outgrows exp(t^2/4) as t -> {name}"
            )


@lru_cache(maxsize=1024)
def reach(f: Expr, symbol: Symbol, bits: int, order: int) -> int:
    """T such that what lies beyond [-T, T] is below 2^-bits, judged by the growth of f there."""
    function = compile_ball(f, symbol)
    check_square_integrable(f, symbol)
    T = 8
    while T < 4000:
        with precision(64):
            if all(
                _is_small(function, side * T * stretch, bits, order)
                for stretch in (1.0, 1.0311, 1.0977, 1.317, 1.973, 3.217, 9.731)
                for side in (-1, 1)
            ):
                return T
        T = T + 2 if T < 64 else T + T // 8
    raise NonlinearityError(
        f"nu = E f(xi)^2 cannot be computed: {sympy.sstr(f)} has too heavy tails"
    )


def _is_small(function: BallFunction, t: float, bits: int, order: int) -> bool:
    value = function(arb(t), False)
    size = log2_abs(value) if value.is_finite() else 60.0  # a pole met by chance
    weight = t * t / 2 * LOG2_E
    return (
        2 * size - weight < -bits - 8 and size + hermite_growth(abs(t), order) - weight < -bits - 8
    )


@lru_cache(maxsize=64)
def _tanh_sinh(bits: int, depth: int, level: int) -> tuple[tuple[arb, arb], ...]:
    """New nodes of the level: (distance from the end / length, weight / length), one side.

    ``depth``: nodes come as near as 2^-depth to the end.
    """
    nodes = []
    with precision(bits):
        step = arb(1) / 2 ** (level + 1)
        j = 0 if level == 0 else 1
        while True:
            u = j * step
            e = (arb.pi() * u.sinh()).exp()
            ratio = 1 / (1 + e)
            if log2_abs(ratio) < -depth:
                break
            nodes.append((ratio, step * arb.pi() * u.cosh() * e * ratio * ratio))
            j += 1 if level == 0 else 2
    return tuple(nodes)


class _Table:
    """Sums over nodes of f he_k phi (k in orders) and f^2 phi, to absolute accuracy 2^-goal."""

    def __init__(self, f: Expr, symbol: Symbol, goal: int, orders: tuple[int, ...]) -> None:
        self.goal, self.orders, top = goal, orders, max(orders)
        T = reach(f, symbol, goal, top)
        panes = split(f, symbol, T if T % 8 == 0 else T + 8 - T % 8)
        self.end = max([T, *(int(abs(b.evalf(8))) + 6 for b in panes.breakpoints)])
        if not panes.complete:
            self.end = T
        self.bits = int(goal + 40 + 1.5 * self.end * math.sqrt(top))
        self.depth = goal + 20
        if panes.singular:
            self.depth, self.bits = 5 * goal // 2, self.bits + 3 * goal
        with precision(self.bits):
            self.scale = 1 / (2 * arb.pi()).sqrt()
            self.ratios = [(arb(j) / (j + 1)).sqrt() for j in range(top)]
            self.roots = [1 / arb(j + 1).sqrt() for j in range(top)]
            totals = [arb(0)] * (len(orders) + 1)
            for piece in self.pieces(panes, symbol):
                part = self.integrate(piece, symbol)
                totals = [a + b for a, b in zip(totals, part)]
        self.moments = dict(zip(orders, totals))
        self.energy = totals[-1]

    def pieces(self, panes: Panes, symbol: Symbol) -> Iterator[Pane]:
        """The panes, cut once more where f is narrow (tanh(1000*t - 5))."""
        for pane in panes:
            if pane.expression == 0:
                continue
            points = [
                p
                for p in narrow_places(pane.expression, symbol)
                if _before(pane.lower, p) and _before(p, pane.upper)
            ]
            ends = [pane.lower, *points, pane.upper]
            for low, high in zip(ends, ends[1:]):
                if _before(low, sympy.Integer(self.end)) and _before(
                    -sympy.Integer(self.end), high
                ):
                    yield Pane(low, high, pane.expression)

    def integrate(self, pane: Pane, symbol: Symbol) -> list[arb]:
        f = compile_ball(pane.expression, symbol)
        whole = not (pane.lower.is_finite or pane.upper.is_finite)
        low = constant_ball(pane.lower) if pane.lower.is_finite else arb(-self.end)
        high = constant_ball(pane.upper) if pane.upper.is_finite else arb(self.end)
        sums = [arb(0)] * (len(self.orders) + 1)
        gaps: list[float] = []
        for level in range(MAX_LEVEL + 1):
            nodes = self.trapezoid(level) if whole else self.tanh_sinh(low, high, level)
            new = self.sums(f, nodes)
            before, sums = sums, [a / 2 + b for a, b in zip(sums, new)] if level else new
            if not all(s.is_finite() for s in sums):
                raise ConvergenceError(
                    f"{sympy.sstr(pane.expression)} is not finite between {sympy.sstr(pane.lower)} "
                    f"and {sympy.sstr(pane.upper)}"
                )
            if level:
                gaps.append(max(log2_abs(a - b) for a, b in zip(before, sums)))
            # an exponential rule doubles its digits per level: 0.7 of them seen, all are there
            if level >= 3 and gaps[-1] < -0.7 * self.goal and gaps[-2] < -0.25 * self.goal:
                return sums
        raise ConvergenceError(
            f"the integral of {sympy.sstr(pane.expression)} between {sympy.sstr(pane.lower)} and "
            f"{sympy.sstr(pane.upper)} did not settle: 2^{gaps[-1]:.0f}, wanted 2^-{self.goal}"
        )

    def trapezoid(self, level: int) -> Iterator[tuple[arb, arb]]:
        step = arb(7) / (19 * 2**level)
        last = int(self.end * 19 * 2**level / 7) + 1
        for j in range(-last, last + 1):
            if level == 0 or j % 2:
                yield j * step, step

    def tanh_sinh(self, low: arb, high: arb, level: int) -> Iterator[tuple[arb, arb]]:
        length = high - low
        for ratio, weight in _tanh_sinh(self.bits, self.depth, level):
            yield low + length * ratio, length * weight
            if ratio != 0.5:
                yield high - length * ratio, length * weight

    def sums(self, f: BallFunction, nodes: Iterator[tuple[arb, arb]]) -> list[arb]:
        orders, top = self.orders, max(self.orders)
        every = orders == tuple(range(top + 1))
        sums, energy = [arb(0)] * len(orders), arb(0)
        for x, weight in nodes:
            density = weight * self.scale * (-x * x / 2).exp()
            value = f(x, False)
            term = value * density
            energy += term * value
            older, old = arb(0), term
            if every:
                sums[0] += term
                for k in range(top):
                    older, old = old, x * self.roots[k] * old - self.ratios[k] * older
                    sums[k + 1] += old
            else:
                position = 0
                for k in range(top + 1):
                    if orders[position] == k:
                        sums[position] += old
                        position += 1
                        if position == len(orders):
                            break
                    older, old = old, x * self.roots[k] * old - self.ratios[k] * older
        return [*sums, energy]


def _before(a: Expr, b: Expr) -> bool:
    if a is -sympy.oo or b is sympy.oo:
        return True
    if a is sympy.oo or b is -sympy.oo:
        return False
    with precision(128):
        return bool(constant_ball(a) < constant_ball(b))


@lru_cache(maxsize=512)
def narrow_places(f: Expr, symbol: Symbol) -> tuple[Expr, ...]:
    """Where an inner polynomial of degree 1 or 2 makes f change on a scale below 1/4."""
    found: set[Expr] = set()
    for node in sympy.preorder_traversal(f):
        for inner in node.args:
            if node.is_Add or node.is_Mul or isinstance(node, sympy.sin | sympy.cos):
                continue
            if not inner.has(symbol) or not inner.is_polynomial(symbol):
                continue
            p = sympy.Poly(inner, symbol)
            lead = abs(p.LC().evalf(8)) if p.LC().is_number else 0
            if p.degree() == 1 and lead > 4:
                found.add(-p.coeff_monomial(1) / p.LC())
            if p.degree() == 2:
                a, b, c = p.all_coeffs()
                if lead > 8 or lead > 8 * abs((c - b * b / (4 * a)).evalf(8)):
                    found.add(sympy.nsimplify(-b / (2 * a)) if b == 0 else -b / (2 * a))
    return tuple(sorted(found, key=lambda x: float(x)))


@lru_cache(maxsize=256)
def _table(f: Expr, symbol: Symbol, goal: int, orders: tuple[int, ...]) -> _Table:
    return _Table(f, symbol, goal, orders)


def _ladder(bits: float) -> int:
    """Accuracies come in steps, so that one table serves many requests."""
    return 16 * math.ceil(bits / 16)


def _settle(
    f: Expr,
    symbol: Symbol,
    digits: int,
    orders: tuple[int, ...],
    k: int | None,
    is_zero: Callable[[], bool] | None = None,
) -> mpmath.mpf:
    wanted = digits * BITS_PER_DIGIT
    goal = _ladder(wanted + 16)
    limit = goal + ZERO_MARGIN * BITS_PER_DIGIT
    while True:
        table = _table(f, symbol, goal, orders)
        value = table.energy if k is None else table.moments[k]
        error = max(log2_abs(value.rad()), -float(goal))
        size = log2_lower(value)
        if size - error > wanted + 3:
            return to_mpf(value, int(wanted) + 8)
        if goal >= limit or (size < 8 - goal and is_zero is not None and is_zero()):
            return mpmath.mpf(0)
        is_zero = None
        # too small for this absolute accuracy: ask for as much more as is missing
        known = size if size > 8 - goal else -1.6 * goal
        goal = _ladder(max(wanted + 16 - known, goal + 16))


def moment(
    f: Expr,
    symbol: Symbol,
    k: int,
    digits: int,
    is_zero: Callable[[], bool] | None = None,
    together: int = ORDERS_AT_ONCE,
) -> mpmath.mpf:
    r"""E[f(xi) he_k(xi)], xi ~ N(0, 1), correct to ``digits`` significant digits.

    The orders below ``together`` share their nodes.  ``is_zero`` is asked once, when nothing but zero has been seen; a moment that stays below
    10^-(digits + 160) is returned as zero in any case.  Raises NonlinearityError
    when nu is infinite, ConvergenceError when the rule does not settle.

    >>> t = Symbol("t", real=True)
    >>> print(mpmath.nstr(moment(sympy.tanh(t), t, 1, 30), 30))
    0.605705509602179007437194025594
    """
    orders = tuple(range(together)) if k < together else (k,)
    return _settle(f, symbol, digits, orders, k, is_zero)


def energy(f: Expr, symbol: Symbol, digits: int) -> mpmath.mpf:
    """nu = E f(xi)^2, correct to ``digits`` significant digits."""
    return _settle(f, symbol, digits, tuple(range(ORDERS_AT_ONCE)), None)
