r"""Gaussian moments E[f(xi) he_k(xi)] and E f(xi)^2 to any number of digits.

f is cut into analytic panes.  One on the whole line is integrated by the trapezoidal rule, any
other by Gauss-Legendre rules on pieces, near a singular end in the variable v = -log of the
distance.  How many nodes a rule needs is not tried but read off a bound of the integrand around
the piece in the complex plane; a piece that would need too many is halved (K. Petras, 2002), so
that nothing narrow is stepped over.  All orders k share the nodes, and rounding is accounted for
in balls.  Beyond the last node f is judged by samples of its growth; the enclosures of
``rmtsym.enclosure`` prove that too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import mpmath
import sympy
from flint import acb, arb
from sympy import Expr, Symbol

from rmtsym.balls import (
    BITS_PER_DIGIT,
    BallFunction,
    compile_ball,
    constant_ball,
    good_bits,
    log2_abs,
    log2_lower,
    precision,
    relative_ball,
    to_mpf,
)
from rmtsym.errors import ConvergenceError, NonlinearityError
from rmtsym.panes import Pane, split

LOG2_E = math.log2(math.e)
ORDERS_AT_ONCE = 16
ZERO_MARGIN = 100
MAX_POWER = 0.499
MAX_BOXES = 48
MAX_BITS = 4000
"""Bits at most, beside 20 for each that is asked for: products of large numbers that cancel."""
MAX_NODES = 100_000
PIECES_BITS = 12
HEIGHTS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)


def hermite_growth(t: float, k: int) -> float:
    """An upper bound of log2 |he_k(t)|: Cramer's inequality, and t^k/sqrt(k!) beyond the zeros."""
    bound = 0.12 + t * t / 4 * LOG2_E
    if t > 2 * math.sqrt(k) and t >= 1:
        bound = min(bound, k * math.log2(t) - math.lgamma(k + 1) / 2 * LOG2_E)
    return bound


@lru_cache(maxsize=512)
def check_square_integrable(f: Expr, symbol: Symbol) -> float:
    """Raise NonlinearityError, naming the place, unless E f(xi)^2 is finite.

    Returns the largest p with |f| ~ |t - s|^-p at a singular point s, 0 when there is none.

    >>> t = Symbol("t", real=True)
    >>> check_square_integrable(1 / t, t)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rmtsym.errors.NonlinearityError: nu = E f(xi)^2 is infinite: f = 1/t grows like ... at t = 0
    """
    panes, function = split(f, symbol), compile_ball(f, symbol)
    strongest = 0.0
    for point in sorted(panes.singular, key=lambda s: abs(s.evalf(8))):  # nearest first
        for side in (-1, 1):
            with precision(4000):
                s = constant_ball(point)
                near, nearer = (function(s + side * arb(2) ** (-n), False) for n in (500, 1000))
                sizes = log2_lower(near), log2_abs(nearer)
            power = (sizes[1] - sizes[0]) / 500 if math.isfinite(sizes[0]) else -math.inf
            power = math.inf if sizes[1] == math.inf else power
            strongest = max(strongest, power)
            if power > MAX_POWER or nearer.is_nan():
                raise NonlinearityError(
                    f"nu = E f(xi)^2 is infinite: f = {sympy.sstr(f)} grows like "
                    f"|t - {sympy.sstr(point)}|^-{power:.3g} at t = {sympy.sstr(point)}"
                )
    for side, name in ((-1, "-oo"), (1, "oo")):
        if _outgrows(function, side):
            raise NonlinearityError(
                f"nu = E f(xi)^2 is infinite: f = {sympy.sstr(f)} outgrows exp(t^2/4) "
                f"as t -> {name}"
            )
    return strongest


def _outgrows(function: BallFunction, side: int) -> bool:
    """Whether f^2 exp(-t^2/2) does not fall as |t| grows, as far as its values are known."""
    excess = []
    for t in (19.7, 39.1, 79.3, 161.9, 317.3, 641.7, 1283.9, 9973.1, 99733.7):
        with precision(256):
            value = function(arb(side * t), False)
        if not value.is_finite():
            continue
        excess.append(2 * log2_abs(value) - t * t / 2 * LOG2_E + 2 * math.log2(t))
    # f^2 phi falls faster than 1/t^2 in the end
    return len(excess) > 1 and excess[-1] > 0 and excess[-1] > excess[-2]


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


