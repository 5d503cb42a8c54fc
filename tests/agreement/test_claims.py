"""What the paper claims, asserted from the theory over stated regions, with counterexamples.

``errors`` gives attention and regression for w_K = w_Q of length ``strength`` at the cosine
``alignment`` to mu (Liao, Liu, Hou, Zou, Ling, arXiv 2506.18656, Sections 4 and 5).
"""

import itertools

import numpy as np
import pytest

from rmtsym import Nonlinearity, attention_error
from rmtsym.models.phase import errors

FUNCTIONS = ["tanh(t)", "sign(t)", "Min(exp(t), 5)", "relu"]


def grid(**axes):
    """All combinations, one flat array per name."""
    columns = np.meshgrid(*axes.values(), indexing="ij")
    return {name: column.ravel() for name, column in zip(axes, columns, strict=True)}


RANDOM_INPUTS = {"snr": 0, "strength": 0, "alignment": 0}


@pytest.mark.parametrize("f", [*FUNCTIONS, "t", "cos(t)"])
def test_1_on_random_inputs_attention_is_above_regression(f):
    """mu = 0: for 1/2 <= p/n <= 10 and 1e-4 <= gamma <= 1."""
    region = grid(ratio=np.geomspace(0.5, 10, 9), gamma=np.geomspace(1e-4, 1, 9))
    attention, regression = errors(f, {**region, **RANDOM_INPUTS})
    assert np.all(attention > regression)


@pytest.mark.parametrize("f", [*FUNCTIONS, "t", "cos(t)"])
def test_1_counterexamples_few_dimensions_or_a_large_penalty(f):
    """p/n = 1/10, at every gamma: the kernel has n directions, regression p of them."""
    attention, regression = errors(
        f, {"ratio": 0.1, "gamma": np.geomspace(1e-4, 10, 9)} | RANDOM_INPUTS
    )
    assert np.all(attention < regression)


def test_1_counterexample_a_large_penalty():
    """gamma = 10, p = n: a large f (nu = 2.0) pays less penalty."""
    attention, regression = errors("Min(exp(t), 5)", {"ratio": 1, "gamma": 10} | RANDOM_INPUTS)
    assert attention < regression


ALIGNED = {"strength": 3, "alignment": 1}


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("gamma", [0.01, 0.1])
def test_2_the_gap_closes_with_the_signal(f, gamma):
    """Aligned weights, 1/2 <= p/n <= 4, |mu|^2 from 1/4 to 16: the gap falls to less than 1/8."""
    snr = np.geomspace(0.25, 16, 7)
    for ratio in (0.5, 1, 2, 4):
        attention, regression = errors(f, {"ratio": ratio, "gamma": gamma, "snr": snr} | ALIGNED)
        gap = attention - regression
        assert np.all(gap > 0)
        assert np.all(np.diff(gap) < 0)
        assert gap[-1] < gap[0] / 8


@pytest.mark.parametrize("f", FUNCTIONS)
def test_2_and_reverses_for_small_p_over_n(f):
    """Aligned weights, 1/10 <= p/n <= 1/4, gamma = 1, 1/4 <= |mu|^2 <= 9: attention wins."""
    region = grid(ratio=np.linspace(0.1, 0.25, 4), snr=np.geomspace(0.25, 9, 7))
    attention, regression = errors(f, {**region, "gamma": 1} | ALIGNED)
    assert np.all(attention < regression)


def test_2_the_figures_seen():
    attention, regression = errors(
        "Min(exp(t), 5)", {"ratio": 0.25, "gamma": 1, "snr": 4} | ALIGNED
    )
    assert (round(float(attention), 3), round(float(regression), 3)) == (0.155, 0.187)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_2_counterexample_a_small_penalty(f):
    """p/n = 1/4, |mu|^2 = 4, aligned, but gamma = 0.01: regression wins."""
    attention, regression = errors(f, {"ratio": 0.25, "gamma": 0.01, "snr": 4} | ALIGNED)
    assert attention > regression


@pytest.mark.parametrize("f", ["cos(t)", "Abs(t)", "t**2"])
def test_3_without_a_1_neither_signal_nor_weights_help(f):
    for ratio, gamma in itertools.product([0.25, 1, 4], [0.01, 1]):
        plain = attention_error(f, ratio=ratio, gamma=gamma)
        for mu, w in (([3, 0], [3, 0]), ([0.5, 0], [0, 1]), ([10, 0], [1, 1])):
            seen = attention_error(f, ratio=ratio, gamma=gamma, mu=mu, w_k=w, w_q=w)
            assert seen == pytest.approx(plain, rel=1e-11)


