"""Several heads, weights of any rank, unbalanced labels, noise by kurtosis."""

import numpy as np
import pytest
import sympy as sp

from rmtsym import InputError, attention_error
from rmtsym.errors import UnsupportedError
from rmtsym.linearization import linearize
from rmtsym.matrices import Entrywise, Iid, OffDiagonal, Ones, Vector, dimensions
from rmtsym.models.attention import attention_case
from rmtsym.models.heads import Head, heads_error
from rmtsym.models.tokens import BALANCED, kernel, noise_of, weights
from rmtsym.simulation import simulate

TOKENS = {"ratio": "2/3", "gamma": "0.2", "mu": [1.5, 0, 0]}
ONE = {"w_k": [1, 1, 0], "w_q": [1, 0, -1]}
TWO = {"w_k": [0, 2, 0], "w_q": [2, 0, 0]}
HE = "t + (t**2 - 1)/sqrt(2)"


def test_the_two_heads_seen():
    heads = [Head("tanh(t)", **ONE), Head("tanh(t)", **TWO)]
    assert f"{heads_error(heads, **TOKENS):.5f}" == "0.17676"


def test_one_head_is_attention():
    found = heads_error([Head("relu", **ONE)], **TOKENS)
    assert found == pytest.approx(attention_error("relu", **TOKENS, **ONE), rel=1e-12)


def test_equal_heads_are_one_with_half_the_penalty():
    found = heads_error([Head("tanh(t)", **ONE)] * 2, **TOKENS)
    half = attention_error("tanh(t)", **{**TOKENS, "gamma": "0.1"}, **ONE)
    assert found == pytest.approx(half, rel=1e-11)


def test_the_sign_of_one_head_does_not_matter():
    """``-f`` shares its noise with f only through the covariance of the noise parts."""
    two = [Head("tanh(t)", **ONE), Head("tanh(t)", **TWO)]
    flipped = [two[0], Head("-tanh(t)", **TWO)]
    assert heads_error(flipped, **TOKENS) == pytest.approx(heads_error(two, **TOKENS), rel=1e-11)


def test_order_and_temperature():
    heads = [Head("tanh(t)", **ONE), Head("relu", temperature=2, **TWO)]
    found = heads_error(heads, **TOKENS)
    assert heads_error(heads[::-1], **TOKENS) == pytest.approx(found, rel=1e-11)
    by_hand = [heads[0], Head("Max(t/2, 0)", **TWO)]
    assert heads_error(by_hand, **TOKENS) == pytest.approx(found, rel=1e-11)


def test_rank_two_with_a_zero_column_is_rank_one():
    keys, queries = np.array([[1, 0.5], [1, 0], [0, 2]]), np.array([[1, 0], [0, 0], [-1, 0]])
    found = attention_error("tanh(t)", **TOKENS, w_k=keys, w_q=queries)
    assert found == pytest.approx(attention_error("tanh(t)", **TOKENS, **ONE), rel=1e-12)


def test_rank_two_that_is_a_rank_one():
    keys = [[1, 1], [1, 1], [0, 0]]
    queries = [["1/4", "3/4"], [0, 0], ["-1/4", "-3/4"]]
    found = attention_error("tanh(t)", **TOKENS, w_k=keys, w_q=queries)
    assert found == pytest.approx(attention_error("tanh(t)", **TOKENS, **ONE), rel=1e-12)


def test_the_full_part_is_a_scale():
    found = attention_error("tanh(t)", **TOKENS, **ONE, alpha=2)
    by_hand = attention_error("tanh(2*t)", **TOKENS, w_k=[0.5, 0.5, 0], w_q=ONE["w_q"])
    assert found == pytest.approx(by_hand, rel=1e-12)
    odd = attention_error("tanh(t)", **TOKENS, w_k=[-1, -1, 0], w_q=ONE["w_q"], alpha=-2)
    assert odd == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize(
    ("kurtosis", "printed"), [(6, "0.2007"), (9, "0.1698"), (3, "0.2603"), (1, "0.3389")]
)
def test_kurtosis_enters_with_a_2(kurtosis, printed):
    """Laplace and exponential noise as seen; the limit falls as kurtosis grows."""
    case = {"ratio": "2/3", "gamma": "0.2", "mu": [0.7], "label_mean": "0.9"}
    assert f"{attention_error(HE, **case, kurtosis=kurtosis):.4f}" == printed


def test_kurtosis_does_not_enter_for_balanced_labels_or_without_a_2():
    balanced = [attention_error(HE, **TOKENS, kurtosis=k) for k in (1, 3, 6)]
    assert len(set(balanced)) == 1
    odd = [attention_error("tanh(t)", **TOKENS, label_mean="0.9", kurtosis=k) for k in (1, 6)]
    assert odd[0] == pytest.approx(odd[1], rel=1e-13)
    plain = attention_error("tanh(t)", **TOKENS)
    assert odd[0] == pytest.approx(plain, rel=1e-11)


def test_a_0_projects_the_vector_of_ones_out():
    """a_0 and a_2 do not matter then; and balanced labels do not see any of it."""
    tokens = {**TOKENS, "label_mean": "0.8"}
    several = [
        attention_error(f, **tokens, uncentred=True)
        for f in (f"1 + {HE}", f"-3 + {HE}", "1 + t + (t**3 - 3*t)/sqrt(6)")
    ]
    assert several == pytest.approx([several[0]] * 3, rel=1e-10)
    assert attention_error("relu", **TOKENS, uncentred=True) == pytest.approx(
        attention_error("relu", **TOKENS), rel=1e-10
    )
    assert attention_error("tanh(t)", **tokens, uncentred=True) == attention_error(
        "tanh(t)", **tokens
    )


