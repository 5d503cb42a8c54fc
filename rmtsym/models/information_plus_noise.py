r"""Information plus noise: a deterministic matrix seen through Gaussian noise.

``A`` (n x p, p >= n) with singular values known by their law, ``X`` of iid entries, p / n -> c. In
the bases of its singular vectors ``A = (D, 0)``, so that with ``X = (X_1, X_2)``

    H = (D + sigma X_1/sqrt(n)) (D + sigma X_1/sqrt(n))^T + sigma^2 X_2 X_2^T / n,
    m = int dH(t) / ( t/(1 + sigma^2 m) + (1 + sigma^2 m) gamma + sigma^2 (c - 1) ),

``m = lim (1/n) tr (H + gamma)^{-1}`` and ``dH`` the law of ``D^2``.

Source: R. Dozier and J. Silverstein, J. Multivariate Anal. 98 (2007), equation (1.1), with
``c sigma^2`` there = ``sigma^2`` here and z = -gamma.
"""

from __future__ import annotations

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

n, q = dimensions("n q")
gamma, c, sigma = sp.symbols("gamma c sigma", positive=True)
X1, X2 = Gaussian("X_1", n, n), Gaussian("X_2", n, q)


def transform(law: SpectralLaw) -> Matrix:
    """``(1/n) tr (H + gamma)^{-1}`` for singular values of this law; q = p - n zero columns."""
    seen = Deterministic("D", n, law) + sigma * X1 / sp.sqrt(n)
    H = seen * seen.T + sigma**2 * X2 * X2.T / n
    result: Matrix = Trace((H + gamma * Identity(n)).inverse()) / n
    return result


INFORMATION_PLUS_NOISE = Model(
    name="information-plus-noise",
    title="Resolvent of information plus noise, singular values 0 and 2",
    expression=transform(SpectralLaw.from_atoms([0, 2])),
    sizes=((n, sp.Integer(1)), (q, c - 1)),
    reference="R. Dozier and J. Silverstein, J. Multivariate Anal. 98 (2007), equation (1.1)",
    examples=(Example(values=((c, 2), (gamma, "1/2"), (sigma, 1))),),
)
