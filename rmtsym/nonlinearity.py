r"""The entry-wise nonlinearity f and its Hermite expansion.

With xi ~ N(0, 1) and he_k = He_k/sqrt(k!) (probabilists', orthonormal):

    a_k = E[f(xi) he_k(xi)],    nu = E f(xi)^2 = sum_k a_k^2.

``Nonlinearity`` holds one function and answers for these numbers in every form: closed form,
float, any number of digits, proven enclosure.  nu is not centred; ``centred()`` is f - a_0.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import mpmath
import numpy as np
import sympy
from flint import arb, ctx
from sympy import Expr, Symbol

from rmtsym import blackbox, hermite, quadrature
from rmtsym.balls import BITS_PER_DIGIT, Constant, compile_ball
from rmtsym.digits import Digits
from rmtsym.elementwise import compile_numpy
from rmtsym.errors import ConvergenceError, NonlinearityError, PrecisionError
from rmtsym.parsing import exact_number, parse

t = Symbol("t", real=True)
FLOAT_DIGITS = 17
CERTIFIED_DIGITS = 15
MAX_ORDER_FOR_SHARE = 512


class Mean(Constant):
    """The number E g(xi) where it has no closed form; known to any precision."""

    __slots__ = ("source",)

    def __new__(cls, source: Expr) -> Mean:
        self: Mean = super().__new__(cls)
        self.source = source
        return self

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.source,)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (Mean, (self.source,))

    def _sympystr(self, printer: Any) -> str:
        return f"E[{printer._print(self.source)}]"

    def _latex(self, printer: Any) -> str:
        return rf"\mathbb{{E}}\left[{printer._print(self.source)}\right]"

    def ball(self) -> arb:
        from rmtsym import enclosure

        digits = int(ctx.prec / BITS_PER_DIGIT) + 2
        try:
            return enclosure.enclose(self.source, t, 0, digits)
        except PrecisionError:  # no proof: the estimate, so the ball is only as good as that
            value = quadrature.moment(self.source, t, 0, digits)
        number = exact_number(value)
        middle = arb(int(number.p)) / arb(int(number.q))
        return middle + arb(0, abs(middle) * arb(2) ** (-ctx.prec))


class Nonlinearity:
    r"""A function f of one real variable, its Hermite coefficients and E f(xi)^2.

    f : SymPy expression in one symbol (the symbol ``t`` when there are parameters too), text such
        as ``"tanh(t)"``, a name of ``CATALOGUE``, a Nonlinearity, or a function of NumPy arrays
        (then double precision only, and features narrower than 1/1000, beyond |t| = 8 than 1/16,
        can be missed).

    Values are frozen and compare by f.  Raises NonlinearityError for text that is no formula, a
    complex f, and, at the first number asked for, for an infinite E f(xi)^2 or a parameter
    without a value.  R. O'Donnell, *Analysis of Boolean Functions*, section 11.2.

    >>> f = Nonlinearity("Max(t, 0)")
    >>> f.coefficient(1), f.exact_coefficient(2), f.exact_nu()
    (0.5, 1/(2*sqrt(pi)), 1/2)
    """

    __slots__ = ("_callable", "_expression", "_name")
    _expression: Expr | None
    _callable: Callable[[Any], Any] | None
    _name: str

    def __new__(cls, f: Any, name: str | None = None) -> Nonlinearity:
        if isinstance(f, Nonlinearity) and name in (None, f._name):
            return f
        self = super().__new__(cls)
        function, label = None, name
        if isinstance(f, Nonlinearity):
            expression, function = f._expression, f._callable
        elif isinstance(f, str) and f.strip().lower() in CATALOGUE:
            return CATALOGUE[f.strip().lower()]
        elif isinstance(f, str):
            expression = _canonical(_formula(f))
        elif isinstance(f, sympy.Lambda | sympy.FunctionClass):
            expression = _canonical(_of_one_variable(f))
        elif isinstance(f, sympy.Basic):
            expression = _canonical(f)
        elif callable(f) and not isinstance(f, type):
            expression, function = None, f
            label = label or getattr(f, "__name__", "callable")
        elif isinstance(f, int | float) and not isinstance(f, bool):
            expression = exact_number(f)
        else:
            raise NonlinearityError(
                f"expected a SymPy expression, a formula, a catalogue name or a function, "
                f"got {f!r} ({type(f).__name__})"
            )
        object.__setattr__(self, "_expression", expression)
        object.__setattr__(self, "_callable", function)
        object.__setattr__(self, "_name", label or sympy.sstr(expression))
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Nonlinearity is frozen; cannot set {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        content = self._callable if self._expression is None else self._expression
        return (Nonlinearity, (content, self._name))

    @classmethod
    def from_coefficients(
        cls, coefficients: Sequence[Any], name: str | None = None
    ) -> Nonlinearity:
        r"""The polynomial sum_k a_k he_k with the prescribed a_0, a_1, ...

        >>> Nonlinearity.from_coefficients([0, 1, "1/2"]).exact_coefficient(2)
        1/2
        """
        values = [exact_number(a) for a in coefficients]
        terms = [a * hermite.orthonormal(k, t) for k, a in enumerate(values)]
        return cls(sympy.expand(sympy.Add(*terms)), name)

    # what it is

    @property
    def expression(self) -> Expr | None:
        """f in the symbol ``t``; None for a NumPy function."""
        return self._expression

    @property
    def symbol(self) -> Symbol:
        """The variable of ``expression``."""
        return t

    @property
    def name(self) -> str:
        """The catalogue name, or the formula."""
        return self._name

    @property
    def parameters(self) -> tuple[Symbol, ...]:
        """Free symbols other than the variable, by name."""
        free = set() if self._expression is None else self._expression.free_symbols - {t}
        return tuple(sorted(free, key=lambda s: str(s.name)))

    @property
    def parity(self) -> int | None:
        """+1 for an even f, -1 for an odd one, None when neither is proven."""
        return None if self._expression is None else hermite.parity(self._expression, t)

    @property
    def is_centred(self) -> bool:
        """Whether a_0 = 0 is proven."""
        return self._expression is not None and self.exact_coefficient(0) == 0

    def __repr__(self) -> str:
        return f"Nonlinearity({self._name!r})"

    def __str__(self) -> str:
        return self._name

    def _repr_latex_(self) -> str:
        return f"${sympy.latex(self._expression)}$" if self._expression is not None else self._name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Nonlinearity):
            return NotImplemented
        return self._expression == other._expression and self._callable is other._callable

    def __hash__(self) -> int:
        return hash((self._expression, self._callable))

    def __call__(self, x: Any, out: Any = None) -> Any:
        """f applied entry by entry: float32 stays float32, all else is float64."""
        if self._callable is not None:
            result = np.asarray(self._callable(np.asarray(x)))
            if out is None:
                return result[()]
            out[...] = result
            return out
        return compile_numpy(self._valued(), t)(x, out)

    def _valued(self) -> Expr:
        """The expression, without parameters; the error names those that have no value."""
        if self._expression is None:
            raise PrecisionError(
                f"{self._name} is a NumPy function: double precision only; give a formula instead"
            )
        if self.parameters:
            names = ", ".join(str(p) for p in self.parameters)
            raise NonlinearityError(
                f"f = {sympy.sstr(self._expression)} has the free symbol(s) {names} beside t; "
                "write numbers in their place, or give them with "
                f".subs({{'{self.parameters[0]}': value}})"
            )
        return self._expression

    # numbers

    def coefficient(self, k: int, digits: int | None = None, certified: bool = False) -> Any:
        r"""a_k = E[f(xi) he_k(xi)]: float; mpf with ``digits`` correct digits; or a proven ball.

        >>> print(mpmath.nstr(Nonlinearity("cos(10*t)").coefficient(0, digits=20), 20))
        1.928749847963917783e-22
        """
        k = _order(k)
        if certified:
            return self._certified(k, digits)
        if digits is None:
            if self._callable is not None:
                return blackbox.coefficients(self._callable, range(k, k + 1))[0]
            return _float_moment(self._valued(), k)
        with mpmath.workdps(_digits(digits)):
            return Digits.of(_moment(self._valued(), k, digits), digits)

    def coefficients(self, count: int, digits: int | None = None) -> tuple[Any, ...]:
        """a_0, ..., a_(count-1)."""
        if self._callable is not None and digits is None:
            return tuple(blackbox.coefficients(self._callable, range(count)))
        if count <= quadrature.ORDERS_AT_ONCE:
            return tuple(self.coefficient(k, digits) for k in range(count))
        with mpmath.workdps(digits or FLOAT_DIGITS):
            wanted = _digits(digits or FLOAT_DIGITS)
            values = [_moment(self._valued(), k, wanted, count) for k in range(count)]
        return (
            tuple(values)
            if digits
            else tuple(_as_float(value, f"a_{k}") for k, value in enumerate(values))
        )

    def nu(self, digits: int | None = None, certified: bool = False) -> Any:
        """E f(xi)^2, not centred: float; mpf with ``digits`` correct digits; or a proven ball."""
        if certified:
            return self._certified(None, digits)
        if digits is None:
            if self._callable is not None:
                return blackbox.energy(self._callable)
            return _float_energy(self._valued())
        with mpmath.workdps(_digits(digits)):
            return Digits.of(_energy(self._valued(), digits), digits)

    def product_moment(self, other: Any, digits: int | None = None, certified: bool = False) -> Any:
        """E f(xi) g(xi), for two functions of the same variable."""
        g = Nonlinearity(other)
        if self._expression is None or g._expression is None:
            if digits is None and not certified:
                return blackbox.product(self, g)
            self._valued(), g._valued()
        if self == g:
            return self.nu(digits, certified)
        return Nonlinearity(_product(self._valued(), g._valued())).coefficient(0, digits, certified)

    def _certified(self, k: int | None, digits: int | None) -> arb:
        from rmtsym import enclosure

        return enclosure.enclose(self._valued(), t, k, digits or CERTIFIED_DIGITS)

    # closed forms

    def exact_coefficient(self, k: int) -> Expr | None:
        """a_k in closed form, or None; parameters stay symbols.

        >>> Nonlinearity("exp(beta*t)").exact_coefficient(2)
        sqrt(2)*beta**2*exp(beta**2/2)/2
        """
        f = self._admissible()
        return None if f is None else _exact_moment(f, _order(k))

    def exact_nu(self) -> Expr | None:
        """E f(xi)^2 in closed form, or None."""
        f = self._admissible()
        return None if f is None else hermite.exact_energy(f, t)

    def generating_function(self, s: Any) -> Expr | None:
        r"""F(s) = E f(xi + s) = sum_k a_k s^k/sqrt(k!) in closed form, or None."""
        f = self._admissible()
        return None if f is None else hermite.generating_function(f, t, s)

    def general_coefficient(self, k: Any) -> Expr | None:
        """a_k as an expression in the symbol ``k``, or None.

        >>> k = sympy.Symbol("k", integer=True, nonnegative=True)
        >>> Nonlinearity("exp(t)").general_coefficient(k)
        exp(1/2)/sqrt(factorial(k))
        """
        f = self._admissible()
        return (
            None
            if f is None
            else hermite.general_moment(f, t, sympy.sympify(k) if isinstance(k, int) else k)
        )

    def _admissible(self) -> Expr | None:
        """The expression; where it has no parameters, E f(xi)^2 is finite."""
        if self._expression is not None and not self.parameters:
            quadrature.check_square_integrable(self._expression, t)
        return self._expression

    # other functions

    def centred(self) -> Nonlinearity:
        """f - a_0."""
        if self._callable is not None:
            function, mean = self._callable, self.coefficient(0)
            return Nonlinearity(_Shifted(function, mean), f"{self._name} - a_0")
        return _centred(self)

    def scaled(self, tau: Any) -> Nonlinearity:
        """The function f(tau t)."""
        if self._callable is not None:
            function, factor = self._callable, float(tau)
            return Nonlinearity(lambda x: function(factor * x), f"{self._name} scaled")
        factor = tau if isinstance(tau, Expr) and tau.free_symbols else exact_number(tau)
        return Nonlinearity(self._valued_or_symbolic().subs(t, factor * t))

    def subs(self, values: Mapping[Any, Any]) -> Nonlinearity:
        """f with parameters given values; keys are symbols or their names.

        >>> Nonlinearity("tanh(beta*t)").subs({"beta": 2})
        Nonlinearity('tanh(2*t)')
        """
        expression = self._valued_or_symbolic()
        known = {str(p): p for p in self.parameters}
        for key, _value in values.items():
            if str(key) not in known:
                raise NonlinearityError(f"f = {sympy.sstr(expression)} has no parameter {key}")
        return Nonlinearity(
            expression.subs({known[str(key)]: exact_number(v) for key, v in values.items()})
        )

    def _valued_or_symbolic(self) -> Expr:
        return self._valued() if self._expression is None else self._expression

    # how much of nu

    def share(self, count: int) -> float:
        """The part of nu held by a_0, ..., a_(count-1).

        >>> Nonlinearity("t**2").share(2), Nonlinearity("t**2").share(3)
        (0.3333333333333333, 1.0)
        """
        return min(1.0, float(sum(a * a for a in self.coefficients(count)) / self.nu()))

    def order_for_share(self, share: float) -> int:
        """The least K such that a_0, ..., a_(K-1) hold the given share of nu.

        Raises ConvergenceError beyond 512 coefficients: kinks and jumps decay slowly.
        """
        goal, total = float(share), float(self.nu())
        if not 0 < goal <= 1:
            raise NonlinearityError(f"a share lies in (0, 1], got {share}")
        held, count, block = 0.0, 0, 16
        while count < MAX_ORDER_FOR_SHARE:
            for a in self.coefficients(block)[count:]:
                count += 1
                held += a * a
                if held >= goal * total * (1 - 1e-14):
                    return count
            block *= 2
        raise ConvergenceError(
            f"{count} coefficients of {self._name} hold {held / total:.6f} of nu, not {goal}"
        )

    def partial_sum(self, x: Any, count: int) -> Any:
        """sum_{k < count} a_k he_k(x) on an array x."""
        values = np.asarray(x, dtype=np.float64)
        older, old = np.zeros_like(values), np.ones_like(values)
        total = np.zeros_like(values)
        for k, a in enumerate(self.coefficients(count)):
            total += a * old
            older, old = old, (values * old - np.sqrt(k) * older) / np.sqrt(k + 1)
        return total

    def rows(self, order: int, digits: int | None = None) -> list[dict[str, Any]]:
        """``{"k", "exact", "value"}`` for k = 0, ..., order."""
        values = self.coefficients(order + 1, digits)
        return [
            {"k": k, "exact": self.exact_coefficient(k), "value": value}
            for k, value in enumerate(values)
        ]


class _Shifted:
    """A NumPy function minus a number; equal when both are."""

    def __init__(self, function: Callable[[Any], Any], mean: float) -> None:
        self.function, self.mean = function, mean

    def __call__(self, x: Any) -> Any:
        return np.asarray(self.function(x)) - self.mean


def _order(k: Any) -> int:
    if isinstance(k, bool) or int(k) != k or k < 0:
        raise NonlinearityError(f"k counts from 0, got {k!r}")
    return int(k)


def _digits(digits: int) -> int:
    if isinstance(digits, bool) or int(digits) != digits or digits < 1:
        raise NonlinearityError(f"digits is a positive integer, got {digits!r}")
    return int(digits)


def _applied(entry: Nonlinearity, argument: Expr) -> Expr:
    return entry._valued().subs(t, argument)


def _formula(text: str) -> Expr:
    """A formula in t (or in one other letter) and the catalogue's functions; a lone word is a
    name misspelt, never a variable."""
    f = parse(text, {name: partial(_applied, entry) for name, entry in CATALOGUE.items()})
    names = sorted(str(symbol.name) for symbol in f.free_symbols)
    for name in names:
        if name.lower() in CATALOGUE:
            formula = CATALOGUE[name.lower()].expression
            raise NonlinearityError(
                f"got {text!r}: {name} is a function of the catalogue; inside a formula write "
                f"{name}(t) or {sympy.sstr(formula)}"
            )
    if len(names) == 1 and len(names[0]) > 1:
        near = difflib.get_close_matches(names[0].lower(), CATALOGUE, n=1)
        hint = f"did you mean {near[0]}?" if near else "write a formula in t, such as tanh(t)"
        raise NonlinearityError(f"got {text!r}: unknown name {names[0]}; {hint}")
    return f


def _of_one_variable(f: Any) -> Expr:
    try:
        return f(t)
    except TypeError as error:
        raise NonlinearityError(f"{f} is not a function of one variable: {error}") from None


def _canonical(f: sympy.Basic) -> Expr:
    """f in the real symbol ``t``, exact numbers, real parameters; refuse what is no function."""
    if not isinstance(f, Expr):
        raise NonlinearityError(f"expected a function of one real variable, got {f}")
    free = sorted(f.free_symbols, key=lambda s: str(s.name))
    by_name = {str(s.name): s for s in free}
    variable = by_name.get("t") or (free[0] if len(free) == 1 else by_name.get("x"))
    if variable is None and free:
        raise NonlinearityError(
            f"{sympy.sstr(f)} has the symbols {', '.join(by_name)}; call the variable t"
        )
    table: dict[Any, Any] = {variable: t} if variable is not None else {}
    for symbol in free:
        if symbol is not variable and symbol.is_real is not True:
            table[symbol] = Symbol(str(symbol.name), real=True)
    table.update({x: exact_number(x) for x in f.atoms(sympy.Float)})
    f = f.subs(table, simultaneous=True) if table else f
    if f.has(sympy.I):
        real, imaginary = f.expand(complex=True).as_real_imag()
        if sympy.simplify(imaginary) != 0:
            raise NonlinearityError(f"f = {sympy.sstr(f)} is complex; it must be real")
        f = sympy.simplify(real)
    if f.has(sympy.oo, -sympy.oo, sympy.zoo, sympy.nan) and not f.has(sympy.Piecewise):
        raise NonlinearityError(f"f = {sympy.sstr(f)} is not finite")
    unknown = f.atoms(sympy.core.function.AppliedUndef)
    if unknown:
        raise NonlinearityError(f"unknown function {sorted(map(str, unknown))[0]}")
    f = f.replace(sympy.Heaviside, lambda x, *_: sympy.Heaviside(x))
    if not f.free_symbols - {t}:
        compile_ball(f, t)
    return f


@lru_cache(maxsize=1024)
def _exact_moment(f: Expr, k: int) -> Expr | None:
    means = f.atoms(Mean)
    if means:
        rest = f + sympy.Add(*(m for m in means))
        (mean,) = means if len(means) == 1 else (None,)
        if mean is not None and rest == mean.source:
            return sympy.Integer(0) if k == 0 else _exact_moment(rest, k)
        return (
            None if k == 0 else _exact_moment(f.xreplace({m: sympy.Integer(0) for m in means}), k)
        )
    return hermite.exact_coefficient(f, t, k)


def _moment(f: Expr, k: int, digits: int, together: int = quadrature.ORDERS_AT_ONCE) -> mpmath.mpf:
    quadrature.check_square_integrable(f, t)
    factor, g = _factored(f)
    if factor != 1:
        return quadrature.closed_value(factor, digits + 2) * _moment(g, k, digits + 2, together)
    even_odd = hermite.parity(f, t)
    if even_odd is not None and (-1) ** k != even_odd:
        return mpmath.mpf(0)
    exact = partial(_exact_moment, f, k)
    if k > hermite.LOW_ORDERS and together <= k:
        closed = exact()
        if closed is not None:
            return quadrature.closed_value(closed, digits)
    try:
        return quadrature.moment(f, t, k, digits, exact, together)
    except ConvergenceError:
        closed = exact()
        if closed is None:
            raise
        return quadrature.closed_value(closed, digits)


@lru_cache(maxsize=4096)
def _float_moment(f: Expr, k: int) -> float:
    return _as_float(_moment(f, k, FLOAT_DIGITS), f"a_{k}")


@lru_cache(maxsize=1024)
def _float_energy(f: Expr) -> float:
    energy = _energy(f, FLOAT_DIGITS)
    if 0 < energy < sys.float_info.min:
        raise NonlinearityError(
            f"nu = {mpmath.nstr(energy, 5)} is below double precision; scale f, or ask for digits"
        )
    return _as_float(energy, "nu")


def _as_float(value: mpmath.mpf, quantity: str) -> float:
    if abs(value) > sys.float_info.max:
        raise NonlinearityError(
            f"{quantity} = {mpmath.nstr(value, 5)} exceeds double precision; scale f, or ask for "
            "digits"
        )
    return float(value)


def _factored(f: Expr) -> tuple[Expr, Expr]:
    """A constant factor and the rest, so that accuracy is relative to the factor."""
    return f.as_independent(t, as_Add=False) if f.is_Mul and f.has(t) else (sympy.Integer(1), f)


def _energy(f: Expr, digits: int) -> mpmath.mpf:
    quadrature.check_square_integrable(f, t)
    factor, g = _factored(f)
    if factor != 1:
        return quadrature.closed_value(factor, digits + 2) ** 2 * _energy(g, digits + 2)
    exact = partial(hermite.exact_energy, f, t)
    try:
        return quadrature.energy(f, t, digits, exact)
    except ConvergenceError:
        closed = exact()
        if closed is None:
            raise
        return quadrature.closed_value(closed, digits)


@lru_cache(maxsize=256)
def _product(f: Expr, g: Expr) -> Expr:
    return f * g


@lru_cache(maxsize=256)
def _centred(f: Nonlinearity) -> Nonlinearity:
    expression = f._valued_or_symbolic()
    mean = f.exact_coefficient(0)
    if mean == 0:
        return f
    if mean is None:
        mean = Mean(f._valued())
    return Nonlinearity(expression - mean, f"{f.name} - a_0")


CATALOGUE: dict[str, Nonlinearity] = {}


def _entry(name: str, formula: str) -> Nonlinearity:
    entry = Nonlinearity(_canonical(parse(formula)), name)
    CATALOGUE[name] = entry
    return entry


def leaky_relu(slope: Any = "1/100") -> Nonlinearity:
    """max(t, 0) + slope min(t, 0).  A. L. Maas et al., 2013."""
    a = slope if isinstance(slope, Expr) else exact_number(slope)
    return Nonlinearity(sympy.Piecewise((t, t > 0), (a * t, True)))


def clip(low: Any = -1, high: Any = 1) -> Nonlinearity:
    """min(max(t, low), high)."""
    return Nonlinearity(sympy.Min(sympy.Max(t, exact_number(low)), exact_number(high)))


def soft_threshold(theta: Any) -> Nonlinearity:
    """sign(t) max(|t| - theta, 0).  D. L. Donoho, 1995."""
    return Nonlinearity(sympy.sign(t) * sympy.Max(sympy.Abs(t) - exact_number(theta), 0))


def hard_threshold(theta: Any) -> Nonlinearity:
    """t where |t| > theta, else 0."""
    return Nonlinearity(sympy.Piecewise((t, sympy.Abs(t) > exact_number(theta)), (0, True)))


def gaussian_bump(width: Any = 1) -> Nonlinearity:
    """exp(-t^2/(2 width^2))."""
    return Nonlinearity(sympy.exp(-(t**2) / (2 * exact_number(width) ** 2)))


IDENTITY = _entry("identity", "t")
SQUARE = _entry("square", "t^2")
CUBE = _entry("cube", "t^3")
HE2 = _entry("he2", "(t^2 - 1)/sqrt(2)")
HE3 = _entry("he3", "(t^3 - 3*t)/sqrt(6)")
RELU = _entry("relu", "Max(t, 0)")
LEAKY_RELU = _entry("leaky_relu", "Piecewise((t, t > 0), (t/100, True))")
ABS = _entry("abs", "Abs(t)")
SIGN = _entry("sign", "sign(t)")
HEAVISIDE = _entry("heaviside", "Heaviside(t)")
RELU_SQUARED = _entry("relu_squared", "Max(t, 0)^2")
RELU6 = _entry("relu6", "Min(Max(t, 0), 6)")
HARD_TANH = _entry("hard_tanh", "Min(Max(t, -1), 1)")
CLIP = _entry("clip", "Min(Max(t, -1), 1)")
HARD_SIGMOID = _entry("hard_sigmoid", "Min(Max(t + 3, 0), 6)/6")
HARDSWISH = _entry("hardswish", "t*Min(Max(t + 3, 0), 6)/6")
SOFT_THRESHOLD = _entry("soft_threshold", "sign(t)*Max(Abs(t) - 1, 0)")
HARD_THRESHOLD = _entry("hard_threshold", "Piecewise((t, Abs(t) > 1), (0, True))")
TERNARY = _entry("ternary", "Piecewise((-1, t < -1), (0, t < 1), (1, True))")
FLOOR = _entry("floor", "floor(t)")
EXP = _entry("exp", "exp(t)")
TRUNCATED_EXP = _entry("truncated_exp", "Min(exp(t), 5)")
ELU = _entry("elu", "Piecewise((t, t > 0), (exp(t) - 1, True))")
COS = _entry("cos", "cos(t)")
SIN = _entry("sin", "sin(t)")
GAUSSIAN = _entry("gaussian", "exp(-t^2/2)")
ERF = _entry("erf", "erf(t)")
GELU = _entry("gelu", "t*(1 + erf(t/sqrt(2)))/2")
GELU_TANH = _entry("gelu_tanh", "t*(1 + tanh(sqrt(2/pi)*(t + 0.044715*t^3)))/2")
TANH = _entry("tanh", "tanh(t)")
SIGMOID = _entry("sigmoid", "1/(1 + exp(-t))")
ATAN = _entry("atan", "atan(t)")
SOFTSIGN = _entry("softsign", "t/(1 + Abs(t))")
SOFTPLUS = _entry("softplus", "log(1 + exp(t))")
SILU = _entry("silu", "t/(1 + exp(-t))")
SWISH = _entry("swish", "t/(1 + exp(-t))")
MISH = _entry("mish", "t*tanh(log(1 + exp(t)))")
