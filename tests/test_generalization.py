"""Test errors: the literal expression, the formula, double descent, the best penalty."""

import numpy as np
import pytest
import sympy as sp

from rmtsym import InputError, Nonlinearity, attention_error, solve
from rmtsym.dyson import derive
from rmtsym.matrices import Identity
from rmtsym.models.base import gram
from rmtsym.models.generalization import (
    ATTENTION_TEST,
    SIZES,
    attention_test_case,
    attention_test_error,
    best_penalty,
    m,
    regression_test_error,
)
from rmtsym.models.tokens import BALANCED, c, gamma, kernel, mu, n, p, weights
from rmtsym.system import FixedPointSystem

ONE = {"w_k": [1, 1, 0], "w_q": [1, 0, -1]}
TOKENS = {"ratio": "2/3", "gamma": "0.2", "mu": [1.5, 0, 0]}


def formula() -> FixedPointSystem:
    """``(1 - a_1 v'X'W mu/p)^2 + a_1^2 |W'X v|^2/p^2 + (nu - a_1^2)|v|^2/p`` as an expression."""
    X, y, (W, _) = BALANCED.X, BALANCED.y, weights(1)
    a_1, nu = sp.Symbol("a_1", real=True), sp.Symbol("nu", nonnegative=True)
    K = kernel(sp.Symbol("f"), X, W)
    Q = (K.T * X.T * X * K / n + gamma * Identity(n)).inverse()
    v = X.T * X * K * Q * y / n
    bias = 1 - a_1 / p * (v.T * X.T * W * mu)
    u = W.T * X * v
    return derive(
        bias * bias + a_1**2 / p**2 * (u.T * u) + (nu - a_1**2) / p * (v.T * v),
        {n: 1, p: c},
    )


@pytest.mark.parametrize("f", ["tanh(t)", "sign(t)", "cos(t)"])
@pytest.mark.parametrize("ratio", ["2/3", "3"])
def test_the_literal_expression_is_the_formula(f, ratio):
    case = attention_test_case(f, **{**TOKENS, "ratio": ratio}, **ONE)
    values = {**case.values, **gram(case.vectors)}
    expected = solve(formula(), values, nonlinearities=case.nonlinearities).value
    assert case.solution().value == pytest.approx(expected, rel=1e-11)


def test_the_number_of_new_tokens_does_not_matter():
    case = attention_test_case("tanh(t)", **TOKENS, **ONE)
    few = derive(ATTENTION_TEST.expression, {**dict(SIZES), m: sp.Rational(1, 10)})
    found = solve(few, case.parameters, nonlinearities=case.nonlinearities).value
    assert found == pytest.approx(case.solution().value, rel=1e-11)


def test_regression_closed_form():
    """``(1 - w'mu)^2 + |w|^2``: ``w'mu = snr B``, ``|w|^2 = (gamma B)'``-like terms in m0."""
    ratio, penalty, snr = 0.7, 0.3, 2.0
    b = penalty - 1 + ratio
    m0 = (np.sqrt(b * b + 4 * penalty) - b) / (2 * penalty)

    def form(g):
        root = (np.sqrt((g - 1 + ratio) ** 2 + 4 * g) - (g - 1 + ratio)) / (2 * g)
        return 1 / (1 / root + snr / (1 + root))

    h = 1e-5
    slope = (form(penalty + h) - form(penalty - h)) / (2 * h)
    along = form(penalty) * snr / (1 + m0)
    expected = (1 - along) ** 2 + form(penalty) + penalty * slope
    assert regression_test_error(ratio=ratio, gamma=penalty, snr=snr) == pytest.approx(
        expected, rel=1e-8
    )


def test_without_signal_nothing_is_learned():
    """mu = 0: the fit is noise, ``E = 1 + (nu - a_1^2)|v|^2/p + ... >= 1``."""
    ratio = np.array([0.3, 1, 3])
    assert np.all(attention_test_error("tanh(t)", ratio=ratio, gamma=0.1) > 1)
    assert np.all(regression_test_error(ratio=ratio, gamma=0.1) > 1)


