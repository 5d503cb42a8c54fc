r"""Tokens, weights, kernels and ridge fits: the words the attention models are written with.

Tokens are the columns of ``X = mu y^T + Z`` (p x n, c = p/n): labels ``y_i = +-1`` of mean rho,
noise Z of iid entries with ``E z = 0``, ``E z^2 = 1``, ``E z^4 = kappa``. Weights, kernel, error:

    W = I_p + sum_k w_K,k w_Q,k^T,     K = offdiag[ f(X^T W X / sqrt(p)) ] / sqrt(p),
    E = -(gamma^2 / n) d/dgamma t^T (M + gamma I_n)^{-1} t,    M = sum of K^T X^T X K / n,

for a target t. A full part ``alpha I`` of W is a scale of f: with ``f_alpha = f(alpha .)``,

    f(X^T (alpha I + w_K w_Q^T) X / sqrt(p)) = f_alpha(X^T (I + w_K w_Q^T / alpha) X / sqrt(p)).

>>> W, ((w_k, w_q),) = weights(1)
>>> print(kernel(sp.Symbol("f"), BALANCED.X, W))
1/sqrt(p)*offdiag(f(1/sqrt(p)*(Z + mu*y')'*(I_p + w_k*w_q')*(Z + mu*y')))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp

from rmtsym.agreement import Verdict, verify
from rmtsym.certification import certify
from rmtsym.digits import Digits
from rmtsym.errors import InputError
from rmtsym.matrices import (
    D,
    Entrywise,
    Gaussian,
    Identity,
    Iid,
    Labels,
    Matrix,
    OffDiagonal,
    Vector,
    dimensions,
)
from rmtsym.models.base import Model, coordinates, gram, notes_on_floats, positive
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.parsing import exact_number
from rmtsym.precision import refine
from rmtsym.solver import Solution, require_physical, solve, without_failures

n, p = dimensions("n p")
gamma, c, kurtosis = sp.symbols("gamma c kurtosis", positive=True)
rho = sp.Symbol("rho", real=True)
mu = Vector("mu", p)
SIZES = ((n, sp.Integer(1)), (p, c))


@dataclass(frozen=True)
class Tokens:
    """Noise, labels, and ``X = Z + mu y^T``."""

    Z: Gaussian
    y: Labels

    @property
    def X(self) -> Matrix:
        return self.Z + mu * self.y.T


BALANCED = Tokens(Gaussian("Z", p, n), Labels("y", n))
UNBALANCED = Tokens(Iid("Z", p, n, kurtosis), Labels("y", n, mean=rho))


def weights(rank: int, head: str = "") -> tuple[Matrix, tuple[tuple[Vector, Vector], ...]]:
    """``W = I + sum_k w_k w_q^T`` and its pairs of vectors; ``head`` is put behind their names."""
    marks = [head] if rank == 1 else [f"{head}_{k + 1}" for k in range(rank)]
    pairs = tuple((Vector(f"w_k{mark}", p), Vector(f"w_q{mark}", p)) for mark in marks)
    W: Matrix = Identity(p)
    for w_k, w_q in pairs:
        W = W + w_k * w_q.T
    return W, pairs


def kernel(f: Any, X: Matrix, W: Matrix, centred: bool = True) -> Matrix:
    """``offdiag[f(X^T W X / sqrt(p))] / sqrt(p)``, n x n."""
    K: Matrix = OffDiagonal(Entrywise(f, X.T * W * X / sp.sqrt(p), centred)) / sp.sqrt(p)
    return K


def training_error(features: Matrix, target: Matrix) -> Matrix:
    """``-(gamma^2 / n) d/dgamma t^T (features + gamma I)^{-1} t``: the ridge fit's error on t."""
    Q = (features + gamma * Identity(n)).inverse()
    error: Matrix = -(gamma**2) * D(target.T * Q * target / n, gamma)
    return error


