r"""Closed forms of Gaussian moments, from one linear functional.

For a term x^n exp(q2 x^2 + q1 x) prod_i erf(alpha_i x + beta_i) on an interval (a, b),

    J_n(s) = int_a^b x^n exp(q2 x^2 + q1 x) prod_i erf(alpha_i x + beta_i) phi(x - s) dx,

completing the square with lambda = 1 - 2 q2, m = (q1 + s)/lambda, and integrating by parts
(Stein's identity) gives

    J_n = m J_{n-1} + (n-1)/lambda J_{n-2} - 1/lambda [x^{n-1} ... phi(x - s)]_a^b
          + 1/lambda sum_i (2 alpha_i/sqrt(pi)) exp(-beta_i^2) J_{n-1}(without erf i),

down to J_0, a probability of one, two or three correlated normal variables.  Sines and cosines
are exponentials with imaginary q1.  ``F(s) = E f(xi + s)`` is the sum over panes; at s = 0, with
f he_k for f, it is a_k.  See D. B. Owen, "A table of normal integrals", 1980.
"""

from __future__ import annotations

import time
from collections import defaultdict
from functools import lru_cache
from itertools import pairwise
from typing import Any

import sympy
from sympy import Expr, Integer, Rational, Symbol

from rmtsym.errors import UnsupportedError
from rmtsym.panes import Panes, Root, order, split

BUDGET_SECONDS = 1.5


class NoClosedForm(UnsupportedError):
    """The engine does not reach this function."""


def orthonormal(k: int, x: Expr) -> Expr:
    """he_k(x) = He_k(x)/sqrt(k!), expanded.

    >>> orthonormal(2, Symbol("t"))
    sqrt(2)*(t**2 - 1)/2
    """
    return sympy.hermite_prob(k, x) / sympy.sqrt(sympy.factorial(k))


# a pane's expression as a sum of terms


Erf = tuple[Expr, Expr]  # alpha, beta of erf(alpha x + beta)
Key = tuple[Expr, Expr, tuple[Erf, ...]]  # q2, q1, erfs
Terms = dict[Key, dict[int, Expr]]  # key -> {n: coefficient of x^n}


def _exponential(e: Expr, t: Symbol) -> Expr:
    """Trigonometric and hyperbolic functions of t, erfc and powers a^t by exponentials and erf."""
    e = e.replace(lambda x: isinstance(x, sympy.erfc), lambda x: 1 - sympy.erf(x.args[0]))
    e = e.replace(
        lambda x: isinstance(x, sympy.sin | sympy.cos | sympy.sinh | sympy.cosh) and x.has(t),
        lambda x: x.rewrite(sympy.exp),
    )
    return e.replace(
        lambda x: x.is_Pow and x.base is not sympy.E and x.exp.has(t) and not x.base.has(t),
        lambda x: sympy.exp(x.exp * sympy.log(x.base)),
    )


@lru_cache(maxsize=512)
def _terms(e: Expr, t: Symbol) -> Terms:
    found: Terms = defaultdict(lambda: defaultdict(lambda: Integer(0)))
    expanded = sympy.expand(_exponential(e, t))
    for term in sympy.Add.make_args(expanded):
        coefficient, power, exponent, erfs = Integer(1), 0, Integer(0), []
        for factor in sympy.Mul.make_args(term):
            base, n = factor.as_base_exp() if factor.is_Pow else (factor, Integer(1))
            if not factor.has(t):
                coefficient *= factor
            elif base == t and n.is_Integer and n > 0:
                power += int(n)
            elif isinstance(factor, sympy.exp):
                exponent += factor.args[0]
            elif base is sympy.E:
                exponent += n
            elif isinstance(base, sympy.exp) and n.is_number:
                exponent += n * base.args[0]
            elif isinstance(base, sympy.erf) and n.is_Integer and 0 < n <= 4:
                erfs += [_coefficients(base.args[0], t, 1)[1::-1]] * int(n)
            else:
                raise NoClosedForm(f"no closed form for {sympy.sstr(factor)}")
        q0, q1, q2 = _coefficients(exponent, t, 2)
        key = (q2, q1, tuple(sorted(erfs, key=sympy.default_sort_key)))
        found[key][power] += coefficient * sympy.exp(q0)
    return found


