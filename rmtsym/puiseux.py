r"""Exact series of a limit at the ends of a parameter's range, in symbols.

    value ~ k_0 x^{p_0} + k_1 x^{p_1} + ...,    x -> 0+ or infinity,    k_i exact in the others.

Every limit o is a root of one polynomial P(o, t) = sum a_ij t^i o^j, t = x or 1/x, by
:mod:`rmtsym.elimination`. Newton's polygon: a root o ~ k t^p makes the least i + p j meet twice,
and k is a root of the sum of these a_ij k^j. If it is simple, Newton's method in series gives
all further terms; if not, o = t^p (k + z) and z is a root of the next polygon. Which edge and which
k are physical is read from the solution at one point, in many digits at tiny t.

Coefficients live in K[f^{1/q}]: K the rational functions of the parameters, f irreducible and
positive at that point. Products of powers f^e, 0 <= e < 1, of distinct f are independent over K
(A. Besicovitch, J. London Math. Soc. 15 (1940); L. Mordell, Pacific J. Math. 3 (1953)), so zero is
recognised exactly.

Source: V. Puiseux, J. Math. Pures Appl. 15 (1850); R. Walker, Algebraic Curves (1950), chapter IV.

>>> from rmtsym.models.marchenko_pastur import MARCHENKO_PASTUR, c, gamma
>>> print(exact_series(MARCHENKO_PASTUR.system, gamma))
1/(1 - c) - 1/(1 - c)^3*gamma + O(gamma^2)
>>> print(exact_series(MARCHENKO_PASTUR.system, gamma, region={c: 2}))
(c - 1)/c*gamma^(-1) + 1/(c*(c - 1)) + O(gamma)
>>> print(exact_series(MARCHENKO_PASTUR.system, gamma, values={c: 1}))
gamma^(-1/2) - 1/2 + O(gamma^(1/2))
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

import mpmath
import sympy as sp
from sympy.polys.matrices import DomainMatrix
from sympy.polys.polyerrors import CoercionFailed

from rmtsym.elimination import polynomial, specialise
from rmtsym.errors import (
    BudgetError,
    ConvergenceError,
    InputError,
    PrecisionError,
    UnsupportedError,
)
from rmtsym.precision import exact_values, refine
from rmtsym.system import FixedPointSystem

__all__ = ["ExactSeries", "exact_series"]

EXPONENT = 20
"""The branch is read at t = 10^-20 and half of it."""
DIGITS = 180
SPIKES = 3
"""Linear equations of spikes that are solved in symbols."""
LONGEST = 24
"""Powers of t, relative to the first, after which a vanishing sum is taken as it stands."""
NUMERIC = "rmtsym.series gives it in numbers"

Monomial: TypeAlias = frozenset[tuple[sp.Expr, Fraction]]
ONE: Monomial = frozenset()


@dataclass(frozen=True)
class ExactSeries:
    """``terms`` as (exponent, coefficient) in powers of ``variable``; the rest is O(x^order).

    An order of None: nothing is left out.
    ``region`` is the point of the other parameters at which the physical branch was chosen: the
    coefficients hold around it, as far as none of their denominators and radicands vanishes.
    """

    variable: sp.Symbol
    terms: tuple[tuple[Fraction, sp.Expr], ...]
    order: Fraction | None
    region: tuple[tuple[sp.Symbol, sp.Expr], ...]

    @property
    def leading(self) -> tuple[Fraction, sp.Expr]:
        """Exponent and coefficient of the first term."""
        return self.terms[0]

    @property
    def expression(self) -> sp.Expr:
        """The terms summed, as SymPy."""
        return sp.Add(*(k * self.variable ** sp.Rational(p) for p, k in self.terms))

    def __call__(self, x: Any, values: Mapping[Any, Any] | None = None) -> float:
        """The terms summed at a value of the variable and of the parameters that are left."""
        given, _ = exact_values({self.variable: x, **(values or {})})
        names = {str(s): v for s, v in given.items()}
        expression = self.expression
        missing = sorted({str(s) for s in expression.free_symbols} - set(names))
        if missing:
            raise InputError(f"got no value for {', '.join(missing)}; pass values={{...}}")
        used = {s: names[str(s)] for s in expression.free_symbols}
        return float(expression.xreplace(used).evalf(30))

    def __str__(self) -> str:
        pieces = []
        for exponent, value in self.terms:
            negative = value.as_coeff_Mul()[0] < 0
            text = _written(sp.factor_terms(-value) if negative else value)
            power = self._power(exponent)
            text = power if text == "1" and power else f"{text}*{power}".removesuffix("*")
            pieces.append(f"{'-' if negative else '+'} {text}")
        if self.order is not None:
            pieces.append(f"+ O({self._power(self.order) or '1'})")
        text = " ".join(pieces).removeprefix("+ ")
        return f"-{text[2:]}" if text.startswith("- ") else text

    def _power(self, exponent: Fraction) -> str:
        if exponent in (0, 1):
            return str(self.variable) if exponent else ""
        plain = exponent > 0 and exponent.denominator == 1
        return f"{self.variable}^{exponent}" if plain else f"{self.variable}^({exponent})"

    def _repr_latex_(self) -> str:
        x = sp.latex(self.variable)
        total = " + ".join(
            rf"{sp.latex(k)} \, {x}^{{{sp.latex(sp.Rational(p))}}}" for p, k in self.terms
        )
        if self.order is None:
            return rf"$${total}$$"
        return rf"$${total} + O({x}^{{{sp.latex(sp.Rational(self.order))}}})$$"


def _written(value: sp.Expr) -> str:
    """A coefficient in plain text, ready for a factor to follow."""
    if value.is_Pow and value.exp.is_Integer and value.exp < -1:
        text = f"1/{1 / value}"
    else:
        text = f"({value})" if value.is_Add else str(value)
    return text.replace("**", "^")


class _Short(Exception):
    """Too few orders are known; the expansion is made again with more."""


class _Boundary(Exception):
    """A coefficient that shapes the polygon vanishes at the sample."""


class _Root(Exception):
    """An algebraic number has to join the field of coefficients."""


def exact_series(
    system: FixedPointSystem,
    variable: Any,
    *,
    values: Mapping[Any, Any] | None = None,
    at: str = "zero",
    terms: int = 2,
    region: Mapping[Any, Any] | None = None,
    budget: float = 30.0,
) -> ExactSeries:
    r"""The series of the value in ``variable`` at "zero" or "infinity", exact in the parameters.

    Parameters
    ----------
    values : exact numbers for some of the parameters; all others stay symbols. A place where
        regimes meet has to be given here: ``{c: 1}`` for p = n.
    terms : how many terms that do not vanish.
    region : numbers for symbols that stay, to say in which region they lie: ``{c: 2}`` means p > n.
        Symbols without a number get ``a_k = 1/3``, ``nu = 1``, inner products of distinct vectors
        1/7, the others in order of name 1/2, 2/3, 4/5, 6/7, 10/11, ... (so that p < n), times 4/5,
        3 or 10 where there is no solution or regimes meet. The result's ``region`` says which.
    budget : seconds of work allowed; elimination stops there, the expansion at its next step.

    Raises
    ------
    BudgetError
        if the elimination or the expansion ran out of time.
    UnsupportedError
        where a coefficient has no closed form (a root of a polynomial of degree 3 and more, unless
        all parameters are numbers), and for systems that elimination cannot take.
    ConvergenceError
        if no physical solution is found near this end.
    InputError
        for a region on the boundary of two regimes, and for names that are no parameters.

    >>> from rmtsym.models.regression import REGRESSION, c, gamma
    >>> print(exact_series(REGRESSION.system, gamma, at="infinity"))
    1 - 2*(c + mu.mu)*gamma^(-1) + O(gamma^(-2))
    >>> found = exact_series(REGRESSION.system, gamma, terms=1)
    >>> print(found, "at", dict(found.region))
    (1 - c)/(mu.mu + 1) + O(gamma^2) at {c: 1/2, mu.mu: 2/3}
    """
    if at not in ("zero", "infinity"):
        raise InputError(f"got at={at!r}; expected 'zero' or 'infinity'")
    if isinstance(terms, bool) or not isinstance(terms, int) or terms < 1:
        raise InputError(f"got terms={terms!r}; expected a whole number, at least 1")
    deadline = time.monotonic() + budget
    names = {str(s): s for s in system.parameters}
    symbol = _named(names, [variable])[0]
    fixed = _numbers(names, values or {})
    wanted = _numbers(names, region or {})
    for given, value in (*fixed.items(), *wanted.items()):
        if (given.is_positive and not value > 0) or (given.is_nonnegative and not value >= 0):
            sign = ">" if given.is_positive else ">="
            raise InputError(f"got {given} = {value}; it must be {sign} 0")
    if symbol in fixed or symbol in wanted:
        raise InputError(f"got a value for {symbol}, the variable of the series; leave it out")
    if both := set(fixed) & set(wanted):
        raise InputError(f"got {', '.join(map(str, both))} in values and in region; choose one")
    # Differentiation comes before the value; an irrational number is no element of K.
    slopes = {v for _, _, v in system.derivatives}
    held = {s: v for s, v in fixed.items() if s in slopes or not v.is_Rational}
    exact = {s: v for s, v in fixed.items() if s not in held}
    special = _fill(specialise(system, exact), exact) if exact else system
    used = {s: v for s, v in held.items() if s in special.parameters}
    if symbol not in special.parameters:
        raise UnsupportedError(f"the value does not depend on {symbol} at these values")
    problem = _Problem(special, symbol, at, used, deadline, budget)
    return problem.solved(wanted, terms)


def _named(names: Mapping[str, sp.Symbol], given: Iterable[Any]) -> list[sp.Symbol]:
    found = []
    for key in given:
        if str(key) not in names:
            raise InputError(f"got {key}; the parameters are {', '.join(names)}")
        found.append(names[str(key)])
    return found


def _numbers(names: Mapping[str, sp.Symbol], given: Mapping[Any, Any]) -> dict[Any, sp.Expr]:
    exact, _ = exact_values(given)
    return dict(zip(_named(names, exact), exact.values(), strict=True))


def _fill(system: FixedPointSystem, values: Mapping[sp.Symbol, sp.Expr]) -> FixedPointSystem:
    """Values put where the expression does not show them: inner products, sizes."""

    def put(x: Any) -> Any:
        if isinstance(x, sp.Basic):
            return x.subs(values) if isinstance(x, sp.Expr) else x
        if isinstance(x, tuple):
            return tuple(map(put, x))
        if is_dataclass(x) and x.__class__.__module__ in ("rmtsym.system", "rmtsym.pencil"):
            changed: Any = {f.name: put(getattr(x, f.name)) for f in fields(x)}
            return x.__class__(**changed)
        return x

    return replace(
        system,
        sizes=put(system.sizes),
        components=put(system.components),
        limits=put(system.limits),
        formula=put(system.formula),
    )


def _limits(system: FixedPointSystem, used: list[int]) -> dict[int, sp.Expr]:
    """Limits as themselves; where spikes have equations of their own, in the unknowns."""
    if not system.spike_equations:
        return {k: system.linearization.symbols[k] for k in used}
    equations = list(system.spike_equations)
    refusal = UnsupportedError(
        f"got a system with {len(equations)} linear equations of spikes, too many to solve in "
        f"symbols; give inner products that vanish as values={{...}}; {NUMERIC}"
    )
    names = sorted(
        {s for e in equations for s in e.free_symbols if s.name.startswith("sigma_")}, key=str
    )
    matrix, right = sp.linear_eq_to_matrix(equations, names)
    if len(names) > SPIKES and any(x.free_symbols - set(system.parameters) for x in matrix):
        raise refusal
    solution = dict(zip(names, matrix.LUsolve(right), strict=True))
    found = {k: sp.cancel(system.outputs[k].subs(solution)) for k in used}
    # Entries of g that feed no self-energy follow from the unknowns, one after the other.
    known = {*system.parameters, *system.unknowns}
    extra: dict[sp.Symbol, sp.Expr] = {}
    for _ in system.equations:
        for equation in system.equations:
            e = sp.expand(equation.subs(extra))
            new = e.free_symbols - known
            if len(new) == 1 and sp.degree(e, s := new.pop()) == 1:
                extra[s] = -e.coeff(s, 0) / e.coeff(s, 1)
    found = {k: sp.cancel(e.subs(extra)) for k, e in found.items()}
    if any(e.free_symbols - known for e in found.values()):
        raise refusal
    return found


class _Problem:
    """One system, one variable, one end: polynomials once, then the expansion in a region."""

    def __init__(
        self,
        system: FixedPointSystem,
        variable: sp.Symbol,
        at: str,
        held: Mapping[sp.Symbol, sp.Expr],
        deadline: float,
        budget: float,
    ) -> None:
        self.system, self.variable, self.held = system, variable, held
        self.sign = 1 if at == "zero" else -1
        self.deadline, self.budget = deadline, budget
        self.free = tuple(s for s in system.parameters if s not in (variable, *held))
        self.context = mpmath.MPContext()
        self.context.dps = DIGITS + 20
        self.times = [sp.Rational(1, 10**EXPONENT * 2**j) for j in range(2)]
        self.ts = [1 / self.context.mpf(int(t.q)) for t in self.times]
        self.polynomials: dict[sp.Symbol, sp.Expr] = {}
        names = {s: k for k, s in enumerate(system.linearization.symbols)}
        slopes = {s: (k, v) for s, k, v in system.derivatives}
        self.slopes = {s: kv for s, kv in slopes.items() if s in system.formula.free_symbols}
        self.names = {s: k for s, k in names.items() if s in system.formula.free_symbols}
        used = sorted({*self.names.values(), *(k for k, _ in self.slopes.values())})
        self.limits = _limits(system, used)
        found = {s for e in self.limits.values() for s in e.free_symbols}
        self.targets = sorted(found - set(system.parameters), key=str)

    def check(self) -> None:
        if time.monotonic() > self.deadline:
            raise BudgetError(
                f"got no exact series within {self.budget:g} seconds; give parameters exact "
                f"values (values={{...}}) or more time (budget=...); {NUMERIC}"
            )

    def eliminate(self, sample: Mapping[sp.Symbol, sp.Expr]) -> None:
        for target in self.targets:
            if target in self.polynomials:
                continue
            self.check()
            left = self.deadline - time.monotonic()
            try:
                try:
                    found = polynomial(self.system, target, budget=left)
                except ConvergenceError:
                    # Some parameters have a solution near the end only.
                    near = sp.Rational(10) ** -self.sign
                    point = {**sample, self.variable: near}
                    found = polynomial(self.system, target, at=point, budget=left)
            except BudgetError as error:
                raise BudgetError(
                    f"elimination gave no polynomial for {target} within "
                    f"{self.budget:g} seconds; give parameters exact values (values={{...}}) or "
                    f"more time (budget=...); {NUMERIC}"
                ) from error
            except UnsupportedError as error:
                raise UnsupportedError(f"{error}; {NUMERIC}") from error
            self.polynomials[target] = found

    def solved(self, wanted: Mapping[sp.Symbol, sp.Expr], terms: int) -> ExactSeries:
        last: Exception | None = None
        for scale in (sp.Integer(1), sp.Rational(4, 5), sp.Integer(3), sp.Integer(10)):
            sample = self.sample(wanted, scale)
            try:
                self.eliminate(sample)
                return self.within(sample, terms)
            except (_Boundary, ConvergenceError) as error:
                last = error
                if set(self.free) <= set(wanted):
                    break
        point = ", ".join(f"{s} = {v}" for s, v in sample.items()) or "the values given"
        end = "0" if self.sign == 1 else "infinity"
        if isinstance(last, _Boundary):
            raise InputError(
                f"got {point}, where {last}: a boundary of two regimes; choose a region beside "
                "it, or give the parameters of the boundary as values={...}"
            ) from last
        raise ConvergenceError(
            f"no physical solution was found at {point} as {self.variable} tends to {end}; pass "
            "a point that has one as region={...}"
        ) from last

    def sample(self, wanted: Mapping[sp.Symbol, sp.Expr], scale: sp.Expr) -> dict[Any, sp.Expr]:
        point: dict[Any, sp.Expr] = {}
        primes = iter(sp.primerange(2, 1000))
        for s in self.free:
            p = next(primes)
            if s in wanted:
                point[s] = wanted[s]
            elif s.name == "nu":
                point[s] = sp.Integer(1)
            elif s.name.startswith("a_"):
                point[s] = sp.Rational(1, 3)
            elif s.is_nonnegative:
                point[s] = scale * sp.Rational(p - 1 if p > 2 else 1, p)
            else:
                point[s] = sp.Rational(1, 7)
        return point

    def within(self, sample: Mapping[sp.Symbol, sp.Expr], terms: int) -> ExactSeries:
        # A limit is known to more digits than an unknown that it equals.
        equal = {e: self.system.linearization.symbols[k] for k, e in self.limits.items()}
        numeric = {s: self.numbers(equal.get(s, s), sample) for s in self.targets}
        field = _Field((*self.free, *self.held), {**sample, **self.held}, self)
        span = Fraction(terms + (1 if self.slopes else 0))
        while True:
            field.span = span
            try:
                value = self.combined(field, numeric)
                known, order = self.coefficients(field, value, terms)
                if len(known) < terms and span < LONGEST and value.order != math.inf:
                    raise _Short
            except _Root as root:
                field = _Field(field.symbols, field.sample, self, root.args[0])
                continue
            except _Short:
                if span >= LONGEST:
                    raise UnsupportedError(
                        f"the value vanishes to order {LONGEST} in {self.variable}; {NUMERIC}"
                    ) from None
                span *= 2
                continue
            break
        if not known:
            raise UnsupportedError("the value is zero at these values; there is no series")
        self.confirm(known, order, sample)
        return ExactSeries(
            self.variable,
            tuple((self.sign * p, k) for p, k in known),
            None if order == math.inf else self.sign * order,
            tuple(sample.items()),
        )

    def numbers(self, formula: sp.Expr, sample: Mapping[sp.Symbol, sp.Expr]) -> list[Any]:
        """A formula in the limits, or an unknown, at both tiny t, in many digits."""
        unknown = formula if formula in self.system.unknowns else None
        system = self.system if unknown is not None else replace(self.system, formula=formula)
        found = []
        for t in self.times:
            self.check()
            x = t if self.sign == 1 else 1 / t
            point = {**sample, **self.held, self.variable: x}
            used = {s: v for s, v in point.items() if s in system.parameters}
            try:
                solution = refine(system, used, digits=DIGITS)
            except PrecisionError as error:
                raise ConvergenceError(str(error)) from error
            value = solution.value
            if unknown is not None:
                found.append(self.polished(unknown, point, solution.unknowns))
                continue
            if not hasattr(value, "_mpf_"):
                raise ConvergenceError("the solution is complex there")
            found.append(self.context.make_mpf(value._mpf_))
        return found

    def real(self, expression: sp.Expr) -> Any:
        """An exact real number in many digits."""
        number = sp.N(expression, DIGITS)
        if number == 0:
            return self.context.mpf(0)
        if not hasattr(number, "_mpf_"):
            raise ConvergenceError(f"got {expression}, which is not real")
        return self.context.make_mpf(number._mpf_)

    def polished(self, unknown: sp.Symbol, point: Mapping[Any, Any], found: Any) -> Any:
        """The root of the polynomial of an unknown nearest to its double, in many digits."""
        numbers = [complex(x) for part in found for x in part]
        near = numbers[self.system.unknowns.index(unknown)]
        listed = sp.Poly(self.polynomials[unknown].subs(point), unknown).all_coeffs()
        context = self.context
        sizes = [self.real(k) for k in listed]
        roots = context.polyroots(sizes, maxsteps=500, extraprec=4000)
        gaps = sorted((abs(r - near), i) for i, r in enumerate(roots))
        if len(gaps) > 1 and gaps[1][0] < 1e-9 * abs(near):
            raise UnsupportedError(f"the branches of {unknown} are not told apart; {NUMERIC}")
        root = roots[gaps[0][1]]
        if abs(context.im(root)) > abs(root) * context.mpf(10) ** (-DIGITS // 2):
            raise ConvergenceError("the solution is complex there")
        return context.re(root)

    def combined(self, field: _Field, numeric: Mapping[sp.Symbol, list[Any]]) -> _Series:
        """The value formula on the series of the limits and their derivatives."""
        x = _Series(field, {Fraction(self.sign): field.one}, math.inf)
        known = {s: self.expanded(field, s, numeric[s]) for s in self.targets}
        known[self.variable] = x
        roots = {k: _evaluated(field, e, known) for k, e in self.limits.items()}
        letters = {s: roots[k] for s, k in self.names.items()}
        for s, (k, v) in self.slopes.items():
            letters[s] = roots[k].slope(self.sign) if v == self.variable else roots[k].derivative(v)
        letters[self.variable] = x
        return _evaluated(field, self.system.formula, letters)

    def expanded(self, field: _Field, target: sp.Symbol, numbers: list[Any]) -> _Series:
        """The physical root of the polynomial of a limit or an unknown."""
        # Square roots of the variable are powers of its root.
        half = sp.Symbol("half", positive=True)
        written = sp.expand(self.polynomials[target].subs(self.variable, half**2))
        rows: dict[int, dict[Fraction, _Number]] = {}
        for (j, i), value in sp.Poly(written, target, half).terms():
            rows.setdefault(j, {})[Fraction(self.sign * i, 2)] = field.of(value)
        polynomial_rows = [_Series(field, rows.get(j, {}), math.inf) for j in range(max(rows) + 1)]
        return _root(field, polynomial_rows, numbers, self.ts)

    def coefficients(
        self, field: _Field, value: _Series, terms: int
    ) -> tuple[list[tuple[Fraction, sp.Expr]], Any]:
        """The first terms that do not vanish, and the order of what follows."""
        found: list[tuple[Fraction, sp.Expr]] = []
        for p in sorted(value.terms):
            if len(found) == terms:
                return found, p
            self.check()
            shown = field.shown(value.terms[p], self.held)
            if shown != 0:
                found.append((p, shown))
        return found, value.order

    def confirm(
        self,
        chosen: list[tuple[Fraction, sp.Expr]],
        order: Any,
        sample: Mapping[sp.Symbol, sp.Expr],
    ) -> None:
        """At the sample, what the terms leave out is as small as their order says."""
        here = self.numbers(self.system.formula, sample)[0]
        t = self.ts[0]
        total = self.context.mpf(0)
        for p, k in chosen:
            number = self.real(k.subs(sample))
            total += number * t ** _power(p, self.context)
            last = abs(number)
        allowed = abs(here) * self.context.mpf(10) ** (20 - DIGITS)
        if order != math.inf:
            allowed += last * t ** _power((chosen[-1][0] + order) / 2, self.context)
        if abs(here - total) > allowed:
            raise PrecisionError(
                f"the terms do not meet the solution at {dict(sample)}, {self.variable} = "
                f"10^({-self.sign * EXPONENT}); {NUMERIC}"
            )


def _power(p: Fraction, context: Any) -> Any:
    return context.mpf(p.numerator) / p.denominator


class _Field:
    """K[f^{1/q}] with K = Q(symbols) or Q(one algebraic number), ordered by a sample point."""

    def __init__(
        self,
        symbols: tuple[sp.Symbol, ...],
        sample: Mapping[sp.Symbol, sp.Expr],
        problem: _Problem,
        root: sp.Expr | None = None,
    ) -> None:
        self.symbols, self.sample, self.problem, self.root = symbols, sample, problem, root
        if root is not None:
            self.K = sp.QQ.algebraic_field(root)
        else:
            self.K = sp.QQ.frac_field(*symbols) if symbols else sp.QQ
        self.one = _Number(self, {ONE: self.K.one})
        self.zero = _Number(self, {})
        self.span = Fraction(1)
        self._powers: dict[sp.Expr, Any] = {}

    def base(self, f: sp.Expr) -> Any:
        if f not in self._powers:
            self._powers[f] = self.K.from_sympy(f)
        return self._powers[f]

    def of(self, expression: sp.Expr) -> _Number:
        """Rational functions with rational powers of the symbols."""
        try:
            return _Number(self, {ONE: self.K.from_sympy(sp.sympify(expression))}).clean()
        except (CoercionFailed, ValueError):
            pass
        if expression.is_Add or expression.is_Mul:
            parts = [self.of(x) for x in expression.args]
            return reduce(
                (lambda a, b: a + b) if expression.is_Add else (lambda a, b: a * b), parts
            )
        if expression.is_Pow and expression.exp.is_Rational:
            exponent = Fraction(int(expression.exp.p), int(expression.exp.q))
            return self.of(expression.base).power(exponent)
        raise UnsupportedError(f"got the coefficient {expression}; expected algebraic ones")

    def radical(self, value: Any, exponent: Fraction) -> _Number:
        """A positive element of K to a rational power, as powers of its irreducible factors."""
        value = self.K.to_sympy(value)
        if self.root is not None:
            # Radicals may depend on the number that already joined K.
            raise UnsupportedError(f"a root of {value} beside {self.root}: no form; {NUMERIC}")
        result = self.one
        for part, sign in zip(sp.fraction(sp.together(value)), (1, -1), strict=True):
            content, factors = sp.factor_list(part)
            pieces = [(sp.Integer(p), e) for p, e in sp.factorrat(abs(content)).items()] + factors
            for f, e in pieces:
                if f.is_number and f == 1:
                    continue
                total = exponent * sign * int(e)
                f = f if self.size(f) > 0 else sp.expand(-f)
                whole = math.floor(total)
                rest = total - whole
                monomial = frozenset({(f, rest)}) if rest else ONE
                result = result * _Number(self, {monomial: self.base(f) ** whole})
        return result

    def size(self, expression: sp.Expr) -> Any:
        """The number at the sample."""
        return self.problem.real(expression.subs(self.sample))

    def number(self, value: _Number) -> Any:
        return self.size(value.expression())

    def vanishes(self, value: _Number) -> bool:
        """Whether it is zero at the sample."""
        return bool(abs(self.number(value)) < self.problem.context.mpf(10) ** (-DIGITS // 2))

    def shown(self, value: _Number, held: Mapping[sp.Symbol, sp.Expr]) -> sp.Expr:
        """As one would print it: factored, every factor written with the sign that is positive."""
        radicals = {m: sp.Mul(*(f ** sp.Rational(e) for f, e in m)) for m in value.terms}
        parts = {m: self.K.to_sympy(k) for m, k in value.terms.items()}
        if self.root is not None:
            return sp.Add(*parts.values())
        whole = {m: sp.Dummy(positive=True) if m else sp.Integer(1) for m in parts}
        back = {d: radicals[m] for m, d in whole.items() if m}
        together = self.signed(sp.factor(sp.Add(*(parts[m] * whole[m] for m in parts))), back)
        apart = sp.Add(*(self.signed(sp.factor(parts[m]), {}) * radicals[m] for m in parts))
        result = min(sp.factor_terms(together), apart, key=sp.count_ops)
        if held:
            result = result.subs(held)
            flat = sp.radsimp(sp.simplify(result))
            result = min(result, flat, sp.factor_terms(flat), key=sp.count_ops)
        elif not self.symbols:
            result = sp.radsimp(result)
        return result

    def signed(self, product: sp.Expr, letters: Mapping[sp.Symbol, sp.Expr]) -> sp.Expr:
        """A product with its sums written with the sign that is positive at the sample."""
        factors = []
        for x in sp.Mul.make_args(product):
            b, e = x.as_base_exp()
            if b.is_Add and e.is_Integer and self.size(b.xreplace(letters)) < 0:
                factors += [sp.Integer(-1) ** e, (-b) ** e]
            else:
                factors.append(x)
        return sp.Mul(*factors).xreplace(letters)


@dataclass(frozen=True)
class _Number:
    """``sum k f^e g^d ...`` with k in K and 0 <= e < 1."""

    field: _Field
    terms: Mapping[Monomial, Any]

    def clean(self) -> _Number:
        return _Number(self.field, {m: k for m, k in self.terms.items() if k})

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __add__(self, other: _Number) -> _Number:
        total = dict(self.terms)
        for m, k in other.terms.items():
            total[m] = total[m] + k if m in total else k
        return _Number(self.field, total).clean()

    def __neg__(self) -> _Number:
        return _Number(self.field, {m: -k for m, k in self.terms.items()})

    def __sub__(self, other: _Number) -> _Number:
        return self + (-other)

    def __mul__(self, other: _Number) -> _Number:
        self.field.problem.check()
        total: dict[Monomial, Any] = {}
        for m, k in self.terms.items():
            for n, l in other.terms.items():
                product, factor = self._joined(m, n)
                value = k * l if factor is None else k * l * factor
                total[product] = total[product] + value if product in total else value
        return _Number(self.field, total).clean()

    def _joined(self, m: Monomial, n: Monomial) -> tuple[Monomial, Any]:
        if not m or not n:
            return m or n, None
        powers = dict(m)
        factor = None
        for f, e in n:
            total = powers.pop(f, Fraction(0)) + e
            if total >= 1:
                base = self.field.base(f)
                factor = base if factor is None else factor * base
                total -= 1
            if total:
                powers[f] = total
        return frozenset(powers.items()), factor

    def times(self, number: Fraction) -> _Number:
        return _Number(
            self.field,
            {m: k * self.field.K.from_sympy(sp.Rational(number)) for m, k in self.terms.items()},
        ).clean()

    def inverse(self) -> _Number:
        field = self.field
        if len(self.terms) == 1:
            ((m, k),) = self.terms.items()
            turned = field.one
            for f, e in m:
                monomial = frozenset({(f, 1 - e)})
                turned = turned * _Number(field, {monomial: field.K.one / field.base(f)})
            return turned * _Number(field, {ONE: field.K.one / k})
        basis = [ONE]
        new = [ONE]
        while new:
            found = {self._joined(b, m)[0] for b in new for m in self.terms} - set(basis)
            new = sorted(found, key=str)
            basis += new
        columns = [self * _Number(field, {b: field.K.one}) for b in basis]
        zero = field.K.zero
        matrix = DomainMatrix(
            [[column.terms.get(b, zero) for column in columns] for b in basis],
            (len(basis), len(basis)),
            field.K,
        )
        unit = [[field.K.one if b == ONE else zero] for b in basis]
        solution = matrix.lu_solve(DomainMatrix(unit, (len(basis), 1), field.K)).to_list()
        return _Number(field, {b: row[0] for b, row in zip(basis, solution, strict=True)}).clean()

    def power(self, exponent: Fraction) -> _Number:
        """Integer powers; rational ones of one positive term."""
        if exponent.denominator == 1:
            base = self if exponent >= 0 else self.inverse()
            result = self.field.one
            for _ in range(abs(int(exponent))):
                result = result * base
            return result
        if len(self.terms) != 1:
            raise UnsupportedError(
                f"the coefficient {self.expression()}^({exponent}) is a nested radical; {NUMERIC}"
            )
        if self.field.number(self) < 0:
            raise ConvergenceError("the solution is complex there")
        ((m, k),) = self.terms.items()
        result = self.field.radical(k, exponent)
        for f, e in m:
            result = result * self.field.radical(self.field.base(f), e * exponent)
        return result

    def expression(self) -> sp.Expr:
        return sp.Add(
            *(
                self.field.K.to_sympy(k) * sp.Mul(*(f ** sp.Rational(e) for f, e in m))
                for m, k in self.terms.items()
            )
        )

    def derivative(self, symbol: sp.Symbol) -> _Number:
        """In a parameter: ``(f^e)' = e f^e f'/f``."""
        K, field = self.field.K, self.field
        x = K.from_sympy(symbol)
        total = field.zero
        for m, k in self.terms.items():
            rate = k.diff(x)
            for f, e in m:
                base = field.base(f)
                rate += k * K.from_sympy(sp.Rational(e)) * base.diff(x) / base
            total = total + _Number(field, {m: rate})
        return total.clean()


@dataclass(frozen=True)
class _Series:
    """``sum k t^p + O(t^order)``; an order of infinity says that nothing is left out."""

    field: _Field
    terms: Mapping[Fraction, _Number]
    order: Any

    @classmethod
    def cut(cls, field: _Field, terms: Mapping[Fraction, _Number], order: Any) -> _Series:
        return cls(field, {p: k for p, k in terms.items() if k and p < order}, order)

    @property
    def start(self) -> Any:
        """The first power; where nothing is known, the order."""
        return min(self.terms, default=self.order)

    def __add__(self, other: _Series) -> _Series:
        total = dict(self.terms)
        for p, k in other.terms.items():
            total[p] = total[p] + k if p in total else k
        return _Series.cut(self.field, total, min(self.order, other.order))

    def __neg__(self) -> _Series:
        return _Series(self.field, {p: -k for p, k in self.terms.items()}, self.order)

    def __sub__(self, other: _Series) -> _Series:
        return self + (-other)

    def __mul__(self, other: _Series) -> _Series:
        if (self.order == math.inf and not self.terms) or (
            other.order == math.inf and not other.terms
        ):
            return _Series(self.field, {}, math.inf)
        order = min(self.order + other.start, other.order + self.start)
        total: dict[Fraction, _Number] = {}
        for p, k in self.terms.items():
            for q, l in other.terms.items():
                if p + q < order:
                    product = k * l
                    total[p + q] = total[p + q] + product if p + q in total else product
        return _Series.cut(self.field, total, order)

    def to(self, order: Any) -> _Series:
        return _Series.cut(self.field, self.terms, min(order, self.order))

    def power(self, exponent: Fraction) -> _Series:
        """``k^e t^{p e} (1 + u)^e``, the last factor by the binomial series."""
        field = self.field
        if exponent.denominator == 1 and exponent >= 0:
            result = _Series(field, {Fraction(0): field.one}, math.inf)
            for _ in range(int(exponent)):
                result = result * self
            return result
        if not self.terms:
            raise _Short
        start = self.start
        lead = self.terms[start].power(exponent)
        scale = _Series(field, {-start: self.terms[start].inverse()}, math.inf)
        one = _Series(field, {Fraction(0): field.one}, math.inf)
        u = self * scale - one
        if u.terms or u.order != math.inf:
            u = u.to(field.span)
        total, power, binomial = one.to(u.order), u, Fraction(1)
        step = 1
        while power.terms:
            binomial *= (exponent - step + 1) / step
            total = total + power * _Series(
                field, {Fraction(0): field.one.times(binomial)}, math.inf
            )
            power = (power * u).to(u.order)
            step += 1
        return total * _Series(field, {start * exponent: lead}, math.inf)

    def slope(self, sign: int) -> _Series:
        """In the variable: d/dt, or -t^2 d/dt if t is its inverse."""
        return _Series.cut(
            self.field,
            {p - sign: k.times(sign * p) for p, k in self.terms.items()},
            self.order - sign,
        )

    def derivative(self, symbol: sp.Symbol) -> _Series:
        """In another parameter."""
        return _Series.cut(
            self.field, {p: k.derivative(symbol) for p, k in self.terms.items()}, self.order
        )


def _evaluated(field: _Field, e: sp.Expr, letters: Mapping[sp.Symbol, _Series]) -> _Series:
    """A formula on series; what holds none of the letters is a coefficient."""
    if e in letters:
        return letters[e]
    if not e.free_symbols & set(letters):
        return _Series.cut(field, {Fraction(0): field.of(e)}, math.inf)
    if e.is_Add or e.is_Mul:
        parts = [_evaluated(field, x, letters) for x in e.args]
        return reduce((lambda a, b: a + b) if e.is_Add else (lambda a, b: a * b), parts)
    if e.is_Pow and e.exp.is_Rational:
        exponent = Fraction(int(e.exp.p), int(e.exp.q))
        return _evaluated(field, e.base, letters).power(exponent)
    raise UnsupportedError(f"got {e} in the value formula; expected powers and sums; {NUMERIC}")


def _root(field: _Field, rows: list[_Series], y: list[Any], ts: list[Any]) -> _Series:
    """The root of ``sum rows[j] y^j`` that has the numbers y at the times ts."""
    context = field.problem.context
    head = _Series(field, {}, math.inf)
    shift = Fraction(0)
    tiny = abs(y[0]) * context.mpf(10) ** (10 - DIGITS)
    for _ in range(12):
        if not rows[0].terms and abs(y[0]) <= tiny:
            return head
        if y[0] == 0 or y[0] * y[1] < 0:
            break
        p, edge = _edge(field, rows, y, ts)
        size = y[0] / ts[0] ** _power(p, context)
        lead, simple = _coefficient(field, edge, size)
        # The next polynomial, in Y with y = t^p Y; it begins at t^0.
        moved = [_moved(row, p * j) for j, row in enumerate(rows)]
        low = min(row.start for row in moved)
        moved = [_moved(row, -low) for row in moved]
        head = head + _Series(field, {shift + p: lead}, math.inf)
        if simple:
            tail = _continued(field, moved, lead)
            return _moved(tail, p + shift) + head - _Series(field, {shift + p: lead}, math.inf)
        rows = _taylor(moved, lead)
        number = field.number(lead)
        y = [v / t ** _power(p, context) - number for v, t in zip(y, ts, strict=True)]
        shift += p
    raise UnsupportedError(f"the branches of the limit are not told apart; {NUMERIC}")


def _moved(row: _Series, by: Fraction) -> _Series:
    return _Series(row.field, {p + by: k for p, k in row.terms.items()}, row.order + by)


def _edge(
    field: _Field, rows: list[_Series], y: list[Any], ts: list[Any]
) -> tuple[Fraction, dict[int, _Number]]:
    """The exponent of the root and the polynomial of its coefficient, from the lower hull."""
    context = field.problem.context
    starts = {j: row.start for j, row in enumerate(rows) if row.terms}
    slopes: dict[Fraction, list[int]] = {}
    for j, low in starts.items():
        for l, other in starts.items():
            if l > j:
                p = (low - other) / (l - j)
                value = low + p * j
                if all(start + p * m >= value for m, start in starts.items()):
                    slopes[p] = [m for m, start in starts.items() if start + p * m == value]
    seen = context.log(y[0] / y[1]) / context.log(ts[0] / ts[1])
    p = min(slopes, key=lambda q: abs(_power(q, context) - seen))
    if abs(_power(p, context) - seen) > 0.01:
        raise _Boundary("the power changes")
    edge = {j: rows[j].terms[starts[j]] for j in slopes[p]}
    for j in (min(edge), max(edge)):
        if field.vanishes(edge[j]):
            raise _Boundary(f"{edge[j].expression()} vanishes")
    return p, edge


def _coefficient(field: _Field, edge: dict[int, _Number], size: Any) -> tuple[_Number, bool]:
    """The root k of ``sum edge[j] k^j`` nearest to a number, and whether it is simple."""
    context = field.problem.context
    low = min(edge)
    powers = {j - low: value for j, value in edge.items()}
    step = math.gcd(*powers)
    degree = max(powers) // step
    # In k^step: linear, or with its factors over K.
    coefficients = [powers.get(step * j, field.zero) for j in range(degree + 1)]
    x = sp.Symbol("k")
    if degree == 1:
        return _binomial(field, -(coefficients[0] * coefficients[1].inverse()), step, size), True
    if any(set(k.terms) - {ONE} for k in coefficients):
        factors = [(coefficients, 1, step)]
    else:
        K = field.K
        exponents = range(max(powers), -1, -1)
        dense = [powers.get(j, field.zero).terms.get(ONE, K.zero) for j in exponents]
        found = sp.Poly.from_list(dense, x, domain=K).factor_list()[1]
        factors = []
        for factor, multiplicity in found:
            listed = [_Number(field, {ONE: k}).clean() for k in reversed(factor.rep.to_list())]
            inner = math.gcd(*(j for j, k in enumerate(listed) if k))
            factors.append((listed[::inner], multiplicity, inner))
    best: Any = None
    for listed, multiplicity, inner in factors:
        numbers = [field.number(k) if k else context.mpf(0) for k in reversed(listed)]
        if numbers[0] == 0:
            raise _Boundary(f"{listed[-1].expression()} vanishes")
        roots = context.polyroots(numbers, maxsteps=500, extraprec=2000)
        gap = min(abs(r - size**inner) / abs(size**inner) for r in roots)
        if best is None or gap < best[0]:
            best = (gap, listed, multiplicity, inner)
    gap, listed, multiplicity, inner = best
    if gap > 1e-2:
        raise _Boundary("two branches meet")
    if not field.symbols and field.root is None and len(listed) == 3 and inner > 1:
        lead = _algebraic(field, listed, inner, size)
    elif len(listed) == 2:
        lead = _binomial(field, -(listed[0] * listed[1].inverse()), inner, size)
    elif len(listed) == 3:
        lead = _quadratic(field, listed, inner, size)
    else:
        lead = _algebraic(field, listed, inner, size)
    return lead, multiplicity == 1


def _binomial(field: _Field, value: _Number, step: int, size: Any) -> _Number:
    """``k^step = value`` with the sign of a number."""
    if step == 1:
        return value
    number = field.number(value)
    if size > 0 or step % 2 == 0:
        root = value.power(Fraction(1, step)) if number > 0 else None
    else:
        root = (-value).power(Fraction(1, step)) if number < 0 else None
    if root is None:
        raise ConvergenceError("the solution is complex there")
    return root if size > 0 else -root


def _quadratic(field: _Field, listed: list[_Number], inner: int, size: Any) -> _Number:
    c, b, a = listed
    discriminant = b * b - (a * c).times(Fraction(4))
    if not discriminant or field.vanishes(discriminant):
        raise _Boundary(f"{discriminant.expression()} vanishes")
    root = discriminant.power(Fraction(1, 2))
    half = a.times(Fraction(2)).inverse()
    both = [(root - b) * half, -(root + b) * half]
    value = min(both, key=lambda k: abs(field.number(k) - size**inner))
    return _binomial(field, value, inner, size)


def _algebraic(field: _Field, listed: list[_Number], inner: int, size: Any) -> _Number:
    """A root of degree 3 and more: a number joins the field, a function is refused."""
    k = sp.Symbol("k")
    shown = sp.Add(*(v.expression() * k ** (inner * j) for j, v in enumerate(listed)))
    if field.symbols or field.root is not None or any(set(v.terms) - {ONE} for v in listed):
        held = ", ".join(map(str, field.problem.held))
        advice = (
            "give all parameters exact values (values={...})"
            if field.problem.free or not held
            else f"{held} is put in only after the derivative, or is irrational"
        )
        raise UnsupportedError(
            f"a coefficient is the root k of {sp.collect(shown, k)}, of degree "
            f"{inner * (len(listed) - 1)}: no closed form; {advice}; {NUMERIC}"
        )
    roots = sp.Poly(shown, k).real_roots()
    if not roots:
        raise ConvergenceError("the solution is complex there")
    raise _Root(min(roots, key=lambda r: abs(float(r) - float(size))))


def _taylor(rows: list[_Series], lead: _Number) -> list[_Series]:
    """The rows of ``P(lead + z)`` in z, by Horner's scheme."""
    field = lead.field
    at = _Series(field, {Fraction(0): lead}, math.inf)
    result = list(rows)
    for j in range(len(rows)):
        for l in range(len(rows) - 2, j - 1, -1):
            result[l] = result[l] + result[l + 1] * at
    return result


