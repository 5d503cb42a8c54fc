r"""Proven balls for Gaussian moments.

Closed forms are evaluated in balls.  Otherwise each analytic pane is integrated by F. Johansson's
rigorous algorithm (``acb.integral``, arXiv:1802.07942), and what it cannot see is bounded on
paper: the tail |t| > T, and the neighbourhood of an integrable singularity after t = a +- e^{-v}.
Both bounds come from ``majorant``: log|f| <= alpha + beta u + gamma u^2 for u >= 0, read off the
expression.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import sympy
from flint import acb, arb
from sympy import Expr, Symbol

from rmtsym import hermite
from rmtsym.balls import (
    BITS_PER_DIGIT,
    Ball,
    compile_ball,
    constant_ball,
    good_bits,
    log2_abs,
    log2_lower,
    precision,
)
from rmtsym.errors import PrecisionError
from rmtsym.panes import Pane, Panes, order, split
from rmtsym.quadrature import check_square_integrable, reach

SLACK = 1e-9

Quadratic = tuple[float, float, float]  # a + b u + c u^2, u >= 0
ZERO: Quadratic = (0.0, 0.0, 0.0)


# bounds on a half-line, read off the expression


class Bound(NamedTuple):
    """What is known of e(u), u >= 0.

    upper, lower : log|e| <= upper, log|e| >= lower;  top, bottom : e <= top, e >= bottom
    (quadratics in u, None when unknown);  sign : +1, -1, or 0 when unknown.
    """

    upper: Quadratic | None = None
    lower: Quadratic | None = None
    top: Quadratic | None = None
    bottom: Quadratic | None = None
    sign: int = 0


def _up(q: Quadratic) -> Quadratic:
    """A little more than q: covers the rounding of double precision."""
    a, b, c = (x + SLACK * (1 + abs(x)) if x else 0.0 for x in q)
    return (a, b, c)


def _down(q: Quadratic) -> Quadratic:
    a, b, c = (x - SLACK * (1 + abs(x)) if x else 0.0 for x in q)
    return (a, b, c)


def _plus(*qs: Quadratic | None) -> Quadratic | None:
    if any(q is None for q in qs):
        return None
    a, b, c = (sum(parts) for parts in zip(*(q for q in qs if q is not None), strict=True))
    return (a, b, c)


def _times(q: Quadratic | None, factor: float) -> Quadratic | None:
    return None if q is None else (q[0] * factor, q[1] * factor, q[2] * factor)


def _most(qs: list[Quadratic | None]) -> Quadratic | None:
    known = [q for q in qs if q is not None]
    if not known or len(known) < len(qs):
        return None
    a, b, c = (max(parts) for parts in zip(*known, strict=True))
    return (a, b, c)


def _least(qs: list[Quadratic | None]) -> Quadratic | None:
    flipped = _most([_times(q, -1) for q in qs])
    return _times(flipped, -1)


def _complete(b: Bound) -> Bound:
    """Draw the obvious conclusions."""
    upper, lower, top, bottom, sign = b
    if bottom is not None and sign == 0 and bottom[0] > 0 and min(bottom) >= 0:
        sign = 1
    if top is not None and sign == 0 and top[0] < 0 and max(top) <= 0:
        sign = -1
    if lower is None and sign > 0 and bottom is not None and bottom[0] > 0 and min(bottom) >= 0:
        lower = _down((math.log(bottom[0]), 0.0, 0.0))
    if lower is None and sign < 0 and top is not None and top[0] < 0 and max(top) <= 0:
        lower = _down((math.log(-top[0]), 0.0, 0.0))
    flat = upper is not None and upper[1] <= 0 and upper[2] <= 0 and upper[0] < 600
    if flat and upper is not None:
        size = math.exp(upper[0]) * (1 + SLACK)
        top = top if top is not None else (0.0 if sign < 0 else size, 0.0, 0.0)
        bottom = bottom if bottom is not None else (0.0 if sign > 0 else -size, 0.0, 0.0)
    if sign > 0 and bottom is None:
        bottom = ZERO
    if sign < 0 and top is None:
        top = ZERO
    return Bound(upper, lower, top, bottom, sign)


class _Majorant:
    """Bounds of expressions in t on the half-line t = start + side u, u >= 0."""

    def __init__(self, symbol: Symbol, start: float, side: int, sign_of: Callable[[Expr], int]):
        self.symbol, self.start, self.side, self.sign_of = symbol, start, side, sign_of
        self.scale = max(abs(start), 1.0)

    def __call__(self, e: Expr) -> Bound:
        return _complete(self.bound(e))

    def bound(self, e: Expr) -> Bound:
        if not e.has(self.symbol):
            return self.constant(e)
        if e.is_polynomial(self.symbol):
            return self.polynomial(e)
        if e.is_Add:
            return self.add([self(a) for a in e.args])
        if e.is_Mul:
            return self.multiply([self(a) for a in e.args], e)
        if isinstance(e, sympy.exp):
            return self.exponential(self(e.args[0]))
        if e.is_Pow:
            return self.power(e)
        if isinstance(e, sympy.sinh | sympy.cosh | sympy.sech | sympy.csch | sympy.coth):
            return self(e.rewrite(sympy.exp))
        parts = [self(a) for a in e.args]
        first = parts[0]
        size = _BOUNDED.get(e.func)
        if size is not None:
            odd = e.func in (sympy.tanh, sympy.erf, sympy.atan, sympy.sign)
            sign = first.sign if odd else 1 if e.func in (sympy.erfc, sympy.acot) else 0
            upper: Quadratic = (math.log(size) + SLACK, 0, 0)
            small = _up(first.upper) if e.func in _LIPSCHITZ and first.upper else None
            if small is not None and small[1] < 0 and small[2] <= 0:  # |sin(g)| <= |g|
                upper = (small[0] + math.log(1.13), *small[1:])
            return Bound(upper, sign=sign)
        if isinstance(e, sympy.log):
            return self.logarithm(first, e.args[0])
        if isinstance(e, sympy.Abs):
            if first.sign:
                top, bottom = first.top, first.bottom
                if first.sign < 0:
                    top, bottom = _times(bottom, -1), _times(top, -1)
                return Bound(first.upper, first.lower, top, bottom, 1)
            return Bound(first.upper, first.lower, None, ZERO, 1)
        if isinstance(e, sympy.asinh):
            return Bound(first.upper, None, sign=first.sign)
        if isinstance(e, sympy.floor | sympy.ceiling):
            one = self.constant(sympy.Integer(1))
            both = self.add([first, one])
            return Bound(both.upper, None, both.top, _plus(first.bottom, (-1.0, 0.0, 0.0)))
        if isinstance(e, sympy.Heaviside | sympy.frac):
            return Bound((SLACK, 0, 0), None, (1, 0, 0), ZERO)
        if isinstance(e, sympy.Mod):
            return Bound(parts[1].upper)
        if isinstance(e, sympy.Max | sympy.Min):
            return self.extreme(parts, isinstance(e, sympy.Max))
        if isinstance(e, sympy.Piecewise):
            branches = [self(value) for value, _ in e.args]
            return Bound(
                _most([b.upper for b in branches]),
                _least([b.lower for b in branches]),
                _most([b.top for b in branches]),
                _least([b.bottom for b in branches]),
            )
        return Bound()

    def constant(self, e: Expr) -> Bound:
        with precision(64):
            value = float(constant_ball(e).mid())
        if value == 0:
            return Bound((-1e300, 0, 0), None, ZERO, ZERO)
        log = (math.log(abs(value)), 0.0, 0.0)
        exact = (value, 0.0, 0.0)
        return Bound(_up(log), _down(log), _up(exact), _down(exact), 1 if value > 0 else -1)

    def polynomial(self, e: Expr) -> Bound:
        u = sympy.Dummy("u")
        shifted = sympy.Poly(e.subs(self.symbol, sympy.Rational(self.start) + self.side * u), u)
        with precision(64):
            c = [float(constant_ball(x).mid()) for x in reversed(shifted.all_coeffs())]
        degree = len(c) - 1
        size = sum(abs(x) * self.scale**i for i, x in enumerate(c))
        upper = _up((math.log(size), degree / self.scale, 0.0))  # (1 + u/s)^d <= exp(d u/s)
        sign = 1 if min(c) >= 0 < c[0] else -1 if max(c) <= 0 > c[0] else 0
        lower = _down((math.log(abs(c[0])), 0.0, 0.0)) if sign else None
        low: Quadratic = (c[0], c[1] if degree > 0 else 0.0, c[2] if degree > 1 else 0.0)
        rest = c[3:]
        top = _up(low) if all(x <= 0 for x in rest) else None
        bottom = _down(low) if all(x >= 0 for x in rest) else None
        return Bound(upper, lower, top, bottom, sign)

    def add(self, parts: list[Bound]) -> Bound:
        upper = _most([p.upper for p in parts])
        if upper is not None:
            upper = _up((upper[0] + math.log(len(parts)), upper[1], upper[2]))
        signs = {p.sign for p in parts}
        sign = signs.pop() if len(signs) == 1 else 0
        lowers = [p.lower for p in parts if p.lower is not None]
        lower = max(lowers, key=lambda q: q[::-1]) if sign and lowers else None
        for i, p in enumerate(parts):  # one summand is more than twice all the others
            rest = _most([q.upper for j, q in enumerate(parts) if j != i])
            margin = _plus(p.lower, _times(rest, -1))
            if lower is None and p.sign and p.lower is not None and margin is not None:
                if margin[0] > math.log(2 * len(parts)) and min(margin[1:]) >= 0:
                    sign, lower = p.sign, _down((p.lower[0] - math.log(2), *p.lower[1:]))
        return Bound(upper, lower, _plus(*(p.top for p in parts)),
                     _plus(*(p.bottom for p in parts)), sign)  # fmt: skip

    def multiply(self, parts: list[Bound], e: Expr) -> Bound:
        sign = math.prod(p.sign for p in parts)
        upper, lower = _plus(*(p.upper for p in parts)), _plus(*(p.lower for p in parts))
        top = bottom = None
        number, rest = e.as_coeff_Mul()
        if number != 1:
            inner, factor = self(rest), float(number)
            top, bottom = _times(inner.top, factor), _times(inner.bottom, factor)
            if factor < 0:
                top, bottom = bottom, top
        return Bound(upper, lower, top, bottom, sign)

    def exponential(self, g: Bound) -> Bound:
        upper = None if g.top is None else _up(g.top)
        return Bound(upper, None if g.bottom is None else _down(g.bottom), sign=1)

    def power(self, e: Expr) -> Bound:
        base, exponent = e.args
        if base is sympy.E:
            return self.exponential(self(exponent))
        if not exponent.is_number:
            return self.exponential(self(sympy.expand(exponent * sympy.log(base))))
        b, n = self(base), float(exponent)
        sign = b.sign or (self.sign_of(base) if base.has(self.symbol) else 0)
        if exponent.is_even:
            sign = 1
        elif exponent.is_Integer is not True:
            sign = 1
        if n > 0:
            return Bound(_times(b.upper, n), _times(b.lower, n), sign=sign)
        return Bound(_times(b.lower, n), _times(b.upper, n), sign=sign)

    def logarithm(self, g: Bound, argument: Expr) -> Bound:
        top, bottom = g.upper, g.lower  # g > 0 where log is real
        if top is None or bottom is None:
            return Bound(None, None, top, bottom)
        a, b, c = (max(abs(x), abs(y)) for x, y in zip(top, bottom, strict=True))
        size = a + b * self.scale + c * self.scale**2
        upper = _up((math.log(max(size, 1e-300)), 2 / self.scale, 0.0))
        return Bound(upper, None, top, bottom)

    def extreme(self, parts: list[Bound], greatest: bool) -> Bound:
        tops, bottoms = [p.top for p in parts], [p.bottom for p in parts]
        if greatest:
            top = _most(tops)
            bottom = max((q for q in bottoms if q is not None), key=lambda q: q[::-1], default=None)
        else:
            bottom = _least(bottoms)
            top = min((q for q in tops if q is not None), key=lambda q: q[::-1], default=None)
        return Bound(_most([p.upper for p in parts]), None, top, bottom)


_LIPSCHITZ = (sympy.sin, sympy.tanh, sympy.atan, sympy.erf)  # |f(g)| <= 1.13 |g|
_BOUNDED: dict[Any, float] = {
    sympy.tanh: 1, sympy.erf: 1, sympy.sin: 1, sympy.cos: 1, sympy.sinc: 1, sympy.sign: 1,
    sympy.erfc: 2, sympy.atan: math.pi / 2, sympy.acot: math.pi / 2,
}  # fmt: skip


# integrals


class _Integrand:
    """f(x)^power he_k(x) phi(x) on balls."""

    def __init__(self, f: Expr, symbol: Symbol, k: int, power: int) -> None:
        self.f, self.k, self.power = compile_ball(f, symbol), k, power
        self.scale = 1 / (2 * arb.pi()).sqrt()
        self.half = 1 / arb(2).sqrt()
        self.norm = self.half**k / arb(k + 1).gamma().sqrt()  # he_k = norm H_k(x/sqrt 2)
        self.ratios = [(arb(j) / (j + 1)).sqrt() for j in range(k)]
        self.roots = [1 / arb(j + 1).sqrt() for j in range(k)]

    def weight(self, x: Ball) -> Ball:
        """he_k(x) phi(x); on a wide ball by |he_k(x + i y)| <= 1.09 exp(x^2/4 + sqrt(k) |y|)."""
        density = (-x * x / 2).exp() * self.scale
        real, imaginary = (x.real, x.imag) if isinstance(x, acb) else (x, arb(0))
        if self.k > 8 and log2_abs(real.rad() + imaginary.rad()) > -40:
            size = (real * real / 4 + arb(self.k).sqrt() * abs(imaginary)).exp() * 1.09
            disk = arb(0, size.abs_upper() if size.is_finite() else arb.pos_inf())
            return density * (acb(disk, disk) if isinstance(x, acb) else disk)
        point = real if imaginary.is_zero() else x
        if self.k > 64:
            value = (point * self.half).hermite_h(self.k) * self.norm
            if value.is_finite():
                return density * value
        older, old = arb(0), arb(1)
        for j in range(self.k):
            older, old = old, point * self.roots[j] * old - self.ratios[j] * older
        return density * old

    def __call__(self, x: acb, analytic: bool) -> acb:
        value = self.f(x, analytic)
        if self.power == 2:
            value = value * value
        return value * self.weight(x)


class _Enclosure:
    def __init__(self, f: Expr, symbol: Symbol, k: int | None, goal: int) -> None:
        self.f, self.symbol, self.goal = f, symbol, goal
        self.k, self.power = (0, 2) if k is None else (k, 1)

    def compute(self) -> arb:
        T, tail = self.tail()
        panes = split(self.f, self.symbol, T)
        even = len(panes.panes) == 1 and self.symmetric()
        total = arb(0, tail)
        with precision(int(self.goal + 40 + 1.5 * T * math.sqrt(self.k))):
            for pane in panes:
                if pane.expression == 0:
                    continue
                low = pane.lower if order(pane.lower, sympy.Integer(-T)) > 0 else sympy.Integer(-T)
                high = pane.upper if order(pane.upper, sympy.Integer(T)) < 0 else sympy.Integer(T)
                if order(low, high) >= 0:
                    continue
                if even:
                    total += 2 * self.pane(Pane(sympy.Integer(0), high, pane.expression), panes)
                else:
                    total += self.pane(Pane(low, high, pane.expression), panes)
        return total

    def symmetric(self) -> bool:
        """Whether the integrand is even."""
        if self.power == 2:
            return hermite.parity(self.f, self.symbol) is not None
        return bool(hermite.parity(self.f, self.symbol) == (-1) ** self.k)

    def pane(self, pane: Pane, panes: Panes) -> arb:
        integrand = _Integrand(pane.expression, self.symbol, self.k, self.power)
        low, high = constant_ball(pane.lower), constant_ball(pane.upper)
        total = arb(0)
        wide = [end in panes.singular for end in (pane.lower, pane.upper)]
        if any(wide):
            middle = ((low + high) / 2).mid()
            for end, side, singular in ((pane.lower, 1, wide[0]), (pane.upper, -1, wide[1])):
                if singular:
                    total += self.corner(pane, end, side, middle)
                else:
                    ends = (low, middle) if side > 0 else (middle, high)
                    total += self.integral(integrand, *ends)
            return total
        return self.integral(integrand, low, high)

    def integral(self, g: Callable[[acb, bool], acb], low: arb, high: arb) -> arb:
        value = acb.integral(g, acb(low.mid()), acb(high.mid()), abs_tol=arb(2) ** -self.goal).real
        for end in (low, high):  # the ends are balls: so much may be missing
            if not end.is_exact():
                value += arb(0, (2 * end.rad() * abs(g(acb(end), False))).abs_upper())
        if not value.is_finite():
            raise PrecisionError(
                f"no proof for {sympy.sstr(self.f)} between {low.str(6, radius=False)} and "
                f"{high.str(6, radius=False)}; ask for digits instead of a certified ball"
            )
        return value

    def corner(self, pane: Pane, end: Expr, side: int, middle: arb) -> arb:
        """From a singular end to ``middle``, with t = end + side e^{-v}."""
        v = Symbol("v", real=True)
        inner = _expand_bases(pane.expression.subs(self.symbol, end + side * sympy.exp(-v)))
        start = -(abs(middle - constant_ball(end)).log())
        f, weight = compile_ball(inner, v), _Integrand(sympy.Integer(1), v, self.k, 1)
        corner = constant_ball(end)

        def g(x: acb, analytic: bool) -> acb:
            value, step = f(x, analytic), (-x).exp()
            if self.power == 2:
                value = value * value
            return value * step * weight.weight(corner + side * step)

        stop = int(float(start.mid())) + int(self.goal * math.log(2)) + 8
        for _ in range(40):
            m = _Majorant(v, float(stop), 1, partial(self.sampled_sign, v, float(stop)))
            bound = m(inner).upper
            if bound is not None and bound[2] <= 0 and self.power * bound[1] < 1 - 1e-6:
                size = self.power * bound[0] - stop - math.log(1 - self.power * bound[1])
                if size < -self.goal * math.log(2):
                    break
            stop += stop // 4 + 1
        else:
            raise PrecisionError(f"no proof for {sympy.sstr(pane.expression)} near {end}")
        near = corner + side * arb(0, 1) * (-arb(stop)).exp()
        rest = abs(weight.weight(near)).upper() * arb(size).exp()
        return self.integral(g, start, arb(stop)) + arb(0, rest.upper())

    def sampled_sign(self, symbol: Symbol, at: float, e: Expr) -> int:
        """The sign of a base that has no zero beyond ``at`` (its zeros are breakpoints)."""
        value = compile_ball(e, symbol)(arb(at), False)
        return 1 if value > 0 else -1 if value < 0 else 0

    def tail(self) -> tuple[int, arb]:
        """T, and a bound of what lies beyond [-T, T]."""
        T = reach(self.f, self.symbol, self.goal, self.k)
        for _ in range(60):
            panes = split(self.f, self.symbol, T)
            sizes = [self.tail_size(panes, T, side) for side in (-1, 1)]
            known = [s for s in sizes if s is not None]
            if len(known) == 2 and max(known) < -self.goal * math.log(2):
                return T, arb(max(known)).exp().upper() * 2
            T += max(2, T // 8)
        raise PrecisionError(
            f"no proven bound for the tail of {sympy.sstr(self.f)}; "
            "ask for digits instead of a certified ball"
        )

    def tail_size(self, panes: Panes, T: int, side: int) -> float | None:
        outer = panes.panes[-1 if side > 0 else 0]
        expression = outer.expression if panes.complete else self.f
        edge = outer.lower if side > 0 else outer.upper
        if expression == 0:
            return -1e9
        if panes.complete and edge.is_finite and order(abs(edge), sympy.Integer(T)) >= 0:
            return None
        at = float(side * T)
        m = _Majorant(self.symbol, at, side, partial(self.sampled_sign, self.symbol, at))
        upper = m(expression).upper
        if upper is None:
            return None
        a, b, c = (self.power * x for x in upper)
        # phi(t) |he_k(t)| <= t^k/sqrt(k!) phi(t) beyond the zeros, <= exp(-t^2/4)/2 anywhere
        known = [_half_line(a - T * T / 4 - math.log(2), b - T / 2, c - 0.25)]
        if T >= 2 * math.sqrt(self.k):
            size = self.k * math.log(T) - math.lgamma(self.k + 1) / 2
            known.append(_half_line(a - T * T / 2 + size, b - T + self.k / T, c - 0.5))
        return min((x for x in known if x is not None), default=None)


def _half_line(a: float, b: float, c: float) -> float | None:
    """log of a bound of the integral of exp(a + b u + c u^2) over u >= 0."""
    return a - math.log(-b) + 1e-6 if c <= -1e-9 and b <= -0.5 else None


def _expand_bases(e: Expr) -> Expr:
    """Arguments of logarithms and powers expanded, so that zeros at the end cancel on paper."""
    return e.replace(
        lambda x: isinstance(x, sympy.log) or (x.is_Pow and x.base.is_Add),
        lambda x: x.func(sympy.expand(x.args[0]), *x.args[1:]),
    )


def _proven_zero(f: Expr, symbol: Symbol, k: int) -> bool:
    even_odd = hermite.parity(f, symbol)
    return even_odd is not None and (-1) ** k != even_odd


def enclose(f: Expr, symbol: Symbol, k: int | None, digits: int) -> arb:
    """A ball that contains a_k (nu for k = None), with ``digits`` correct digits.

    Where nothing but zero is seen, the ball around it is below 10^-(digits + 30) in radius.
    Raises PrecisionError where a tail or a singularity is beyond the bounds known here.

    >>> t = Symbol("t", real=True)
    >>> print(enclose(sympy.tanh(t), t, 1, 20).str(20, radius=False))
    0.60570550960215882558
    """
    check_square_integrable(f, symbol)
    wanted = digits * BITS_PER_DIGIT + 4
    if k is not None and _proven_zero(f, symbol, k):
        return arb(0)
    exact = None
    if k is None:
        exact = hermite.exact_energy(f, symbol)
    else:
        exact = hermite.exact_coefficient(f, symbol, k)
    compute = _exact_ball(exact) if exact is not None else _integral_ball(f, symbol, k)
    goal, limit = wanted + 16, 2 * wanted + 400
    while True:
        value = compute(int(goal))
        if good_bits(value) >= wanted:
            return value
        size = log2_lower(value)
        if goal > limit:
            return value
        goal = goal + 64 - size if size > -math.inf else 1.5 * goal + 64


def _exact_ball(x: Expr) -> Callable[[int], arb]:
    def compute(goal: int) -> arb:
        with precision(goal + 20):
            return constant_ball(x)

    return compute


def _integral_ball(f: Expr, symbol: Symbol, k: int | None) -> Callable[[int], arb]:
    return lambda goal: _Enclosure(f, symbol, k, goal).compute()
