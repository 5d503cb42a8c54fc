"""The deterministic equivalent against bilinear forms of samples and of the derivation."""

import numpy as np
import pytest
import sympy as sp

from rmtsym import derive, simulate, solve
from rmtsym.equivalents import deterministic_equivalent
from rmtsym.errors import UnsupportedError
from rmtsym.matrices import (
    Deterministic,
    Gaussian,
    Identity,
    Labels,
    SpectralLaw,
    Vector,
    dimensions,
    inner,
)
from rmtsym.models import attention

n, p = dimensions("n p")
c, gamma = sp.symbols("c gamma", positive=True)
Z, y, mu, w = Gaussian("Z", p, n), Labels("y", n), Vector("mu", p), Vector("w", p)
X = Z + mu * y.T
R = (X.T * X / n + gamma * Identity(n)).inverse()
POINT = {c: 0.5, gamma: 0.3, inner(mu, mu): 2.0}


def test_a_spiked_covariance_is_sherman_morrison():
    equivalent = deterministic_equivalent(R, {n: 1, p: c})
    g1, g2 = equivalent.system.unknowns
    (b,) = equivalent.coefficients
    square = inner(mu, mu)
    assert sp.simplify(b + g1**2 * g2 * square / (1 + g1 * g2 * square)) == 0
    at = equivalent.at(POINT)
    direct = solve(derive(y.T * R * y / n, {n: 1, p: c}), POINT).value
    assert at.bilinear(1, {y: 1}, {y: 1}) == pytest.approx(direct, rel=1e-12)
    # a direction orthogonal to y sees the identity only
    assert at.bilinear(1, {}, {}) == at.identity


@pytest.mark.parametrize("unit", [1, 3])
def test_new_vectors_in_a_simulation(unit):
    """u^T R X^T w / sqrt(n) for u = y/sqrt(n) and a new w, whatever size is called one."""
    A = R * X.T / sp.sqrt(n)
    equivalent = deterministic_equivalent(A, {n: unit, p: unit * c})
    at = equivalent.at(POINT)
    w_mu = 0.6 * np.sqrt(2)
    theory = at.bilinear(0, {y: 1}, {mu: w_mu})
    estimate = simulate(
        y.T * A * w / sp.sqrt(n),
        sizes={n: 800, p: 400},
        values={gamma: 0.3},
        vectors={mu: [np.sqrt(2), 0], w: [0.6, 0.8]},
        repetitions=6,
        seed=3,
    )
    assert abs(estimate.mean - theory) < 4 * estimate.standard_error + 2e-3


def test_attention_resolvent_with_a_kernel_that_depends_on_the_tokens():
    """The paper's Proposition 1: identity plus a multiple of y y^T."""
    equivalent = deterministic_equivalent(attention.Q, dict(attention.ATTENTION.sizes))
    numbers = {"a_1": 0.6, "nu": 0.4, "mu.mu": 2.25, "mu.w_k": 1.5, "mu.w_q": 1.5}
    numbers |= {"w_k.w_k": 2, "w_k.w_q": 1, "w_q.w_q": 2, "c": 0.5, "gamma": 0.3}
    assert equivalent.left == equivalent.right == (attention.y,)
    at = equivalent.at(numbers)
    system = derive(
        attention.y.T * attention.Q * attention.y / attention.n, dict(attention.ATTENTION.sizes)
    )
    direct = solve(system, {s: numbers[s.name] for s in system.parameters}).value
    assert at.bilinear(1, {attention.y: 1}, {attention.y: 1}) == pytest.approx(direct, rel=1e-11)
    assert len(str(equivalent)) < 6000
    assert "leftrightarrow" in equivalent._repr_latex_()


def test_a_spectral_law_is_refused_by_name():
    C = Deterministic("C", p, SpectralLaw.from_atoms([1, 2]))
    with pytest.raises(UnsupportedError, match="function of the deterministic"):
        deterministic_equivalent((X.T * C * X / n + Identity(n)).inverse())
