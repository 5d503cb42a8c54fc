from __future__ import annotations

import pytest
import sympy
from sympy import Rational, Symbol, exp, pi, sqrt

from rmtsym import hermite, quadrature
from rmtsym.balls import constant_ball, precision, relative_ball, to_mpf
from rmtsym.nonlinearity import CATALOGUE, Nonlinearity
from rmtsym.parsing import parse

t = Symbol("t", real=True)
s = Symbol("s", real=True)
k = Symbol("k", integer=True, nonnegative=True)

CLOSED = (
    "identity square cube he2 he3 relu leaky_relu abs sign heaviside relu_squared relu6 hard_tanh "
    "hard_sigmoid hardswish soft_threshold hard_threshold ternary exp truncated_exp elu cos sin "
    "gaussian erf gelu"
).split()
OTHERS = [
    "sign(t^2 - 1)", "Abs(t^2 - 1)", "t^2*exp(-t^2)", "exp(t^2/8)", "cosh(t)", "2^t",
    "Piecewise((cos(t), Abs(t) < 1), (0, True))", "Piecewise((erf(t), t > 0), (0, True))",
    "cos(t^2)", "Piecewise((floor(t), Abs(t) < 3), (0, True))", "t*sin(2*t)", "Max(t, t^3, -1)",
]  # fmt: skip


@pytest.mark.parametrize("name", CLOSED + OTHERS)
def test_closed_forms_equal_the_numeric_route_to_forty_digits(name: str) -> None:
    f = Nonlinearity(name).expression
    assert f is not None
    exact = [hermite.exact_moment(f, t, j) for j in range(7)]
    energy = hermite.exact_energy(f, t)
    assert all(value is not None and not value.has(sympy.Integral) for value in [*exact, energy])
    for j, value in enumerate(exact):
        ball = relative_ball(value, 145)
        numeric = quadrature.moment(f, t, j, 42, lambda: sympy.Integer(0))
        assert abs(to_mpf(ball, 160) - numeric) <= abs(numeric) * 10**-40, (j, value)
    numeric = quadrature.energy(f, t, 42)
    assert abs(to_mpf(relative_ball(energy, 145), 160) - numeric) <= numeric * 10**-40


@pytest.mark.parametrize("name", CLOSED)
def test_general_coefficient_where_there_is_one(name: str) -> None:
    f = Nonlinearity(name).expression
    assert f is not None
    formula = hermite.general_moment(f, t, k)
    if formula is None:
        assert name in ("truncated_exp", "elu")
        return
    for j in range(10):
        with precision(150):
            value = constant_ball(formula.subs(k, j))
            assert value.overlaps(constant_ball(hermite.exact_moment(f, t, j)))


@pytest.mark.parametrize(
    "name", ["relu", "exp", "cos", "erf", "gelu", "truncated_exp", "hardswish"]
)
def test_generating_function_is_the_series_of_the_coefficients(name: str) -> None:
    f = Nonlinearity(name).expression
    assert f is not None
    F = hermite.generating_function(f, t, s)
    assert F is not None
    for j in range(5):
        taylor = F.diff(s, j).subs(s, 0) / sqrt(sympy.factorial(j))
        with precision(150):
            assert constant_ball(taylor).overlaps(constant_ball(hermite.exact_moment(f, t, j)))


def test_what_a_paper_would_print() -> None:
    relu = sympy.Max(t, 0)
    assert [hermite.exact_moment(relu, t, j) for j in range(5)] == [
        1 / sqrt(2 * pi), Rational(1, 2), 1 / (2 * sqrt(pi)), 0, -1 / (4 * sqrt(3) * sqrt(pi)),
    ]  # fmt: skip
    assert hermite.exact_energy(relu, t) == Rational(1, 2)
    assert hermite.exact_energy(sympy.erf(t), t) == 2 / pi * sympy.asin(Rational(2, 3))
    gelu = parse("t*(1 + erf(t/sqrt(2)))/2")
    assert sympy.expand(hermite.exact_energy(gelu, t)) == Rational(1, 3) + sqrt(3) / (6 * pi)
    assert hermite.exact_energy(parse("Piecewise((-1,t<-1),(0,t<1),(1,True))"), t) == sympy.erfc(
        1 / sqrt(2)
    )


def test_parameters_stay_symbols() -> None:
    beta, theta, omega, a = (Symbol(x, real=True) for x in ("beta", "theta", "omega", "a"))
    assert hermite.exact_moment(exp(beta * t), t, 2) == sqrt(2) * beta**2 * exp(beta**2 / 2) / 2
    assert hermite.exact_moment(sympy.Max(t, theta), t, 2) == exp(-(theta**2) / 2) / (2 * sqrt(pi))
    assert hermite.exact_moment(sympy.cos(omega * t), t, 0) == exp(-(omega**2) / 2)
    leaky = sympy.Piecewise((t, t > 0), (a * t, True))
    assert sympy.expand(hermite.exact_energy(leaky, t) - (1 + a**2) / 2) == 0
    assert hermite.general_moment(exp(beta * t), t, k) == beta**k * exp(beta**2 / 2) / sqrt(
        sympy.factorial(k)
    )
    assert hermite.exact_moment(sympy.tanh(beta * t), t, 1) is None


def test_a_parameter_that_decides_needs_an_assumption() -> None:
    theta = Symbol("theta", real=True)
    assert hermite.exact_moment(sympy.Min(sympy.Max(t, -theta), theta), t, 1) is None
    positive = Symbol("theta", positive=True)
    value = hermite.exact_moment(sympy.Min(sympy.Max(t, -positive), positive), t, 1)
    assert value == sympy.erf(sqrt(2) * positive / 2)


@pytest.mark.parametrize(
    ("name", "values"),
    [("softplus", {1: Rational(1, 2), 3: 0}), ("silu", {1: Rational(1, 2), 5: 0}),
     ("sigmoid", {0: Rational(1, 2), 2: 0}), ("floor", {0: Rational(-1, 2), 4: 0}),
     ("gelu_tanh", {1: Rational(1, 2), 3: 0}), ("tanh", {0: 0})],
)  # fmt: skip
def test_symmetry_gives_exact_values_without_a_closed_form(
    name: str, values: dict[int, sympy.Expr]
) -> None:
    f = CATALOGUE[name].expression
    assert f is not None
    for order, value in values.items():
        assert hermite.exact_moment(f, t, order) == value


@pytest.mark.parametrize(
    ("text", "parity"),
    [("tanh(t)", -1), ("Abs(t)", 1), ("sign(t^2-1)", 1), ("Min(Max(t,-1),1)", -1), ("exp(t)", None),
     ("sign(sin(t))", -1), ("log(1+t**2)", 1), ("Max(t,0)", None), ("floor(t)", None)],
)  # fmt: skip
def test_parity(text: str, parity: int | None) -> None:
    assert hermite.parity(parse(text), t) == parity
