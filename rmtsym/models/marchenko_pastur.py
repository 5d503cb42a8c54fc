r"""Sample covariance matrices: Marchenko-Pastur, and Silverstein's equation with a covariance.

With ``X`` (n x p) of iid entries, ``p / n -> c``, and a covariance C of spectral law ``dH``,

    m(-gamma) = lim (1/p) tr (X^T X / n + gamma)^{-1}:   c gamma m^2 + (gamma + 1 - c) m - 1 = 0,
    s(-gamma) = lim (1/n) tr (X C X^T / n + gamma)^{-1}: 1/s = gamma + c int t dH(t) / (1 + t s).

Source: V. Marchenko and L. Pastur, Mat. Sb. 72 (1967); J. Silverstein and Z. Bai, J. Multivariate
Anal. 54 (1995), equation (1.4), at z = -gamma.

>>> round(marchenko_pastur(ratio=1, gamma=1), 12)
0.61803398875
"""

from __future__ import annotations

from math import sqrt

import sympy as sp

from rmtsym.matrices import (
    Deterministic,
    Gaussian,
    Identity,
    Matrix,
    SpectralLaw,
    Trace,
    dimensions,
)
from rmtsym.models.base import Example, Model

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
X = Gaussian("X", n, p)

TRANSFORM: Matrix = Trace((X.T * X / n + gamma * Identity(p)).inverse()) / p

MARCHENKO_PASTUR = Model(
    name="marchenko-pastur",
    title="Resolvent of a sample covariance matrix",
    expression=TRANSFORM,
    sizes=((n, sp.Integer(1)), (p, c)),
    reference="V. Marchenko and L. Pastur, Mat. Sb. 72 (1967)",
    examples=(
        Example(values=((c, 1), (gamma, 1)), published="0.6180339887498949"),
        Example(values=((c, 2), (gamma, "1/10")), published="5.4221443851123805"),
    ),
)


def marchenko_pastur(*, ratio: float, gamma: float) -> float:
    """``(1/p) tr (X^T X/n + gamma)^{-1}``, the positive root, with no digits lost.

    >>> round(marchenko_pastur(ratio=2, gamma=0.1), 12)
    5.422144385112
    """
    b = gamma + 1 - ratio
    root = sqrt(b * b + 4 * ratio * gamma)
    return 2 / (b + root) if b > 0 else (root - b) / (2 * ratio * gamma)


def anisotropic(law: SpectralLaw) -> Matrix:
    """``(1/n) tr (X C X^T / n + gamma)^{-1}`` for a covariance C of this law."""
    C = Deterministic("C", p, law)
    result: Matrix = Trace((X * C * X.T / n + gamma * Identity(n)).inverse()) / n
    return result


ANISOTROPIC = Model(
    name="anisotropic",
    title="Resolvent of a sample covariance matrix, covariance with eigenvalues 1 and 3",
    expression=anisotropic(SpectralLaw.from_atoms([1, 3])),
    sizes=((n, sp.Integer(1)), (p, c)),
    reference="J. Silverstein and Z. Bai, J. Multivariate Anal. 54 (1995), equation (1.4)",
    examples=(Example(values=((c, "1/2"), (gamma, "1/2"))),),
)
