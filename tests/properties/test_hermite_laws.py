"""Laws of Hermite coefficients, for random functions."""

from __future__ import annotations

import math

import mpmath
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Rational

from rmtsym.nonlinearity import Nonlinearity, t

ATOMS = [
    t, t**2, sympy.tanh(t), sympy.exp(t / 2), sympy.sin(t), sympy.cos(2 * t), sympy.Max(t, 0),
    sympy.sign(t), sympy.erf(t), sympy.log(1 + t**2), sympy.Abs(t), sympy.Min(sympy.Max(t, -1), 1),
    1 / (1 + sympy.exp(-t)), sympy.atan(t), sympy.Heaviside(t - Rational(1, 2)), sympy.floor(t),
]  # fmt: skip
SMOOTH = [sympy.tanh(t), sympy.exp(t / 2), sympy.sin(t), sympy.log(1 + t**2), sympy.erf(t), t**3]
functions = st.sampled_from(ATOMS)
numbers = st.fractions(-3, 3, max_denominator=4).map(lambda q: Rational(q.numerator, q.denominator))
orders = st.integers(0, 8)
relaxed = settings(deadline=None, max_examples=25)


def a(f: sympy.Expr, k: int) -> float:
    return float(Nonlinearity(f).coefficient(k))


@relaxed
@given(functions, functions, numbers, numbers, orders)
def test_linear(f: sympy.Expr, g: sympy.Expr, u: sympy.Expr, v: sympy.Expr, k: int) -> None:
    expected = float(u) * a(f, k) + float(v) * a(g, k)
    assert math.isclose(a(u * f + v * g, k), expected, rel_tol=1e-12, abs_tol=1e-13)


@relaxed
@given(functions, orders)
def test_parity(f: sympy.Expr, k: int) -> None:
    even, odd = f + f.subs(t, -t), f - f.subs(t, -t)
    assert a(even if k % 2 else odd, k) == 0
    assert math.isclose(a(f.subs(t, -t), k), (-1) ** k * a(f, k), rel_tol=1e-13, abs_tol=1e-60)


@relaxed
@given(functions, numbers.filter(lambda c: c != 0))
def test_scaling(f: sympy.Expr, c: sympy.Expr) -> None:
    g = Nonlinearity(c * f)
    assert math.isclose(g.nu(), float(c) ** 2 * Nonlinearity(f).nu(), rel_tol=1e-13)


@relaxed
@given(st.sampled_from(SMOOTH), numbers, st.integers(0, 4))
def test_shift(f: sympy.Expr, s: sympy.Expr, k: int) -> None:
    """E f(xi + s) = sum_k a_k s^k/sqrt(k!)."""
    s = s / 4
    terms = [a(f, j) * float(s) ** j / math.sqrt(math.factorial(j)) for j in range(60)]
    assert math.isclose(a(f.subs(t, t + s), 0), math.fsum(terms), rel_tol=1e-11, abs_tol=1e-12)


@relaxed
@given(functions)
def test_parseval_bound(f: sympy.Expr) -> None:
    g = Nonlinearity(f)
    assert math.fsum(x * x for x in g.coefficients(24)) <= g.nu() * (1 + 1e-13)


@relaxed
@given(st.sampled_from(SMOOTH), st.integers(0, 6))
def test_derivative(f: sympy.Expr, k: int) -> None:
    """sqrt(k+1) a_{k+1}(f) = a_k(f')."""
    expected = math.sqrt(k + 1) * a(f, k + 1)
    assert math.isclose(a(f.diff(t), k), expected, rel_tol=1e-12, abs_tol=1e-60)


@relaxed
@given(functions, functions, st.integers(0, 5))
def test_closed_form_is_the_number(f: sympy.Expr, g: sympy.Expr, k: int) -> None:
    h = Nonlinearity(f + 2 * g)
    exact = h.exact_coefficient(k)
    if exact is not None:
        with mpmath.workdps(30):
            value = h.coefficient(k, 25)
            assert abs(mpmath.mpf(exact.evalf(40)) - value) <= abs(value) * mpmath.mpf(10) ** -24


@relaxed
@given(functions, functions)
def test_cauchy_schwarz(f: sympy.Expr, g: sympy.Expr) -> None:
    u, v = Nonlinearity(f), Nonlinearity(g)
    assert u.product_moment(v) ** 2 <= u.nu() * v.nu() * (1 + 1e-12)


@relaxed
@given(functions)
def test_centring(f: sympy.Expr) -> None:
    g = Nonlinearity(f)
    assert math.isclose(
        g.centred().nu(), g.nu() - g.coefficient(0) ** 2, rel_tol=1e-10, abs_tol=1e-12
    )
    assert g.centred().coefficient(0) == 0
