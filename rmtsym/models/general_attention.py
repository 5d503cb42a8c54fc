r"""Attention with any deterministic weight matrix W.

Tokens ``X = mu y^T + Z`` (p x n, c = p/n), balanced labels ``y_i = +-1``, Z of iid entries of mean
0 and variance 1, scores and kernel

    S_ij = x_i^T W x_j / sqrt(p),      K_ij = f(S_ij) / sqrt(p)  (i != j),      K_ii = 0,

``tau^2 = |W|_F^2 / p = O(1)``, W of bounded norm. f is centred: ``f - E f(tau xi)`` in its place.
With ``alpha_k`` the Hermite coefficients of ``f(tau .)``, K is equivalent to

    a (X^T W X / p - (tr W / p) I) + b N,     a = alpha_1 / tau,     b^2 = sum_{k>=2} alpha_k^2,

N elliptic Gaussian, ``E N_ij^2 = 1/p``, ``corr(N_ij, N_ji) = sum_{k>=2} alpha_k^2 kappa^k / b^2``,
``kappa = tr W^2 / |W|_F^2``. Solved in :mod:`rmtsym.elliptic`.

alpha_2 != 0 also brings two spikes, along the vector of ones and the fluctuation of
``|W^T x_i|^2``: orthogonal to balanced labels, they do not change the error. Unbalanced labels
are outside this model.

Known limits: ``W = I + w_K w_Q^T`` is the attention model of the paper (Liao, Liu, Hou, Zou, Ling,
arXiv 2506.18656); alpha_1 = 0 depends on W through tau and kappa only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from rmtsym.elliptic import (
    EllipticEquation,
    EllipticSolution,
    WeightMatrix,
    weight_matrix,
)
from rmtsym.errors import ConvergenceError, InputError
from rmtsym.nonlinearity import Nonlinearity

__all__ = ["GeneralAttention", "Rung", "extrapolate"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rung:
    """Mean of direct simulations at one size, and its standard error."""

    p: int
    n: int
    mean: float
    standard_error: float
    repetitions: int


@dataclass(frozen=True, eq=False)
class GeneralAttention:
    r"""The interpolation error of attention with weights W.

    W : (p, p) float, or a weight matrix of :mod:`rmtsym.elliptic`
    mu : (p,) signal
    f : entry-wise nonlinearity, or what :class:`~rmtsym.nonlinearity.Nonlinearity` reads; centred
        here
    ratio : p/n > 0

    InputError: shapes, values that are not finite, ratio <= 0. NonlinearityError: f.

    >>> import numpy as np
    >>> from rmtsym.elliptic import LowRankWeights
    >>> e1, e2, e3 = np.eye(3)
    >>> W = LowRankWeights(e1 + e2, e1 - e3)                       # I + w_K w_Q^T, p = inf
    >>> model = GeneralAttention(W, 1.5 * e1, "tanh(t)", ratio=2 / 3)
    >>> round(float(model.error(0.2)), 5)
    0.21443
    """

    W: ArrayLike | WeightMatrix
    mu: ArrayLike
    f: Any
    ratio: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ratio) and self.ratio > 0):
            raise InputError(f"ratio={self.ratio}; expected p/n, positive and finite")
        _ = self.signal

    @cached_property
    def weights(self) -> WeightMatrix:
        """W with the structure it shows."""
        return weight_matrix(self.W)

    @cached_property
    def signal(self) -> Array:
        """mu, (p,)."""
        return self.weights.signal(self.mu)

    @property
    def tau(self) -> float:
        """``|W|_F / sqrt(p)``: the standard deviation of a score."""
        return math.sqrt(self.weights.moments[2])

    @property
    def kappa(self) -> float:
        """``tr W^2 / |W|_F^2``: the correlation of S_ij and S_ji."""
        _, square, norm = self.weights.moments
        return max(-1.0, min(1.0, square / norm))

    @cached_property
    def nonlinearity(self) -> Nonlinearity:
        """``f(tau t)``."""
        return Nonlinearity(self.f).scaled(self.tau)

    @cached_property
    def equation(self) -> EllipticEquation:
        """The Dyson equation."""
        slope = float(self.nonlinearity.coefficient(1))
        b2, corr = elliptic_noise(self.nonlinearity, self.kappa)
        return EllipticEquation(self.weights, slope / self.tau, b2, corr, self.ratio)

    def solve(self, gamma: float) -> EllipticSolution:
        """The solution at ridge gamma > 0. Raises what :meth:`EllipticEquation.solve` raises."""
        if not (math.isfinite(gamma) and gamma > 0):
            raise InputError(f"gamma={gamma}; expected a positive, finite ridge")
        return self.equation.solve(float(gamma), self.signal)

    def error(self, gamma: ArrayLike) -> Array:
        """The limit of the interpolation error, in the shape of gamma."""
        ridges = np.asarray(gamma, dtype=np.float64)
        errors = [self.solve(float(ridge)).error for ridge in ridges.ravel()]
        return np.reshape(np.array(errors), ridges.shape)

    def simulate(
        self,
        gamma: ArrayLike,
        *,
        repetitions: int = 10,
        copies: int = 1,
        tokens: str = "gaussian",
        seed: int = 0,
    ) -> list[Rung]:
        r"""Direct simulation with the full W, one :class:`Rung` per gamma.

        copies : size p' = copies * p with ``I_k (x) W`` and mu spread evenly over the copies, which
            has the same limit and less finite-size error.
        tokens : law of Z, "gaussian" or "rademacher".

        Draw r of a seed is the same whatever the number of repetitions.

        InputError: W is not a (p, p) array, fewer than two repetitions, an unknown law.
        """
        try:
            W = np.asarray(self.W, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError("simulate needs W as a (p, p) array") from error
        if repetitions < 2 or copies < 1:
            raise InputError(
                f"repetitions={repetitions}, copies={copies}; expected at least 2 and 1"
            )
        if tokens not in ("gaussian", "rademacher"):
            raise InputError(f"tokens={tokens!r}; expected 'gaussian' or 'rademacher'")
        ridges = np.atleast_1d(np.asarray(gamma, dtype=np.float64))
        p = copies * len(W)
        n = max(2, 2 * round(p / self.ratio / 2))
        mean = float(self.nonlinearity.coefficient(0))
        values = np.empty((repetitions, len(ridges)))
        f = Nonlinearity(self.f)
        for row, child in zip(values, np.random.SeedSequence(seed).spawn(repetitions), strict=True):
            rng = np.random.default_rng(child)
            Z = rng.standard_normal((p, n))
            if tokens == "rademacher":
                np.sign(Z, out=Z)
            y = np.repeat([1.0, -1.0], n // 2)
            X = Z + np.outer(np.tile(self.signal, copies) / math.sqrt(copies), y)
            row[:] = _interpolation_errors(_features(X, W, f, mean), y, ridges)
        spread = values.std(axis=0, ddof=1) / math.sqrt(repetitions)
        return [
            Rung(p, n, float(m), float(s), repetitions)
            for m, s in zip(values.mean(axis=0), spread, strict=True)
        ]


def elliptic_noise(f: Nonlinearity, kappa: float) -> tuple[float, float]:
    r"""``b^2`` and ``corr = sum_{k>=2} alpha_k^2 kappa^k / b^2``.

    What the series leaves out lies between 0 and ``kappa^k`` times the rest of Parseval's sum: corr
    is known to 1e-9, or where f has jumps or kinks and kappa is near 1, to 1e-6.
    ConvergenceError: not even that.
    """
    nu = float(f.nu())
    b2 = nu - float(f.coefficient(0)) ** 2 - float(f.coefficient(1)) ** 2
    if b2 <= 1e-14 * nu or kappa == 1.0:
        return max(0.0, b2), 1.0
    for count, accuracy in ((40, 1e-9), (200, 1e-6)):
        squares = np.array(f.coefficients(count), dtype=np.float64)[2:] ** 2
        left = abs(kappa) ** count * max(0.0, 1 - float(squares.sum()) / b2)
        if left <= accuracy:
            seen = float(squares @ kappa ** np.arange(2, count)) / b2
            return b2, seen + (left / 2 if kappa > 0 else 0.0)
    raise ConvergenceError(
        f"corr(N_ij, N_ji) is known to {left:.1e} only: the Hermite coefficients of {f} fall "
        f"slowly and kappa = {kappa} is near 1; a W that is alpha I plus low rank has its limit, "
        "kappa = 1, as LowRankWeights(..., p=inf)"
    )


def extrapolate(rungs: Sequence[Rung]) -> tuple[float, float]:
    """Value and standard error at p = infinity of a straight line in 1/p through the rungs.

    >>> value, error = extrapolate([Rung(100, 200, 1.1, 0.1, 9), Rung(200, 400, 1.05, 0.1, 9)])
    >>> round(value, 12), round(error, 12)
    (1.0, 0.22360679775)
    """
    if len({rung.p for rung in rungs}) < 2:
        raise InputError("a line needs rungs of at least two sizes")
    weights = np.array([1 / rung.standard_error for rung in rungs])
    design = np.array([[1.0, 1 / rung.p] for rung in rungs]) * weights[:, None]
    inverse = np.linalg.inv(design.T @ design)
    value = inverse @ design.T @ (weights * np.array([rung.mean for rung in rungs]))
    return float(value[0]), math.sqrt(inverse[0, 0])


def _features(X: Array, W: Array, f: Nonlinearity, mean: float) -> Array:
    """``X K / sqrt(n)``, (p, n), with ``I_k (x) W`` in place of W."""
    (p, n), width = X.shape, len(W)
    WX = np.reshape(W @ X.reshape(p // width, width, n), (p, n))
    K = (np.asarray(f(X.T @ WX / math.sqrt(p))) - mean) / math.sqrt(p)
    np.fill_diagonal(K, 0.0)
    return np.asarray(X @ K / math.sqrt(n))


def _interpolation_errors(A: Array, y: Array, ridges: Array) -> list[float]:
    """``|gamma Q y|^2 / n`` with ``Q = (A^T A + gamma I)^{-1}``, on the smaller side of A."""
    p, n = A.shape
    gram, errors = (A @ A.T if p < n else A.T @ A), []
    for gamma in ridges:
        shifted = gram.copy()
        shifted.flat[:: len(gram) + 1] += gamma
        factor = cho_factor(shifted, overwrite_a=True, check_finite=False)
        rest = y - A.T @ cho_solve(factor, A @ y) if p < n else gamma * cho_solve(factor, y)
        errors.append(float(rest @ rest) / n)
    return errors
