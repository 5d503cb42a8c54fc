"""SymPy expressions as functions of rigorous balls.

One compiled function serves real balls (``flint.arb``) and complex balls (``flint.acb``), at
whatever precision is current.  With ``analytic=True`` a complex result is non-finite wherever
the function is not analytic on the whole ball, as F. Johansson's integration algorithm asks
(arXiv:1802.07942).  Constants that only a computation can give (a root, a mean) are SymPy atoms
of the class ``Constant``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, reduce
from typing import Any

import mpmath
import sympy
from flint import acb, arb, ctx, fmpq, fmpz
from sympy import Expr, Symbol

from rmtsym.errors import NonlinearityError

Ball = Any  # flint.arb or flint.acb
BallFunction = Callable[[Ball, bool], Ball]

BITS_PER_DIGIT = math.log2(10)


class Constant(sympy.core.expr.AtomicExpr):  # type: ignore[misc]
    """A real number known by a computation to any precision: ``ball()`` at the current one."""

    is_real = True
    is_commutative = True
    is_number = True

    def ball(self) -> arb:
        raise NotImplementedError

    def _eval_evalf(self, prec: int) -> Expr:
        with precision(prec + 10):
            return sympy.Float(to_mpf(self.ball(), prec), precision=prec)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Balls of so many bits inside; the caller's precision afterwards, whatever happens."""
    before = ctx.prec
    ctx.prec = max(int(bits), 16)
    try:
        yield
    finally:
        ctx.prec = before


def to_mpf(x: arb, bits: int) -> mpmath.mpf:
    """The midpoint of a real ball, rounded to ``bits`` bits."""
    mantissa, exponent = x.mid().man_exp()
    raw = mpmath.libmp.from_man_exp(int(mantissa), int(exponent), bits, "n")
    return mpmath.mp.make_mpf(raw)


def good_bits(x: arb) -> float:
    """Relative accuracy of a ball in bits; infinite for an exact one."""
    if not x.is_finite():
        return -math.inf
    if x.is_exact():
        return math.inf
    return -math.inf if x.contains(0) else float(x.rel_accuracy_bits())


def _log2(exact: arb) -> float:
    mantissa, exponent = exact.man_exp()
    try:
        return math.log2(abs(int(mantissa))) + int(exponent)
    except OverflowError:
        return math.inf if exponent > 0 else -math.inf


def log2_abs(x: arb) -> float:
    """log2 of an upper bound of \\|x\\|; -inf for zero, inf when nothing is known."""
    if not x.is_finite():
        return math.inf
    top = x.abs_upper()
    return -math.inf if top.is_zero() else _log2(top)


def log2_lower(x: arb) -> float:
    """log2 of a lower bound of \\|x\\|; -inf when the ball contains zero."""
    if not x.is_finite():
        return -math.inf
    bottom = x.abs_lower()
    return -math.inf if bottom.is_zero() else _log2(bottom)


def _guarded(method: str, *cut: Callable[[acb], acb]) -> Callable[[Ball, bool], Ball]:
    """The function, non-finite where ``cut(z)`` meets the negative real axis."""

    def function(x: Ball, analytic: bool) -> Ball:
        if analytic and isinstance(x, acb):
            for inside in cut:
                if not inside(x).log(analytic=True).is_finite():
                    return acb("nan")
        return getattr(x, method)()

    return function


def _log(x: Ball, analytic: bool) -> Ball:
    return x.log(analytic=analytic) if isinstance(x, acb) else x.log()


def _sqrt(x: Ball, analytic: bool) -> Ball:
    return x.sqrt(analytic=analytic) if isinstance(x, acb) else x.sqrt()


def _sinc(x: Ball, analytic: bool) -> Ball:
    return x.sinc()


def _real(name: str, action: Callable[[arb], arb]) -> Callable[[Ball, bool], Ball]:
    def function(x: Ball, analytic: bool) -> Ball:
        return acb("nan") if isinstance(x, acb) else action(x)

    return function


