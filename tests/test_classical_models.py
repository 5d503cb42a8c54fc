"""Classical models against their closed forms and published equations."""

import math

import numpy as np
import pytest
import sympy as sp

from rmtsym import Nonlinearity, solve
from rmtsym.elimination import polynomial
from rmtsym.matrices import SpectralLaw
from rmtsym.models import (
    conjugate_kernel,
    free_sum,
    information_plus_noise,
    inner_product_kernel,
    marchenko_pastur,
    random_features,
    ridge,
    semicircle,
    wishart_product,
)
from rmtsym.models.base import Model, gram
from rmtsym.parsing import exact_number

MODULES = [
    conjugate_kernel,
    free_sum,
    information_plus_noise,
    inner_product_kernel,
    marchenko_pastur,
    random_features,
    ridge,
    semicircle,
    wishart_product,
]
MODELS = {m.name: m for module in MODULES for m in vars(module).values() if isinstance(m, Model)}
M = sp.Symbol("M")


def value(model, values, f=None, vectors=()):
    numbers = {s: values[s.name] for s in model.system.parameters if s.name in values}
    numbers |= gram({v: tuple(map(exact_number, row)) for v, row in vectors})
    functions = {sp.Symbol("f"): Nonlinearity(f).centred()} if f else {}
    return solve(model.system, numbers, nonlinearities=functions).value


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_published_values(model):
    for example in model.examples:
        if example.published is not None:
            numbers = {s.name: exact_number(v) for s, v in example.values}
            assert value(model, numbers) == pytest.approx(float(example.published), rel=1e-12)


@pytest.mark.parametrize("c", [0.1, 0.5, 1, 2, 10])
@pytest.mark.parametrize("gamma", [1e-6, 1e-2, 1, 100])
def test_marchenko_pastur(c, gamma):
    found = value(MODELS["marchenko-pastur"], {"c": c, "gamma": gamma})
    assert found == pytest.approx(
        marchenko_pastur.marchenko_pastur(ratio=c, gamma=gamma), rel=1e-10
    )


@pytest.mark.parametrize("c", [0.3, 2])
def test_silverstein(c):
    s = value(MODELS["anisotropic"], {"c": c, "gamma": 0.5})
    right = 0.5 + c * np.mean([t / (1 + t * s) for t in (1, 3)])
    assert 1 / s == pytest.approx(right, rel=1e-12)


def test_a_spectral_law_by_quadrature_is_silverstein_with_an_integral():
    law = SpectralLaw.uniform(1, 3, nodes=20)
    model = marchenko_pastur.anisotropic(law)
    from rmtsym import derive

    n, p = marchenko_pastur.n, marchenko_pastur.p
    s = solve(derive(model, {n: 1, p: 2}), {marchenko_pastur.gamma: 0.5}).value
    # int_1^3 t/(1+ts) dt/2 = (2 - log((1+3s)/(1+s))/s) / (2s)
    right = 0.5 + 2 * (2 - math.log((1 + 3 * s) / (1 + s)) / s) / (2 * s)
    assert 1 / s == pytest.approx(right, rel=1e-12)


def test_semicircle():
    assert value(MODELS["semicircle"], {"gamma": 2.5}) == pytest.approx(
        semicircle.semicircle(gamma=2.5), rel=1e-12
    )


def test_free_sum_is_the_subordinated_cubic():
    model = MODELS["free-sum"]
    found = polynomial(model.system, "value", M, at={"gamma": 4, "c": 1, "sigma": 0.5})
    ratio = sp.cancel(found / free_sum.cubic(M))
    assert ratio.is_number and ratio != 0


def test_wishart_product_is_the_cubic_of_its_s_transform():
    found = polynomial(MODELS["wishart-product"].system, "value", M)
    assert sp.cancel(found / wishart_product.cubic(M)).is_number or (
        sp.cancel(found / wishart_product.cubic(M)).free_symbols <= {wishart_product.gamma}
    )


@pytest.mark.parametrize(("c", "sigma"), [(1.5, 1), (3, 0.4)])
def test_dozier_silverstein(c, sigma):
    gamma = 0.5
    m = value(MODELS["information-plus-noise"], {"c": c, "gamma": gamma, "sigma": sigma})
    v = sigma**2
    right = np.mean([1 / (t / (1 + v * m) + (1 + v * m) * gamma + v * (c - 1)) for t in (0.0, 4.0)])
    assert m == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("f", ["tanh(t)", "relu", "cos(t)"])
