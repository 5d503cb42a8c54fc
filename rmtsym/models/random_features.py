r"""Random-feature ridge regression: training and test error, double descent.

Data ``X`` (d x n), targets ``y = X^T beta + s eps`` (|beta| = O(1), |eps|^2 = n), features
``F = f(W X / sqrt(d))`` (m x n) of random weights W (m x d), f centred. The ridge fit

    w = (F F^T / n + gamma)^{-1} F y / n,
    E_train = |y - F^T w|^2 / n,      E_test = |X_0^T beta - F_0^T w|^2 / t,

on fresh data ``X_0`` (d x t) with features ``F_0``, without fresh label noise. At m = n and small
gamma the test error peaks.

Source: S. Mei and A. Montanari, Comm. Pure Appl. Math. 75 (2022), Theorem 2, with
psi_1 = m/d, psi_2 = n/d and ``psi_1 lambda`` there = gamma here.
"""

from __future__ import annotations

import sympy as sp

from rmtsym.matrices import D, Entrywise, Gaussian, Identity, Matrix, Vector, dimensions
from rmtsym.models.base import Example, Model

n, d, m, t = dimensions("n d m t")
gamma, phi, width, fresh, s = sp.symbols("gamma phi width fresh s", positive=True)
f = sp.Symbol("f")
X, X0, W = Gaussian("X", d, n), Gaussian("X_0", d, t), Gaussian("W", m, d)
beta, eps = Vector("beta", d), Vector("epsilon", n, norm2=n)

y = X.T * beta + s * eps
F, F0 = (Entrywise(f, W * data / sp.sqrt(d)) for data in (X, X0))

TRAINING: Matrix = -(gamma**2) * D(
    y.T * (F.T * F / n + gamma * Identity(n)).inverse() * y / n, gamma
)
_w = (F * F.T / n + gamma * Identity(m)).inverse() * F * y / n
_missed = X0.T * beta - F0.T * _w
TEST: Matrix = _missed.T * _missed / t

_SIZES = ((n, sp.Integer(1)), (d, phi), (m, width), (t, fresh))
_POINT = ((phi, "1/2"), (width, "3/2"), (gamma, "1/10"), (s, "1/2"))

RANDOM_FEATURES_TRAINING = Model(
    name="random-features-training",
    title="Training error of random-feature ridge regression",
    expression=TRAINING,
    sizes=_SIZES[:3],
    reference="S. Mei and A. Montanari, Comm. Pure Appl. Math. 75 (2022)",
    examples=(Example(values=_POINT, vectors=((beta, (1,)),), nonlinearities=((f, "tanh(t)"),)),),
)

RANDOM_FEATURES_TEST = Model(
    name="random-features-test",
    title="Test error of random-feature ridge regression",
    expression=TEST,
    sizes=_SIZES,
    reference="S. Mei and A. Montanari, Comm. Pure Appl. Math. 75 (2022), Theorem 2",
    examples=(
        Example(
            values=(*_POINT, (fresh, 1)),
            vectors=((beta, (1,)),),
            nonlinearities=((f, "tanh(t)"),),
        ),
    ),
)
