"""Exact series against closed forms, the numeric series, and the solver."""

import math
from fractions import Fraction

import pytest
import sympy as sp

from rmtsym import puiseux
from rmtsym.asymptotics import series
from rmtsym.elimination import polynomial
from rmtsym.errors import (
    BudgetError,
    ConvergenceError,
    InputError,
    PrecisionError,
    UnsupportedError,
)
from rmtsym.models import MODELS
from rmtsym.precision import refine
from rmtsym.puiseux import exact_series
from rmtsym.solver import solve

c, gamma = sp.symbols("c gamma", positive=True)
snr = sp.Symbol("mu.mu", nonnegative=True)
half, two = sp.Rational(1, 2), sp.Integer(2)

# model, variable, end, values, region, exponents of the first two terms
CASES = {
    "MP below": ("marchenko-pastur", "gamma", "zero", {}, {"c": half}, (0, 1)),
    "MP above": ("marchenko-pastur", "gamma", "zero", {}, {"c": two}, (-1, 0)),
    "MP at": ("marchenko-pastur", "gamma", "zero", {"c": 1}, {}, ("-1/2", 0)),
    "MP far": ("marchenko-pastur", "gamma", "infinity", {}, {}, (-1, -2)),
    "MP c small": ("marchenko-pastur", "c", "zero", {}, {}, (0, 1)),
    "MP c large": ("marchenko-pastur", "c", "infinity", {}, {}, (0, -1)),
    "semicircle": ("semicircle", "gamma", "infinity", {}, {}, (-1, -3)),
    "product, c least": ("wishart-product", "gamma", "zero", {}, {"c": half, "d": two}, (-1, 0)),
    "product, n least": ("wishart-product", "gamma", "zero", {}, {"c": 3, "d": two}, (0, 1)),
    "product, c = 1": ("wishart-product", "gamma", "zero", {"c": 1}, {"d": two}, ("-1/2", 0)),
    "kernel far": ("inner-product-kernel", "gamma", "infinity", {}, {}, (-1, -3)),
    "kernel, p large": ("inner-product-kernel", "c", "infinity", {}, {}, (0, -1)),
    "kernel, a_1 small": ("inner-product-kernel", "a_1", "zero", {}, {}, (0, 3)),
    "conjugate, narrow": (
        *("conjugate-kernel", "gamma", "zero", {}, {"phi": two, "width": half}),
        (-1, 0),
    ),
    "conjugate, wide": (
        *("conjugate-kernel", "gamma", "zero", {}, {"width": two}),
        (0, 1),
    ),
    "conjugate far": ("conjugate-kernel", "gamma", "infinity", {}, {}, (-1, -2)),
    "regression below": ("regression", "gamma", "zero", {}, {"c": half}, (0, 2)),
    "regression above": ("regression", "gamma", "zero", {}, {"c": two}, (2, 3)),
    "regression at": ("regression", "gamma", "zero", {"c": 1}, {}, ("1/2", "3/2")),
    "regression far": ("regression", "gamma", "infinity", {}, {}, (0, -1)),
    "regression, strong": ("regression", "mu.mu", "infinity", {}, {}, (-1, -2)),
    "regression, weak": ("regression", "mu.mu", "zero", {}, {}, (0, 1)),
    "regression, c small": ("regression", "c", "zero", {}, {}, (0, 1)),
    "regression, c large": ("regression", "c", "infinity", {}, {}, (-2, -3)),
    "no linear part, below": ("attention", "gamma", "zero", {"a_1": 0}, {"c": half}, (0, 2)),
    "no linear part, at": (
        *("attention", "gamma", "zero", {"a_1": 0, "c": 1}, {}),
        ("1/3", "2/3"),
    ),
}

SLOW = {"no linear part, at"}  # hundreds of digits near a triple root; the solver judges alone
CACHE = {}


@pytest.fixture(autouse=True)
def _eliminate_once(monkeypatch):
    def once(system, target, **options):
        key = (id(system), target)
        if key not in CACHE:
            CACHE[key] = (system, polynomial(system, target, **options))
        return CACHE[key][1]

    monkeypatch.setattr(puiseux, "polynomial", once)


