"""Straight-line steps executed on one sample, at the price of their BLAS calls.

Arrays are freed after their last use, and overwritten where the last use allows it. Steps that do
not change with the varied scalars are executed once for all their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rmtsym.factorisations import factorise
from rmtsym.matrices import Matrix
from rmtsym.sampling import Array, mirror
from rmtsym.steps import (
    Apply,
    ClearDiagonal,
    Combine,
    Contract,
    Factor,
    Gram,
    InverseTrace,
    Load,
    Mirror,
    Multiply,
    Scale,
    Softmax,
    Solve,
    Step,
    Term,
    terms_of,
)
from rmtsym.unlocked import gemm, syrk


@dataclass(frozen=True)
class Program:
    """Straight-line steps; ``depends[i]``: step i changes with the varied scalars."""

    steps: tuple[Step, ...]
    results: tuple[Term, ...]
    depends: tuple[bool, ...]
    shared: bool
    scalars: Mapping[Any, Array]
    count: int

    def __str__(self) -> str:
        lines = [f"{number}: {step}" for number, step in enumerate(self.steps)]
        return "\n".join(lines + [f"result: {result}" for result in self.results])

    def run(self, load: Callable[[Matrix], Array]) -> Array:
        """The values on one sample, shape (expressions, values); ``load`` draws a leaf."""
        results = np.empty((len(self.results), self.count))
        memory = _Memory(self)
        passes = range(1) if self.shared else range(self.count)
        for number in passes:
            scalar = self._scalar(None if self.shared else number)
            memory.scalar = scalar
            last = number == passes[-1]
            for index, step in enumerate(self.steps):
                if number > 0 and not self.depends[index]:
                    continue
                memory.execute(index, step, load, last)
            for row, term in enumerate(self.results):
                value = scalar(term.coefficient) * np.asarray(memory.arrays[term.step])
                value = np.asarray(value, float).reshape(-1)
                if self.shared:
                    results[row] = value
                else:
                    results[row, number] = value[0]
        return results

    def _scalar(self, number: int | None) -> Callable[[Any], Any]:
        def scalar(expression: Any) -> Any:
            values = self.scalars[expression]
            if number is not None:
                return float(values[number if len(values) > 1 else 0])
            return float(values[0]) if len(values) == 1 else values.reshape(-1, 1, 1)

        return scalar


class _Memory:
    """The arrays alive during one run."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.arrays: dict[int, Any] = {}
        self.scalar: Callable[[Any], Any] = float
        self.last: dict[int, int] = {}
        for index, step in enumerate(program.steps):
            for term in terms_of(step):
                self.last[term.step] = index
        for term in program.results:
            self.last[term.step] = len(program.steps)
        self.kept = {
            term.step
            for index, step in enumerate(program.steps)
            for term in terms_of(step)
            if program.depends[index] and not program.depends[term.step]
        }
        self.index, self.final = 0, True

    def execute(self, index: int, step: Step, load: Callable[[Matrix], Array], final: bool) -> None:
        self.index, self.final = index, final
        self.arrays[index] = load(step.leaf) if isinstance(step, Load) else self._compute(step)
        for used in {term.step for term in terms_of(step)}:
            if self.last[used] == index and self._disposable(used):
                self.arrays.pop(used, None)

    def _disposable(self, used: int) -> bool:
        return self.final or used not in self.kept

    def _spent(self, used: int) -> bool:
        return self.last[used] == self.index and self._disposable(used)

    def _own(self, used: int) -> Array:
        """The array to be overwritten: itself at its last use, else a copy."""
        array: Array = self.arrays[used]
        return array if self._spent(used) else array.copy(order="K")

    def _view(self, term: Term) -> Array:
        array = self.arrays[term.step]
        return np.asarray(np.swapaxes(array, -1, -2) if term.transposed else array)

    def _compute(self, step: Step) -> Any:
        match step:
            case Combine():
                return self._combine(step)
            case Multiply():
                return _product(self._view(step.left), self._view(step.right))
            case Scale():
                return self.arrays[step.diagonal][:, None] * self._view(step.operand)
            case Gram():
                return _gram(self._view(step.operand))
            case Mirror():
                array = self._own(step.step)
                mirror(array)
                return array
            case Apply():
                return self._apply(step)
            case ClearDiagonal():
                array = self._own(step.step)
                index = np.arange(array.shape[-1])
                array[..., index, index] = 0
                return array
            case Softmax():
                scaled = self.scalar(step.operand.coefficient) * self._view(step.operand)
                return _row_softmax(scaled)
            case Factor():
                return factorise(step.method, self._own(step.step), self.scalar(step.shift))
            case Solve():
                return self.arrays[step.factor].solve(self._view(step.right), step.transposed)
            case InverseTrace():
                return self.arrays[step.factor].trace(step.power)
            case Contract():
                return self._contract(step)
        raise TypeError(step)

    def _combine(self, step: Combine) -> Array:
        coefficients = [self.scalar(term.coefficient) for term in step.terms]
        diagonal = self.scalar(step.diagonal)
        pairs = [(self.scalar(c), self._view(u), self._view(v)) for c, u, v in step.pairs]
        spread = any(np.ndim(c) > 0 for c in [*coefficients, diagonal, *(c for c, _, _ in pairs)])
        narrow = any(np.ndim(self.arrays[t.step]) > 2 for t in terms_of(step))
        if spread or narrow or not step.terms:
            total: Any = 0
            for c, term in zip(coefficients, step.terms, strict=True):
                total = total + c * self._view(term)
            for c, u, v in pairs:
                total = total + c * _product(u, v)
            if step.diagonal != 0:
                rows = total.shape[-1] if np.ndim(total) else step.size
                total = total + diagonal * np.eye(rows)
            return np.asarray(total)
        first = next((k for k, t in enumerate(step.terms) if self._spent(t.step)), 0)
        base = step.terms[first]
        shared = sum(t.step == base.step for t in step.terms) > 1 or any(
            base.step in (u.step, v.step) for _, u, v in step.pairs
        )
        array = self.arrays[base.step].copy(order="K") if shared else self._own(base.step)
        if not array.flags.writeable:
            array = array.copy(order="K")
        out = array.T if base.transposed else array
        others = [
            (c, self._view(t))
            for k, (c, t) in enumerate(zip(coefficients, step.terms, strict=True))
            if k != first
        ]
        scale = coefficients[first]
        flip = out.flags.f_contiguous and not out.flags.c_contiguous
        if flip:
            out = out.T
            others = [(c, view.T) for c, view in others]
            pairs = [(c, v.T, u.T) for c, u, v in pairs]
        for rows in _blocks(out):
            block = out[rows]
            if scale != 1:
                block *= scale
            for c, view in others:
                block += view[rows] if c == 1 else c * view[rows]
            for c, u, v in pairs:
                block += (c * u[rows]) @ v
        if diagonal != 0:
            index = np.arange(len(out))
            out[index, index] += diagonal
        return out.T if flip else out

    def _apply(self, step: Apply) -> Array:
        array = self.arrays[step.step]
        coefficient = self.scalar(step.coefficient)
        if np.ndim(array) > 2 or np.ndim(coefficient) > 0:
            return np.asarray(step.f(coefficient * array))
        out: Array = array if self._spent(step.step) else np.empty_like(array)
        source, target = (array.T, out.T) if not array.flags.c_contiguous else (array, out)
        for rows in _blocks(target):
            block = target[rows]
            np.multiply(source[rows], coefficient, out=block)
            block[...] = step.f(block)
        return out

    def _contract(self, step: Contract) -> Array:
        left = self._view(step.left)
        if step.right is None:
            return np.asarray(np.trace(left, axis1=-2, axis2=-1)).reshape(-1, 1, 1)
        right = np.swapaxes(self._view(step.right), -1, -2)
        if left.ndim > 2 or right.ndim > 2:
            return np.asarray((left * right).sum((-2, -1))).reshape(-1, 1, 1)
        if not left.flags.c_contiguous:
            left, right = left.T, right.T
        total = sum(float(np.vdot(left[rows], right[rows])) for rows in _blocks(left))
        return np.full((1, 1), total)


