r"""The Dyson equation of attention with any deterministic weight matrix.

    K = a (X^T W X / p - (tr W / p) I) + b N,      Q = (K^T X^T X K / n + gamma I)^{-1},

``X = mu y^T + Z`` (p x n, c = p/n), ``N`` Gaussian with ``E N_ij^2 = 1/p`` and
``E N_ij N_ji = corr / p``. With ``q = Q e, u = X^T X K q / n, h`` the unknowns of

    [ gamma  K^T   0       ] [ q ]   [ e ]
    [ K      0    -I       ] [ h ] = [ 0 ]        (q, h, u: symmetric, indices 0, 1, 2)
    [ 0     -I    X^T X/n  ] [ u ]   [ 0 ]

and ``g`` the 3 x 3 matrix of normalised traces of the inverse without signal,

    g^{-1} = M(g) = A - b^2/c [[g_11, corr g_01], [corr g_01, g_00]] + (1/p) tr R(g),
    R(g)   = ( V^{-1} + g/c (x) I_p )^{-1},      V = [[0, a W^T, 0], [a W, 0, 0], [0, 0, c I]],
    A      = [[gamma, -a tr W/p, 0], [-a tr W/p, 0, -1], [0, -1, 0]],

(tr over the p x p blocks; N meets q, h only), and with signal

    (1/n) y^T Q y -> [ ( M(g) + mu^T R(g) mu / c )^{-1} ]_00.

R is a 3p x 3p inverse. Eliminating u leaves ``k = g - g_.2 g_2. / (1 + g_22)`` on (q, h), and with
``x = a k_01 / c``, ``w = x^2 - a^2 k_00 k_11 / c^2`` the rest is one symmetric p x p matrix,

    H = I + x (W + W^T) + w W W^T,               H' = I + x (W + W^T) + w W^T W:
    R_00 = -(a^2 k_11 / c) W^T H^{-1} W,         R_11 = -(a^2 k_00 / c) W H'^{-1} W^T,
    R_01 = a (I + x W) H'^{-1} W^T,              trace: a (t_1 + x t_2),
    t_1 = tr (W + W^T) H^{-1} / 2p,              t_2 = tr W W^T H^{-1} / p,

as ``k_00 > 0 > k_11`` makes H positive definite. So W and W^T need not commute, and one step costs
one Cholesky factorisation of H (none if W is symmetric, diagonal, or identity plus low rank).
Derivatives in g and gamma are those of the formulas above, written out; no finite differences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .errors import BranchError, ConvergenceError, InputError

__all__ = [
    "DenseWeights",
    "EllipticEquation",
    "EllipticSolution",
    "LowRankWeights",
    "SymmetricWeights",
    "WeightMatrix",
    "weight_matrix",
]

Array = NDArray[np.float64]


# ------------------------------------------------------------------------------------------------
# The weight matrix: traces and quadratic forms of H(x, w)


class WeightMatrix(Protocol):
    """What the equation needs of W."""

    @property
    def moments(self) -> tuple[float, float, float]:
        """``tr W / p``, ``tr W^2 / p``, ``|W|_F^2 / p``."""

    def traces(self, x: float, w: float) -> tuple[Array, Array]:
        """``(t_1, t_2)`` and its (2, 2) Jacobian in (x, w). LinAlgError: H is not positive."""

    def forms(self, x: float, w: float, mu: Array) -> tuple[Array, Array]:
        """``mu^T H'^{-1} W^T mu``, ``|H^{-1/2} W mu|^2``, ``|H'^{-1/2} W^T mu|^2``; (3, 2)."""

    def signal(self, mu: ArrayLike) -> Array:
        """``mu`` checked to be a vector that W acts on."""


@dataclass(frozen=True, eq=False)
class DenseWeights:
    """Any real W, (p, p): one Cholesky factorisation and two solves per step, 8 p^2 numbers."""

    W: Array

    @cached_property
    def _parts(self) -> tuple[Array, Array, Array]:
        """Symmetric part, W W^T, W^T W."""
        return (self.W + self.W.T) / 2, self.W @ self.W.T, self.W.T @ self.W

    @property
    def moments(self) -> tuple[float, float, float]:
        p = len(self.W)
        W = self.W
        return float(np.trace(W)) / p, float(np.sum(W * W.T)) / p, float(np.sum(W * W)) / p

    def _factor(self, x: float, w: float, square: Array) -> Any:
        H = 2 * x * self._parts[0] + w * square
        H.flat[:: len(H) + 1] += 1.0
        return cho_factor(H, lower=True, overwrite_a=True, check_finite=False)

    def traces(self, x: float, w: float) -> tuple[Array, Array]:
        symmetric, square, _ = self._parts
        p = len(self.W)
        factor = self._factor(x, w, square)
        one = cho_solve(factor, symmetric, check_finite=False)
        two = cho_solve(factor, square, check_finite=False)
        cross = float(np.sum(one * two.T)) / p
        return np.array([np.trace(one), np.trace(two)]) / p, -np.array(
            [[2 * float(np.sum(one * one.T)) / p, cross], [2 * cross, np.sum(two * two.T) / p]]
        )

    def forms(self, x: float, w: float, mu: Array) -> tuple[Array, Array]:
        symmetric, left, right = self._parts
        out, back = self.W @ mu, self.W.T @ mu
        u = cho_solve(self._factor(x, w, left), out)
        v, plain = cho_solve(self._factor(x, w, right), np.stack([back, mu], axis=1)).T
        return np.array([mu @ v, out @ u, back @ v]), -np.array(
            [
                [2 * plain @ symmetric @ v, plain @ right @ v],
                [2 * u @ symmetric @ u, u @ left @ u],
                [2 * v @ symmetric @ v, v @ right @ v],
            ]
        )

    def signal(self, mu: ArrayLike) -> Array:
        return _vector(mu, len(self.W))


@dataclass(frozen=True, eq=False)
class SymmetricWeights:
    """``W = U diag(eigenvalues) U^T``; ``basis`` None: W is diagonal. No p x p work per step."""

    eigenvalues: Array
    basis: Array | None = None

    @property
    def moments(self) -> tuple[float, float, float]:
        square = float(np.mean(self.eigenvalues**2))
        return float(np.mean(self.eigenvalues)), square, square

    def _sums(self, x: float, w: float, weights: Array) -> tuple[Array, Array]:
        """Sums of l/H and l^2/H, with Jacobian, over H = 1 + 2 x l + w l^2."""
        l = self.eigenvalues
        H = 1 + 2 * x * l + w * l * l
        if not (H > 0).all():
            raise LinAlgError("H is not positive")
        powers = np.stack([l, l**2, l**3, l**4])
        once, (two, three, four) = powers[:2] @ (weights / H), powers[1:] @ (weights / H**2)
        return once, -np.array([[2 * two, three], [2 * three, four]])

    def traces(self, x: float, w: float) -> tuple[Array, Array]:
        return self._sums(x, w, np.full(len(self.eigenvalues), 1 / len(self.eigenvalues)))

    def forms(self, x: float, w: float, mu: Array) -> tuple[Array, Array]:
        seen = mu if self.basis is None else self.basis.T @ mu
        value, slope = self._sums(x, w, seen * seen)
        return value[[0, 1, 1]], slope[[0, 1, 1]]

    def signal(self, mu: ArrayLike) -> Array:
        return _vector(mu, len(self.eigenvalues))


@dataclass(frozen=True, eq=False)
class LowRankWeights:
    """``W = alpha I_p + w_K w_Q^T`` with w_K, w_Q (d, r): W acts on R^d, and by alpha beyond.

    p : int >= d, or inf (default): the low-rank part then enters no trace, only the signal.
    """

    w_K: Array
    w_Q: Array
    alpha: float = 1.0
    p: float = math.inf

    def __post_init__(self) -> None:
        w_K, w_Q = (_columns(name, getattr(self, name)) for name in ("w_K", "w_Q"))
        if w_K.shape != w_Q.shape:
            raise InputError(f"w_K has shape {w_K.shape} and w_Q {w_Q.shape}; expected one (d, r)")
        if self.p < len(w_K):
            raise InputError(f"p={self.p} is less than the length {len(w_K)} of w_K")
        object.__setattr__(self, "w_K", w_K)
        object.__setattr__(self, "w_Q", w_Q)

    @cached_property
    def _core(self) -> tuple[Array, DenseWeights, SymmetricWeights]:
        """Orthonormal basis of span{w_K, w_Q}, W on it, and W beyond it."""
        both = np.concatenate([self.w_K, self.w_Q], axis=1)
        basis = np.linalg.qr(both)[0]
        core = (basis.T @ self.w_K) @ (basis.T @ self.w_Q).T
        core.flat[:: len(core) + 1] += self.alpha
        return basis, DenseWeights(core), SymmetricWeights(np.array([self.alpha]))

    def _mixed(self, core: Array, beyond: Array) -> Array:
        share = self._core[0].shape[1] / self.p
        return np.asarray(share * core + (1 - share) * beyond)

    @property
    def moments(self) -> tuple[float, float, float]:
        _, core, beyond = self._core
        one, two, three = self._mixed(np.array(core.moments), np.array(beyond.moments)).tolist()
        return one, two, three

    def traces(self, x: float, w: float) -> tuple[Array, Array]:
        _, core, beyond = self._core
        value, slope = (
            self._mixed(*pair) for pair in zip(core.traces(x, w), beyond.traces(x, w), strict=True)
        )
        return value, slope

    def forms(self, x: float, w: float, mu: Array) -> tuple[Array, Array]:
        basis, core, beyond = self._core
        seen = basis.T @ mu
        rest = np.array([np.linalg.norm(mu - basis @ seen)])
        value, slope = (
            one + two
            for one, two in zip(core.forms(x, w, seen), beyond.forms(x, w, rest), strict=True)
        )
        return value, slope

    def signal(self, mu: ArrayLike) -> Array:
        return _vector(mu, len(self.w_K))


def weight_matrix(W: ArrayLike | WeightMatrix) -> WeightMatrix:
    """W with the structure it shows: diagonal, symmetric, or none.

    W : (p, p) float; anything that already is a weight matrix is handed back.

    InputError: not square, not finite, or zero.

    >>> type(weight_matrix([[1.0, 2.0], [2.0, 1.0]])).__name__
    'SymmetricWeights'
    """
    if isinstance(W, DenseWeights | SymmetricWeights | LowRankWeights):
        return W
    try:
        array = np.array(W, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"W is no matrix of real numbers: {error}") from error
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise InputError(f"W has shape {array.shape}; expected (p, p)")
    if not np.isfinite(array).all():
        raise InputError("W holds NaN or infinite values")
    if not array.any():
        raise InputError("W is zero, so every score is 0")
    array.setflags(write=False)
    diagonal = np.diagonal(array)
    if np.count_nonzero(array) == np.count_nonzero(diagonal):
        return SymmetricWeights(diagonal)
    if np.array_equal(array, array.T):
        return SymmetricWeights(*np.linalg.eigh(array))
    return DenseWeights(array)


def _vector(mu: ArrayLike, size: int) -> Array:
    vector = np.asarray(mu, dtype=np.float64)
    if vector.shape != (size,) or not np.isfinite(vector).all():
        raise InputError(f"mu has shape {vector.shape}; expected ({size},), finite")
    return vector


def _columns(name: str, value: ArrayLike) -> Array:
    array = np.asarray(value, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        raise InputError(f"{name} has shape {array.shape}; expected (d,) or (d, r), finite")
    return array


# ------------------------------------------------------------------------------------------------
# The equation

# Symmetric 3 x 3 matrices as vectors of 6, and their basis.
_ROWS, _COLUMNS = np.triu_indices(3)
_BASIS = np.zeros((6, 3, 3))
_BASIS[np.arange(6), _ROWS, _COLUMNS] = _BASIS[np.arange(6), _COLUMNS, _ROWS] = 1.0


@dataclass(frozen=True, eq=False)
class EllipticSolution:
    """``g`` and its derivative in gamma, and the signal's bilinear form with its derivative.

    residual : largest entry of ``g - M(g)^{-1}``, each relative to the scale of its row and column
    steps : evaluations of the traces of H
    """

    gamma: float
    g: Array
    dg: Array
    form: float
    dform: float
    residual: float
    steps: int

    @property
    def error(self) -> float:
        """The interpolation error ``-gamma^2 d/dgamma (1/n) y^T Q y``."""
        return -(self.gamma**2) * self.dform


@dataclass(frozen=True, eq=False)
class EllipticEquation:
    """``g^{-1} = M(g)`` of the module's docstring.

    a, b2, corr : weight of the linear part, of N squared, and the correlation of N_ij and N_ji
    c : p/n > 0
    """

    W: WeightMatrix
    a: float
    b2: float
    corr: float
    c: float

    def solve(
        self, gamma: float, mu: Array, *, tolerance: float = 1e-12, max_steps: int = 400
    ) -> EllipticSolution:
        """Newton's iteration, continued from gamma = infinity, where Q = I / gamma.

        ConvergenceError: the residual stays above ``tolerance``. BranchError: solved, but
        ``0 < gamma g_00 <= 1``, ``d g_00 / d gamma < 0``, ``g_11 < 0 < 1 + g_22`` fail.
        """
        trace, _, square = self.W.moments
        kernel = (abs(self.a) * (math.sqrt(square) + abs(trace)) + math.sqrt(self.b2)) ** 2
        here = max(gamma, 100 * kernel * (1 + self.c) * (1 + 1 / self.c))
        g = np.array([[1 / here, 0, 0], [0, -self.c, -1], [0, -1, 0]])
        steps, stride = 0, math.log(10)
        done = self._newton(here, g, tolerance, 50)
        if done is None:
            raise ConvergenceError(f"no solution near gamma={here}, where Q = I / gamma")
        g, dg, residual, used = done
        steps += used
        while here > gamma:
            ahead = max(gamma, here * math.exp(-stride))
            with np.errstate(all="ignore"):
                slope = np.where(g == 0, 0, dg * here / np.where(g == 0, 1, g))
                guess = g * np.exp(np.clip(slope * math.log(ahead / here), -9, 9))
            done = self._newton(ahead, guess, tolerance, 12)
            steps += 12 if done is None else done[3]
            if done is None or not self._physical(ahead, done[0], done[1]):
                stride /= 2
                if steps > max_steps or stride < 1e-3:
                    raise ConvergenceError(
                        f"stopped at gamma={here:.3e} on the way to {gamma:.3e} after {steps} steps"
                    )
                continue
            g, dg, residual, _ = done
            here = ahead
        if not self._physical(here, g, dg):
            raise BranchError(f"the root at gamma={gamma} is not the trace of a resolvent: {g}")
        form, dform = self._signal(gamma, g, dg, mu)
        return EllipticSolution(gamma, g, dg, form, dform, residual, steps)

    def _newton(
        self, gamma: float, g: Array, tolerance: float, most: int
    ) -> tuple[Array, Array, float, int] | None:
        """Root of ``g - M(g)^{-1}``, its gamma-derivative, residual and steps; None if none."""
        for step in range(1, most + 1):
            if not (g[0, 0] > 0 > g[1, 1] and g[2, 2] > -1 and np.isfinite(g).all()):
                return None
            try:
                M, slopes = self._M(gamma, g)
                N = np.linalg.inv(M)
            except LinAlgError:
                return None
            scale = np.sqrt([g[0, 0], -g[1, 1], 1 + g[2, 2]])
            scale = np.outer(scale, scale)
            gap = (g - N) / scale
            # d(g - M^{-1}) = dg + N dM N, in units of the scale
            linear = (
                _BASIS * scale + N @ (slopes * scale[_ROWS, _COLUMNS, None, None]) @ N
            ) / scale
            residual = float(np.abs(gap).max())
            right = np.stack([-gap, -np.outer(N[0], N[0]) / scale])[:, _ROWS, _COLUMNS].T
            try:
                change, drift = np.linalg.solve(linear[:, _ROWS, _COLUMNS].T, right).T
            except LinAlgError:
                return None
            if residual <= tolerance:
                dg = np.tensordot(drift, _BASIS, 1) * scale
                return g, dg, residual, step
            g = self._shortened(g, np.tensordot(change, _BASIS, 1) * scale)
        return None

    @staticmethod
    def _shortened(g: Array, change: Array) -> Array:
        """The step, cut so that no sign that the branch fixes is lost."""
        length = 1.0
        for entry, floor in ((0, 0.0), (1, 0.0), (2, -1.0)):
            room, move = g[entry, entry] - floor, change[entry, entry]
            if room * (room + move) <= 0 and move != 0:
                length = min(length, -0.9 * room / move)
        return np.asarray(g + length * change)

    def _physical(self, gamma: float, g: Array, dg: Array) -> bool:
        m = g[0, 0]
        return bool(0 < gamma * m <= 1 + 1e-9 and dg[0, 0] < 0 and g[1, 1] < 0 < 1 + g[2, 2])

    def _reduced(self, g: Array, dg: Array) -> tuple[Any, ...]:
        """k, e = g_.2 / (1 + g_22), x, w, and their changes along each dg of (m, 3, 3)."""
        a, c = self.a, self.c
        d, side, dside, dd = 1 + g[2, 2], g[:2, 2], dg[:, :2, 2], dg[:, 2, 2, None]
        e, de = side / d, (dside - side / d * dd) / d
        k = g[:2, :2] - np.outer(side, e)
        mixed = dside[:, :, None] * e
        dk = dg[:, :2, :2] - mixed - mixed.transpose(0, 2, 1) + dd[:, :, None] * np.outer(e, e)
        x, dx = a * k[0, 1] / c, a * dk[:, 0, 1] / c
        w = x * x - a * a * k[0, 0] * k[1, 1] / c**2
        dw = 2 * x * dx - a * a * (dk[:, 0, 0] * k[1, 1] + k[0, 0] * dk[:, 1, 1]) / c**2
        return k, dk, e, de, x, dx, w, dw

    def _R(
        self, g: Array, dg: Array, reduced: tuple[Any, ...], seen: Array, dseen: Array, unit: float
    ) -> tuple[Array, Array]:
        """R between traces or vectors: ``seen`` = (W^T H'^-1, W^T H^-1 W, W H'^-1 W^T) there.

        ``unit`` is the identity there. Returns (3, 3) and its changes (m, 3, 3).
        """
        k, dk, e, de, x, dx, _, _ = reduced
        a, c, d = self.a, self.c, 1 + g[2, 2]
        s, q, h = seen
        ds, dq, dh = dseen
        block = np.array([[-a * a / c * k[1, 1] * q, a * (s + x * h)],
                          [a * (s + x * h), -a * a / c * k[0, 0] * h]])  # fmt: skip
        cross = a * (ds + dx * h + x * dh)
        dblock = np.array([[-a * a / c * (dk[:, 1, 1] * q + k[1, 1] * dq), cross],
                           [cross, -a * a / c * (dk[:, 0, 0] * h + k[0, 0] * dh)]])  # fmt: skip
        dblock = dblock.transpose(2, 0, 1)
        side, dside = -block @ e, -(dblock @ e) - de @ block
        R, dR = np.empty((3, 3)), np.empty((len(dg), 3, 3))
        R[:2, :2], R[:2, 2], R[2, :2] = block, side, side
        R[2, 2] = unit * c / d + e @ block @ e
        dR[:, :2, :2], dR[:, :2, 2], dR[:, 2, :2] = dblock, dside, dside
        dR[:, 2, 2] = -unit * c / d**2 * dg[:, 2, 2] + (dblock @ e) @ e + 2 * de @ block @ e
        return R, dR

    def _M(self, gamma: float, g: Array, dg: Array = _BASIS) -> tuple[Array, Array]:
        """M(g) and its changes along each of dg."""
        reduced = self._reduced(g, dg)
        *_, x, dx, w, dw = reduced
        traces, slope = self.W.traces(float(x), float(w))
        dtraces = slope @ np.stack([dx, dw])
        R, dR = self._R(g, dg, reduced, traces[[0, 1, 1]], dtraces[[0, 1, 1]], 1.0)
        trace = self.W.moments[0]
        A = np.array([[gamma, -self.a * trace, 0], [-self.a * trace, 0, -1], [0, -1, 0]])
        return A - self._noise(g[None])[0] + R, dR - self._noise(dg)

    def _noise(self, g: Array) -> Array:
        """Self-energy of N: ``E N^T M N`` with weight 1, ``E N M N`` with weight corr."""
        out = np.zeros_like(g)
        out[:, 0, 0], out[:, 1, 1] = g[:, 1, 1], g[:, 0, 0]
        out[:, 0, 1] = out[:, 1, 0] = self.corr * g[:, 0, 1]
        return self.b2 / self.c * out

    def _signal(self, gamma: float, g: Array, dg: Array, mu: Array) -> tuple[float, float]:
        """``(1/n) y^T Q y`` and its derivative in gamma."""
        M, dM = self._M(gamma, g, dg[None])
        reduced = self._reduced(g, dg[None])
        *_, x, dx, w, dw = reduced
        forms, slope = self.W.forms(float(x), float(w), mu)
        dforms = slope @ np.stack([dx, dw])
        T, dT = self._R(g, dg[None], reduced, forms, dforms, float(mu @ mu))
        inverse = np.linalg.inv(M + T / self.c)
        change = dM[0] + dT[0] / self.c
        change[0, 0] += 1.0
        return float(inverse[0, 0]), float(-(inverse @ change @ inverse)[0, 0])