def test_the_constant_part_of_the_labels_is_fitted_for_nothing():
    """f not centred, mu = 0: what is left of the labels is ``y - rho 1``, of size 1 - rho^2."""
    case = {"ratio": 1, "gamma": 0.1, "uncentred": True}
    plain = attention_error("tanh(t)", ratio=1, gamma=0.1)
    for rho in (0, 0.5, 0.99):
        found = attention_error("1 + tanh(t)", **case, label_mean=rho)
        assert found == pytest.approx((1 - rho**2) * plain, rel=1e-9)


def test_digits():
    case = {"ratio": "2/3", "gamma": "1/5", "mu": ["7/10"], "label_mean": "9/10", "kurtosis": 6}
    exact = attention_error(HE, **case, digits=30)
    assert float(exact) == pytest.approx(attention_error(HE, **case), rel=1e-12)
    assert str(attention_error(HE, **case, digits=40)).startswith(str(exact)[:28])
    heads = [Head("erf(t)"), Head("cos(t)")]
    exact = heads_error(heads, ratio="2/3", gamma="1/5", digits=25)
    assert float(exact) == pytest.approx(heads_error(heads, ratio="2/3", gamma="1/5"), rel=1e-12)


def test_broadcast():
    heads = [Head("tanh(t)", [1], [1]), Head("relu")]
    found = heads_error(heads, ratio=[[0.5], [2]], gamma=[0.1, 1, 10], mu=[1])
    assert found.shape == (2, 3)
    assert found[1, 0] == pytest.approx(heads_error(heads, ratio=2, gamma=0.1, mu=[1]), rel=1e-11)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"kurtosis": 0.5}, "kurtosis"),
        ({"label_mean": 1.5}, "label_mean"),
        ({"label_mean": "-2"}, "label_mean"),
        ({"alpha": 0}, "alpha"),
        ({"w_k": [float("inf"), 0, 0], "w_q": [1, 0, 0]}, "w_k"),
        ({"w_k": [[1, 2], [0, 0], [0, 1]], "w_q": [[1], [0], [0]]}, "rank"),
        ({"w_k": [[1, 2], [0], [0, 1]], "w_q": [[1], [0], [0]]}, "rows of different lengths"),
        ({"gamma": 0}, "gamma"),
        ({"ratio": float("nan")}, "ratio"),
    ],
)
def test_refusals(wrong, reason):
    with pytest.raises(InputError, match=reason):
        attention_error("tanh(t)", **{**TOKENS, **wrong})


@pytest.mark.parametrize(
    ("heads", "reason"),
    [
        ([], "list of Head"),
        (["tanh(t)"], "Head"),
        ([Head("tanh(t)", temperature=0)], "temperature"),
        ([Head("tanh(t)", alpha=0)], "alpha in head 1"),
        ([Head("tanh(t)"), Head("tanh(t)", w_k=[float("inf")], w_q=[1])], "w_k"),
    ],
)
def test_refusals_of_heads(heads, reason):
    with pytest.raises(InputError, match=reason):
        heads_error(heads, ratio=1, gamma=1)


def test_two_heads_of_different_n_are_refused():
    n, m, p = dimensions("n m p")
    other = Iid("Z_2", p, m)
    X, (W, _) = BALANCED.X, weights(1)
    one, two = kernel(sp.Symbol("f"), X, W), kernel(sp.Symbol("f"), other, W)
    with pytest.raises(InputError, match="one shape"):
        one.T * X.T * X * one / n + two.T * other.T * other * two / n


def test_the_spikes_are_written_out_where_ones_are_seen():
    n, p = dimensions("n p")
    Z = Iid("Z", p, n, 6)
    K = OffDiagonal(Entrywise(sp.Symbol("f"), Z.T * Z / sp.sqrt(p))) / sp.sqrt(p)
    assert "phi" not in str(linearize(K))
    assert "a_2" in str(linearize(Ones(n).T * K * Ones(n)))


def test_a_matrix_in_the_middle_beside_unbalanced_labels_is_refused():
    from rmtsym.matrices import Deterministic, SpectralLaw

    n, p = dimensions("n p")
    Z, C = Iid("Z", p, n), Deterministic("C", p, SpectralLaw.from_atoms([1, 2]))
    K = OffDiagonal(Entrywise(sp.Symbol("f"), Z.T * C * Z / sp.sqrt(p)))
    with pytest.raises(UnsupportedError, match="middle"):
        linearize(Ones(n).T * K * Ones(n))


def test_simulation_refuses_noise_of_another_kurtosis():
    case = attention_case(HE, ratio=1, gamma=1, label_mean="0.5", kurtosis=6)
    arguments = {**case.simulated(), "sizes": {"n": 40, "p": 40}, "repetitions": 2}
    with pytest.raises(InputError, match="kurtosis"):
        simulate(case.model.expression, **arguments, noise="gaussian")
    assert simulate(case.model.expression, **arguments, noise="laplace").repetitions == 2


def test_noise_of_a_kurtosis():
    from rmtsym.sampling import Noise

    for kurtosis in (1, 3, 3.5, 6, 9):
        assert Noise.read(noise_of(kurtosis)).kurtosis == pytest.approx(kurtosis)
    with pytest.raises(InputError, match="kurtosis"):
        noise_of(2)


def test_the_name_of_a_vector_says_its_head():
    _, pairs = weights(2, "_1")
    assert [str(v) for pair in pairs for v in pair] == ["w_k_1_1", "w_q_1_1", "w_k_1_2", "w_q_1_2"]
    assert all(isinstance(v, Vector) for pair in pairs for v in pair)