@lru_cache(maxsize=256)
def _legendre(bits: int, n: int) -> tuple[tuple[arb, arb], ...]:
    """The positive nodes of the Gauss-Legendre rule on [-1, 1] and their weights; n is even."""
    with precision(bits):
        return tuple(arb.legendre_p_root(n, k, weight=True) for k in range(n // 2))


@dataclass(frozen=True)
class Chart:
    """t = v, or near a singular end t = end + side e^{-v}; dt is taken positive."""

    end: arb | None = None
    side: int = 1

    def __call__(self, v: Any) -> tuple[Any, Any]:
        """(t, |dt/dv|)."""
        if self.end is None:
            return v, arb(1)
        step = (-v).exp()
        return self.end + self.side * step, step


class _Envelope:
    """Upper bounds of f he_k phi (k in orders) and f^2 phi on complex boxes, in bits."""

    def __init__(self, orders: tuple[int, ...]) -> None:
        self.top = max(orders)
        self.scales = (0.0, 0.0)

    def weights(self, low: float, high: float, y: float) -> tuple[float, float]:
        """log2 of bounds of |he_k phi| and |phi| over low <= |Re t| <= high, |Im t| <= y.

        |he_k(t)| <= 1.09 exp(x^2/4 + sqrt(k) |y|), and <= (|t| + sqrt(k))^k/sqrt(k!).
        """
        k, density = self.top, (y * y - low * low) / 2 * LOG2_E - 1.3
        cramer = 0.13 + (y * y / 2 - low * low / 4 + math.sqrt(k) * y) * LOG2_E - 1.3
        size = max(math.hypot(high, y) + math.sqrt(k), 1.0)
        power = k * math.log2(size) - math.lgamma(k + 1) / 2 * LOG2_E if size > k**0.5 else 0.0
        return min(cramer, density + max(power, 0.0)), density

    def __call__(self, f: BallFunction, t: Any, slope: Any) -> float:
        """The larger of the two, each against its scale; inf where f is not analytic."""
        value = f(t, True)
        if not value.is_finite():
            return math.inf
        size = log2_abs(value.abs_upper())
        if size == -math.inf:
            return size
        real, imaginary = (t.real, t.imag) if isinstance(t, acb) else (t, arb(0))
        weights = self.weights(
            _down_float(real.abs_lower()), float(real.abs_upper()) * (1 + 1e-15),
            float(imaginary.abs_upper()) * (1 + 1e-15),
        )  # fmt: skip
        by_order, by_energy = size + weights[0], 2 * size + weights[1]
        return log2_abs(abs(slope)) + max(
            by_order - self.scales[0], by_energy - self.scales[1]
        )  # fmt: skip


def _down_float(x: arb) -> float:
    return float(x) * (1 - 1e-15)


@dataclass(frozen=True)
class Piece:
    """An interval of the chart's variable on which ``f`` is analytic."""

    f: BallFunction
    chart: Chart
    low: arb
    high: arb

    def halves(self) -> tuple[Piece, Piece]:
        middle = ((self.low + self.high) / 2).mid()
        return (
            Piece(self.f, self.chart, self.low, middle),
            Piece(self.f, self.chart, middle, self.high),
        )


def _largest(
    envelope: _Envelope, piece: Piece, inside: Callable[[float, float, float, float], bool],
    boxes: list[tuple[float, float, float, float]],
) -> float:  # fmt: skip
    """The envelope's maximum over boxes of the normalised piece; inf when it is not seen."""
    middle, half = (piece.low + piece.high) / 2, (piece.high - piece.low) / 2
    largest, budget = -math.inf, len(boxes) + MAX_BOXES
    while boxes:
        x0, x1, y0, y1 = boxes.pop()
        if not inside(x0, x1, y0, y1):
            continue
        budget -= 1
        box = acb(arb((x0 + x1) / 2, (x1 - x0) / 2), arb((y0 + y1) / 2, (y1 - y0) / 2))
        t, slope = piece.chart(middle + half * box)
        bound = envelope(piece.f, t, slope)
        if bound < math.inf:
            largest = max(largest, bound)
        elif budget <= 0:
            return math.inf
        elif x1 - x0 >= y1 - y0:
            boxes += [(x0, (x0 + x1) / 2, y0, y1), ((x0 + x1) / 2, x1, y0, y1)]
        else:
            boxes += [(x0, x1, y0, (y0 + y1) / 2), (x0, x1, (y0 + y1) / 2, y1)]
    return largest


def gauss_nodes(envelope: _Envelope, piece: Piece, goal: int, most: int) -> int | None:
    """n such that the n-point Gauss rule on the piece errs by less than 2^-goal, or None.

    |f| <= M on the ellipse with foci at the ends and semi-axes (rho +- 1/rho)/2 leaves
    (64/15) M rho^{-2n}/(1 - rho^{-2}) times half the length.  L. N. Trefethen, *Approximation
    Theory and Approximation Practice*, Theorem 19.3.
    """
    length = log2_abs((piece.high - piece.low) / 2) + 2.1
    best: float = math.inf
    for rhos in ((2.0, 3.0, 5.0, 9.0, 17.0, 33.0), (1.5, 1.25, 1.12)):
        for rho in rhos:
            if rho < 2 and best < math.inf:
                break
            a, b = (rho + 1 / rho) / 2, (rho - 1 / rho) / 2

            boxes = [(a * i / 2, a * (i + 1) / 2, 0.0, b) for i in range(-2, 2)]
            bound = _largest(envelope, piece, partial(_meets_ellipse, a, b), boxes)
            if bound == math.inf:
                break
            rest = bound + length - math.log2(1 - rho**-2)
            n = max(2.0, (goal + rest) / (2 * math.log2(rho)))
            if n > best:
                break
            best = n
    if best > most:
        return None
    return _even_step(best)


def _meets_ellipse(a: float, b: float, x0: float, x1: float, y0: float, _: float) -> bool:
    x = 0.0 if x0 <= 0 <= x1 else min(abs(x0), abs(x1))
    return (x / a) ** 2 + (y0 / b) ** 2 <= 1


def _even_step(n: float) -> int:
    """Few different rules: the next of 2, 4, 8, 12, 16, 24, 32, 48, ..."""
    if n <= 4:
        return 2 if n <= 2 else 4
    power = int(2 ** (math.ceil(math.log2(n)) - 2))
    return 3 * power if n <= 3 * power else 4 * power


def trapezoid_step(envelope: _Envelope, f: BallFunction, end: int, goal: int) -> float | None:
    """h such that the trapezoidal rule on the line errs by less than 2^-goal, or None.

    |f| <= M in the strip |Im t| <= a leaves 2 M L/(exp(2 pi a/h) - 1), L the length.
    L. N. Trefethen and J. A. C. Weideman, SIAM Review 56 (2014), Theorem 5.1.
    """
    piece = Piece(f, Chart(), arb(-end), arb(end))
    best: float | None = None
    for heights in (HEIGHTS, (0.5, 0.25, 0.125)):
        for a in heights:
            if a < 1 and best is not None:
                break
            count = math.ceil(end / min(a, 1.0))
            boxes = [
                (-1 + 2 * i / count, -1 + 2 * (i + 1) / count, 0.0, a / end) for i in range(count)
            ]
            bound = _largest(envelope, piece, lambda *_: True, boxes)
            if bound == math.inf:
                break
            bits = max(8.0, goal + bound + math.log2(4 * end) + 1)
            h = 2 * math.pi * a * LOG2_E / bits
            if best is not None and h < best:
                break
            best = h
    return best


class _Table:
    """Sums over nodes of f he_k phi (k in orders) and f^2 phi.

    Each is a ball; its radius is 2^-goal times what is typical of the integrand (at least one).
    """

    def __init__(self, f: Expr, symbol: Symbol, goal: int, orders: tuple[int, ...]) -> None:
        self.goal, self.orders, top = goal, orders, max(orders)
        self.symbol, self.f = symbol, f
        T = reach(f, symbol, goal, top)
        panes = split(f, symbol, T if T % 8 == 0 else T + 8 - T % 8)
        self.end = max([T, *(int(abs(b.evalf(8))) + 6 for b in panes.breakpoints)])
        if not panes.complete:
            self.end = T
        self.bits = int(goal + 40 + 1.5 * self.end * math.sqrt(top))
        if self.bits > MAX_BITS + 20 * goal:
            raise ConvergenceError(
                f"{sympy.sstr(f)} grows too fast to be integrated: its weight reaches t = "
                f"{self.end:.0f}; give it where |t| is of order 1"
            )
        self.depth = goal + 20
        if panes.singular:  # so near that the rest of f^2 ~ d^-2p is negligible
            power = check_square_integrable(f, symbol)
            self.depth = int((goal + 30) / (1 - 2 * power) * 1.02) + 20
            if any(s != 0 for s in panes.singular):
                self.bits += self.depth
        self.envelope = _Envelope(orders)
        self.envelope.scales = self.typical()
        self.most = goal + 64
        with precision(self.bits):
            self.scale = 1 / (2 * arb.pi()).sqrt()
            self.half = 1 / arb(2).sqrt()
            self.norm = self.half**top / arb(top + 1).gamma().sqrt()  # he_k = norm H_k(x/sqrt 2)
            self.ratios = [(arb(j) / (j + 1)).sqrt() for j in range(top)]
            self.roots = [1 / arb(j + 1).sqrt() for j in range(top)]
            totals = [arb(0)] * (len(orders) + 1)
            self.count = -64 * len(panes.panes)  # many kinks are honest work
            for pane in panes:
                if pane.expression != 0:
                    part = self.integrate(pane, set(panes.singular))
                    totals = [a + b for a, b in zip(totals, part, strict=True)]
            a, e = (arb(0, arb(2) ** (int(scale) + 1 - goal)) for scale in self.envelope.scales)
            self.moments = {k: total + a for k, total in zip(orders, totals, strict=False)}
            self.energy = totals[-1] + e

    def typical(self) -> tuple[float, float]:
        """log2 of the largest sampled f he_k phi and f^2 phi, at least 0."""
        function, largest = compile_ball(self.f, self.symbol), [0.0, 0.0]
        with precision(64):
            for j in range(-40, 41):
                x = arb(self.end * (j + 0.3) / 41)
                value = function(x, False)
                if value.is_finite():
                    at, size = abs(float(x)), log2_abs(value)
                    weights = self.envelope.weights(at, at, 0.0)
                    largest[0] = max(largest[0], size + weights[0])
                    largest[1] = max(largest[1], 2 * size + weights[1])
        return largest[0], largest[1]

    def integrate(self, pane: Pane, singular: set[Expr]) -> list[arb]:
        f = compile_ball(pane.expression, self.symbol)
        goal = self.goal + PIECES_BITS
        if not (pane.lower.is_finite or pane.upper.is_finite):
            with precision(53):
                h = trapezoid_step(self.envelope, f, self.end, goal)
            if h is not None and 2 * self.end / h < 8 * self.most:
                return self.sums(f, self.trapezoid(h))
        totals = [arb(0)] * (len(self.orders) + 1)
        stack = list(self.pieces(pane, f, singular))
        while stack:
            piece = stack.pop()
            if bool(piece.high - piece.low <= 0):
                continue
            with precision(53 if piece.chart.end is None else self.bits):
                n = gauss_nodes(self.envelope, piece, goal, self.most)
            self.count += n or 16
            if self.count > MAX_NODES:
                place = piece.chart((piece.low + piece.high) / 2)[0].mid().str(6, radius=False)
                raise ConvergenceError(
                    f"{sympy.sstr(self.f)} changes too fast to be integrated to "
                    f"{round(self.goal / BITS_PER_DIGIT)} digits: stopped near t = {place} after "
                    f"{MAX_NODES} evaluations"
                )
            if n is None:
                stack += piece.halves()
            else:
                part = self.sums(f, self.gauss(piece, n))
                totals = [a + b for a, b in zip(totals, part, strict=True)]
        return totals

    def pieces(self, pane: Pane, f: BallFunction, singular: set[Expr]) -> Iterator[Piece]:
        """The pane within [-end, end]; a singular end in its own chart."""
        low = constant_ball(pane.lower) if pane.lower.is_finite else arb(-self.end)
        high = constant_ball(pane.upper) if pane.upper.is_finite else arb(self.end)
        rough = [end in singular for end in (pane.lower, pane.upper)]
        if any(rough):
            middle, deep = ((low + high) / 2).mid(), self.depth * arb(2).log()
            for end, side, near in ((low, 1, rough[0]), (high, -1, rough[1])):
                if near:
                    start = -((middle - end) * side).log()
                    yield Piece(f, Chart(end, side), start, start + deep)
                else:
                    yield Piece(f, Chart(), *((low, middle) if side > 0 else (middle, high)))
            return
        yield Piece(f, Chart(), low, high)

    def trapezoid(self, h: float) -> Iterator[tuple[arb, arb]]:
        step = arb(h)
        last = int(self.end / h) + 1
        for j in range(-last, last + 1):
            yield j * step, step

    def gauss(self, piece: Piece, n: int) -> Iterator[tuple[arb, arb]]:
        middle, half = (piece.low + piece.high) / 2, (piece.high - piece.low) / 2
        for x, weight in _legendre(64 * math.ceil(self.bits / 64), n):
            for v in (middle + half * x, middle - half * x):
                t, slope = piece.chart(v)
                yield t, half * weight * slope

    def polynomial(self, x: arb) -> arb:
        """he_k of the only order: one call instead of k steps; not finite where it gives up."""
        (k,) = self.orders
        return (x * self.half).hermite_h(k) * self.norm

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
            elif len(orders) == 1 and (single := self.polynomial(x)).is_finite():
                sums[0] += term * single
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


@lru_cache(maxsize=256)
def _attempt(f: Expr, symbol: Symbol, goal: int, orders: tuple[int, ...]) -> _Table | str:
    """The table, or why there is none: the budget is spent once."""
    try:
        return _Table(f, symbol, goal, orders)
    except ConvergenceError as error:
        return str(error)


def _table(f: Expr, symbol: Symbol, goal: int, orders: tuple[int, ...]) -> _Table:
    table = _attempt(f, symbol, goal, orders)
    if isinstance(table, str):
        raise ConvergenceError(table)
    return table


def _ladder(bits: float) -> int:
    """Accuracies come in steps, so that one table serves many requests."""
    return 16 * math.ceil(bits / 16)


def closed_value(x: Expr, digits: int) -> mpmath.mpf:
    """A closed form to ``digits`` significant digits."""
    bits = digits * BITS_PER_DIGIT
    return to_mpf(relative_ball(x, bits + 3), int(bits) + 8)


def _settle(
    f: Expr,
    symbol: Symbol,
    digits: int,
    orders: tuple[int, ...],
    k: int | None,
    exact: Callable[[], Expr | None] | None = None,
) -> mpmath.mpf:
    wanted = digits * BITS_PER_DIGIT
    goal = _ladder(wanted + 16)
    limit = goal + ZERO_MARGIN * BITS_PER_DIGIT
    while True:
        table = _table(f, symbol, goal, orders)
        value = table.energy if k is None else table.moments[k]
        if good_bits(value) > wanted + 3:
            return to_mpf(value, int(wanted) + 8)
        size = log2_lower(value)
        if size == -math.inf and exact is not None:
            closed, exact = exact(), None
            if closed is not None:
                return closed_value(closed, digits)
        if goal >= limit:
            return mpmath.mpf(0)
        # too small for this absolute accuracy: ask for as much more as is missing
        missing = wanted + 4 - good_bits(value) if size > -math.inf else 1.5 * goal
        goal = min(_ladder(goal + max(missing, 16)), _ladder(limit))


def moment(
    f: Expr,
    symbol: Symbol,
    k: int,
    digits: int,
    exact: Callable[[], Expr | None] | None = None,
    together: int = ORDERS_AT_ONCE,
) -> mpmath.mpf:
    r"""E[f(xi) he_k(xi)], xi ~ N(0, 1), correct to ``digits`` significant digits.

    The orders below ``together`` share their nodes.  ``exact`` is asked once for a closed form,
    when nothing but zero has been seen; without one, a moment that stays below
    10^-(digits + 100) is returned as zero.  Raises NonlinearityError when nu is infinite,
    ConvergenceError when the rule does not settle.

    >>> t = Symbol("t", real=True)
    >>> print(mpmath.nstr(moment(sympy.tanh(t), t, 1, 30), 30))
    0.605705509602158825583540227556
    """
    shared = k < together and (digits <= 200 or together > ORDERS_AT_ONCE)
    orders = tuple(range(together)) if shared else (k,)
    return _settle(f, symbol, digits, orders, k, exact)


def energy(
    f: Expr, symbol: Symbol, digits: int, exact: Callable[[], Expr | None] | None = None
) -> mpmath.mpf:
    """nu = E f(xi)^2, correct to ``digits`` significant digits; ``exact`` as in :func:`moment`."""
    orders = tuple(range(ORDERS_AT_ONCE)) if digits <= 200 else (1,)  # beside the slope
    return _settle(f, symbol, digits, orders, None, exact)