def _coefficients(e: Expr, t: Symbol, degree: int) -> tuple[Expr, ...]:
    e = sympy.expand(e)
    if not e.is_polynomial(t) or sympy.degree(e, t) > degree:
        raise NoClosedForm(f"{sympy.sstr(e)} is not of degree {degree} at most")
    return tuple(e.coeff(t, i) for i in range(degree + 1))


# the functional


class _Functional:
    """J_n(s) on (a, b) as {basis function: coefficient}; basis functions never cancel."""

    def __init__(self, a: Expr, b: Expr, s: Expr, deadline: float) -> None:
        self.a, self.b, self.s, self.deadline = a, b, s, deadline
        self.known: dict[Any, dict[Expr, Expr]] = {}

    def __call__(self, n: int, q2: Expr, q1: Expr, erfs: tuple[Erf, ...]) -> dict[Expr, Expr]:
        key = (n, q2, q1, erfs)
        if key not in self.known:
            if time.monotonic() > self.deadline:
                raise NoClosedForm("the budget for a closed form is spent")
            self.known[key] = self.recursion(*key) if n else self.mass(q2, q1, erfs)
        return self.known[key]

    def precision(self, q2: Expr) -> Expr:
        """lambda = 1 - 2 q2, positive where the moment exists on an unbounded interval."""
        lam = sympy.expand(1 - 2 * q2)
        if sympy.re(lam).is_nonpositive:
            raise NoClosedForm("exp(q2 x^2) with q2 >= 1/2")
        return lam

    def recursion(self, n: int, q2: Expr, q1: Expr, erfs: tuple[Erf, ...]) -> dict[Expr, Expr]:
        lam = self.precision(q2)
        m = sympy.expand((q1 + self.s) / lam)
        result: dict[Expr, Expr] = defaultdict(lambda: Integer(0))
        _accumulate(result, self(n - 1, q2, q1, erfs), m)
        if n > 1:
            _accumulate(result, self(n - 2, q2, q1, erfs), (n - 1) / lam)
        for sign, end in ((1, self.a), (-1, self.b)):
            if end.is_finite is not False:
                edge = end ** (n - 1) * sympy.Mul(*(sympy.erf(u * end + v) for u, v in erfs))
                result[self.density(end, q2, q1)] += sign * edge / lam
        for i, (u, v) in enumerate(erfs):
            rest = self(n - 1, sympy.expand(q2 - u**2), sympy.expand(q1 - 2 * u * v),
                        erfs[:i] + erfs[i + 1 :])  # fmt: skip
            _accumulate(result, rest, 2 * u / sympy.sqrt(sympy.pi) * sympy.exp(-(v**2)) / lam)
        return result

    def density(self, x: Expr, q2: Expr, q1: Expr) -> Expr:
        exponent = sympy.expand(q2 * x**2 + q1 * x - (x - self.s) ** 2 / 2)
        return sympy.exp(exponent) / sympy.sqrt(2 * sympy.pi)

    def mass(self, q2: Expr, q1: Expr, erfs: tuple[Erf, ...]) -> dict[Expr, Expr]:
        lam = self.precision(q2)
        m = sympy.expand((q1 + self.s) / lam)
        exponent = sympy.expand((q1 + self.s) ** 2 / (2 * lam) - self.s**2 / 2)
        factor = sympy.exp(exponent) / sympy.sqrt(lam)
        below, above = self.a is -sympy.oo, self.b is sympy.oo
        central = m == 0 and all(v == 0 for _, v in erfs)
        slopes = [u for u, _ in erfs]
        result: dict[Expr, Expr] = defaultdict(lambda: Integer(0))
        if not erfs:
            for sign, end, infinite in ((1, self.b, above), (-1, self.a, below)):
                if infinite:
                    result[factor] += Rational(1, 2)
                else:
                    z = sympy.expand(sympy.sqrt(lam / 2) * (end - m))
                    result[factor * sympy.erf(z)] += sign * Rational(1, 2)
        elif len(erfs) == 1 and below and above:
            ((u, v),) = erfs
            result[factor * sympy.erf((u * m + v) / sympy.sqrt(1 + 2 * u**2 / lam))] += 1
        elif len(erfs) % 2 and below and above and central:
            pass  # odd
        elif len(erfs) == 1 and central and self.quadrant():
            half = sympy.atan(slopes[0] * sympy.sqrt(2 / lam)) / sympy.pi
            result[factor] += half * self.quadrant()
        elif len(erfs) == 2 and central and ((below and above) or self.quadrant()):
            u, w = slopes
            product = 2 * u * w / sympy.sqrt((lam + 2 * u**2) * (lam + 2 * w**2))
            share = 1 if below and above else Rational(1, 2)
            result[factor] += share * 2 / sympy.pi * sympy.asin(product)
        else:
            raise NoClosedForm("a probability of correlated normals without a closed form")
        return result

    def quadrant(self) -> int:
        """+1 on (0, oo), -1 on (-oo, 0), else 0."""
        if self.a == 0 and self.b is sympy.oo:
            return 1
        return -1 if self.b == 0 and self.a is -sympy.oo else 0


