r"""Random inner-product kernel matrices (Cheng and Singer).

``K = offdiag f(Z^T Z / sqrt(p)) / sqrt(p)``, Z (p x n) of iid entries, p / n -> c, f centred:

    s(-gamma) = lim (1/n) tr (K + gamma)^{-1},
    1/s = gamma - a_1 (1 - 1/(1 + a_1 s / c)) - (nu - a_1^2) s / c,

a cubic; gamma lies above the largest eigenvalue of -K. For f = t it is a shifted
Marchenko-Pastur law, for a_1 = 0 a semicircle of variance nu / c.

Source: X. Cheng and A. Singer, Random Matrices: Theory Appl. 2 (2013), Theorem 3.4.
"""

from __future__ import annotations

import sympy as sp

from rmtsym.matrices import Entrywise, Gaussian, Identity, Matrix, OffDiagonal, Trace, dimensions
from rmtsym.models.base import Example, Model

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
f = sp.Symbol("f")
Z = Gaussian("Z", p, n)

K = OffDiagonal(Entrywise(f, Z.T * Z / sp.sqrt(p))) / sp.sqrt(p)
TRANSFORM: Matrix = Trace((K + gamma * Identity(n)).inverse()) / n

INNER_PRODUCT_KERNEL = Model(
    name="inner-product-kernel",
    title="Resolvent of a random inner-product kernel matrix",
    expression=TRANSFORM,
    sizes=((n, sp.Integer(1)), (p, c)),
    reference="X. Cheng and A. Singer, Random Matrices: Theory Appl. 2 (2013), Theorem 3.4",
    examples=(
        Example(values=((c, 2), (gamma, 2)), nonlinearities=((f, "sign(t)"),)),
        Example(values=((c, "1/2"), (gamma, 4)), nonlinearities=((f, "tanh(t)"),)),
    ),
)


def equation(s: sp.Symbol, a1: sp.Expr, nu: sp.Expr) -> sp.Expr:
    """The expression in s that vanishes.

    >>> s = sp.Symbol("s")
    >>> print(sp.factor(equation(s, sp.Integer(0), sp.Integer(1))))
    -(-c*gamma*s + c + s**2)/(c*s)
    """
    return gamma - a1 * (1 - 1 / (1 + a1 * s / c)) - (nu - a1**2) * s / c - 1 / s
