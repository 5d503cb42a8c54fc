r"""Ridge regression: bias and variance, training and test covariances that commute.

Data ``X = Z R`` (n x p, R^2 the covariance), targets ``y = X beta + noise`` of variance one, and
``Q = (X^T X / n + gamma)^{-1}``. On test data of covariance T,

    bias = gamma^2 beta^T Q T Q beta,        variance = (1/n) tr T Q (X^T X / n) Q.

With r^2 and t the joint eigenvalues, p / n -> c, and kappa > 0 the root of
``gamma = kappa (1 - c E[r^2/(r^2 + kappa)])``,

    variance = c E[t r^2/(r^2 + kappa)^2] / (1 - c E[r^4/(r^2 + kappa)^2]),
    bias / |beta|^2 = kappa^2 ( E[t/(r^2 + kappa)^2] + E[r^2/(r^2 + kappa)^2] variance ).

``beta`` is in generic position; for a beta aligned with the covariance write ``B * beta`` with a
third matrix B of the joint law.

Source: E. Dobriban and S. Wager, Ann. Statist. 46 (2018); T. Hastie, A. Montanari, S. Rosset and
R. Tibshirani, Ann. Statist. 50 (2022), Theorem 5.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

from rmtsym.matrices import (
    Deterministic,
    Gaussian,
    Identity,
    Matrix,
    SpectralLaw,
    Trace,
    Vector,
    dimensions,
)
from rmtsym.models.base import Example, Model

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
Z, beta = Gaussian("Z", n, p), Vector("beta", p)
LAW = SpectralLaw.from_atoms([(1, 1), (2, "1/2")])


def bias_and_variance(law: SpectralLaw = LAW) -> tuple[Matrix, Matrix]:
    """Bias and variance for a joint law of (R, T), R the root of the training covariance."""
    R, T = Deterministic("R", p, law, 0), Deterministic("T", p, law, 1)
    S = R * Z.T * Z * R / n
    Q = (S + gamma * Identity(p)).inverse()
    return gamma**2 * beta.T * Q * T * Q * beta, Trace(T * Q * S * Q) / n


BIAS, VARIANCE = bias_and_variance()
_SIZES = ((n, sp.Integer(1)), (p, c))
_REFERENCE = "T. Hastie et al., Ann. Statist. 50 (2022), Theorem 5"

RIDGE_BIAS = Model(
    name="ridge-bias",
    title="Bias of ridge regression, two commuting covariances",
    expression=BIAS,
    sizes=_SIZES,
    reference=_REFERENCE,
    examples=(Example(values=((c, "3/2"), (gamma, "1/5")), vectors=((beta, (1,)),)),),
)

RIDGE_VARIANCE = Model(
    name="ridge-variance",
    title="Variance of ridge regression, two commuting covariances",
    expression=VARIANCE,
    sizes=_SIZES,
    reference=_REFERENCE,
    examples=(Example(values=((c, "3/2"), (gamma, "1/5"))),),
)


def implicit_solution(*, ratio: float, gamma: float, law: SpectralLaw = LAW) -> tuple[float, float]:
    """Bias (at |beta| = 1) and variance from the root kappa.

    >>> unit = SpectralLaw.from_atoms([(1, 1)])
    >>> [round(x, 12) for x in implicit_solution(ratio=1, gamma=1, law=unit)]
    [0.4472135955, 0.17082039325]
    """
    from scipy.optimize import brentq

    atoms = [
        (float(w), float(r) ** 2, float(t))
        for w, (r, t) in zip(law.weights, law.atoms, strict=True)
    ]

    def mean(function: Callable[[float, float], float]) -> float:
        return sum(w * function(r, t) for w, r, t in atoms)

    top = gamma + ratio * mean(lambda r, t: r)
    kappa = brentq(
        lambda k: k * (1 - ratio * mean(lambda r, t: r / (r + k))) - gamma, 0, top, xtol=1e-16
    )
    slack = 1 - ratio * mean(lambda r, t: (r / (r + kappa)) ** 2)
    variance = ratio * mean(lambda r, t: t * r / (r + kappa) ** 2) / slack
    bias = mean(lambda r, t: t / (r + kappa) ** 2)
    return kappa**2 * (bias + mean(lambda r, t: r / (r + kappa) ** 2) * variance), variance