def _accumulate(into: dict[Expr, Expr], what: dict[Expr, Expr], factor: Expr) -> None:
    for basis, coefficient in what.items():
        into[basis] += factor * coefficient


def _exact_panes(f: Expr, t: Symbol) -> Panes:
    panes = split(f, t)
    if not panes.complete or any(isinstance(b, Root) or b.has(Root) for b in panes.breakpoints):
        raise NoClosedForm("the breakpoints have no closed form")
    return panes


def _expectation(f: Expr, t: Symbol, s: Expr, weight: Expr, power: int = 1) -> Expr:
    """E[f(xi + s)^power weight(xi + s)], weight a polynomial."""
    total: dict[Expr, Expr] = defaultdict(lambda: Integer(0))
    deadline = time.monotonic() + BUDGET_SECONDS
    for pane in _exact_panes(f, t):
        if pane.expression == 0:
            continue
        functional = _Functional(pane.lower, pane.upper, s, deadline)
        multiplier = sympy.Poly(weight, t).all_coeffs()[::-1]
        for key, polynomial in _terms(pane.expression**power, t).items():
            product: dict[int, Expr] = defaultdict(lambda: Integer(0))
            for n, c in polynomial.items():
                for j, w in enumerate(multiplier):
                    if w != 0:
                        product[n + j] += c * w
            for n in sorted(product):
                if product[n] != 0:
                    _accumulate(total, functional(n, *key), product[n])
    return _tidy(total)


def _tidy(total: dict[Expr, Expr]) -> Expr:
    terms: list[Expr] = []
    merged: dict[Expr, Expr] = defaultdict(lambda: Integer(0))
    for basis, coefficient in total.items():
        number, core = basis.as_coeff_Mul()
        merged[core] += number * coefficient
    if sympy.expand(sympy.Add(*(c * basis for basis, c in merged.items()))) == 0:
        return Integer(0)
    for basis, coefficient in list(merged.items()):  # x - x erf(z) = x erfc(z)
        erfs = [factor for factor in sympy.Mul.make_args(basis) if isinstance(factor, sympy.erf)]
        if len(erfs) == 1 and basis / erfs[0] in merged:
            plain = basis / erfs[0]
            if merged[plain] != 0 and sympy.expand(merged[plain] + coefficient) == 0:
                merged[plain * sympy.erfc(erfs[0].args[0])] += merged.pop(plain)
                del merged[basis]
    for basis, coefficient in merged.items():
        c = sympy.expand(coefficient)
        if c != 0:
            if c.free_symbols:
                c = sympy.factor_terms(sympy.factor(c) if not c.has(sympy.exp, sympy.I) else c)
            terms.append(c * basis)
    result = sympy.Add(*terms)
    if result.has(sympy.I):
        result = sympy.expand(result, complex=True).as_real_imag()[0]
        result = sympy.trigsimp(result) if not result.has(sympy.erf) else result
    if result.has(sympy.erf):
        result = result.replace(
            lambda x: x.is_Add and len(x.args) == 2 and x.args[0] == 1
            and isinstance(-x.args[1], sympy.erf),
            lambda x: sympy.erfc((-x.args[1]).args[0]),
        )  # fmt: skip
    return sympy.factor_terms(result, sign=False)


# symmetry: exact values without a closed form of F