@dataclass(frozen=True, eq=False)
class Case:
    """A model at one point: what the theory and the simulation of its expression take.

    ``values`` holds numbers (gamma and c may be arrays), ``vectors`` exact coordinates, ``given``
    numbers and vectors as they came, ``largest`` a bound on the value. ``order`` is the exponent of
    the finite-size bias.
    """

    model: Model
    values: Mapping[sp.Symbol, Any]
    vectors: Mapping[Vector, tuple[sp.Expr, ...]]
    nonlinearities: Mapping[sp.Symbol, Nonlinearity]
    given: Mapping[str, Any]
    order: float = 1.0
    largest: float = np.inf

    @property
    def parameters(self) -> dict[sp.Symbol, Any]:
        """All numbers of the system but the Hermite coefficients."""
        known = {**self.values, **gram(self.vectors)}
        return {s: v for s, v in known.items() if s in self.model.system.parameters}

    def solution(self, digits: int | None = None, certified: bool = False) -> Solution:
        """The limit of the expression; with ``digits`` that many correct digits.

        ``certified``: with a ball proven to hold it (15 digits unless given).
        """
        values = self.parameters
        if digits is not None or certified:
            digits = 15 if digits is None else digits
            if any(np.ndim(v) > 0 for v in values.values() if not isinstance(v, sp.Basic)):
                raise InputError(f"got arrays with digits={digits}; ask for digits point by point")
            method = certify if certified else refine
            found: Solution = method(
                self.model.system, values, nonlinearities=self.nonlinearities, digits=digits
            )
            notes = notes_on_floats(self.given)
            return replace(found, value=Digits.of(found.value, digits, notes), notes=notes)
        grid = any(np.ndim(v) > 0 for v in values.values() if not isinstance(v, sp.Basic))
        found = solve(
            self.model.system, values, nonlinearities=self.nonlinearities, strict=not grid
        )
        errors = np.asarray(found.value)
        physical = (errors >= -1e-12) & (errors <= self.largest + 1e-12)
        if not grid:
            require_physical(
                physical,
                f"the solution found gives an error outside [0, {self.largest:g}]: not the "
                "physical branch",
                found,
            )
            return found
        return without_failures(found, physical)

    def verify(self, **options: Any) -> Verdict:
        """Judge the limit by simulating the expression on a ladder of sizes.

        ``options`` go to :func:`rmtsym.agreement.verify`; the noise law is chosen by kurtosis
        unless given.
        """
        if "sizes" not in options:
            relative = {size: sp.sympify(share) for size, share in self.model.sizes}
            exact = {s: v for s, v in self.values.items() if isinstance(v, sp.Basic)}
            options["ratios"] = {size: str(share.subs(exact)) for size, share in relative.items()}
        options.setdefault("order", self.order)
        options.setdefault("noise", noise_of(self.values.get(kurtosis, 3)))
        theory = options.pop("theory", None)
        return verify(
            self.model.expression,
            float(self.solution().value) if theory is None else theory,
            **self.simulated(),
            **options,
        )

    def simulated(self) -> dict[str, Any]:
        """Arguments of :func:`rmtsym.simulation.simulate`, sizes and noise left out."""
        used = simulated_symbols(self.model.expression)
        return {
            "values": {s: v for s, v in self.values.items() if s in used},
            "vectors": {v: [float(x) for x in row] for v, row in self.vectors.items()},
            "nonlinearities": dict(self.nonlinearities),
        }


def simulated_symbols(expression: Matrix) -> set[sp.Symbol]:
    """The scalars that a sample of the expression depends on."""
    from rmtsym.simulation import _symbols

    return set(_symbols(expression))


def noise_of(kappa: Any) -> str:
    """A law of noise with this kurtosis.

    >>> [noise_of(k) for k in (1, 3, 4, 6)]
    ['rademacher', 'gaussian', 'student-t(10)', 'laplace']
    """
    known = {1: "rademacher", 3: "gaussian", 6: "laplace"}
    if kappa in known:
        return known[kappa]
    if kappa > 3:
        return f"student-t({float(4 + 6 / (exact_number(kappa) - 3)):g})"
    raise InputError(
        f"got the kurtosis {kappa}, for which no law is at hand (1, 3 and above are); "
        "pass noise=callable"
    )


