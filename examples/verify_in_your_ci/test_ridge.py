"""A third-party test file: only public names of rmtsym."""

from __future__ import annotations

import pytest
import ridge
import sympy as sp
from hypothesis import given

from rmtsym.matrices import D, Gaussian, Identity, Labels, dimensions
from rmtsym.testing import (
    aspect_ratios,
    assert_agrees,
    assert_invariant,
    assert_rejects,
    deterministic,
    ridge_penalties,
)

n, p = dimensions("n p")
gamma = sp.Symbol("gamma", positive=True)
Z, y = Gaussian("Z", p, n), Labels("y", n)
Q = (Z.T * Z / n + gamma * Identity(n)).inverse()
ERROR = -(gamma**2) * D(y.T * Q * y / n, gamma)


@pytest.mark.parametrize(("ratio", "penalty"), [("1/2", 0.1), ("2", 1.0)])
def test_formula_agrees_with_simulation(ratio, penalty):
    value = ridge.training_error(float(sp.Rational(ratio)), penalty)
    assert_agrees(ERROR, value, ratios={n: 1, p: ratio}, values={gamma: penalty})


def test_a_wrong_formula_is_found():
    wrong = 1.1 * ridge.training_error(0.5, 0.1)
    assert_rejects(ERROR, wrong, ratios={n: 1, p: "1/2"}, values={gamma: 0.1})


@deterministic
@given(ratio=aspect_ratios(), penalty=ridge_penalties())
def test_error_is_a_share_of_the_labels(ratio, penalty):
    assert 0 <= ridge.training_error(float(ratio), float(penalty)) <= 1


@deterministic
@given(ratio=aspect_ratios(), penalty=ridge_penalties())
def test_rows_and_columns_have_the_same_nonzero_eigenvalues(ratio, penalty):
    """tr (Z'Z/n + g)^-1 and tr (ZZ'/n + g)^-1 differ by |n - p| eigenvalues 1/g."""
    c, g = float(ratio), float(penalty)

    def nonzero(side):
        if side == "columns":
            return ridge.resolvent_trace(c, g) - (1 - c) / g
        return ridge.resolvent_trace(1 / c, g / c)  # ZZ'/n + g = c (ZZ'/p + g/c)

    assert_invariant(nonzero, "columns", "rows", relative=1e-6)
