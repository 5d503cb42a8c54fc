r"""Wigner's semicircle law.

    m(-gamma) = lim (1/n) tr (S / sqrt(n) + gamma)^{-1} = (gamma - sqrt(gamma^2 - 4)) / 2,

S from the GOE (off-diagonal variance 1), gamma > 2: the root of ``m^2 - gamma m + 1 = 0``.

Source: E. Wigner, Ann. of Math. 67 (1958).

>>> round(semicircle(gamma=3), 12)
0.38196601125
"""

from __future__ import annotations

from math import sqrt

import sympy as sp

from rmtsym.matrices import Identity, Matrix, Trace, Wigner, dimensions
from rmtsym.models.base import Example, Model

n = dimensions("n")
gamma = sp.Symbol("gamma", positive=True)
S = Wigner("S", n)

TRANSFORM: Matrix = Trace((S / sp.sqrt(n) + gamma * Identity(n)).inverse()) / n

SEMICIRCLE = Model(
    name="semicircle",
    title="Resolvent of a Wigner matrix",
    expression=TRANSFORM,
    sizes=((n, sp.Integer(1)),),
    reference="E. Wigner, Ann. of Math. 67 (1958)",
    examples=(Example(values=((gamma, 3),), published="0.3819660112501052"),),
)


def semicircle(*, gamma: float) -> float:
    """``(1/n) tr (S / sqrt(n) + gamma)^{-1}`` for gamma >= 2."""
    return 2 / (gamma + sqrt(gamma * gamma - 4))