@pytest.mark.parametrize("name", CASES)
def test_exact_is_numeric_and_meets_the_solver(name):
    """Coefficients to 8 digits at the region; the rest falls as the stated order says."""
    model, variable, end, values, region, exponents = CASES[name]
    system = MODELS[model].system
    found = exact_series(system, variable, values=values, at=end, region=region)
    assert [p for p, _ in found.terms] == [Fraction(p) for p in exponents]
    assert {str(s): v for s, v in found.region}.items() >= region.items()
    names = {str(s): s for s in system.parameters}
    point = {**{names[k]: v for k, v in values.items()}, **dict(found.region)}
    if name not in SLOW:
        numeric = series(system, point, names[variable], at=end, terms=2, digits=6)
        for (p, exact), (q, number) in zip(found.terms, numeric.terms, strict=True):
            assert p == q
            assert float(exact.subs(dict(found.region))) == pytest.approx(float(number), rel=1e-6)

    def at(k):
        return {**point, names[variable]: sp.Integer(10) ** (-k if end == "zero" else k)}

    x = at(6)[names[variable]]
    assert found(x, dict(found.region)) == pytest.approx(solve(system, at(6)).value, rel=1e-3)
    rest = []
    for k in (8, 9):
        value = sp.Float(str(refine(system, at(k), digits=60).value), 60)
        known = found.expression.subs({**point, **at(k)})
        rest.append(abs(value - sp.N(known, 60)))
    rate = float(sp.log(rest[0] / rest[1], 10)) * (1 if end == "zero" else -1)
    assert abs(rate) == pytest.approx(abs(float(found.order)), abs=0.05)


def test_marchenko_pastur_in_closed_form():
    """The root of c gamma m^2 + (gamma + 1 - c) m - 1 = 0, expanded by SymPy."""
    system = MODELS["marchenko-pastur"].system
    b = gamma + 1 - c
    root = (sp.sqrt(b**2 + 4 * c * gamma) - b) / (2 * c * gamma)
    for value in (half, two):
        found = exact_series(system, gamma, terms=4, region={c: value})
        expected = sp.series(root.subs(c, value), gamma, 0, 4).removeO()
        known = found.expression.subs(c, value)
        assert sp.series(known - expected, gamma, 0, 3).removeO() == 0
    far = exact_series(system, gamma, at="infinity", terms=4)
    moments = [1, 1, 1 + c, 1 + 3 * c + c**2]
    assert [p for p, _ in far.terms] == [-1, -2, -3, -4]
    for k, (_, value) in enumerate(far.terms):
        assert sp.expand(value - (-1) ** k * moments[k]) == 0


def test_wigner_gives_catalan_numbers():
    found = exact_series(MODELS["semicircle"].system, "gamma", at="infinity", terms=5)
    assert [k for _, k in found.terms] == [1, 1, 2, 5, 14]


def test_regression_as_it_is_printed():
    system = MODELS["regression"].system
    below = exact_series(system, gamma, terms=1, region={c: "1/2"})
    assert str(below) == "(1 - c)/(mu.mu + 1) + O(gamma^2)"
    at = exact_series(system, gamma, terms=1, values={c: 1})
    assert str(at) == "1/(2*(mu.mu + 1))*gamma^(1/2) + O(gamma^(3/2))"
    far = exact_series(system, gamma, at="infinity")
    assert str(far) == "1 - 2*(c + mu.mu)*gamma^(-1) + O(gamma^(-2))"
    assert "O(\\gamma^{-2})" in far._repr_latex_()


def test_a_derivative_in_another_parameter_and_an_irrational_value():
    """gamma keeps its symbol until the derivative is taken, sqrt(2) until the end."""
    system = MODELS["regression"].system
    found = exact_series(system, c, values={gamma: 1, snr: sp.sqrt(2)})
    general = exact_series(system, c)
    for (p, special), (q, k) in zip(found.terms, general.terms, strict=True):
        assert p == q and special.is_number
        assert sp.simplify(k.subs({gamma: 1, snr: sp.sqrt(2)}) - special) == 0


