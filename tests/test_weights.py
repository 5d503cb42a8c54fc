"""The report on one layer: the table names what it shows, the numbers are those of the parts."""

import math

import matplotlib
import numpy as np
import pytest
from test_pretrained import minilm, tiny_gpt2

from rmtsym.errors import InputError
from rmtsym.models.general_attention import GeneralAttention
from rmtsym.models.regression import regression_error
from rmtsym.pretrained import load_attention
from rmtsym.weights import weights_report

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def tensors(p: int = 40, heads: int = 4) -> dict[str, np.ndarray]:
    w_q, w_k = np.random.default_rng(0).standard_normal((2, heads, p // heads, p))
    return {"w_q": w_q, "w_k": w_k}


def test_report_is_the_sum_of_its_parts() -> None:
    weights = load_attention(tensors(), layer=0)
    report = weights_report(weights, gamma=[0.1, 1.0], repetitions=40, seed=2)
    W = weights.W * math.sqrt(40) / np.linalg.norm(weights.W)
    mu = 1.5 * np.eye(40)[0]
    again = weights_report(weights, gamma=[0.1, 1.0], mu=mu, repetitions=2)
    np.testing.assert_allclose(
        again.general, GeneralAttention(W, mu, "tanh(t)", 0.5).error([0.1, 1.0]), rtol=1e-12
    )
    assert again.signal == report.signal == 1.5
    np.testing.assert_allclose(
        report.linear_regression, regression_error(ratio=0.5, gamma=np.array([0.1, 1]), snr=2.25)
    )
    assert np.abs(report.deviation).max() < 0.1
    assert report.decomposition.tau == pytest.approx(1)
    assert (report.low_rank < 0.8 * report.general).all()  # the assumption misses nearly all of W


def test_source_and_weights_give_one_report() -> None:
    one = weights_report(tensors(), layer=0, head=1, gamma=[0.5], repetitions=2)
    two = weights_report(load_attention(tensors(), layer=0, head=1), gamma=[0.5], repetitions=2)
    assert str(one) == str(two)
    assert one.simulation == two.simulation
    with pytest.raises(InputError, match="pass layer"):
        weights_report(tensors())


def test_table_says_what_is_left_out() -> None:
    text = str(weights_report(tiny_gpt2(), layer=0, n_head=2, head=1, gamma=[1.0], repetitions=2))
    for part in (
        "gpt2 layer 0, head 1, p = 4",
        "biases of queries and keys are not part of W",
        "the gain of h.0.ln_1 is not folded into W",
        "position embeddings",
        "share of the identity",
        "I + rank 1",
        "simulation at p = 4, n = 8, 2 draws",
    ):
        assert part in text


def test_picture() -> None:
    report = weights_report(tensors(), layer=0, gamma=[0.1, 1.0], rank=2, repetitions=2)
    figure = report.figure()
    assert [axes.get_xlabel() for axes in figure.axes] == ["gamma", "index"]
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert sorted(labels) == [
        "linear regression",
        "simulation, this W",
        "theory, I + rank 2",
        "theory, this W",
    ]
    plt.close(figure)


def test_zero_weights() -> None:
    with pytest.raises(InputError, match="every score is 0"):
        weights_report({"w_q": np.zeros((2, 3)), "w_k": np.ones((2, 3))}, layer=0)


def test_minilm_report() -> None:
    report = weights_report(minilm(), layer=5, gamma=[0.1], repetitions=8)
    assert abs(report.deviation[0]) < 0.1
    assert "bert layer 5, all 12 heads, p = 384" in str(report)
    assert report.decomposition.shares[0] < 0.02  # the identity holds under 2 % of W
    assert abs(report.low_rank[0] / report.simulation[0].mean - 1) > 0.3
