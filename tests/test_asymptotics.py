"""Series at the ends, against closed forms and the solver."""

from fractions import Fraction

import pytest
import sympy as sp
from test_solver import NAMES, point

from rmtsym.asymptotics import along, series
from rmtsym.errors import InputError
from rmtsym.models.attention import ATTENTION
from rmtsym.models.regression import REGRESSION
from rmtsym.solver import solve

GAMMA = NAMES["gamma"]


def without_gamma(ratio, mu=(0,), w_k=(0,), w_q=(0,)):
    values = point(ratio, 1, "3/5", "2/5", list(mu), list(w_k), list(w_q))
    del values[GAMMA]
    return values


def test_large_ridge_has_the_slope_of_the_theory():
    found = series(ATTENTION.system, without_gamma("2/3"), GAMMA, at="infinity", terms=2)
    tau = sp.Rational(9, 25) * (1 + sp.Rational(3, 2)) + sp.Rational(1, 25)
    assert found.terms[0][0] == 0 and found.terms[1][0] == -1
    assert float(found.terms[1][1]) == pytest.approx(float(-2 * tau), rel=1e-13)


def test_small_ridge_below_and_at_the_threshold():
    below = series(ATTENTION.system, without_gamma("1/2"), GAMMA, terms=1)
    assert below.leading[0] == 0
    assert float(below.leading[1]) == pytest.approx(0.5, rel=1e-12)
    at = series(ATTENTION.system, without_gamma(1), GAMMA, terms=2)
    assert [p for p, _ in at.terms] == [Fraction(1, 3), Fraction(2, 3)]
    where = {**without_gamma(1), GAMMA: 1e-9}
    assert at(1e-9) == pytest.approx(solve(ATTENTION.system, where).value, rel=1e-5)


def test_linear_regression_at_all_ends():
    names = {str(s): s for s in REGRESSION.system.parameters}
    found = series(REGRESSION.system, {names["c"]: 1, names["mu.mu"]: 0}, names["gamma"], terms=1)
    assert found.leading[0] == Fraction(1, 2)
    assert float(found.leading[1]) == pytest.approx(0.5, rel=1e-12)
    exact = {names["c"]: sp.Rational(1, 2), names["gamma"]: 1}
    snr = series(REGRESSION.system, exact, names["mu.mu"], at="infinity", terms=1)
    where = {**exact, names["mu.mu"]: 1e8}
    assert snr(1e8) == pytest.approx(solve(REGRESSION.system, where).value, rel=1e-6)
    few = series(REGRESSION.system, {names["gamma"]: 1, names["mu.mu"]: 0}, names["c"], terms=2)
    assert [p for p, _ in few.terms] == [0, 1]
    assert float(few.terms[0][1]) == pytest.approx(1, rel=1e-12)


def test_a_path_of_several_parameters():
    values = point("1/2", "1/10", "3/5", "2/5", [1, 0], [1, 0], [1, 0])

    def path(t):
        moving = {"mu.mu": t**-2, "mu.w_k": 1 / t, "mu.w_q": 1 / t}
        return {**values, **{NAMES[k]: v for k, v in moving.items()}}

    found = along(ATTENTION.system, path, terms=1, digits=10)
    value = solve(ATTENTION.system, path(sp.Rational(1, 10**5))).value
    assert found(1e-5) == pytest.approx(value, rel=1e-3)


def test_what_cannot_be_asked():
    with pytest.raises(InputError, match="zero"):
        series(ATTENTION.system, without_gamma(1), GAMMA, at="one")
    with pytest.raises(InputError, match="parameters are"):
        series(ATTENTION.system, without_gamma(1), "beta")
