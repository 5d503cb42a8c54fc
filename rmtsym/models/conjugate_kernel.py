r"""Conjugate kernel of a random layer (Pennington and Worah).

Features ``F = f(W X / sqrt(d))`` (m x n), weights ``W`` (m x d), data ``X`` (d x n), f centred,
``d / n -> c``, ``m / n -> d``:

    s(-gamma) = lim (1/n) tr (F^T F / m + gamma)^{-1}.

With ``zeta = a_1^2``, ``eta = nu``, a quartic follows from ``P = 1 + (eta - zeta) t P_phi P_psi +
t zeta P_phi P_psi / (1 - t zeta P_phi P_psi)``, ``P_phi = 1 + (P - 1) phi``,
``P_psi = 1 + (P - 1) psi``, phi = d/n, psi = d/m.

Source: J. Pennington and P. Worah, NeurIPS 2017, Theorem 1 (with n_0 = d, n_1 = m, m = n there).
"""

from __future__ import annotations

import sympy as sp

from rmtsym.matrices import Entrywise, Gaussian, Identity, Matrix, Trace, dimensions
from rmtsym.models.base import Example, Model

n, d, m = dimensions("n d m")
gamma, phi, width = sp.symbols("gamma phi width", positive=True)
f = sp.Symbol("f")
X, W = Gaussian("X", d, n), Gaussian("W", m, d)

F = Entrywise(f, W * X / sp.sqrt(d))
TRANSFORM: Matrix = Trace((F.T * F / m + gamma * Identity(n)).inverse()) / n

CONJUGATE_KERNEL = Model(
    name="conjugate-kernel",
    title="Resolvent of the conjugate kernel of one random layer",
    expression=TRANSFORM,
    sizes=((n, sp.Integer(1)), (d, phi), (m, width)),
    reference="J. Pennington and P. Worah, NeurIPS 2017, Theorem 1",
    examples=(
        Example(
            values=((phi, "1/2"), (width, 2), (gamma, "1/2")), nonlinearities=((f, "tanh(t)"),)
        ),
    ),
)


def generating_function_equation(P: sp.Symbol, t: sp.Expr, a1: sp.Expr, nu: sp.Expr) -> sp.Expr:
    """The expression in P of Theorem 1 that vanishes; ``t = 1/(z psi)``, phi = d/n, psi = d/m."""
    psi = phi / width
    both = (1 + (P - 1) * phi) * (1 + (P - 1) * psi)
    return 1 + (nu - a1**2) * t * both + t * a1**2 * both / (1 - t * a1**2 * both) - P