def reflect(f: Expr, t: Symbol) -> Expr:
    """f(-t), almost everywhere: floor(-x) = -1 - floor(x) and its relatives are used."""
    rules: dict[Any, Any] = {
        sympy.floor: lambda x: -1 - sympy.floor(x),
        sympy.ceiling: lambda x: 1 - sympy.ceiling(x),
        sympy.frac: lambda x: 1 - sympy.frac(x),
        sympy.Heaviside: lambda x, *_: 1 - sympy.Heaviside(x),
        sympy.Mod: lambda x, m: m - sympy.Mod(x, m),
    }
    inner: dict[Expr, Expr] = {}
    for node in f.atoms(*rules):
        x, *others = node.args
        if x.subs(t, -t) == -x and not any(o.has(t) for o in others):
            inner[node] = sympy.Dummy(real=True)
    back = {dummy: rules[node.func](*node.args) for node, dummy in inner.items()}
    return f.xreplace(inner).subs(t, -t).xreplace(back)


def _as_polynomial(e: Expr, t: Symbol) -> Expr | None:
    """The polynomial that e equals, if algebra with exp(t) and log shows it."""
    e = sympy.expand(e)
    if e.is_polynomial(t):
        return e
    if e.has(sympy.erf, sympy.Piecewise, sympy.Max, sympy.Min, sympy.Abs):
        return None
    if e.has(sympy.log) or e.has(sympy.atan):
        slope = _rational_in_exp(e.diff(t), t)
        if slope is None:
            return None
        result = sympy.integrate(slope, t)
        start = sympy.simplify((e - result).subs(t, 0))
        return result + start if start.is_number else None
    return _rational_in_exp(e, t)


def _rational_in_exp(e: Expr, t: Symbol) -> Expr | None:
    u = sympy.Dummy("u", positive=True)
    e = e.rewrite(sympy.exp) if e.has(sympy.tanh, sympy.sinh, sympy.cosh) else e
    table: dict[Expr, Expr] = {}
    unit: Expr | None = None  # every exponent is a rational multiple of it, plus a constant
    for node in sorted(e.atoms(sympy.exp), key=sympy.default_sort_key):
        exponent = sympy.expand(node.args[0])
        if not exponent.is_polynomial(t):
            return None
        start = exponent.subs(t, 0)
        unit = exponent - start if unit is None else unit
        multiple = sympy.cancel((exponent - start) / unit)
        if not (2 * multiple).is_Integer:
            return None
        table[node] = u ** (2 * multiple) * sympy.exp(start)
    e = sympy.cancel(sympy.together(e.xreplace(table)))
    return e if e.is_polynomial(t) and not e.has(u) else None


@lru_cache(maxsize=512)
def symmetric_part(f: Expr, t: Symbol, sign: int) -> Expr | None:
    """(f(t) + sign f(-t))/2 where it is a polynomial, else None.

    >>> t = Symbol("t", real=True)
    >>> symmetric_part(sympy.log(1 + sympy.exp(t)), t, -1)
    t/2
    """
    try:
        whole = _as_polynomial(f + sign * reflect(f, t), t)
        if whole is not None:
            return sympy.expand(whole / 2)
        panes = split(f, t)
        if not panes.complete or len(panes.panes) == 1:
            return None
        found: set[Expr] = set()
        for right in panes:
            for left in panes:
                low = right.lower if order(right.lower, -left.upper) > 0 else -left.upper
                high = right.upper if order(right.upper, -left.lower) < 0 else -left.lower
                low = low if order(low, Integer(0)) > 0 else Integer(0)
                if order(low, high) < 0:
                    found.add(
                        _as_polynomial(right.expression + sign * left.expression.subs(t, -t), t)
                    )
                    if None in found or len(found) > 1:
                        return None
        part = sympy.expand(found.pop() / 2)
        return part if sympy.expand(part.subs(t, -t) - sign * part) == 0 else None
    except (UnsupportedError, sympy.PolynomialError, NotImplementedError):
        return None


@lru_cache(maxsize=512)
def parity(f: Expr, t: Symbol) -> int | None:
    """+1 for an even f, -1 for an odd one, None when neither is proven."""
    reflected = reflect(f, t)
    for sign in (1, -1):
        if reflected == sign * f:
            return sign
    for sign in (1, -1):
        if symmetric_part(f, t, -sign) == 0:
            return sign
    return None


