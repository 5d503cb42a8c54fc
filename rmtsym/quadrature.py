r"""Gaussian moments E[f(xi) he_k(xi)] and E f(xi)^2 to any number of digits.

f is cut into analytic panes; an analytic pane on the whole line is integrated by the trapezoidal
rule, any other by the tanh-sinh rule (H. Takahasi and M. Mori, 1974): both converge
exponentially, the second through integrable singularities at the ends.  The integrand is
evaluated in balls, so rounding is accounted for; the truncation error is the difference of two
levels, and the enclosures of ``rmtsym.enclosure`` prove what is only estimated here.  All orders
k share the nodes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import mpmath
import sympy
from flint import acb, arb
from sympy import Expr, Symbol

from rmtsym.balls import (
    BITS_PER_DIGIT,
    BallFunction,
    compile_ball,
    constant_ball,
    log2_abs,
    log2_lower,
    precision,
    relative_ball,
    to_mpf,
)
from rmtsym.errors import ConvergenceError, NonlinearityError
from rmtsym.panes import Pane, Panes, split

LOG2_E = math.log2(math.e)
ORDERS_AT_ONCE = 16
ZERO_MARGIN = 100
MAX_POWER = 0.499
MAX_HALVINGS = 16


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
    for point in panes.singular:
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


@lru_cache(maxsize=64)
def _legendre(bits: int, n: int) -> tuple[tuple[arb, arb], ...]:
    with precision(bits):
        return tuple(arb.legendre_p_root(n, k, weight=True) for k in range(n // 2))


def _gauss(low: arb, high: arb, bits: int, level: int) -> Iterator[tuple[arb, arb]]:
    middle, half = (low + high) / 2, (high - low) / 2
    for x, weight in _legendre(64 * math.ceil(bits / 64), 8 * 2**level):
        yield middle + half * x, half * weight
        yield middle - half * x, half * weight


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
        # he_k oscillates with frequency sqrt(k): coarser levels see nothing
        self.first = max(0, round(math.log2(max(1.0, math.sqrt(top) / 4))))
        self.extra = max(0, math.ceil(math.log2(goal / 100)))  # levels
        self.depth, self.rough = goal + 20, set(panes.singular)
        if panes.singular:  # nodes so near that the rest of f^2 ~ d^-2p is negligible
            power = check_square_integrable(f, symbol)
            self.depth = int((goal + 30) / (1 - 2 * power) * 1.02) + 20
            if any(s != 0 for s in panes.singular):
                self.bits += self.depth
        with precision(self.bits):
            self.scale = 1 / (2 * arb.pi()).sqrt()
            self.ratios = [(arb(j) / (j + 1)).sqrt() for j in range(top)]
            self.roots = [1 / arb(j + 1).sqrt() for j in range(top)]
            totals = [arb(0)] * (len(orders) + 1)
            scales = [0.0] * (len(orders) + 1)
            for piece in self.pieces(panes, symbol):
                part = self.integrate(piece, symbol)
                totals = [a + b for a, b in zip(totals, part, strict=True)]
                scales = [max(a, log2_abs(b)) for a, b in zip(scales, part, strict=True)]
        # what was summed, and log2 of the largest summand above one: errors are relative to it
        self.moments = dict(zip(orders, zip(totals, scales, strict=True), strict=False))
        self.energy = totals[-1], scales[-1]

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
            self.rough.update(points)
            ends = [pane.lower, *points, pane.upper]
            for low, high in itertools.pairwise(ends):
                if _before(low, sympy.Integer(self.end)) and _before(
                    -sympy.Integer(self.end), high
                ):
                    yield Pane(low, high, pane.expression)

    def integrate(self, pane: Pane, symbol: Symbol, depth: int = 0) -> list[arb]:
        f = compile_ball(pane.expression, symbol)
        whole = not (pane.lower.is_finite or pane.upper.is_finite)
        low = constant_ball(pane.lower) if pane.lower.is_finite else arb(-self.end)
        high = constant_ball(pane.upper) if pane.upper.is_finite else arb(self.end)
        try:
            sums = self.whole(pane, f) if whole else self.finite(pane, f, low, high)
            settled = depth >= MAX_HALVINGS or not _misses(f, low, high, sums[-1])
        except ConvergenceError:
            settled = False
            if depth >= MAX_HALVINGS:
                raise
        if not settled:
            middle = sympy.Rational(str(((low + high) / 2).mid().str(8, radius=False)))
            halves = (Pane(pane.lower, middle, pane.expression),
                      Pane(middle, pane.upper, pane.expression))  # fmt: skip
            left, right = (self.integrate(half, symbol, depth + 1) for half in halves)
            return [x + y for x, y in zip(left, right, strict=True)]
        return sums

    def whole(self, pane: Pane, f: BallFunction) -> list[arb]:
        return self.levels(pane, f, self.trapezoid, True, 6 + self.extra)

    def finite(self, pane: Pane, f: BallFunction, low: arb, high: arb) -> list[arb]:
        if not {pane.lower, pane.upper} & self.rough:
            try:
                rule = partial(_gauss, low, high, self.bits)
                return self.levels(pane, f, rule, False, 5 + self.extra)
            except ConvergenceError:
                pass  # something is close to an end: cluster there
        return self.levels(pane, f, partial(self.tanh_sinh, low, high), True, 7 + self.extra)

    def levels(
        self,
        pane: Pane,
        f: BallFunction,
        rule: Callable[[int], Iterator[tuple[arb, arb]]],
        nested: bool,
        last: int,
    ) -> list[arb]:
        """The sums of ever finer rules until they agree; a nested rule yields new nodes only."""
        sums = [arb(0)] * (len(self.orders) + 1)
        gaps: list[float] = []
        for level in range(self.first, last + self.first + 1):
            nodes = rule(level)
            if nested and level == self.first:
                nodes = (
                    (x, weight / 2 ** (level - i))
                    for i in range(level + 1)
                    for x, weight in rule(i)
                )
            new = self.sums(f, nodes)
            refines = nested and level > self.first
            combined = [a / 2 + b for a, b in zip(sums, new, strict=True)] if refines else new
            before, sums = sums, combined
            if not all(s.is_finite() for s in sums):
                raise ConvergenceError(
                    f"{sympy.sstr(pane.expression)} is not finite between {sympy.sstr(pane.lower)} "
                    f"and {sympy.sstr(pane.upper)}"
                )
            if level > self.first:
                gaps.append(max(map(_gap, before, sums)))
            # an exponential rule doubles its digits per level: 0.7 of them seen, all are there
            if len(gaps) >= 2 and gaps[-1] < -0.7 * self.goal and gaps[-2] < -0.25 * self.goal:
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


def _misses(f: BallFunction, low: arb, high: arb, energy: arb) -> bool:
    """Whether a coarse but rigorous integral of f^2 phi contradicts the sum: a narrow bump."""

    def integrand(x: acb, analytic: bool) -> acb:
        value = f(x, analytic)
        return value * value * (-x * x / 2).exp()

    with precision(53):
        coarse = acb.integral(
            integrand, acb(low), acb(high), abs_tol=arb(2) ** -30, rel_tol=arb(2) ** -20,
            eval_limit=4000,
        ).real * (1 / (2 * arb.pi()).sqrt())  # fmt: skip
        allowed = arb(2) ** -28 + abs(energy) * arb(2) ** -18
        return bool(coarse.is_finite() and abs(coarse - energy) > allowed)


def _gap(old: arb, new: arb) -> float:
    """log2 of the change, relative to what is large and absolute for what is small."""
    return log2_abs(old - new) - max(0.0, log2_abs(new))


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
        value, scale = table.energy if k is None else table.moments[k]
        error = max(log2_abs(value.rad()), scale - goal) - scale
        size = log2_lower(value) - scale
        if size - error > wanted + 3:
            return to_mpf(value, int(wanted) + 8)
        if size < 8 - goal and exact is not None:
            closed, exact = exact(), None
            if closed is not None:
                return closed_value(closed, digits)
        if goal >= limit:
            return mpmath.mpf(0)
        # too small for this absolute accuracy: ask for as much more as is missing
        known = size if size > 8 - goal else -1.6 * goal
        goal = _ladder(max(wanted + 16 - known, goal + 16))


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


def energy(f: Expr, symbol: Symbol, digits: int) -> mpmath.mpf:
    """nu = E f(xi)^2, correct to ``digits`` significant digits."""
    orders = tuple(range(ORDERS_AT_ONCE)) if digits <= 200 else (0,)
    return _settle(f, symbol, digits, orders, None)
