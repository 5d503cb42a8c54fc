"""Cores with many unknowns: the same equations as programs, evaluated with matrices.

With G the inverse of ``A - Sigma(u)`` on one block of size,

    F_kl = E G_kl - u_kl,    dF_kl = E sum_ij G_ki (dSigma - dA)_ij G_jl - du_kl.

The entries of ``A - Sigma`` come from a tape; inverses, products and the solution of Newton's
system are those of :mod:`rmtsym.linalg`, so that all number types are served here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rmtsym.linalg import Array, inverse, solve_batch
from rmtsym.tape import Tape, Value


@dataclass(frozen=True, eq=False)
class DenseEquation:
    """One block: its size and law; unknowns ``own`` at (left, right) of G; terms of Sigma.

    Term t adds ``weights[t] * u[fed[t]]`` to Sigma at (rows[t], columns[t]); ``entries`` are those
    of ``A - Sigma``, row by row.
    """

    size: int
    law: int | None
    own: list[int]
    left: list[int]
    right: list[int]
    rows: list[int]
    columns: list[int]
    fed: list[int]
    entries: list[Value]
    weights: list[Value]


class DenseCore:
    """The interface of :class:`rmtsym.programs.Core`, by matrices; every unknown is kept."""

    def __init__(
        self,
        tape: Tape,
        name: str,
        count: int,
        equations: Sequence[DenseEquation],
        rates: Mapping[Any, Value],
    ) -> None:
        self.count, self.kept = count, tuple(range(count))
        self.equations, self.tape, self.name, self.rates = equations, tape, name, rates

    @cached_property
    def _entries(self) -> Any:
        outputs = [x for e in self.equations for x in (*e.entries, *e.weights)]
        return self.tape.function("entries", outputs, [self.name, "a", "s", "l"])

    @cached_property
    def _moving(self) -> Any:
        outputs = [x for e in self.equations for x in e.entries]
        change = self.tape.derivative(outputs, self.rates)
        return self.tape.function("moving", change, [self.name, "a", "s", "l", "da", "ds"])

    def _blocks(self, v: Any, a: Any, s: Any, l: Any) -> list[tuple[DenseEquation, Array, Array]]:
        """The equation, G as (..., size, size), the weights as (..., terms)."""
        flat, start, found = self._entries(v, a, s, l), 0, []
        for e in self.equations:
            middle = start + e.size**2
            end = middle + len(e.weights)
            entries = [x + 0 * v[0] for x in flat[start:middle]]
            g = _stack(inverse(e.size, entries)).reshape(*np.shape(entries[0]), e.size, e.size)
            found.append((e, g, _stack([x + 0 * v[0] for x in flat[middle:end]])))
            start = end
        return found

    @staticmethod
    def _mean(e: DenseEquation, value: Array, mean: Any) -> Array:
        return value if e.law is None else np.asarray(mean(e.law, value))

    def _residual(self, blocks: Any, v: Any, mean: Any) -> Array:
        found: list[Any] = [None] * self.count
        for e, g, _ in blocks:
            value = self._mean(e, g[..., e.left, e.right], mean)
            for place, u in enumerate(e.own):
                found[u] = value[..., place] - v[u]
        return _stack(found)

    def _slopes(self, blocks: Any, shape: tuple[int, ...], mean: Any) -> Array:
        """``dF/dv``: (..., unknowns, unknowns)."""
        dtype = np.result_type(*(g.dtype for _, g, _ in blocks))
        found = np.zeros((*shape, self.count, self.count), dtype=dtype)
        for e, g, weights in blocks:
            if not e.fed:
                continue
            left = g[
                ..., np.array(e.left, dtype=int)[:, None], np.array(e.rows, dtype=int)[None, :]
            ]
            right = g[
                ..., np.array(e.columns, dtype=int)[None, :], np.array(e.right, dtype=int)[:, None]
            ]
            product = self._mean(e, left * right, mean) * weights[..., None, :]
            for t, u in enumerate(e.fed):
                found[..., e.own, u] += product[..., t]
        found[..., range(self.count), range(self.count)] -= 1
        return found

    def _change(self, blocks: Any, moving: list[Any], v: Any, mean: Any) -> Array:
        """The change of F when the coefficients move."""
        found: list[Any] = [0 * v[0]] * self.count
        start = 0
        for e, g, _ in blocks:
            end = start + e.size**2
            stacked = _stack([x + 0 * v[0] for x in moving[start:end]])
            dm = stacked.reshape(*stacked.shape[:-1], e.size, e.size)
            value = self._mean(e, -(g @ dm @ g)[..., e.left, e.right], mean)
            for place, u in enumerate(e.own):
                found[u] = value[..., place]
            start = end
        return _stack(found)

    # -- the interface

    def residual(self, v: Any, a: Any, s: Any, l: Any, mean: Any = None, **_: Any) -> list[Any]:
        return _list(self._residual(self._blocks(v, a, s, l), v, mean))

    def _solved(self, v: Any, a: Any, s: Any, l: Any, moving: Any, mean: Any) -> list[Array]:
        blocks = self._blocks(v, a, s, l)
        f = self._residual(blocks, v, mean)
        columns = [f] if moving is None else [f, self._change(blocks, moving, v, mean)]
        slopes = self._slopes(blocks, f.shape[:-1], mean)
        solved = solve_batch(-slopes, np.stack(columns, axis=-1))
        return [f, *(solved[..., c] for c in range(len(columns)))]

    def step(self, v: Any, a: Any, s: Any, l: Any, mean: Any = None, **_: Any) -> list[Any]:
        return [x for part in self._solved(v, a, s, l, None, mean) for x in _list(part)]

    def follow(
        self, v: Any, a: Any, s: Any, l: Any, da: Any, ds: Any, mean: Any = None, **_: Any
    ) -> list[Any]:
        moving = self._moving(v, a, s, l, da, ds)
        return [x for part in self._solved(v, a, s, l, moving, mean) for x in _list(part)]

    def tangent(
        self, v: Any, a: Any, s: Any, l: Any, da: Any, ds: Any, mean: Any = None, **_: Any
    ) -> list[Any]:
        return _list(self._solved(v, a, s, l, self._moving(v, a, s, l, da, ds), mean)[2])

    def jacobian(self, v: Any, a: Any, s: Any, l: Any, mean: Any = None, **_: Any) -> list[Any]:
        blocks = self._blocks(v, a, s, l)
        f = self._residual(blocks, v, mean)
        slopes = self._slopes(blocks, f.shape[:-1], mean)
        return [*_list(f), *_list(slopes.reshape(*f.shape[:-1], self.count**2))]


def _stack(values: Sequence[Any]) -> Array:
    """Values (numbers, or arrays of one shape) as one array, the index last."""
    if any(isinstance(x, np.ndarray) and x.ndim for x in values):
        return np.stack(np.broadcast_arrays(*values), axis=-1)
    if all(isinstance(x, (int, float, complex, np.number)) for x in values):
        return np.array(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _list(values: Array) -> list[Any]:
    return list(np.moveaxis(values, -1, 0))
