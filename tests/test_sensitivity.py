"""Derivatives against differences of fifty-digit values; best parameters; boundaries."""

import numpy as np
import pytest
import sympy as sp
from test_solver import NAMES, point

from rmtsym.errors import InputError
from rmtsym.models.attention import ATTENTION
from rmtsym.models.regression import regression_error
from rmtsym.precision import refine
from rmtsym.sensitivity import best, gradient, sensitivities, zero_set
from rmtsym.solver import solve

VALUES = point("2/3", "1/5", "3/5", "2/5", [1.5, 0, 0], [1, 1, 0], [1, 0, -1])
SYSTEM = ATTENTION.system


@pytest.mark.parametrize("name", sorted(NAMES))
def test_derivative_is_the_limit_of_differences(name):
    symbol, h = NAMES[name], sp.Rational(1, 10**15)
    middle = sp.Rational(VALUES[symbol])
    sides = [
        sp.Float(str(refine(SYSTEM, {**VALUES, symbol: middle + s * h}, digits=50).value), 50)
        for s in (1, -1)
    ]
    difference = float((sides[0] - sides[1]) / (2 * h))
    assert sensitivities(SYSTEM, VALUES)[symbol] == pytest.approx(difference, rel=1e-9)


def test_value_comes_with_its_gradient():
    value, slopes = gradient(SYSTEM, VALUES)
    assert value == pytest.approx(solve(SYSTEM, VALUES).value, rel=1e-12)
    assert set(slopes) == set(NAMES.values()) and slopes[NAMES["gamma"]] > 0
    with pytest.raises(InputError, match="one point"):
        sensitivities(SYSTEM, {**VALUES, NAMES["gamma"]: np.array([1.0, 2.0])})


def test_at_slope_zero_signal_and_weights_do_not_matter():
    found = sensitivities(SYSTEM, {**VALUES, NAMES["a_1"]: 0})
    for name in ("mu.mu", "mu.w_k", "mu.w_q", "w_k.w_k", "w_k.w_q", "w_q.w_q"):
        assert abs(found[NAMES[name]]) < 1e-14


def test_best_ratio_of_the_largest_trace():
    # the error increases with gamma: the best of an interval is its lower end
    where, value = best(SYSTEM, VALUES, NAMES["gamma"], 1e-2, 10)
    assert where == pytest.approx(1e-2)
    assert value == pytest.approx(solve(SYSTEM, {**VALUES, NAMES["gamma"]: 1e-2}).value)
    with pytest.raises(InputError, match="0 < low < high"):
        best(SYSTEM, VALUES, NAMES["gamma"], 1, 1)


def test_best_inside_an_interval_has_derivative_zero():
    low, high = 1e-2, 10.0
    where, _ = best(SYSTEM, {**VALUES, NAMES["gamma"]: 1e-4}, NAMES["c"], low, high)
    slope = sensitivities(SYSTEM, {**VALUES, NAMES["gamma"]: 1e-4, NAMES["c"]: where})[NAMES["c"]]
    assert where in (pytest.approx(low), pytest.approx(high)) or abs(slope) < 1e-8


def test_attention_equals_regression_on_the_boundary():
    base = point("1/4", 1, "3/4", 1, [1], [0], [0])

    def difference(gamma, snr):
        moving = {"gamma": gamma, "mu.mu": snr}
        values = {**base, **{NAMES[k]: v for k, v in moving.items()}}
        error = solve(SYSTEM, values).value
        return error - regression_error(ratio=np.full(np.shape(snr), 0.25), gamma=gamma, snr=snr)

    found = zero_set(difference, np.geomspace(0.01, 10, 8), np.geomspace(0.1, 100, 8))
    assert found.boundary and found.difference.shape == (8, 8)
    for curve in found.boundary:
        assert np.max(np.abs(difference(curve[:, 0], curve[:, 1]))) < 1e-10


def test_grids_that_do_not_increase():
    with pytest.raises(InputError, match="increasing"):
        zero_set(lambda x, y: x, [1, 1], [0, 1])


def test_two_boundaries_are_two_curves():
    x = np.linspace(-3, 3, 31)
    found = zero_set(lambda x, y: (np.abs(x) - 1) + 0 * y, x, x)
    assert len(found.boundary) == 2
    assert all(np.allclose(np.abs(curve[:, 0]), 1) for curve in found.boundary)
