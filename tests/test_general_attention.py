"""Attention with any W: the equation itself, its limits, its structure, and direct simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_pretrained import minilm

from rmtsym.elliptic import (
    DenseWeights,
    EllipticEquation,
    LowRankWeights,
    SymmetricWeights,
    weight_matrix,
)
from rmtsym.errors import ConvergenceError, InputError
from rmtsym.models.attention import attention_error
from rmtsym.models.general_attention import GeneralAttention, Rung, elliptic_noise, extrapolate
from rmtsym.models.regression import regression_error
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.pretrained import load_attention

E1, E2, E3 = np.eye(3)


def iid(p: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((p, p)) / math.sqrt(p)


def direction(p: int, length: float = 1.5, seed: int = 1) -> np.ndarray:
    mu = np.random.default_rng(seed).standard_normal(p)
    return length * mu / np.linalg.norm(mu)


def equation(W: object, ratio: float = 0.7) -> EllipticEquation:
    return EllipticEquation(weight_matrix(W), a=0.8, b2=0.3, corr=0.25, c=ratio)


# ------------------------------------------------------------------------------------------------
# The equation as the docstring states it, before anything is eliminated


def stated(eq: EllipticEquation, W: np.ndarray, gamma: float, g: np.ndarray) -> tuple:
    """M(g) and R(g) (3p x 3p) by the formulas of the module, with no elimination."""
    p, a, c = len(W), eq.a, eq.c
    zero, one = np.zeros((p, p)), np.eye(p)
    V = np.block([[zero, a * W.T, zero], [a * W, zero, zero], [zero, zero, c * one]])
    R = np.linalg.inv(np.linalg.inv(V) + np.kron(g / c, one))
    trace = a * np.trace(W) / p
    A = np.array([[gamma, -trace, 0], [-trace, 0, -1], [0, -1, 0]])
    N = np.zeros((3, 3))
    N[:2, :2] = [[g[1, 1], eq.corr * g[0, 1]], [eq.corr * g[0, 1], g[0, 0]]]
    traces = R.reshape(3, p, 3, p).trace(axis1=1, axis2=3) / p
    return A - eq.b2 / c * N + traces, R


@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("gamma", [5.0, 0.05])
def test_the_solution_solves_the_stated_equation(gamma: float, ratio: float) -> None:
    p = 12
    W, mu = iid(p) + 0.4 * np.eye(p), direction(p)
    eq = equation(W, ratio)
    found = eq.solve(gamma, mu)
    M, R = stated(eq, W, gamma, found.g)
    np.testing.assert_allclose(found.g @ M, np.eye(3), atol=1e-10)
    signal = np.einsum("iajb,a,b->ij", R.reshape(3, p, 3, p), mu, mu)
    assert np.linalg.inv(M + signal / ratio)[0, 0] == pytest.approx(found.form, rel=1e-9)


@given(
    seed=st.integers(0, 2**32 - 1),
    log_ratio=st.floats(-1, 1),
    log_gamma=st.floats(-4, 2),
    corr=st.floats(-1, 1),
)
@settings(deadline=None, max_examples=25)
def test_derivatives_bounds_and_growth(
    seed: int, log_ratio: float, log_gamma: float, corr: float
) -> None:
    W, gamma = iid(5, seed) + iid(5, seed + 1).T @ iid(5, seed), 10**log_gamma
    eq = EllipticEquation(DenseWeights(W), 0.7, 0.2, corr, 10**log_ratio)
    mu = direction(5, seed=seed)
    low, here, high = (eq.solve(gamma * (1 + step), mu) for step in (-1e-5, 0, 1e-5))
    slope = (high.form - low.form) / (2e-5 * gamma)
    assert here.dform == pytest.approx(slope, rel=1e-5, abs=1e-8 * here.form / gamma)
    np.testing.assert_allclose(
        here.dg, (high.g - low.g) / (2e-5 * gamma), rtol=1e-4, atol=1e-6 * np.abs(here.dg).max()
    )
    assert 0 <= low.error <= here.error <= high.error <= 1
    assert here.residual < 1e-9


@pytest.mark.parametrize("gamma", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_small_ridge_keeps_its_digits(gamma: float, ratio: float) -> None:
    W, mu = np.diag(np.linspace(0.5, 1.5, 30)), direction(30)
    short, dense = equation(W, ratio), EllipticEquation(DenseWeights(W), 0.8, 0.3, 0.25, ratio)
    one, two = short.solve(gamma, mu), dense.solve(gamma, mu)
    assert one.error == pytest.approx(two.error, rel=1e-9)
    assert 0 <= one.error <= 1


# ------------------------------------------------------------------------------------------------
# Limits known in closed form, and symmetries


@pytest.mark.parametrize(
    ("f", "ratio", "gamma", "mu", "w_K", "w_Q"),
    [
        ("tanh(t)", 2 / 3, 0.2, 1.5 * E1, E1 + E2, E1 - E3),
        ("sign(t)", 2.0, 0.5, 1.5 * E1, E1, E1),
        ("Min(exp(t), 5)", 0.25, 1.0, 2 * E1, 3 * E1, 3 * E1),
        ("cos(t)", 1 / 3, 0.1, 1.5 * E2, E1, E2),
        ("t", 1.5, 1e-3, E1 + E2, E3 - E1, 2 * E1 + E3),
    ],
)
def test_identity_plus_rank_one_is_the_attention_model(
    f: str, ratio: float, gamma: float, mu: np.ndarray, w_K: np.ndarray, w_Q: np.ndarray
) -> None:
    expected = attention_error(
        f, ratio=ratio, gamma=gamma, mu=mu.tolist(), w_k=w_K.tolist(), w_q=w_Q.tolist()
    )
    model = GeneralAttention(LowRankWeights(w_K, w_Q), mu, f, ratio)
    assert float(model.error(gamma)) == pytest.approx(float(expected), abs=1e-8)


def test_finite_identity_plus_rank_one_approaches_it_as_one_over_p() -> None:
    limit, *finite = (
        float(
            GeneralAttention(LowRankWeights(E1 + E2, E1 - E3, p=p), E1, "tanh(t)", 2 / 3).error(0.2)
        )
        for p in (math.inf, 1e3, 1e4, 1e5)
    )
    gaps = np.array(finite) - limit
    np.testing.assert_allclose(gaps[:-1] / gaps[1:], 10, rtol=0.02)


@given(seed=st.integers(0, 2**32 - 1), alpha=st.floats(-1.5, 1.5), rank=st.integers(1, 3))
@settings(deadline=None, max_examples=20)
def test_structures_agree_with_the_dense_matrix(seed: int, alpha: float, rank: int) -> None:
    rng, p = np.random.default_rng(seed), 14
    mu, gamma = direction(p, seed=seed), 0.2
    w_K, w_Q = rng.standard_normal((2, p, rank))
    G = rng.standard_normal((p, p))
    pairs = [
        (LowRankWeights(w_K, w_Q, alpha, p), alpha * np.eye(p) + w_K @ w_Q.T),
        (weight_matrix(G + G.T), G + G.T),
        (weight_matrix(np.diag(G[0])), np.diag(G[0])),
    ]
    assert isinstance(pairs[1][0], SymmetricWeights) and pairs[2][0].basis is None
    for short, W in pairs:
        np.testing.assert_allclose(short.moments, DenseWeights(W).moments, atol=1e-12)
        one, two = (equation(M).solve(gamma, mu) for M in (short, DenseWeights(W)))
        assert one.error == pytest.approx(two.error, rel=1e-8)
        assert one.form == pytest.approx(two.form, rel=1e-8)


def test_no_slope_is_the_closed_form() -> None:
    # gamma m = z m0(z), z = c / (nu m); c = 1, nu = 1, gamma = 1/100 give m = 20
    found = EllipticEquation(weight_matrix(iid(6)), 0.0, 1.0, 1.0, 1.0).solve(0.01, direction(6))
    assert found.g[0, 0] == pytest.approx(20, rel=1e-10)
    assert found.form == pytest.approx(20, rel=1e-10)  # no slope, no signal


def test_no_slope_does_not_see_the_directions_of_W() -> None:
    errors = [
        float(GeneralAttention(SymmetricWeights(l), direction(4, seed=s), "cos(t)", 0.5).error(0.1))
        for l, s in [(np.array([1.0, 1, 1, 1]), 0), (np.array([1.0, -1, -1, 1]), 3)]
    ]
    assert errors[0] == pytest.approx(errors[1], rel=1e-10)


def test_linear_attention_of_a_large_ridge() -> None:
    # no signal: E = 1 - 2 tau/gamma + O(gamma^-2), tau = a_1^2 (1 + 1/c) + b^2, for W = I
    model = GeneralAttention(np.eye(5), np.zeros(5), "tanh(t)", 0.4)
    eq = model.equation
    tau = eq.a**2 * (1 + 1 / 0.4) + eq.b2
    assert (1 - float(model.error(1e6))) * 1e6 / 2 == pytest.approx(tau, rel=1e-4)


@pytest.mark.parametrize("f", ["tanh(t)", "Max(t, 0)"])
def test_invariances(f: str) -> None:
    p = 10
    W, mu, gamma = iid(p), direction(p), 0.3
    base = float(GeneralAttention(W, mu, f, 0.8).error(gamma))
    turn = np.linalg.qr(iid(p, 5))[0]
    for W2, mu2, f2, gamma2 in [
        (turn @ W @ turn.T, turn @ mu, f, gamma),
        (W, -mu, f, gamma),
        (W, mu, f"-({f})", gamma),
        (W, mu, f"2*({f})", 4 * gamma),
        (W, mu, f"7 + ({f})", gamma),
        (2 * W, mu, f.replace("t", "t/2") if f[0] == "M" else "tanh(t/2)", gamma),
        (np.kron(np.eye(3), W), np.kron([1, 2, 2], mu) / 3, f, gamma),
    ]:
        assert float(GeneralAttention(W2, mu2, f2, 0.8).error(gamma2)) == pytest.approx(
            base, rel=1e-9
        )


def test_noise_of_the_kernel() -> None:
    f = Nonlinearity("t + t^3")  # alpha_1 = 4, alpha_3 = sqrt(6)
    b2, corr = elliptic_noise(f, 0.5)
    assert b2 == pytest.approx(6) and corr == pytest.approx(0.125)
    assert elliptic_noise(f, 1.0)[1] == 1
    assert elliptic_noise(Nonlinearity("tanh(t)"), -1.0)[1] == pytest.approx(-1)
    assert elliptic_noise(Nonlinearity("t"), 0.3) == (pytest.approx(0, abs=1e-13), 1.0)
    # relu: E[relu(x) relu(x')] = (sqrt(1 - k^2) + k (pi - arccos k)) / 2 pi
    kappa = 0.9
    pair = (math.sqrt(1 - kappa**2) + kappa * (math.pi - math.acos(kappa))) / (2 * math.pi)
    b2, corr = elliptic_noise(Nonlinearity("Max(t, 0)"), kappa)
    assert corr * b2 == pytest.approx(pair - 1 / (2 * math.pi) - kappa / 4, abs=1e-7)
    with pytest.raises(ConvergenceError, match="LowRankWeights"):
        elliptic_noise(Nonlinearity("sign(t)"), 0.999)


# ------------------------------------------------------------------------------------------------
# Direct simulation


def product(p: int, rank: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    w_K, w_Q = rng.standard_normal((2, p, rank))
    return w_K @ w_Q.T / math.sqrt(rank * p)


P = 128
WEIGHTS = {
    "iid": iid(P),
    "symmetric": (iid(P) + iid(P).T) / math.sqrt(2),
    "diagonal": np.diag(np.linspace(0.5, 1.5, P)),
    "product of rank 64": product(P, 64),
}


def agrees(model: GeneralAttention, gamma: float, rungs: list[Rung]) -> None:
    """Theory within four standard errors plus the finite-size bias that the ladder shows."""
    theory = float(model.error(gamma))
    limit, error = extrapolate(rungs)
    bias = abs(rungs[-1].mean - limit)
    assert abs(rungs[-1].mean - theory) <= 4 * rungs[-1].standard_error + bias
    assert abs(limit - theory) <= 4 * error
    assert error < 0.1 * theory


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize(("f", "gamma"), [("tanh(t)", 0.1), ("t + (t^2 - 1)/sqrt(2)", 0.5)])
def test_simulation(name: str, f: str, gamma: float) -> None:
    model = GeneralAttention(WEIGHTS[name], direction(P), f, 0.5)
    rungs = [
        model.simulate(gamma, repetitions=reps, copies=copies, seed=copies)[0]
        for copies, reps in ((1, 40), (3, 14))
    ]
    assert [rung.p for rung in rungs] == [P, 3 * P] and rungs[0].n == 2 * P
    agrees(model, gamma, rungs)


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_simulation_with_other_tokens(ratio: float) -> None:
    model = GeneralAttention(WEIGHTS["iid"], direction(P), "Max(t, 0)", ratio)
    gaussian, rademacher = (
        [
            model.simulate(0.3, repetitions=reps, copies=copies, tokens=law, seed=3)[0]
            for copies, reps in ((1, 40), (3, 10))
        ]
        for law in ("gaussian", "rademacher")
    )
    agrees(model, 0.3, gaussian)
    agrees(model, 0.3, rademacher)
    assert gaussian[0].mean != rademacher[0].mean


def test_simulation_is_the_model_itself() -> None:
    p, n, gamma = 6, 12, 0.3
    W, mu = iid(p), direction(p)
    (rung,) = GeneralAttention(W, mu, "tanh(t)", 0.5).simulate(gamma, repetitions=2, seed=4)
    y, errors = np.repeat([1.0, -1.0], n // 2), []
    for child in np.random.SeedSequence(4).spawn(2):
        X = np.outer(mu, y) + np.random.default_rng(child).standard_normal((p, n))
        K = np.tanh(X.T @ W @ X / math.sqrt(p)) / math.sqrt(p)
        K -= np.diag(np.diag(K))
        Q = np.linalg.inv(K.T @ X.T @ X @ K / n + gamma * np.eye(n))
        errors.append(gamma**2 / n * y @ Q @ Q @ y)
    assert rung.mean == pytest.approx(np.mean(errors), rel=1e-9)
    assert rung.standard_error == pytest.approx(np.std(errors, ddof=1) / math.sqrt(2), rel=1e-6)


def test_simulation_copies_are_blocks() -> None:
    p = 6
    W, mu = iid(p), direction(p)
    whole = GeneralAttention(np.kron(np.eye(2), W), np.tile(mu, 2) / math.sqrt(2), "erf(t)", 2.0)
    blocks = GeneralAttention(W, mu, "erf(t)", 2.0)
    one, two = whole.simulate([0.1, 1.0], seed=1), blocks.simulate([0.1, 1.0], copies=2, seed=1)
    np.testing.assert_allclose([r.mean for r in one], [r.mean for r in two], rtol=1e-10)


@pytest.mark.parametrize("layer", range(6))
def test_minilm(layer: int) -> None:
    W = load_attention(minilm(), layer=layer).W
    W *= math.sqrt(len(W)) / np.linalg.norm(W)
    model = GeneralAttention(W, direction(len(W), seed=layer), "tanh(t)", 0.5)
    theory = float(model.error(0.1))
    (seen,) = model.simulate(0.1, repetitions=20, seed=layer)
    assert seen.mean == pytest.approx(theory, rel=0.04)


def test_a_point_at_768() -> None:
    W, mu = iid(768), direction(768)
    error = float(GeneralAttention(W, mu, "tanh(t)", 0.5).error(0.1))
    assert 0 < error < float(regression_error(ratio=0.5, gamma=0.1, snr=0))


# ------------------------------------------------------------------------------------------------
# Bad input


@pytest.mark.parametrize(
    "W",
    [
        np.ones((2, 3)),
        np.zeros((3, 3)),
        np.full((3, 3), np.nan),
        np.ones(3),
        "weights",
        [[1.0], [1.0, 2.0]],
        np.zeros((0, 0)),
    ],
)
def test_bad_weights(W: object) -> None:
    with pytest.raises(InputError):
        weight_matrix(W)


def test_bad_parameters() -> None:
    W, mu = np.eye(3), E1
    for bad in (np.ones(2), [math.nan, 0, 0], np.eye(3)):
        with pytest.raises(InputError, match="mu has shape"):
            GeneralAttention(W, bad, "t", 1.0)
    for ratio in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="ratio"):
            GeneralAttention(W, mu, "t", ratio)
    model = GeneralAttention(W, mu, "tanh(t)", 1.0)
    for gamma in (0.0, -1.0, math.nan):
        with pytest.raises(InputError, match="gamma"):
            model.error(gamma)
    for keywords in ({"repetitions": 1}, {"copies": 0}, {"tokens": "cauchy"}):
        with pytest.raises(InputError):
            model.simulate(0.1, **keywords)
    with pytest.raises(InputError, match="array"):
        GeneralAttention(LowRankWeights(E1, E1), mu, "t", 1.0).simulate(0.1)
    with pytest.raises(InputError, match="expected one"):
        LowRankWeights(E1, np.eye(3))
    with pytest.raises(InputError, match="less than the length"):
        LowRankWeights(E1, E1, p=2)
    with pytest.raises(InputError, match="two sizes"):
        extrapolate([Rung(10, 20, 0.5, 0.1, 9)])


def test_weights_are_not_shared_with_the_caller() -> None:
    W = iid(4)
    model = GeneralAttention(W, direction(4), "tanh(t)", 1.0)
    before = float(model.error(0.1))
    W[:] = np.eye(4)
    assert float(model.error(0.1)) == before


def test_gamma_in_any_shape() -> None:
    model = GeneralAttention(np.eye(3), E1, "tanh(t)", 1.0)
    grid = model.error([[0.1, 1.0], [10.0, 100.0]])
    assert grid.shape == (2, 2) and (np.diff(grid.ravel()) > 0).all()
    assert model.error(0.1).shape == ()
