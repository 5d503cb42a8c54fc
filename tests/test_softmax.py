"""The exact row softmax: simulated as softmax, solved as a kernel with centred rows."""

import numpy as np
import pytest
import scipy.special
import sympy as sp

from rmtsym import InputError
from rmtsym.errors import UnsupportedError
from rmtsym.linearization import linearize
from rmtsym.matrices import D, Gaussian, Identity, Labels, RowSoftmax, Trace, dimensions
from rmtsym.models.attention import attention_error
from rmtsym.models.heads import Head, heads_error
from rmtsym.models.softmax import Softmax, softmax_case, softmax_error, softmax_model
from rmtsym.models.tokens import BALANCED, UNBALANCED
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.rewriting import transpose
from rmtsym.simulation import simulate

ONE = {"w_k": [1, 1, 0], "w_q": [1, 0, -1]}
SEEN = {"ratio": "1/2", "gamma": "0.2", "mu": [1.5, 0, 0], **ONE}


def exponential(beta):
    """``exp(beta t - beta^2 / 2)``: a_0 = 1, a_k = beta^k / sqrt(k!)."""
    t = sp.Symbol("t", real=True)
    beta = sp.Rational(beta)
    return Nonlinearity(sp.exp(beta * t - beta**2 / 2))


def test_the_figure_seen():
    """0.1488 in the limit; 0.1487 while the infinite direction has a strength of 500."""
    found = softmax_error("1/2", **SEEN, label_mean="0.8")
    assert found == pytest.approx(0.14878627012591897, rel=1e-12)


@pytest.mark.parametrize("beta", ["1/2", 1, "3/2"])
def test_balanced_labels_see_a_centred_exponential(beta):
    found = softmax_error(beta, **SEEN)
    assert found == pytest.approx(attention_error(exponential(beta), **SEEN), rel=1e-11)


@pytest.mark.parametrize("rho", ["1/2", "0.8"])
def test_rows_centred_is_the_exponential_not_centred(rho):
    """One projection from the right, or one on both sides: both leave ``y - rho 1``."""
    found = softmax_error(1, **SEEN, label_mean=rho)
    plain = attention_error(exponential(1), **SEEN, label_mean=rho, uncentred=True)
    assert found == pytest.approx(plain, rel=1e-11)


@pytest.mark.parametrize("kurtosis", [1, 3, 6, 9])
def test_kurtosis_does_not_enter(kurtosis):
    case = softmax_case(1, **SEEN, label_mean="0.8")
    values = {**case.values, next(s for s in case.values if s.name == "kurtosis"): kurtosis}
    from dataclasses import replace

    found = replace(case, values=values).solution().value
    assert found == pytest.approx(softmax_error(1, **SEEN, label_mean="0.8"), rel=1e-11)


def test_small_beta_is_the_identity_kernel_scaled():
    """beta -> 0: ``g -> beta t``, a linear kernel at gamma / beta^2."""
    beta = 1e-3
    found = softmax_error(beta, ratio=1, gamma=1e-6, mu=[1])
    assert found == pytest.approx(attention_error("t", ratio=1, gamma=1, mu=[1]), rel=1e-6)


def test_the_sign_of_beta_turns_the_weights():
    found = softmax_error(-1, ratio=1, gamma=1, mu=[1, 0], w_k=[1, 0], w_q=[1, 1])
    turned = softmax_error(1, ratio=1, gamma=1, mu=[1, 0], w_k=[1, 0], w_q=[1, 1], alpha=-1)
    assert found != pytest.approx(turned, rel=1e-3)
    again = softmax_error(-1, ratio=1, gamma=1, mu=[1, 0], w_k=[-1, 0], w_q=[1, 1], alpha=-1)
    whole = softmax_error(1, ratio=1, gamma=1, mu=[1, 0], w_k=[1, 0], w_q=[1, 1])
    assert again == pytest.approx(whole, rel=1e-11)


@pytest.mark.parametrize("rho", [0, "1/2"])
def test_equal_heads_are_one_with_half_the_penalty(rho):
    """Two spikes of infinite strength in one direction are one."""
    tokens = {"ratio": "2/3", "mu": [1.5], "label_mean": rho}
    found = heads_error([Head(Softmax("1/2"))] * 2, gamma="0.2", **tokens)
    assert found == pytest.approx(softmax_error("1/2", gamma="0.1", **tokens), rel=1e-10)


def test_a_softmax_beside_another_head():
    heads = [Head("tanh(t)", **ONE), Head(Softmax("1/2"))]
    tokens = {"ratio": 1, "gamma": "0.2", "mu": [1, 0, 0]}
    shape = exponential("1/2").centred()
    by_hand = heads_error([heads[0], Head(shape)], **tokens)
    assert heads_error(heads, **tokens) == pytest.approx(by_hand, rel=1e-9)