_ENTIRE = ("exp sin cos tan cot sec csc sinh cosh tanh coth sech csch erf erfc erfi gamma").split()
_FUNCTIONS: dict[Any, Callable[[Ball, bool], Ball]] = {
    **{getattr(sympy, name): _guarded(name) for name in _ENTIRE},
    sympy.log: _log,
    sympy.sinc: _sinc,
    sympy.atan: _guarded("atan", lambda z: 1 + z * z),
    sympy.asinh: _guarded("asinh", lambda z: 1 + z * z),
    sympy.asin: _guarded("asin", lambda z: 1 - z * z),
    sympy.acos: _guarded("acos", lambda z: 1 - z * z),
    sympy.atanh: _guarded("atanh", lambda z: 1 - z * z),
    sympy.acosh: _guarded("acosh", lambda z: z - 1),
    sympy.acot: lambda x, analytic: _FUNCTIONS[sympy.atan](1 / x, analytic),
    sympy.Abs: _real("Abs", abs),
    sympy.sign: _real("sign", lambda x: x.sgn()),
    sympy.floor: _real("floor", lambda x: x.floor()),
    sympy.ceiling: _real("ceiling", lambda x: x.ceil()),
    sympy.Heaviside: _real("Heaviside", lambda x: (x.sgn() + 1) / 2),
}


def constant_ball(x: Expr) -> arb:
    """The real number ``x`` as a ball of the current precision.

    >>> with precision(64):
    ...     print(constant_ball(sympy.sqrt(2)).str(10, radius=False))
    1.414213562
    """
    return _constant_ball(x, ctx.prec)


@lru_cache(maxsize=4096)
def _constant_ball(x: Expr, bits: int) -> arb:
    if isinstance(x, Constant):
        return x.ball()
    if x.is_Integer:
        return arb(int(x))
    if x.is_Rational:
        return arb(fmpq(int(x.p), int(x.q)))
    if x is sympy.pi:
        return arb.pi()
    if x is sympy.E:
        return arb(1).exp()
    if x is sympy.EulerGamma:
        return arb.const_euler()
    if x is sympy.Catalan:
        return arb.const_catalan()
    if x is sympy.GoldenRatio:
        return (1 + arb(5).sqrt()) / 2
    if isinstance(x, sympy.polys.rootoftools.ComplexRootOf):
        step = sympy.Rational(1, 2 ** (bits + 5))
        middle = x.eval_rational(step)
        return arb(fmpq(int(middle.p), int(middle.q)), arb(2) ** (-bits - 4))
    value = _tree(x, None)(arb(0), False)
    if isinstance(value, acb):
        if not value.imag.contains(0):
            raise NonlinearityError(f"the constant {sympy.sstr(x)} is not real")
        value = value.real
    return value


def relative_ball(x: Expr, bits: float) -> arb:
    """The real number ``x`` with so many correct bits, or exactly zero.

    A number that stays below 2^-100000 in the working precision is returned as it is seen.
    """
    if x.is_zero:
        return arb(0)
    work = int(bits) + 32
    while True:
        with precision(work):
            value = constant_ball(x)
        if good_bits(value) >= bits or work > 100_000:
            return value
        work *= 2


