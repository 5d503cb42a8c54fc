r"""Free sum of a Marchenko-Pastur and a semicircle law.

With ``X`` (n x p), ``p / n -> c``, and S from the GOE of size p, independent,

    m(-gamma) = lim (1/p) tr (X^T X / n + sigma S / sqrt(p) + gamma)^{-1},
    m = m_MP(-(gamma - sigma^2 m)),

subordination by the semicircle: a cubic,
``(gamma - sigma^2 m)(c m^2 + m) + (1 - c) m - 1 = 0``.

Source: L. Pastur, Teor. Mat. Fiz. 10 (1972); P. Biane, Indiana Univ. Math. J. 46 (1997).
"""

from __future__ import annotations

import sympy as sp

from rmtsym.matrices import Gaussian, Identity, Matrix, Trace, Wigner, dimensions
from rmtsym.models.base import Example, Model

n, p = dimensions("n p")
gamma, c, sigma = sp.symbols("gamma c sigma", positive=True)
X, S = Gaussian("X", n, p), Wigner("S", p)

TRANSFORM: Matrix = (
    Trace((X.T * X / n + sigma * S / sp.sqrt(p) + gamma * Identity(p)).inverse()) / p
)

FREE_SUM = Model(
    name="free-sum",
    title="Resolvent of a sample covariance matrix plus a Wigner matrix",
    expression=TRANSFORM,
    sizes=((n, sp.Integer(1)), (p, c)),
    reference="L. Pastur, Teor. Mat. Fiz. 10 (1972)",
    examples=(Example(values=((c, "1/2"), (gamma, 2), (sigma, "1/2"))),),
)


def cubic(m: sp.Symbol) -> sp.Expr:
    """The polynomial in m that vanishes.

    >>> cubic(sp.Symbol("m")).subs({sigma: 0, c: 1})
    gamma*(m**2 + m) - 1
    """
    return (gamma - sigma**2 * m) * (c * m**2 + m) + (1 - c) * m - 1