def test_digits():
    exact = softmax_error("1/2", **SEEN, label_mean="4/5", digits=30)
    assert float(exact) == pytest.approx(0.14878627012591897, rel=1e-14)


@pytest.mark.parametrize("beta", [27, -40, "1000", float("inf"), float("nan"), None])
def test_refused(beta):
    with pytest.raises(InputError):
        softmax_error(beta, ratio=1, gamma=1)


def test_refused_with_a_reason():
    with pytest.raises(InputError, match="overflows"):
        softmax_error(30, ratio=1, gamma=1)
    with pytest.raises(InputError, match="overflows"):
        softmax_error(10, ratio=1, gamma=1, alpha=3)


def test_beta_as_a_symbol_beside_another_nonlinearity_is_refused():
    from rmtsym.matrices import Entrywise, OffDiagonal

    n, p = dimensions("n p")
    X = Gaussian("Z", p, n)
    S = X.T * X / sp.sqrt(p)
    both = RowSoftmax(sp.Symbol("b"), S) * OffDiagonal(Entrywise(sp.Symbol("f"), S))
    with pytest.raises(UnsupportedError, match="beta as a number"):
        linearize(both)


def test_a_softmax_of_something_not_square_is_refused():
    n, p = dimensions("n p")
    with pytest.raises(InputError, match="square"):
        RowSoftmax(1, Gaussian("Z", p, n))


# -- the node


def test_simulated_as_softmax():
    """Against SciPy, with the diagonal masked, at a beta that overflows without care."""
    n, p = dimensions("n p")
    Z, y = Gaussian("Z", p, n), Labels("y", n)
    P = RowSoftmax(400, Z.T * Z / sp.sqrt(p))
    row_sums = y.T * P * P.T * y / n
    seen = []

    def noise(rng, shape):
        seen.append(rng.standard_normal(shape))
        return seen[-1]

    estimate = simulate(row_sums, sizes={n: 30, p: 20}, repetitions=2, seed=1, noise=noise)
    values = []
    for z in seen[-2:]:
        scores = 400 * z.T @ z / np.sqrt(20)
        np.fill_diagonal(scores, -np.inf)
        weights = scipy.special.softmax(scores, axis=1)
        assert np.allclose(weights.sum(1), 1)
        values.append(weights)
    assert np.all(np.isfinite(estimate.samples))
    assert estimate.mean > 0


@pytest.mark.parametrize("beta", [1, 100, 1e4])
def test_rows_sum_to_one(beta):
    from rmtsym.matrices import Ones

    n, p = dimensions("n p")
    Z, one = Gaussian("Z", p, n), Ones(n)
    P = RowSoftmax(beta, Z.T * Z / sp.sqrt(p))
    found = simulate((one.T * P * one / n, Trace(P) / n), sizes={n: 40, p: 30}, repetitions=3)
    np.testing.assert_allclose(found.samples[:, 0], 1, rtol=1e-13)
    assert np.all(found.samples[:, 1] == 0)


def test_the_node():
    n, p = dimensions("n p")
    Z = Gaussian("Z", p, n)
    P = RowSoftmax(sp.Symbol("beta"), Z.T * Z / sp.sqrt(p))
    assert P.shape == (n, n)
    assert str(P) == "softmax(beta/sqrt(p)*Z'*Z)"
    assert "softmax" in P._latex()
    assert transpose(transpose(P)) == P
    assert "N_softmax" in str(linearize(P.T * P))
    with pytest.raises(InputError, match="inside the nonlinearity"):
        from rmtsym.rewriting import differentiate

        differentiate(P * Identity(n), sp.Symbol("beta"))


def test_varied_beta_shares_samples():
    case = softmax_case(1, ratio=1, gamma=1, mu=[1])
    arguments = case.simulated()
    beta = next(s for s in arguments["values"] if s.name == "beta")
    arguments["values"][beta] = [0.5, 1.0]
    both = simulate(case.model.expression, sizes={"n": 60, "p": 60}, repetitions=3, **arguments)
    arguments["values"][beta] = 1.0
    one = simulate(case.model.expression, sizes={"n": 60, "p": 60}, repetitions=3, **arguments)
    np.testing.assert_allclose(both.samples[:, 1], one.samples, rtol=1e-10)


def test_models_share_one_system():
    assert softmax_model().system is softmax_model(1, BALANCED).system
    assert len(softmax_model(1, UNBALANCED).system.unknowns) == 12
    assert isinstance(softmax_model().expression.operand, D)