def _tree(e: Expr, symbol: Symbol | None) -> BallFunction:
    if e == symbol:
        return lambda x, analytic: x
    if e.is_Integer:
        integer = fmpz(int(e))
        return lambda x, analytic: integer
    if e.is_Rational:
        rational = fmpq(int(e.p), int(e.q))
        return lambda x, analytic: rational
    if e is sympy.I:
        return lambda x, analytic: acb(0, 1)
    if not e.args or isinstance(e, sympy.polys.rootoftools.ComplexRootOf):
        if e.is_Symbol or not e.is_number:
            raise NonlinearityError(
                f"the symbol {sympy.sstr(e)} has no value; give one with .subs({{...: value}})"
            )
        if e.is_real is not True:
            raise NonlinearityError(f"{sympy.sstr(e)} is not a real number")
        return lambda x, analytic: constant_ball(e)
    if symbol is not None and not e.has(symbol):
        tuple(_tree(e, None) for _ in (0,))  # an unknown symbol is reported now, not later
        return lambda x, analytic: constant_ball(e)
    if e.is_Pow:
        return _power(e, symbol)
    if isinstance(e, sympy.Piecewise):
        return _piecewise(e, symbol)
    parts = [_tree(a, symbol) for a in e.args]
    if e.is_Add:
        first, *rest = parts

        def total(x: Ball, analytic: bool) -> Ball:
            value = first(x, analytic)
            for part in rest:
                value = value + part(x, analytic)
            return value

        return total
    if e.is_Mul:
        head, *tail = parts

        def product(x: Ball, analytic: bool) -> Ball:
            value = head(x, analytic)
            for part in tail:
                value = value * part(x, analytic)
            return value

        return product
    if e.func in (sympy.Max, sympy.Min):
        name = "max" if e.func is sympy.Max else "min"

        def extreme(x: Ball, analytic: bool) -> Ball:
            values = [_as_ball(part(x, analytic)) for part in parts]
            return reduce(lambda u, v: getattr(u, name)(v), values)

        return extreme
    if e.func is sympy.log and (split := _one_exponential(e.args[0], symbol)):
        return _log_of(*split)
    if e.func in _FUNCTIONS and len(parts) == 1:
        function, (argument,) = _FUNCTIONS[e.func], parts
        return lambda x, analytic: function(_as_ball(argument(x, analytic)), analytic)
    if e.func is sympy.frac:
        return lambda x, analytic: parts[0](x, analytic) - _as_ball(parts[0](x, analytic)).floor()
    if e.func is sympy.Mod:

        def modulo(x: Ball, analytic: bool) -> Ball:
            u, m = _as_ball(parts[0](x, analytic)), _as_ball(parts[1](x, analytic))
            return u - m * (u / m).floor()

        return modulo
    if e.func is sympy.Heaviside:
        function, argument = _FUNCTIONS[e.func], parts[0]
        return lambda x, analytic: function(_as_ball(argument(x, analytic)), analytic)
    raise NonlinearityError(f"the function {e.func.__name__} is not known here")


def _condition(c: Any, symbol: Symbol | None) -> Callable[[arb], bool]:
    if c in (True, False):
        return lambda x: bool(c)
    if isinstance(c, sympy.Not):
        inner = _condition(c.args[0], symbol)
        return lambda x: not inner(x)
    if isinstance(c, sympy.And | sympy.Or):
        parts = [_condition(a, symbol) for a in c.args]
        gather = all if isinstance(c, sympy.And) else any
        return lambda x: gather(part(x) for part in parts)
    difference = _tree(c.lhs - c.rhs, symbol)
    wanted = {"<": -1, "<=": -1, ">": 1, ">=": 1, "==": 0, "!=": 2}[c.rel_op]

    def holds(x: arb) -> bool:
        value = _as_ball(difference(x, False)).mid()
        sign = 0 if value == 0 else 1 if value > 0 else -1
        return sign == wanted or (wanted == 2 and sign != 0) or (sign == 0 and "=" == c.rel_op[-1])

    return holds


def _piecewise(e: Expr, symbol: Symbol | None) -> BallFunction:
    """At a point: the branch its midpoint falls in."""
    branches = [(_tree(value, symbol), _condition(c, symbol)) for value, c in e.args]

    def choose(x: Ball, analytic: bool) -> Ball:
        for value, condition in branches:
            if condition(x):
                return value(x, analytic)
        return arb("nan")

    return choose


def _as_ball(x: Ball) -> Ball:
    return x if isinstance(x, arb | acb) else arb(x)


def integer_power(x: Ball, n: int) -> Ball:
    """x^n by repeated squaring: exact on balls around zero, where ``x**n`` may be nan."""
    if n < 0:
        return 1 / integer_power(x, -n)
    result = None
    while n:
        if n & 1:
            result = x if result is None else result * x
        n >>= 1
        x = x * x if n else x
    return arb(1) if result is None else result