def test_a_root_of_high_degree_is_a_number_or_refused():
    system = MODELS["inner-product-kernel"].system
    with pytest.raises(UnsupportedError, match=r"degree 3.*rmtsym\.series"):
        exact_series(system, "nu", region={"gamma": 4})
    exact = {"a_1": 1, "c": 1, "gamma": 5}
    found = exact_series(system, "nu", values=exact, terms=1)
    names = {str(s): s for s in system.parameters}
    point = {names[k]: v for k, v in exact.items()}
    numeric = series(system, point, names["nu"], terms=1, digits=8)
    assert found.leading[1].has(sp.CRootOf)
    assert float(found.leading[1]) == pytest.approx(float(numeric.leading[1]), rel=1e-8)


def test_the_field_of_radicals():
    system = MODELS["marchenko-pastur"].system
    problem = puiseux._Problem(system, gamma, "zero", {}, math.inf, 1)
    field = puiseux._Field((c,), {c: two}, problem)
    assert not field.of(sp.sqrt(12)) - field.of(2 * sp.sqrt(3))
    number = field.of(1 + sp.sqrt(c) + sp.root(2, 3))
    assert not number * number.inverse() - field.one
    square = field.of((1 - c) ** 2)
    assert not square.power(Fraction(1, 2)) - field.of(c - 1)
    slope = field.of(c * sp.sqrt(c)).derivative(c) - field.of(sp.Rational(3, 2) * sp.sqrt(c))
    assert not slope
    with pytest.raises(UnsupportedError, match=r"nested radical.*rmtsym\.series"):
        number.power(Fraction(1, 2))


def test_a_wrong_branch_is_not_returned(monkeypatch):
    """The other root of Marchenko-Pastur's quadratic, -1/(c gamma m), does not meet the solver."""
    physical = puiseux._Problem.expanded

    def other(self, field, target, numbers):
        root = physical(self, field, target, numbers)
        minus = puiseux._Series(field, {Fraction(-1): field.of(-c)}, sp.oo)
        return root.power(Fraction(-1)) * minus

    system = MODELS["marchenko-pastur"].system
    assert exact_series(system, gamma).leading[0] == 0
    monkeypatch.setattr(puiseux._Problem, "expanded", other)
    with pytest.raises(PrecisionError, match="do not meet"):
        exact_series(system, gamma)


def test_a_value_is_not_confused_with_its_region():
    found = exact_series(MODELS["marchenko-pastur"].system, gamma)
    assert found(0.01, {c: half}) == pytest.approx(2 - 8 * 0.01)
    with pytest.raises(InputError, match="no value for c"):
        found(0.01)


def test_spikes_with_equations_of_their_own():
    attention = MODELS["attention"].system
    with pytest.raises(UnsupportedError, match=r"7 linear equations of spikes.*rmtsym\.series"):
        exact_series(attention, "gamma")
    products = {s: 0 for s in attention.parameters if "." in s.name}
    with pytest.raises(BudgetError, match=r"within 0.3 seconds.*rmtsym\.series"):
        exact_series(attention, "gamma", values=products, budget=0.3)


def test_what_cannot_be_asked():
    system = MODELS["marchenko-pastur"].system
    with pytest.raises(InputError, match="boundary of two regimes"):
        exact_series(system, gamma, region={c: 1})
    with pytest.raises(InputError, match="c = -2; it must be > 0"):
        exact_series(system, gamma, region={c: -2})
    with pytest.raises(InputError, match="terms=True"):
        exact_series(system, gamma, terms=True)
    with pytest.raises(InputError, match="parameters are c, gamma"):
        exact_series(system, "beta")
    with pytest.raises(InputError, match="zero"):
        exact_series(system, gamma, at="one")
    with pytest.raises(InputError, match="at least 1"):
        exact_series(system, gamma, terms=0)
    with pytest.raises(InputError, match="variable of the series"):
        exact_series(system, gamma, values={gamma: 1})
    with pytest.raises(InputError, match="choose one"):
        exact_series(system, gamma, values={c: 1}, region={c: 1})
    with pytest.raises(ConvergenceError, match="no physical solution"):
        exact_series(MODELS["semicircle"].system, "gamma")
    with pytest.raises(UnsupportedError, match=r"spectral law.*rmtsym\.series"):
        exact_series(MODELS["anisotropic"].system, "gamma")