def test_a_large_penalty_predicts_nothing():
    found = attention_test_error("relu", **{**TOKENS, "gamma": 1e8}, **ONE)
    assert found == pytest.approx(1, rel=1e-5)
    assert regression_test_error(ratio=1, gamma=1e8, snr=3) == pytest.approx(1, rel=1e-5)


def test_scaling_f_is_scaling_gamma():
    one = attention_test_error("3*tanh(t)", **TOKENS, **ONE)
    other = attention_test_error("tanh(t)", **{**TOKENS, "gamma": 0.2 / 9}, **ONE)
    assert one == pytest.approx(other, rel=1e-10)


def test_test_error_is_above_training_error():
    for f in ("tanh(t)", "relu", "sign(t)"):
        training = attention_error(f, **TOKENS, **ONE)
        assert attention_test_error(f, **TOKENS, **ONE) > training


def test_double_descent():
    """gamma -> 0: regression peaks at p = n and falls on both sides.

    Attention rises through p = n and does not fall beyond: its features always number n.
    """
    ratio = np.array([0.25, 0.5, 1, 2, 4])
    curve = regression_test_error(ratio=ratio, gamma=1e-4, snr=4)
    assert curve[0] < curve[1] < curve[2] > curve[3] > curve[4]
    at = {"mu": [2], "w_k": [3], "w_q": [3]}
    curve = attention_test_error("tanh(t)", ratio=ratio, gamma=1e-4, **at)
    assert np.all(np.diff(curve) > 0)
    assert curve[2] > 5 * curve[0]


def test_the_best_penalty_removes_the_peak():
    at = {"mu": [2], "w_k": [1], "w_q": [1]}
    gamma_, error = best_penalty(lambda g: attention_test_error("tanh(t)", ratio=1, gamma=g, **at))
    near = [1e-4, gamma_ / 2, gamma_, 2 * gamma_]
    around = attention_test_error("tanh(t)", ratio=1, gamma=near, **at)
    assert around[2] == pytest.approx(error, rel=1e-9)
    assert np.all(around >= error * (1 - 1e-12))
    assert around[0] > 2 * error


def test_kurtosis_enters_with_a_2_and_unbalanced_labels():
    he = Nonlinearity("t + (t**2 - 1)/sqrt(2)")
    at = {**TOKENS, "label_mean": "0.8", **ONE}
    assert attention_test_error(he, **at, kurtosis=6) != pytest.approx(
        attention_test_error(he, **at, kurtosis=3), rel=1e-3
    )
    assert attention_test_error("tanh(t)", **at) == pytest.approx(
        attention_test_error("tanh(t)", **TOKENS, **ONE), rel=1e-10
    )


def test_digits():
    exact = regression_test_error(ratio="2/3", gamma="1/5", snr="9/4", digits=30)
    assert float(exact) == pytest.approx(0.4833390956420369, rel=1e-14)


@pytest.mark.slow
def test_digits_of_attention():
    exact = attention_test_error("erf(t)", **TOKENS, **ONE, digits=25)
    double = attention_test_error("erf(t)", **TOKENS, **ONE)
    assert float(exact) == pytest.approx(double, rel=1e-12)


def test_f_is_centred():
    shifted = attention_test_error("Max(t, 0) + 3", **TOKENS, **ONE)
    assert shifted == pytest.approx(attention_test_error("relu", **TOKENS, **ONE), rel=1e-12)
    for ask in (attention_test_error, attention_test_case):
        with pytest.raises(InputError, match="f is centred here"):
            ask("relu", **TOKENS, uncentred=True)


def test_bad_input():
    with pytest.raises(InputError, match="snr"):
        regression_test_error(ratio=1, gamma=1, snr=-1)
    with pytest.raises(InputError, match="kurtosis"):
        attention_test_error("tanh(t)", ratio=1, gamma=1, kurtosis=0)
    with pytest.raises(InputError, match="gamma"):
        attention_test_error("tanh(t)", ratio=1, gamma=-1)
