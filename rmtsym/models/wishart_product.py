r"""Product of two Wishart matrices.

With independent ``Z`` (p x n) and ``Y`` (m x p), ``p / n -> c``, ``m / n -> d``,

    s(-gamma) = lim (1/n) tr (Z^T Y^T Y Z / n^2 + gamma)^{-1}.

At c = d = 1 the moments are the Fuss-Catalan numbers 1, 1, 3, 12, 55, so that
``gamma^2 s^3 + gamma s - 1 = 0``; in general, with ``t = 1 - gamma s``,

    gamma t = (1 - t)(c - t)(d - t),

which is the product of the S-transforms of the two factors.

Source: R. Mueller, IEEE Trans. Inf. Theory 48 (2002); N. Alexeev, F. Goetze and A. Tikhomirov,
Lith. Math. J. 50 (2010).
"""

from __future__ import annotations

import sympy as sp

from rmtsym.matrices import Gaussian, Identity, Matrix, Trace, dimensions
from rmtsym.models.base import Example, Model

n, p, m = dimensions("n p m")
gamma, c, d = sp.symbols("gamma c d", positive=True)
Z, Y = Gaussian("Z", p, n), Gaussian("Y", m, p)

TRANSFORM: Matrix = Trace((Z.T * Y.T * Y * Z / n**2 + gamma * Identity(n)).inverse()) / n

WISHART_PRODUCT = Model(
    name="wishart-product",
    title="Resolvent of the product of two Wishart matrices",
    expression=TRANSFORM,
    sizes=((n, sp.Integer(1)), (p, c), (m, d)),
    reference="R. Mueller, IEEE Trans. Inf. Theory 48 (2002)",
    examples=(
        Example(values=((c, 1), (d, 1), (gamma, 1)), published="0.6823278038280193"),
        Example(values=((c, "1/2"), (d, 2), (gamma, "1/2"))),
    ),
)


def cubic(s: sp.Symbol) -> sp.Expr:
    """The polynomial in s that vanishes.

    >>> sp.expand(cubic(sp.Symbol("s")).subs({c: 1, d: 1}) / gamma)
    gamma**2*s**3 + gamma*s - 1
    """
    t = 1 - gamma * s
    return (1 - t) * (c - t) * (d - t) - gamma * t
