r"""How much of a weight matrix is identity, how much is low rank, and what is left.

``W ~ alpha I + w_K w_Q^T`` is fitted jointly: alpha and the rank-r part together minimise
``|W - alpha I - L|_F``. At the minimum the rest R is orthogonal to I and to L, so

    |W|_F^2 = <alpha I, W> + <L, W> + <R, W>,

and the three shares, each divided by |W|_F^2, add up to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rmtsym.errors import ConvergenceError, InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Decomposition", "decompose", "plot_spectrum", "quarter_circle"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Decomposition:
    r"""``W = alpha I + U diag(s) V^T + R``.

    ===========  ============  ==========================================================
    alpha        float         multiple of the identity
    U, s, V      (p, r), (r,)  singular directions and values of the low-rank part
    shares       (3,) float    identity, low rank, rest: of |W|_F^2, sum 1
    tau          float         |W|_F / sqrt(p): the standard deviation of a score
    trace        float         tr W / p
    kappa        float         tr W^2 / |W|_F^2: 1 symmetric, 0 like iid, -1 antisymmetric
    singular     (p,) float    singular values of W, largest first
    ===========  ============  ==========================================================
    """

    alpha: float
    U: Array
    s: Array
    V: Array
    shares: tuple[float, float, float]
    tau: float
    trace: float
    kappa: float
    singular: Array

    @property
    def w_K(self) -> Array:
        """``U sqrt(s)``, (p, r)."""
        return np.asarray(self.U * np.sqrt(self.s))

    @property
    def w_Q(self) -> Array:
        """``V sqrt(s)``, (p, r)."""
        return np.asarray(self.V * np.sqrt(self.s))

    @property
    def cosines(self) -> Array:
        """cos(w_K, w_Q) of each component, (r,)."""
        return np.asarray(np.sum(self.U * self.V, axis=0))

    @property
    def localisation(self) -> Array:
        """``p sum_i w_i^4`` of unit w_K and w_Q, (2, r): 3 if Gaussian, p on one axis."""
        return np.asarray(len(self.U) * np.stack([(self.U**4).sum(0), (self.V**4).sum(0)]))

    def __str__(self) -> str:
        rank = len(self.s)
        lines = [
            ("|W|_F / sqrt(p)", f"{self.tau:.4g}"),
            ("tr W / p", f"{self.trace:.4g}"),
            ("kappa = tr W^2 / |W|_F^2", f"{self.kappa:.4f}"),
            ("alpha", f"{self.alpha:.4g}"),
            ("share of the identity", f"{self.shares[0]:.2%}"),
            (f"share of rank {rank}", f"{self.shares[1]:.2%}"),
            ("share of the rest", f"{self.shares[2]:.2%}"),
            ("singular values", _row(self.s)),
            ("cos(w_K, w_Q)", _row(self.cosines)),
            ("localisation of w_K", _row(self.localisation[0])),
            ("localisation of w_Q", _row(self.localisation[1])),
        ]
        return "\n".join(f"{name:<26}{value:>12}" for name, value in lines)


def decompose(W: ArrayLike, rank: int = 1) -> Decomposition:
    r"""The joint fit of ``alpha I + rank r`` to W, (p, p), 0 <= r < p.

    Given alpha, the best rank-r part is the truncated SVD of ``W - alpha I``; given that, the
    best alpha is ``tr (W - L) / p``. Alternated until alpha stands still, from three starts.

    InputError: W not square, not finite, zero, or rank out of range. ConvergenceError: alpha moves.

    >>> import numpy as np
    >>> w = np.zeros((20, 2)); w[0, 0] = 3.0; w[1, 1] = 2.0
    >>> found = decompose(0.5 * np.eye(20) + np.outer(w[:, 0], w[:, 1]))
    >>> round(found.alpha, 12), found.s.round(12).tolist(), round(found.shares[2], 12)
    (0.5, [6.0], 0.0)
    """
    M = np.asarray(W, dtype=np.float64)
    if M.ndim != 2 or M.shape[0] != M.shape[1] or not np.isfinite(M).all() or not M.any():
        raise InputError(f"W has shape {M.shape}; expected (p, p), finite, not zero")
    p = len(M)
    if not 0 <= rank < p:
        raise InputError(f"rank={rank}; expected 0 <= rank < {p}")
    trace, square = float(np.trace(M)) / p, float(np.sum(M * M))
    fits = [_fit(M, rank, start) for start in (trace, float(np.median(np.diagonal(M))), 0.0)]
    alpha, U, s, V = min(fits, key=lambda fit: _rest(M, *fit))
    rest = _rest(M, alpha, U, s, V)
    low = float(s @ np.sum(U * (M @ V), axis=0))
    return Decomposition(
        alpha=alpha,
        U=U,
        s=s,
        V=V,
        shares=(1 - (low + rest) / square, low / square, rest / square),
        tau=math.sqrt(square / p),
        trace=trace,
        kappa=float(np.sum(M * M.T)) / square,
        singular=np.asarray(np.linalg.svd(M, compute_uv=False)),
    )


def _fit(M: Array, rank: int, alpha: float) -> tuple[float, Array, Array, Array]:
    p = len(M)
    scale = float(np.linalg.norm(M)) / math.sqrt(p)
    for _ in range(200):
        U, s, V = _top(M - alpha * np.eye(p), rank)
        better = float(np.trace(M) - np.sum((U * s) * V)) / p
        if abs(better - alpha) <= 1e-13 * scale:
            return better, U, s, V
        alpha = better
    raise ConvergenceError(f"alpha still moves after 200 fits of rank {rank}; choose a lower rank")


def _top(M: Array, rank: int) -> tuple[Array, Array, Array]:
    U, s, Vt = np.linalg.svd(M)
    return U[:, :rank], s[:rank], Vt[:rank].T


def _rest(M: Array, alpha: float, U: Array, s: Array, V: Array) -> float:
    return float(np.sum((M - alpha * np.eye(len(M)) - (U * s) @ V.T) ** 2))


def quarter_circle(p: int) -> Array:
    r"""The p singular values expected of a p x p matrix of iid entries of variance 1/p, (p,).

    Quantiles of the quarter-circle law, density ``sqrt(4 - s^2) / pi`` on [0, 2], largest first.

    >>> quarter_circle(4).round(3)
    array([1.547, 1.029, 0.598, 0.197])
    """
    levels = (np.arange(p, 0, -1) - 0.5) / p
    grid = np.linspace(0.0, 2.0, 20_001)
    law = (grid * np.sqrt(4 - grid**2) / 2 + 2 * np.arcsin(grid / 2)) / math.pi
    return np.interp(levels, law, grid)


def plot_spectrum(decomposition: Decomposition, ax: Axes | None = None) -> Axes:
    """Singular values of W against a random matrix of the same Frobenius norm."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.figure().add_subplot()
    index = np.arange(1, len(decomposition.singular) + 1)
    ax.plot(index, decomposition.singular, ".", markersize=3, label="W")
    null = decomposition.tau * quarter_circle(len(index))
    ax.plot(index, null, "-", color="0.5", label="iid entries, same |W|_F")
    ax.set(xscale="log", xlabel="index", ylabel="singular value")
    ax.legend(frameon=False)
    return ax


def _row(values: Array) -> str:
    shown = " ".join(f"{value:.3g}" for value in values[:4])
    return shown + (" ..." if len(values) > 4 else "")
