"""The joint fit: exact on what it models, optimal elsewhere, shares that add up."""

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmtsym.decomposition import decompose, plot_spectrum, quarter_circle
from rmtsym.errors import InputError

matplotlib.use("Agg")


@given(seed=st.integers(0, 2**32 - 1), rank=st.integers(0, 3), alpha=st.floats(-2, 2))
@settings(deadline=None, max_examples=25)
def test_identity_plus_low_rank_is_found_exactly(seed: int, rank: int, alpha: float) -> None:
    rng = np.random.default_rng(seed)
    w_K, w_Q = rng.standard_normal((2, 30, rank))
    W = (alpha + 0.1) * np.eye(30) + w_K @ w_Q.T
    if not W.any():
        return
    found = decompose(W, rank)
    assert found.alpha == pytest.approx(alpha + 0.1, abs=1e-9)
    np.testing.assert_allclose(found.w_K @ found.w_Q.T, w_K @ w_Q.T, atol=1e-8)
    assert found.shares[2] == pytest.approx(0, abs=1e-12)
    assert sum(found.shares) == pytest.approx(1, abs=1e-12)


def test_no_other_alpha_is_better() -> None:
    rng = np.random.default_rng(1)
    W = 0.3 * np.eye(40) + rng.standard_normal((40, 40)) / 8 + 3 * np.outer(*np.eye(40)[:2])
    found = decompose(W, 2)
    rest = found.shares[2] * np.sum(W**2)
    for alpha in np.linspace(-1, 1, 81):
        singular = np.linalg.svd(W - alpha * np.eye(40), compute_uv=False)
        assert np.sum(singular[2:] ** 2) >= rest * (1 - 1e-9)
    R = W - found.alpha * np.eye(40) - (found.U * found.s) @ found.V.T
    assert np.sum(R**2) == pytest.approx(rest)
    assert np.trace(R) == pytest.approx(0, abs=1e-9)
    assert np.sum(R * (found.w_K @ found.w_Q.T)) == pytest.approx(0, abs=1e-9)


def test_a_removed_direction_is_not_counted_twice() -> None:
    e = np.zeros((25, 1))
    e[0] = 1
    found = decompose(np.eye(25) - e @ e.T)
    assert found.alpha == pytest.approx(1)
    assert found.s == pytest.approx([1])
    np.testing.assert_allclose(found.cosines, [-1])
    np.testing.assert_allclose(found.localisation, [[25], [25]])
    np.testing.assert_allclose(found.shares, [1, 0, 0], atol=1e-12)


def test_kappa_tells_symmetric_from_antisymmetric() -> None:
    G = np.random.default_rng(2).standard_normal((20, 20))
    assert decompose(G + G.T).kappa == pytest.approx(1)
    assert decompose(G - G.T).kappa == pytest.approx(-1)
    assert decompose(3 * np.eye(20)).tau == pytest.approx(3)


def test_random_null() -> None:
    p = 400
    W = np.random.default_rng(3).standard_normal((p, p)) / np.sqrt(p)
    np.testing.assert_allclose(decompose(W).singular, quarter_circle(p), atol=0.05)
    assert np.mean(quarter_circle(p) ** 2) == pytest.approx(1, abs=1e-3)
    ax = plot_spectrum(decompose(W))
    assert len(ax.lines) == 2
    assert plot_spectrum(decompose(W, 2), ax) is ax
    matplotlib.pyplot.close("all")


def test_table_names_every_number() -> None:
    text = str(decompose(np.diag([1.0, 2.0, 3.0, 4.0]), 2))
    for name in ("kappa", "alpha", "share of the identity", "share of rank 2", "localisation"):
        assert name in text


@pytest.mark.parametrize(
    ("W", "rank"),
    [
        (np.zeros((3, 3)), 1),
        (np.ones((3, 2)), 1),
        (np.full((3, 3), np.nan), 1),
        (np.eye(3), 3),
        (np.eye(3), -1),
    ],
)
def test_bad_input(W: np.ndarray, rank: int) -> None:
    with pytest.raises(InputError):
        decompose(W, rank)