def read_weights(name: str, value: Any) -> list[Any]:
    """Columns of a (d, r) array, or the one column of a vector; ``[None]`` if none is given.

    >>> read_weights("w_k", [[1, 0], [0, 2]])
    [[1, 0], [0, 2]]
    >>> read_weights("w_k", [1.5, 0])
    [[1.5, 0]]
    """
    if value is None or isinstance(value, str) or not hasattr(value, "__len__"):
        return [value]
    if len(value) == 0:
        return [None]
    rows = [row if hasattr(row, "__len__") and not isinstance(row, str) else None for row in value]
    if all(row is None for row in rows):
        return [list(value)]
    if any(row is None for row in rows) or len({len(row) for row in rows if row is not None}) != 1:
        raise InputError(f"got {name} with rows of different lengths; pass a (d, r) array")
    return [list(column) for column in zip(*value, strict=True)]


def pairs_of(w_k: Any, w_q: Any, where: str = "") -> list[tuple[Any, Any]]:
    """The rank-one terms of ``w_K w_Q^T``; at least one, zero where nothing is given."""
    keys, queries = read_weights("w_k", w_k), read_weights("w_q", w_q)
    if len(keys) != len(queries) and None not in (keys[0], queries[0]):
        raise InputError(
            f"got w_k of rank {len(keys)} and w_q of rank {len(queries)}{where}; "
            "both are d x r with one r"
        )
    if len(keys) != len(queries):
        return [(None, None)]
    return list(zip(keys, queries, strict=True))


def scaled_weights(given: Sequence[tuple[Any, Any]], alpha: sp.Expr) -> list[tuple[Any, Any]]:
    """Coordinates of ``w_K / alpha`` and ``w_Q``, exact; None stays None."""

    def row(name: str, value: Any, divisor: sp.Expr) -> Any:
        if value is None:
            return None
        return tuple(x / divisor for x in coordinates({name: value})[name])

    return [(row("w_k", w_k, alpha), row("w_q", w_q, sp.Integer(1))) for w_k, w_q in given]


def named(given: Sequence[tuple[Any, Any]], head: str = "") -> dict[Vector, Any]:
    """Coordinates by the vectors of :func:`weights`."""
    _, pairs = weights(len(given), head)
    return {
        vector: row
        for names, rows in zip(pairs, given, strict=True)
        for vector, row in zip(names, rows, strict=True)
    }


def place(
    signal: Vector, direction: Any, others: Mapping[Vector, Any]
) -> dict[Vector, tuple[sp.Expr, ...]]:
    """All vectors as exact coordinates of one length; None is a zero vector."""
    given = {signal: direction, **others}
    rows = coordinates({vector.name: value for vector, value in given.items()})
    return {vector: rows[vector.name] for vector in given}


def bias_order(values: Mapping[Any, Any], functions: Sequence[Nonlinearity]) -> float:
    """Exponent of the finite-size bias: 1/2 where spikes along the vector of ones are seen."""
    odd = all(f.parity == -1 for f in functions) and len(functions) > 0
    return 1.0 if values[rho] == 0 or odd else 0.5


def nonzero(name: str, value: Any, meaning: str) -> sp.Expr:
    """An exact number other than 0."""
    number = exact_number(value)
    if number == 0:
        raise InputError(f"got {name} = 0; {name} is {meaning}, and its kernel would be constant")
    return number


def token_values(ratio: Any, gamma_: Any, label_mean: Any = 0, kappa: Any = 3) -> dict[Any, Any]:
    """c, gamma, rho and the kurtosis, each within its domain."""
    mean, fourth = exact_number(label_mean), exact_number(kappa)
    if abs(mean) > 1:
        raise InputError(f"got label_mean = {label_mean}; the mean of labels +-1 lies in [-1, 1]")
    if fourth < 1:
        raise InputError(f"got kurtosis = {kappa}; E z^4 >= (E z^2)^2 = 1 for every law of noise")
    return {
        c: positive("ratio", ratio, "p/n"),
        gamma: positive("gamma", gamma_, "the ridge penalty"),
        rho: mean,
        kurtosis: fourth,
    }


def tokens_of(values: Mapping[Any, Any]) -> Tokens:
    """The tokens in which the mean of the labels stands, or balanced ones where it is 0."""
    return BALANCED if values[rho] == 0 else UNBALANCED