def test_pennington_worah(f):
    phi, width, gamma = 0.5, 2.0, 0.5
    s = value(MODELS["conjugate-kernel"], {"phi": phi, "width": width, "gamma": gamma}, f)
    h = Nonlinearity(f).centred()
    # F^T F/m and F F^T/n share eigenvalues up to scale; G of (1/n) F F^T (m x m) at z.
    z = -gamma * width
    psi = phi / width
    inner = s / width * 1.0  # (1/n) tr (F^T F/n - z)^{-1}
    g_small = (inner - (1 - width) / (-z)) / width  # (1/m) tr (F F^T/n - z)^{-1}
    G = -g_small  # their G = (1/m) tr (z - M)^{-1}
    P = (G - (1 - psi) / z) * z / psi
    t = 1 / (z * psi)
    equation = conjugate_kernel.generating_function_equation(
        sp.Symbol("P"), sp.Symbol("t"), sp.Symbol("a"), sp.Symbol("nu")
    )
    residual = equation.subs(
        {
            "P": P,
            "t": t,
            "a": h.coefficient(1),
            "nu": h.nu(),
            conjugate_kernel.phi: phi,
            conjugate_kernel.width: width,
        }
    )
    assert abs(float(residual)) < 1e-10


def test_pennington_worah_is_a_quartic():
    found = polynomial(MODELS["conjugate-kernel"].system, "value", M, budget=120)
    assert sp.degree(found, M) == 4


def test_cheng_singer():
    found = polynomial(MODELS["inner-product-kernel"].system, "value", M, at={"gamma": 8, "c": 1})
    a1, nu = (next(s for s in found.free_symbols if s.name == x) for x in ("a_1", "nu"))
    equation = sp.numer(sp.together(inner_product_kernel.equation(M, a1, nu)))
    assert sp.cancel(found / equation).is_number


def mei_montanari(psi1, psi2, zeta, lam):
    """Bias and variance of Theorem 2 (Definition 1), by iteration at xi = i sqrt(psi1 psi2 lam)."""
    xi = 1j * math.sqrt(psi1 * psi2 * lam)
    v1 = v2 = 0.01j
    for k in [*np.geomspace(100, 1, 60), *[1] * 20000]:
        new1 = psi1 / (-xi * k - v2 - zeta**2 * v2 / (1 - zeta**2 * v1 * v2))
        new2 = psi2 / (-xi * k - v1 - zeta**2 * v1 / (1 - zeta**2 * v1 * v2))
        v1, v2 = (v1 + new1) / 2, (v2 + new2) / 2
    chi, z2 = (v1 * v2).real, zeta**2
    both = psi1 * psi2
    e0 = (
        -(chi**5) * z2**3
        + 3 * chi**4 * z2**2
        + (both - psi2 - psi1 + 1) * chi**3 * z2**3
        - 2 * chi**3 * z2**2
        - 3 * chi**3 * z2
        + (psi1 + psi2 - 3 * both + 1) * chi**2 * z2**2
        + 2 * chi**2 * z2
        + chi**2
        + 3 * both * chi * z2
        - both
    )
    e1 = psi2 * chi**3 * z2**2 - psi2 * chi**2 * z2 + both * chi * z2 - both
    e2 = (
        chi**5 * z2**3
        - 3 * chi**4 * z2**2
        + (psi1 - 1) * chi**3 * z2**3
        + 2 * chi**3 * z2**2
        + 3 * chi**3 * z2
        + (-psi1 - 1) * chi**2 * z2**2
        - 2 * chi**2 * z2
        - chi**2
    )
    return e1 / e0, e2 / e0


@pytest.mark.parametrize(("phi", "width"), [(0.5, 1.5), (2.0, 0.8), (0.5, 1.05)])
def test_mei_montanari(phi, width):
    gamma, noise = 0.1, 0.5
    found = value(
        MODELS["random-features-test"],
        {"phi": phi, "width": width, "gamma": gamma, "s": noise, "fresh": 1},
        "tanh(t)",
        [(random_features.beta, (1,))],
    )
    h = Nonlinearity("tanh(t)").centred()
    a1, star = h.coefficient(1), math.sqrt(h.nu() - h.coefficient(1) ** 2)
    psi1, psi2 = width / phi, 1 / phi
    bias, variance = mei_montanari(psi1, psi2, a1 / star, gamma / psi1 / star**2)
    assert found == pytest.approx(bias + noise**2 * variance, rel=1e-8)


@pytest.mark.parametrize("c", [0.5, 1, 1.5])
def test_ridge_bias_and_variance(c):
    numbers = {"c": c, "gamma": 0.2}
    bias, variance = ridge.implicit_solution(ratio=c, gamma=0.2)
    assert value(MODELS["ridge-bias"], numbers, None, [(ridge.beta, (1,))]) == pytest.approx(
        bias, rel=1e-10
    )
    assert value(MODELS["ridge-variance"], numbers) == pytest.approx(variance, rel=1e-10)