# the public closed forms


@lru_cache(maxsize=2048)
def exact_moment(f: Expr, t: Symbol, k: int) -> Expr | None:
    """a_k = E[f(xi) he_k(xi)] in closed form, or None.

    >>> t = Symbol("t", real=True)
    >>> exact_moment(sympy.Max(t, 0), t, 4)
    -sqrt(3)/(12*sqrt(pi))
    """
    part = symmetric_part(f, t, (-1) ** k)
    weight = sympy.expand(orthonormal(k, t))
    try:
        return _expectation(f if part is None else part, t, Integer(0), weight)
    except UnsupportedError:
        return None


@lru_cache(maxsize=512)
def exact_energy(f: Expr, t: Symbol) -> Expr | None:
    """nu = E f(xi)^2 in closed form, or None.

    >>> t = Symbol("t", real=True)
    >>> exact_energy(sympy.erf(t), t)
    2*asin(2/3)/pi
    """
    try:
        return _expectation(f, t, Integer(0), Integer(1), power=2)
    except UnsupportedError:
        return None


@lru_cache(maxsize=512)
def generating_function(f: Expr, t: Symbol, s: Expr) -> Expr | None:
    """F(s) = E f(xi + s) in closed form, or None.

    >>> t, s = Symbol("t", real=True), Symbol("s", real=True)
    >>> generating_function(sympy.exp(t), t, s)
    exp(s + 1/2)
    """
    real = sympy.Dummy("s", real=True)
    try:
        return _expectation(f, t, real, Integer(1)).subs(real, s)
    except UnsupportedError:
        return None


def _he(k: Expr, shift: int, x: Expr) -> Expr:
    """He_n(x), n = k - shift, for a symbolic k."""
    n = k - shift
    if x == 0:
        return sympy.cos(sympy.pi * n / 2) * sympy.factorial2(n - 1)
    if x.is_negative:
        return (-1) ** k * (-1) ** (shift % 2) * sympy.hermite_prob(n, -x)
    return sympy.hermite_prob(n, x)


def general_moment(f: Expr, t: Symbol, k: Symbol) -> Expr | None:
    """a_k as an expression in the integer symbol k, or None.

    Polynomial panes: f^(k) is a sum of derivatives of delta at the breakpoints b, so
    a_k = sum_b phi(b) sum_j [jump of f^(j) at b] He_{k-1-j}(b)/sqrt(k!) beyond the degree.
    Terms on the whole line: Taylor coefficients of F, and sqrt(k+1) a_{k+1} + sqrt(k) a_{k-1}
    for each factor t.

    >>> t, k = Symbol("t", real=True), Symbol("k", integer=True, nonnegative=True)
    >>> general_moment(sympy.exp(t), t, k)
    exp(1/2)/sqrt(factorial(k))
    """
    formula = _general_moment(f, t)
    return None if formula is None else formula.subs(ORDER, k)


@lru_cache(maxsize=512)
def _general_moment(f: Expr, t: Symbol) -> Expr | None:
    k = ORDER
    try:
        panes = _exact_panes(f, t)
        if len(panes.panes) > 1:
            first, formula = _from_jumps(panes, t, k)
        else:
            first, formula = _from_terms(panes.panes[0].expression, t, k)
    except (UnsupportedError, sympy.PolynomialError):
        return None
    if formula == 0 and first:
        formula = Integer(0)
    special = [(exact_moment(f, t, j), sympy.Eq(k, j)) for j in range(first)]
    if any(value is None for value, _ in special):
        return None
    return sympy.Piecewise(*special, (formula, True))


LOW_ORDERS = 24
ORDER = Symbol("k", integer=True, nonnegative=True)


@lru_cache(maxsize=2048)
def exact_coefficient(f: Expr, t: Symbol, k: int) -> Expr | None:
    """a_k in closed form: by the functional for small k, by the general formula beyond.

    >>> exact_coefficient(sympy.exp(Symbol("t", real=True)), Symbol("t", real=True), 30).evalf(5)
    1.0123e-16
    """
    if k <= LOW_ORDERS:
        return exact_moment(f, t, k)
    try:
        breakpoints = split(f, t).breakpoints
    except UnsupportedError:
        return None
    if not all(b.is_Rational or b.is_Symbol for b in breakpoints):
        return None
    return general_moment(f, t, Integer(k))