def _blocks(array: Array) -> Iterator[slice]:
    """Slices of rows of about half a megabyte: they stay in the cache."""
    rows, columns = array.shape
    step = max(1, (1 << 16) // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _product(left: Array, right: Array) -> Array:
    """``left @ right``; a stack of narrow arrays meets a matrix in one BLAS call."""
    if left.ndim == 2 and right.ndim == 3 and min(left.shape) > 1:
        count, rows, columns = right.shape
        flat = left @ right.transpose(1, 0, 2).reshape(rows, count * columns)
        return flat.reshape(-1, count, columns).transpose(1, 0, 2)
    if left.ndim == 3 and right.ndim == 2 and min(right.shape) > 1:
        return np.swapaxes(_product(right.T, np.swapaxes(left, 1, 2)), 1, 2)
    large = left.ndim == right.ndim == 2 and left.size * right.shape[1] > 1 << 16
    if large and left.dtype == right.dtype and left.dtype.char in "fd":
        return gemm(_ordered(left), _ordered(right))
    return np.asarray(left @ right)


def _ordered(array: Array) -> Array:
    return array if array.flags.f_contiguous else np.ascontiguousarray(array)


def _gram(operand: Array) -> Array:
    """Lower triangle of ``operand' operand``; the other triangle holds zeros."""
    if operand.flags.f_contiguous:
        return syrk(operand, True)
    return syrk(np.ascontiguousarray(operand).T, False)


def _row_softmax(scores: Array) -> Array:
    """In place; each row's maximum is subtracted first, so that nothing overflows."""
    index = np.arange(scores.shape[-1])
    scores[..., index, index] = -np.inf
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores
