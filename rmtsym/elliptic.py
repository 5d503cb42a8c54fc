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

R is a 3p x 3p inverse. Eliminating u leaves a 2p x 2p one in W and W^T, and that one symmetric
p x p matrix, so W and W^T need not commute: with

    g = [[k + d e e^T, d e], [d e^T, d - 1]],    x = a k_01 / c,    y = -a^2 k_00 k_11 / c^2 > 0,
    H  = (I + x W)(I + x W)^T + y W W^T,         H' = (I + x W)^T (I + x W) + y W^T W,

(k symmetric 2 x 2 on (q, h), e in R^2) the parts of R on (q, h) and their traces are

    F_00 = -(a^2 k_11 / c) W^T H^{-1} W,         trace  -(a^2 k_11 / c) t_2,
    F_11 = -(a^2 k_00 / c) W H'^{-1} W^T,        trace  -(a^2 k_00 / c) t_2,
    F_01 = a (I + x W) H'^{-1} W^T,              trace  a t_1,
    t_1 = tr [(W + W^T)/2 + x W W^T] H^{-1} / p, t_2 = tr W W^T H^{-1} / p,

and ``R = [[F, -F e], [-e^T F, c/d + e^T F e]]``. With ``B`` the (q, h) block of A minus the
self-energy of N, ``h = (0, 1)`` and ``v = h + F e`` the equation ``M g = I`` becomes

    (B + F) k = I + v e^T,   d (h - B e) = v,   (c - d h.e) e = k v,   c - c/d - d h.e - e.F e = 1.

Written so, nothing cancels when g blows up as gamma -> 0. One step costs one Cholesky
factorisation of H; none if W is symmetric, diagonal, or identity plus low rank. Derivatives in
the unknowns and in gamma are those of the formulas, written out; no finite differences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from rmtsym.errors import BranchError, ConvergenceError, InputError

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

    def traces(self, x: float, y: float) -> tuple[Array, Array]:
        """``(t_1, t_2)`` and its (2, 2) Jacobian in (x, y). LinAlgError: H is not positive."""

    def forms(self, x: float, y: float, mu: Array) -> tuple[Array, Array]:
        """The same of ``mu^T . mu`` for F_01 / a, ``W^T H^{-1} W``, ``W H'^{-1} W^T``; (3, 2)."""

    def signal(self, mu: ArrayLike) -> Array:
        """``mu`` checked to be a vector that W acts on."""


@dataclass(frozen=True, eq=False)
class DenseWeights:
    """Any real W, (p, p): one Cholesky factorisation and two solves per step.

    8 p^2 floats of memory, 36 MB at p = 768, where a point takes a few seconds on one core.
    """

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

    def _factor(self, x: float, y: float, turn: bool) -> Any:
        G = x * (self.W.T if turn else self.W)
        G.flat[:: len(G) + 1] += 1.0
        H = G @ G.T + y * self._parts[2 if turn else 1]
        return cho_factor(H, lower=True, overwrite_a=True, check_finite=False)

    def traces(self, x: float, y: float) -> tuple[Array, Array]:
        symmetric, square, _ = self._parts
        p = len(self.W)
        factor = self._factor(x, y, turn=False)
        one = cho_solve(factor, symmetric + x * square, check_finite=False)
        two = cho_solve(factor, square, check_finite=False)
        t_1, t_2 = float(np.trace(one)) / p, float(np.trace(two)) / p
        cross = float(np.sum(one * two.T)) / p
        return np.array([t_1, t_2]), np.array(
            [
                [t_2 - 2 * float(np.sum(one * one.T)) / p, -cross],
                [-2 * cross, -float(np.sum(two * two.T)) / p],
            ]
        )

    def forms(self, x: float, y: float, mu: Array) -> tuple[Array, Array]:
        symmetric, left, right = self._parts
        out, back = self.W @ mu, self.W.T @ mu
        u = cho_solve(self._factor(x, y, turn=False), out)
        side = mu + x * back
        v, z = cho_solve(self._factor(x, y, turn=True), np.stack([back, side], axis=1)).T

        def slope(one: Array, two: Array, square: Array) -> list[float]:
            along = float(one @ (square @ two))
            return [-2 * (float(one @ (symmetric @ two)) + x * along), -along]

        ds = slope(z, v, right)
        ds[0] += back @ v
        return np.array([side @ v, out @ u, back @ v]), np.array(
            [ds, slope(u, u, left), slope(v, v, right)]
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

    def _sums(self, x: float, y: float, weights: Array) -> tuple[Array, Array]:
        """Sums of l (1 + x l) / H and l^2 / H over ``H = (1 + x l)^2 + y l^2``, with Jacobian."""
        l = self.eigenvalues
        m = 1 + x * l
        H = m * m + y * l * l
        if not (H > 0).all():
            raise LinAlgError("H is not positive")
        one, two = l * m / H, l * l / H
        t_1, t_2, cross = weights @ one, weights @ two, weights @ (one * two)
        return np.array([t_1, t_2]), np.array(
            [[t_2 - 2 * weights @ (one * one), -cross], [-2 * cross, -weights @ (two * two)]]
        )

    def traces(self, x: float, y: float) -> tuple[Array, Array]:
        return self._sums(x, y, np.full(len(self.eigenvalues), 1 / len(self.eigenvalues)))

    def forms(self, x: float, y: float, mu: Array) -> tuple[Array, Array]:
        seen = mu if self.basis is None else self.basis.T @ mu
        value, slope = self._sums(x, y, seen * seen)
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

    def traces(self, x: float, y: float) -> tuple[Array, Array]:
        _, core, beyond = self._core
        value, slope = (
            self._mixed(*pair) for pair in zip(core.traces(x, y), beyond.traces(x, y), strict=True)
        )
        return value, slope

    def forms(self, x: float, y: float, mu: Array) -> tuple[Array, Array]:
        basis, core, beyond = self._core
        seen = basis.T @ mu
        rest = np.array([np.linalg.norm(mu - basis @ seen)])
        value, slope = (
            one + two
            for one, two in zip(core.forms(x, y, seen), beyond.forms(x, y, rest), strict=True)
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


@dataclass(frozen=True, eq=False)
class EllipticSolution:
    """``g`` and its derivative in gamma, and the signal's bilinear form with its derivative.

    residual : of the nine equations of ``M g = I``, each relative to its largest term or the
        natural size of its entry of ``M g``
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
class _State:
    """k, e, d and what the equations hold there, each with its changes along m directions."""

    k: Array
    e: Array
    d: float
    x: float
    y: float
    dk: Array
    de: Array
    dd: Array
    dx: Array
    dy: Array

    @property
    def g(self) -> Array:
        out = np.empty((3, 3))
        out[:2, :2] = self.k + self.d * np.outer(self.e, self.e)
        out[:2, 2] = out[2, :2] = self.d * self.e
        out[2, 2] = self.d - 1
        return out

    @property
    def dg(self) -> Array:
        out = np.empty((len(self.dd), 3, 3))
        mixed = self.d * self.de[:, :, None] * self.e
        out[:, :2, :2] = self.dk + mixed + mixed.transpose(0, 2, 1)
        out[:, :2, :2] += self.dd[:, None, None] * np.outer(self.e, self.e)
        out[:, :2, 2] = out[:, 2, :2] = self.d * self.de + self.dd[:, None] * self.e
        out[:, 2, 2] = self.dd
        return out


@dataclass(frozen=True, eq=False)
class EllipticEquation:
    """``M(g) g = I`` of the module's docstring.

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

        ConvergenceError: the residual stays above ``tolerance``, or above 1000 times that where
        rounding lets it shrink no further. BranchError: solved, but not
        ``0 < gamma g_00 <= 1``, ``d g_00 / d gamma < 0``, ``k_00 > 0 > k_11``, ``d > 0``.
        """
        trace, _, square = self.W.moments
        kernel = (abs(self.a) * (math.sqrt(square) + abs(trace)) + math.sqrt(self.b2)) ** 2
        here = max(gamma, 100 * kernel * (1 + self.c) * (1 + 1 / self.c))
        unknowns = np.array([1 / here, 0.0, -1 - self.c, 0.0, -1.0, 1.0])
        done = self._newton(here, unknowns, tolerance, 50)
        if done is None:
            raise ConvergenceError(f"no solution near gamma={here}, where Q = I / gamma")
        unknowns, drift, residual, steps = done
        stride = math.log(10)
        while here > gamma:
            ahead = max(gamma, here * math.exp(-stride))
            guess = _ahead(unknowns, drift, here, ahead)
            done = self._newton(ahead, guess, tolerance if ahead == gamma else _ON_THE_WAY, 12)
            steps += 12 if done is None else done[3]
            if done is None or not self._physical(ahead, *done[:2]):
                stride /= 2
                if steps > max_steps or stride < 1e-3:
                    raise ConvergenceError(
                        f"stopped at gamma={here:.3e} on the way to {gamma:.3e} after {steps} steps"
                    )
                continue
            unknowns, drift, residual, _ = done
            here, stride = ahead, min(2 * stride, math.log(10))
        if not self._physical(here, unknowns, drift):
            raise BranchError(f"the root at gamma={gamma} is not the trace of a resolvent")
        state = self._state(unknowns, drift[None])
        form, dform = self._signal(gamma, state, mu)
        return EllipticSolution(gamma, state.g, state.dg[0], form, dform, residual, steps)

    def _newton(
        self, gamma: float, unknowns: Array, tolerance: float, most: int
    ) -> tuple[Array, Array, float, int] | None:
        """Root, its gamma-derivative, residual and steps; None if it is not reached.

        The unknowns are (k_00, k_01, k_11, e_0, e_1, d): nine equations, six of them independent,
        each scaled by its largest term and solved by least squares.
        """
        before = math.inf
        for step in range(1, most + 1):
            if not (unknowns[0] > 0 > unknowns[2] and unknowns[5] > 0):
                return None
            try:
                values, sizes, slopes, ridge = self._equations(gamma, unknowns)
                if not np.isfinite(slopes).all():
                    return None
                linear = slopes / sizes[:, None]
                columns = np.linalg.norm(linear, axis=0)
                right = np.stack([-values, -ridge], axis=1) / sizes[:, None]
                solved = np.linalg.lstsq(linear / columns, right, rcond=1e-15)[0]
            except LinAlgError:
                return None
            change, drift = solved.T / columns
            residual = float(np.abs(values / sizes).max())
            # at the floor that rounding in H sets, the residual no longer shrinks
            if residual <= tolerance or before / 4 <= residual <= 1000 * tolerance:
                return unknowns, drift, residual, step
            before = residual
            length = 1.0  # cut the step so that no sign that the branch fixes is lost
            for place in (0, 2, 5):
                if unknowns[place] * (unknowns[place] + change[place]) <= 0:
                    length = min(length, -0.9 * unknowns[place] / change[place])
            unknowns = unknowns + length * change
        return None

    def _physical(self, gamma: float, unknowns: Array, drift: Array) -> bool:
        state = self._state(unknowns, drift[None])
        m, dm = state.g[0, 0], state.dg[0, 0, 0]
        return bool(0 < gamma * m <= 1 + 1e-9 and dm < 0 and state.k[1, 1] < 0 < state.d)

    def _state(self, unknowns: Array, changes: Array) -> _State:
        a, c = self.a, self.c
        k, dk = _symmetric(unknowns[None, :3])[0], _symmetric(changes[:, :3])
        return _State(
            k=k,
            e=unknowns[3:5],
            d=float(unknowns[5]),
            x=float(a * k[0, 1] / c),
            y=float(-(a**2) * k[0, 0] * k[1, 1] / c**2),
            dk=dk,
            de=changes[:, 3:5],
            dd=changes[:, 5],
            dx=a * dk[:, 0, 1] / c,
            dy=-(a**2) * (dk[:, 0, 0] * k[1, 1] + k[0, 0] * dk[:, 1, 1]) / c**2,
        )

    def _F(self, state: _State, seen: Array, slope: Array) -> tuple[Array, Array]:
        """F between traces or vectors: ``seen`` is F_01 / a, W^T H^-1 W, W H'^-1 W^T there."""
        k, dk, ratio = state.k, state.dk, -(self.a**2) / self.c
        off, q, h = seen
        doff, dq, dh = slope @ np.stack([state.dx, state.dy])
        F = np.array([[ratio * k[1, 1] * q, self.a * off], [self.a * off, ratio * k[0, 0] * h]])
        dF = np.empty((len(state.dd), 2, 2))
        dF[:, 0, 0] = ratio * (dk[:, 1, 1] * q + k[1, 1] * dq)
        dF[:, 1, 1] = ratio * (dk[:, 0, 0] * h + k[0, 0] * dh)
        dF[:, 0, 1] = dF[:, 1, 0] = self.a * doff
        return F, dF

    def _trace_F(self, state: _State) -> tuple[Array, Array]:
        traces, slope = self.W.traces(state.x, state.y)
        return self._F(state, traces[[0, 1, 1]], slope[[0, 1, 1]])

    def _B(self, gamma: float, state: _State) -> tuple[Array, Array]:
        """``[[gamma, -a tr W/p], [-a tr W/p, 0]]`` minus the self-energy of N."""
        B = np.array([[gamma, 0.0], [0.0, 0.0]]) - self._noise(state.g[None])[0]
        shift = -self.a * self.W.moments[0]
        B[0, 1] += shift
        B[1, 0] += shift
        return B, -self._noise(state.dg)

    def _noise(self, g: Array) -> Array:
        """Self-energy of N: ``E N^T M N`` with weight 1, ``E N M N`` with weight corr."""
        out = np.empty((len(g), 2, 2))
        out[:, 0, 0], out[:, 1, 1] = g[:, 1, 1], g[:, 0, 0]
        out[:, 0, 1] = out[:, 1, 0] = self.corr * g[:, 0, 1]
        return np.asarray(self.b2 / self.c * out)

    def _equations(self, gamma: float, unknowns: Array) -> tuple[Array, Array, Array, Array]:
        """Values (9,), largest terms (9,), Jacobian (9, 6) and gamma-derivative (9,)."""
        state, c = self._state(unknowns, np.eye(6)), self.c
        k, e, d, dk, de, dd = state.k, state.e, state.d, state.dk, state.de, state.dd
        F, dF = self._trace_F(state)
        B, dB = self._B(gamma, state)
        v = _UNIT + F @ e
        dv = dF @ e + de @ F
        # each group of equations is a sum of terms, listed with their changes
        groups = [
            [
                (B @ k, dB @ k + B @ dk),
                (F @ k, dF @ k + F @ dk),
                (-np.eye(2), np.zeros((6, 2, 2))),
                (-np.outer(v, e), -dv[:, :, None] * e - v[:, None] * de[:, None, :]),
            ],
            [
                (-d * _UNIT, -dd[:, None] * _UNIT),
                (d * (B @ e), dd[:, None] * (B @ e) + d * (dB @ e + de @ B)),
                (v, dv),
            ],
            [
                (c * e, c * de),
                (-d * e[1] * e, -(dd[:, None] * e[1] + d * de[:, 1:]) * e - d * e[1] * de),
                (-k @ v, -dk @ v - dv @ k),
            ],
            [
                (np.array(c - 1), np.zeros(6)),
                (np.array(-c / d), c / d**2 * dd),
                (np.array(-d * e[1]), -dd * e[1] - d * de[:, 1]),
                (-e @ F @ e, -(dF @ e) @ e - 2 * de @ F @ e),
            ],
        ]
        values, sizes, slopes = [], [], []
        for terms in groups:
            values.append(np.ravel(sum(term for term, _ in terms)))
            sizes.append(np.ravel(np.max([np.abs(term) for term, _ in terms], axis=0)))
            slopes.append(np.reshape(sum(change for _, change in terms), (6, -1)).T)
        ridge = np.array([k[0, 0], k[0, 1], 0, 0, d * e[0], 0, 0, 0, 0])
        scale = np.sqrt([k[0, 0] + d * e[0] ** 2, -k[1, 1], d])  # of q, h, u
        units = scale / scale[:, None]
        units = np.concatenate([units[:2, :2].ravel(), units[:2, 2], units[2, :2], units[2, 2:]])
        largest = np.maximum(np.concatenate(sizes), units)
        return np.concatenate(values), largest, np.concatenate(slopes), ridge

    def _signal(self, gamma: float, state: _State, mu: Array) -> tuple[float, float]:
        r"""``(1/n) y^T Q y = r^T N^{-1} r`` and its derivative; ``dd`` along gamma.

        ``N = [[B + F + T/c, -v/sqrt(d)], [-v^T/sqrt(d), 1 + c/d - h.e + |mu|^2]]``, T = mu^T F mu,
        ``r = (1, 0, sqrt(d) e_0)``: the inverse of the docstring, u eliminated.
        """
        e, d, de, dd, c = state.e, state.d, state.de[0], float(state.dd[0]), self.c
        F, dF = self._trace_F(state)
        B, dB = self._B(gamma, state)
        T, dT = self._F(state, *self.W.forms(state.x, state.y, mu))
        v, dv = _UNIT + F @ e, dF[0] @ e + F @ de
        root = math.sqrt(d)
        N, dN = np.empty((3, 3)), np.empty((3, 3))
        N[:2, :2], dN[:2, :2] = B + F + T / c, dB[0] + dF[0] + dT[0] / c
        dN[0, 0] += 1.0
        N[:2, 2] = N[2, :2] = -v / root
        dN[:2, 2] = dN[2, :2] = -dv / root + v * dd / (2 * d * root)
        N[2, 2] = 1 + c / d - e[1] + mu @ mu
        dN[2, 2] = -c / d**2 * dd - de[1]
        r = np.array([1.0, 0.0, root * e[0]])
        dr = np.array([0.0, 0.0, root * de[0] + e[0] * dd / (2 * root)])
        z = np.linalg.solve(N, r)
        return float(r @ z), float(2 * dr @ z - z @ dN @ z)


_UNIT = np.array([0.0, 1.0])  # h of the docstring
_ON_THE_WAY = 1e-6  # tolerance before the last ridge, where only the branch matters


def _symmetric(entries: Array) -> Array:
    """(m, 3) -> (m, 2, 2)."""
    return entries[:, [0, 1, 1, 2]].reshape(-1, 2, 2)


def _ahead(unknowns: Array, drift: Array, here: float, ahead: float) -> Array:
    """The guess at ``ahead``: every unknown goes on as a power of gamma."""
    known = unknowns != 0
    power = np.where(known, drift * here / np.where(known, unknowns, 1.0), 0.0)
    return unknowns * np.exp(np.clip(power * math.log(ahead / here), -9, 9))
