"""Other targets than the labels, and mixtures of classes."""

import numpy as np
import pytest
import sympy as sp

from rmtsym import InputError, attention_error
from rmtsym.matrices import Independent, Labels, Ones, Vector, dimensions, indicators, inner
from rmtsym.models.targets import mixture_error, target_error
from rmtsym.simulation import simulate

ONE = {"w_k": [1, 1, 0], "w_q": [1, 0, -1]}
TOKENS = {"ratio": "2/3", "gamma": "0.2", "mu": [1.5, 0, 0], **ONE}
HE = "t + (t**2 - 1)/sqrt(2)"


def test_full_correlation_is_the_labels():
    plain = attention_error("tanh(t)", **TOKENS)
    for correlation in (1, -1):
        found = target_error("tanh(t)", correlation=correlation, **TOKENS)
        assert found == pytest.approx(plain, rel=1e-12)


def test_the_error_is_linear_in_the_squared_correlation():
    ends = [target_error("relu", correlation=r, **TOKENS) for r in (0, 1)]
    for r in (0.3, "0.8", "-1/2"):
        share = float(sp.Rational(str(r))) ** 2
        expected = (1 - share) * ends[0] + share * ends[1]
        assert target_error("relu", correlation=r, **TOKENS) == pytest.approx(expected, rel=1e-11)


def test_unbalanced_labels_with_noise():
    found = [
        target_error(HE, correlation=r, **TOKENS, label_mean="0.9", kurtosis=6)
        for r in (0, "1/2", 1)
    ]
    assert found[1] == pytest.approx(0.75 * found[0] + 0.25 * found[2], rel=1e-11)
    assert found[2] == pytest.approx(
        attention_error(HE, **TOKENS, label_mean="0.9", kurtosis=6), rel=1e-12
    )


@pytest.mark.parametrize("correlation", [1.01, -2, "nan", None])
def test_correlations_are_in_range(correlation):
    with pytest.raises(InputError):
        target_error("tanh(t)", correlation=correlation, ratio=1, gamma=1)


def test_two_classes_are_labels():
    means = [[1.5, 0, 0], [-1.5, 0, 0]]
    found = mixture_error(
        HE, means=means, code=[1, -1], ratio="2/3", gamma="0.2", kurtosis=6, **ONE
    )
    assert found == pytest.approx(attention_error(HE, **TOKENS, kurtosis=6), rel=1e-11)


def test_two_unequal_classes_are_labels_of_that_mean():
    """Shares 9/10 and 1/10: rho = 0.8."""
    means = [[1.5, 0, 0], [-1.5, 0, 0]]
    found = mixture_error(
        HE,
        means=means,
        shares=["9/10", "1/10"],
        code=[1, -1],
        ratio="2/3",
        gamma="0.2",
        kurtosis=6,
        **ONE,
    )
    expected = attention_error(HE, **TOKENS, label_mean="0.8", kurtosis=6)
    assert found == pytest.approx(expected, rel=1e-10)


def test_codes():
    """One-hot and +-1 codes differ by a factor 4 where constants are fitted for nothing."""
    point = {"means": [[2, 0], [0, 2]], "ratio": 1, "gamma": "0.5"}
    one_hot = mixture_error("tanh(t)", code="one-hot", **point)
    by_hand = mixture_error("tanh(t)", code=[[1, 0], [0, 1]], **point)
    assert one_hot == pytest.approx(by_hand, rel=1e-12)
    signs = mixture_error("tanh(t)", code="signs", **point)
    assert signs == pytest.approx(2 * mixture_error("tanh(t)", code=[1, -1], **point), rel=1e-11)
    # 2 |J C|^2 of one-hot codes: the halves (1 and j_1 - j_2) apart
    ones = mixture_error("tanh(t)", code=[1, 1], **point)
    assert one_hot == pytest.approx((ones + signs / 2) / 2, rel=1e-10)


def test_classes_of_one_mean_are_one_class():
    point = {"ratio": 1, "gamma": "0.5", "code": [1, 1, 1]}
    three = mixture_error("tanh(t)", means=[[1, 0], [0, 1], [0, 1]], **point)
    two = mixture_error(
        "tanh(t)",
        means=[[1, 0], [0, 1]],
        shares=["1/3", "2/3"],
        ratio=1,
        gamma="0.5",
        code=[1, 1],
    )
    assert three == pytest.approx(two, rel=1e-11)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"means": "abc"}, "means"),
        ({"shares": ["1/2", "1/3"]}, "shares"),
        ({"shares": ["3/2", "-1/2"]}, "shares"),
        ({"shares": [1]}, "shares"),
        ({"code": "gray"}, "code"),
        ({"code": [[1, 0], [1]]}, "code"),
        ({"code": [0, 0]}, "zero"),
        ({"kurtosis": "1/2"}, "kurtosis"),
        ({"means": [[1, 0], [1]]}, "lengths"),
    ],
)
def test_bad_mixtures(wrong, reason):
    point = {"means": [[1, 0], [0, 1]], "ratio": 1, "gamma": 1}
    with pytest.raises(InputError, match=reason):
        mixture_error("tanh(t)", **{**point, **wrong})


# -- the vectors


def test_inner_products():
    n = dimensions("n")
    e, y, one = Independent("e", n), Labels("y", n, mean=sp.Rational(1, 2)), Ones(n)
    assert inner(e, e) == n
    assert inner(e, y) == inner(one, e) == inner(e, Vector("v", n)) == 0
    first, second = indicators("a b", n, [sp.Rational(1, 4), sp.Rational(3, 4)])
    assert (inner(first, second), inner(second, one)) == (0, 3 * n / 4)


def test_bad_indicators():
    n = dimensions("n")
    with pytest.raises(InputError, match="one share per class"):
        indicators("a b", n, [1])
    with pytest.raises(InputError, match="sum to 1"):
        indicators("a b", n, [sp.Rational(1, 2), sp.Rational(1, 3)])


def test_sampled_indicators_are_a_partition():
    n = dimensions("n")
    third = sp.Rational(1, 3)
    classes = indicators("a b c", n, [third, third, third])
    total = classes[0] + classes[1] + classes[2]
    gap = total - Ones(n)
    counts = tuple(own.T * own for own in classes)
    found = simulate((gap.T * gap, *counts), sizes={n: 100}, repetitions=4, seed=3)
    assert np.all(found.samples[:, 0] == 0)
    np.testing.assert_array_equal(found.samples[0, 1:], [33, 34, 33])