def test_3_a_1_and_nu_are_all_that_is_seen():
    """erf and a polynomial with the same a_1, nu have one error."""
    f = Nonlinearity("erf(t)")
    a_1, nu = f.coefficient(1), f.nu()
    other = Nonlinearity.from_coefficients(
        [0, a_1, np.sqrt((nu - a_1**2) / 2), 0, 0, np.sqrt((nu - a_1**2) / 2)]
    )
    point = {"ratio": 0.5, "gamma": 0.1, "mu": [1.5, 0], "w_k": [1, 1], "w_q": [0, 2]}
    assert attention_error(other, **point) == pytest.approx(attention_error(f, **point), rel=1e-12)


def gain(ratio, gamma, share):
    """What the signal buys at nu = 1, |mu|^2 = 4, aligned weights: E(mu = 0) - E(mu)."""
    common = {"ratio": ratio, "gamma": gamma, "linearity": share}
    without, _ = errors(None, {**common, **RANDOM_INPUTS})
    signal, _ = errors(None, {**common, "snr": 4, **ALIGNED})
    return without - signal


@pytest.mark.parametrize("ratio", [0.25, 0.5, 1, 2, 4])
def test_3_what_the_signal_buys_grows_with_a_1(ratio):
    """gamma = 1, 1/4 <= p/n <= 4: the gain is 0 at a_1 = 0 and rises with a_1^2/nu."""
    found = gain(ratio, 1, np.linspace(0, 1, 21))
    assert abs(found[0]) < 1e-12
    assert np.all(np.diff(found) > 0)


def test_3_counterexample_a_small_penalty():
    """p/n = 4, gamma = 0.1: the gain is positive wherever a_1 is, and greatest in between."""
    found = gain(4, 0.1, np.linspace(0, 1, 21))
    assert abs(found[0]) < 1e-12
    assert np.all(found[1:] > 0)
    assert found[8] > found[-1]


REGION_4 = list(itertools.product([0.1, 0.5, 1, 4], [0.001, 0.1, 10], [0.25, 1, 4], [0.5, 1, 3]))


@pytest.mark.parametrize("f", [*FUNCTIONS, "t"])
def test_4_orthogonal_weights_do_not_help_and_aligned_ones_do(f):
    """1/10 <= p/n <= 4, 1e-3 <= gamma <= 10, 1/4 <= |mu|^2 <= 4, lengths 1/2 to 3."""
    ratio, gamma, snr, strength = np.array(REGION_4).T
    common = {"ratio": ratio, "gamma": gamma, "snr": snr}
    plain, _ = errors(f, {**common, "strength": 0, "alignment": 0})
    orthogonal, _ = errors(f, {**common, "strength": strength, "alignment": 0})
    aligned, _ = errors(f, {**common, "strength": strength, "alignment": 1})
    assert np.all(orthogonal >= plain * (1 - 1e-9))
    assert np.all(aligned < orthogonal)


def test_4_counterexample_a_little_alignment_can_hurt():
    """tanh, p/n = 1/10, gamma = 10, |mu|^2 = 4, length 3: up, then down."""
    a = np.array([0, 0.8, 1])
    found, _ = errors(
        "tanh(t)", {"ratio": 0.1, "gamma": 10, "snr": 4, "strength": 3, "alignment": a}
    )
    assert found[2] < found[0] < found[1]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_5_aligned_attention_varies_less_with_p_over_n(f):
    """Over 1/10 <= p/n <= 9/10 its errors span less than regression's, absolutely and in ratio.

    gamma from 0.01 to 1, |mu|^2 in {1, 4}, aligned weights of length 1 and 3.
    """
    ratio = np.linspace(0.1, 0.9, 17)
    for gamma, snr, strength in itertools.product([0.01, 0.1, 1], [1, 4], [1, 3]):
        attention, regression = errors(
            f, {"ratio": ratio, "gamma": gamma, "snr": snr, "strength": strength, "alignment": 1}
        )
        assert np.ptp(attention) < np.ptp(regression)
        assert np.ptp(np.log(attention)) < np.ptp(np.log(regression))


@pytest.mark.parametrize("f", FUNCTIONS)
def test_5_counterexample_the_steepest_slope(f):
    """gamma = 1, |mu|^2 = 1: near p/n = 1/10 attention falls faster than regression anywhere."""
    ratio = np.linspace(0.1, 0.9, 81)
    attention, regression = errors(f, {"ratio": ratio, "gamma": 1, "snr": 1} | ALIGNED)
    assert np.min(np.diff(attention)) < np.min(np.diff(regression))