_RECIPROCALS = {
    sympy.cosh: sympy.sech, sympy.sinh: sympy.csch, sympy.cos: sympy.sec, sympy.sin: sympy.csc,
}  # fmt: skip


def _one_exponential(e: Expr, symbol: Symbol | None) -> tuple[BallFunction, ...] | None:
    """(c, d, g) where e = c + d exp(g) with constants c and d, else None."""
    if symbol is None or not e.is_Add:
        return None
    c, rest = e.as_independent(symbol, as_Add=True)
    d, power = rest.as_independent(symbol, as_Add=False)
    if c == 0 or not isinstance(power, sympy.exp):
        return None
    return _tree(c, symbol), _tree(d, symbol), _tree(power.args[0], symbol)


def _reciprocal(c: BallFunction, d: BallFunction, g: BallFunction) -> BallFunction:
    """1/(c + d exp(g)): where exp(g) is large and winds round zero, by exp(-g)."""

    def function(x: Ball, analytic: bool) -> Ball:
        v = _as_ball(g(x, analytic))
        if (v.real if isinstance(v, acb) else v).mid() > 0:
            u = (-v).exp()
            return u / (c(x, analytic) * u + d(x, analytic))
        return 1 / (c(x, analytic) + d(x, analytic) * v.exp())

    return function


def _log_of(c: BallFunction, d: BallFunction, g: BallFunction) -> BallFunction:
    """log(c + d exp(g)), likewise."""

    def function(x: Ball, analytic: bool) -> Ball:
        v = _as_ball(g(x, analytic))
        if (v.real if isinstance(v, acb) else v).mid() > 0:
            return v + _log(_as_ball(c(x, analytic) * (-v).exp() + d(x, analytic)), analytic)
        return _log(_as_ball(c(x, analytic) + d(x, analytic) * v.exp()), analytic)

    return function


def _power_of(below: BallFunction, n: int) -> BallFunction:
    return lambda x, analytic: integer_power(_as_ball(below(x, analytic)), n)


def _power(e: Expr, symbol: Symbol | None) -> BallFunction:
    base, exponent = e.args
    if base.func in _RECIPROCALS and exponent.is_Integer and exponent < 0:
        # finite where the function itself winds round zero
        return _power_of(_tree(_RECIPROCALS[base.func](base.args[0]), symbol), -int(exponent))
    if base is sympy.E:
        inner = _tree(exponent, symbol)
        return lambda x, analytic: _as_ball(inner(x, analytic)).exp()
    below = _tree(base, symbol)
    if exponent.is_Integer and exponent < 0 and (parts := _one_exponential(base, symbol)):
        return _power_of(_reciprocal(*parts), -int(exponent))
    if exponent.is_Integer:
        return _power_of(below, int(exponent))
    if exponent == sympy.S.Half:
        return lambda x, analytic: _sqrt(_as_ball(below(x, analytic)), analytic)
    if exponent == -sympy.S.Half:
        return lambda x, analytic: 1 / _sqrt(_as_ball(below(x, analytic)), analytic)
    above = _tree(exponent, symbol)

    def power(x: Ball, analytic: bool) -> Ball:
        b, p = _as_ball(below(x, analytic)), above(x, analytic)
        return b.pow(p, analytic=analytic) if isinstance(b, acb) else b**p

    return power


@lru_cache(maxsize=1024)
def compile_ball(expression: Expr, symbol: Symbol) -> BallFunction:
    """``expression`` as a function ``(x, analytic)`` of one real or complex ball.

    Raises NonlinearityError for a function outside the vocabulary or a symbol without a value.

    >>> t = Symbol("t", real=True)
    >>> compile_ball(t**2 + 1, t)(arb(2), False)
    5.00000000000000
    """
    tree = _tree(expression, symbol)
    return lambda x, analytic: _as_ball(tree(x, analytic))