def _from_jumps(panes: Panes, t: Symbol, k: Symbol) -> tuple[int, Expr]:
    total, top = Integer(0), 0
    for left, right in pairwise(panes.panes):
        b = right.lower
        jump = sympy.expand(right.expression - left.expression)
        if not jump.is_polynomial(t) or not right.expression.is_polynomial(t):
            raise NoClosedForm("not piecewise polynomial")
        degree = max(sympy.degree(e, t) for e in (left.expression, right.expression) if e != 0)
        top = max(top, int(degree))
        for j in range(int(degree) + 1):
            step = jump.diff(t, j).subs(t, b)
            density = sympy.exp(-(b**2) / 2) / sympy.sqrt(2 * sympy.pi)
            total += step * density * _he(k, 1 + j, b)
    return top + 1, sympy.factor_terms(sympy.factor(total)) / sympy.sqrt(sympy.factorial(k))


def _from_terms(e: Expr, t: Symbol, k: Symbol) -> tuple[int, Expr]:
    total, first = Integer(0), 0
    for (q2, q1, erfs), polynomial in _terms(e, t).items():
        for n, c in polynomial.items():
            value, start = _whole_line(n, q2, q1, erfs, k)
            total += c * value
            first = max(first, start)
    if total.has(sympy.I):
        total = sympy.simplify(sympy.expand(total, complex=True).as_real_imag()[0])
    return first, sympy.factor_terms(total)


def _whole_line(n: int, q2: Expr, q1: Expr, erfs: tuple[Erf, ...], k: Expr) -> tuple[Expr, int]:
    """a_k of x^n exp(q2 x^2 + q1 x) [erf(u x + v)], and the k from which it holds."""
    if n:
        up, first = _whole_line(n - 1, q2, q1, erfs, k + 1)
        down, _ = _whole_line(n - 1, q2, q1, erfs, k - 1)
        return sympy.sqrt(k + 1) * up + sympy.sqrt(k) * down, first + 1
    root = sympy.sqrt(sympy.factorial(k))
    if not erfs:
        lam = 1 - 2 * q2
        if q2 == 0 and q1 == 0:
            return Integer(0), 1
        scale = sympy.exp(q1**2 / (2 * lam)) / sympy.sqrt(lam) / root
        if q2 == 0 and q1.is_real:
            return scale * q1**k, 0
        if q2 == 0:  # q1 = r exp(i angle)
            r, angle = sympy.Abs(q1), sympy.arg(q1)
            if sympy.re(q1) == 0:
                r, angle = sympy.im(q1), sympy.pi / 2
            return scale * r**k * (sympy.cos(k * angle) + sympy.I * sympy.sin(k * angle)), 0
        if not q2.is_real or not q1.is_real:
            raise NoClosedForm("no general coefficient")
        c = (1 / lam - 1) / 2  # F is the exponential of c s^2 + ...
        if q1 == 0 and c.is_negative:
            even = sympy.cos(sympy.pi * k / 2) * (-c) ** (k / 2)
            return scale * even * sympy.factorial(k) / sympy.factorial(k / 2), 0
        if q1 == 0:
            even = (1 + (-1) ** k) / 2 * c ** (k / 2)
            return scale * even * sympy.factorial(k) / sympy.factorial(k / 2), 0
        width = sympy.sqrt(-2 * c)
        if not width.is_real:
            raise NoClosedForm("no general coefficient")
        return scale * width**k * sympy.hermite_prob(k, q1 / lam / width), 0
    if len(erfs) == 1 and q2 == 0 and q1 == 0:
        ((u, v),) = erfs
        slope, start = u / sympy.sqrt(1 + 2 * u**2), v / sympy.sqrt(1 + 2 * u**2)
        scale = 2 * slope / sympy.sqrt(sympy.pi) * sympy.exp(-(start**2)) / root
        return scale * (-sympy.sqrt(2) * slope) ** (k - 1) * _he(k, 1, sympy.sqrt(2) * start), 1
    raise NoClosedForm("no general coefficient")