def _continued(field: _Field, rows: list[_Series], lead: _Number) -> _Series:
    """The root that begins with a simple ``lead`` t^0: Newton's method, the order doubling."""
    lengths = [p for row in rows for p in row.terms if p > 0]
    zero = Fraction(0)
    if not lengths:
        return _Series(field, {zero: lead}, math.inf)
    grid = Fraction(1, math.lcm(*(p.denominator for p in lengths)))
    slope = [
        row * _Series(field, {zero: field.one.times(Fraction(j))}, math.inf)
        for j, row in enumerate(rows)
    ][1:]
    y = _Series(field, {zero: lead}, math.inf)
    first = _horner(slope, y.to(grid)).terms.get(zero)
    if first is None or field.vanishes(first):
        raise _Boundary("two branches meet")
    known = grid
    while known < field.span:
        known = min(2 * known, field.span)
        y = _Series(field, y.terms, known)
        gap = _horner(rows, y)
        if gap.terms:
            y = y - gap * _horner(slope, y).power(Fraction(-1))
    return _Series(field, y.terms, known)


def _horner(rows: list[_Series], y: _Series) -> _Series:
    total = rows[-1].to(y.order)
    for row in reversed(rows[:-1]):
        total = total * y + row.to(y.order)
    return total.to(y.order)
