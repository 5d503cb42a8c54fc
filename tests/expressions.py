"""Random rational expressions, their literal value, and two slow, plain ways to their limit.

Every expression drawn here is of order one in operator norm as the sizes n, p, m grow.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import sympy as sp

from rmtsym.algebra import Inverse, Product, Scaled, Sum, Transpose
from rmtsym.linearization import GaussianEquivalent
from rmtsym.matrices import (
    Deterministic,
    Gaussian,
    Identity,
    Matrix,
    Trace,
    Vector,
    Wigner,
    dimensions,
)
from rmtsym.pencil import Inner, Linearization, Pencil

n, p, m = dimensions("n p m")
SIZES = (n, p, m)
GAUSSIANS = (
    Gaussian("X", n, p),
    Gaussian("Y", p, m),
    Gaussian("Z", n, m),
    Gaussian("A", n, n),
    Gaussian("B", p, p),
)
WIGNERS = (Wigner("S", n), Wigner("T", p))


@dataclass
class Drawer:
    """Draws an expression; ``choose(options)`` picks one (a seeded generator or Hypothesis)."""

    choose: Callable[[Sequence[Any]], Any]
    limit: int = 5
    used: list[Matrix] = field(default_factory=list)
    shared: list[Matrix] = field(default_factory=list)

    def expression(self, depth: int = 3) -> Matrix:
        """A 1 x 1 expression: the normalised trace of a square one."""
        size = self.choose(SIZES)
        return Trace(self.square(size, depth)) / size

    def leaf(self, rows: Any, columns: Any) -> Matrix | None:
        pool = self.used if len(self.used) >= self.limit else (*GAUSSIANS, *WIGNERS)
        found = [x for x in pool if x.shape == (rows, columns)]
        found += [x.T for x in pool if x.shape == (columns, rows) and isinstance(x, Gaussian)]
        if not found:
            return None
        leaf = self.choose(found)
        base = leaf.operand if isinstance(leaf, Transpose) else leaf
        if base not in self.used:
            self.used.append(base)
        return leaf / sp.sqrt(n)

    def any(self, rows: Any, columns: Any, depth: int) -> Matrix:
        """Any expression of this shape."""
        if rows == columns and self.choose([True, False]):
            return self.square(rows, depth)
        known = [x for x in self.shared if x.shape == (rows, columns)]
        kind = self.choose(["leaf", "leaf", "product", "sum", "shared"])
        if kind == "shared" and known:
            return self.choose(known)
        leaf = self.leaf(rows, columns)
        if leaf is not None and (kind == "leaf" or depth <= 0):
            return leaf
        if kind == "sum" and depth > 0 and leaf is not None:
            weight = sp.Rational(self.choose([1, -1, 2]), self.choose([1, 2, 3]))
            return self.keep(leaf + weight * self.any(rows, columns, depth - 1))
        middle = self.choose(SIZES)
        left, right = self.leaf(rows, middle), self.leaf(middle, columns)
        if left is None or right is None or (rows == columns and depth <= 0):
            if leaf is not None:
                return leaf
            return self.product(rows, columns)
        if depth > 1 and self.choose([True, False]):
            return self.keep(left * self.square(middle, depth - 2) * right)
        return self.keep(left * right)

    def product(self, rows: Any, columns: Any) -> Matrix:
        if rows == columns:
            return Identity(rows)
        for middle in SIZES:
            left, right = self.leaf(rows, middle), self.leaf(middle, columns)
            if left is not None and right is not None:
                return left * right
        return Gaussian(f"G_{rows}_{columns}", rows, columns) / sp.sqrt(n)

    def square(self, size: Any, depth: int) -> Matrix:
        """A square expression, a resolvent more often than not."""
        if depth <= 0:
            return self.any_square_leaf(size)
        kind = self.choose(["gram", "gram", "nested", "symmetric", "shifted", "product", "sum"])
        if kind == "product":
            return self.keep(self.square(size, depth - 1) * self.square(size, depth - 1))
        if kind == "sum":
            return self.keep(self.square(size, depth - 1) + self.square(size, depth - 2))
        gamma = sp.Rational(self.choose([1, 2, 3]), self.choose([1, 2]))
        if kind == "shifted":
            small = self.any(size, size, depth - 2)
            other = self.choose(SIZES)
            factor = self.any(size, other, depth - 2)
            gram = factor * factor.T + gamma * Identity(size)
            return self.keep((gram + (small + -1 * small.T) / 2).inverse())
        if kind == "symmetric":
            other = self.choose(SIZES)
            one, two = self.any(size, other, depth - 2), self.any(size, size, depth - 2)
            return self.keep((one * one.T + two * two.T + gamma * Identity(size)).inverse())
        factor = self.any(size, self.choose(SIZES), depth - 1)
        gram = factor * factor.T
        if kind == "nested":
            middle = self.square_positive(factor.shape[1], depth - 1)
            gram = factor * middle * factor.T
        return self.keep((gram + gamma * Identity(size)).inverse())

    def square_positive(self, size: Any, depth: int) -> Matrix:
        factor = self.any(size, self.choose(SIZES), depth - 2)
        gamma = sp.Rational(self.choose([1, 2, 3]), self.choose([1, 2]))
        return self.keep((factor * factor.T + gamma * Identity(size)).inverse())

    def any_square_leaf(self, size: Any) -> Matrix:
        leaf = self.leaf(size, size)
        if leaf is None:
            factor = self.leaf(size, self.choose([s for s in SIZES if s != size]))
            return Identity(size) if factor is None else factor * factor.T
        return leaf

    def keep(self, node: Matrix) -> Matrix:
        self.shared.append(node)
        return node


def seeded(seed: int, depth: int = 3) -> Matrix:
    """The expression of this seed."""
    return Drawer(random.Random(seed).choice).expression(depth)


def literal(node: Matrix, arrays: Mapping[Matrix, Any], numbers: Mapping[Any, Any]) -> Any:
    """The expression evaluated with dense inverses, no scaling and no thought."""

    def number(value: Any) -> float:
        return float(sp.sympify(value).subs(dict(numbers), simultaneous=True))

    match node:
        case Identity():
            return np.eye(int(number(node.size)))
        case Gaussian() | Wigner() | Vector() | Deterministic():
            return arrays[node]
        case Transpose():
            return literal(node.operand, arrays, numbers).T
        case Scaled():
            return number(node.coefficient) * literal(node.operand, arrays, numbers)
        case Sum():
            return sum(literal(term, arrays, numbers) for term in node.terms)
        case Product():
            value = literal(node.factors[0], arrays, numbers)
            for factor in node.factors[1:]:
                value = value @ literal(factor, arrays, numbers)
            return value
        case Inverse():
            return np.linalg.inv(literal(node.operand, arrays, numbers))
        case Trace():
            return np.trace(literal(node.operand, arrays, numbers)).reshape(1, 1)
    raise TypeError(type(node).__name__)


def sample(nodes: Any, numbers: Mapping[Any, Any], rng: np.random.Generator) -> dict[Matrix, Any]:
    """Explicit matrices and vectors for the leaves."""
    arrays: dict[Matrix, Any] = {}
    for leaf in sorted({x for x in nodes if not x.children}, key=str):
        rows, columns = (int(sp.sympify(s).subs(dict(numbers))) for s in leaf.shape)
        if isinstance(leaf, Wigner):
            square = rng.standard_normal((rows, rows))
            arrays[leaf] = (square + square.T) / np.sqrt(2)
        elif isinstance(leaf, Deterministic):
            arrays[leaf] = np.diag(rng.uniform(0.5, 2, rows))
        elif not isinstance(leaf, Identity):
            arrays[leaf] = rng.standard_normal((rows, columns))
    return arrays


def pencil_value(pencil: Pencil, arrays: Mapping[Matrix, Any], numbers: Mapping[Any, Any]) -> float:
    """The limit's expression read off the inverse of the pencil, at explicit matrices (N = 1)."""

    def number(value: Any) -> float:
        return float(sp.sympify(value).subs(dict(numbers), simultaneous=True))

    def array(factor: Matrix | None, word: Any, rows: int) -> Any:
        if factor is None:
            value = np.eye(rows)
        elif isinstance(factor, Transpose):
            value = arrays[factor.operand].T
        else:
            value = arrays[factor]
        for letter in word:
            value = value @ arrays[letter]
        return value

    dims = [int(number(size)) for size in pencil.sizes]
    start = np.concatenate([[0], np.cumsum(dims)])
    block = [slice(a, b) for a, b in pairwise(start)]
    big = np.zeros((start[-1], start[-1]))
    for e in pencil.entries:
        big[block[e.row], block[e.column]] += number(e.coefficient) * array(
            e.factor, e.word, dims[e.row]
        )
    width = 1 if pencil.readout.trace is None else int(number(pencil.readout.trace))
    right = np.zeros((start[-1], width))
    for s in pencil.sources:
        if isinstance(s.source, Inner):
            value = arrays[s.source.left].T @ arrays[s.source.right]
        elif isinstance(s.source, Identity):
            value = np.eye(width)
        else:
            value = arrays[s.source]
        for letter in s.word:
            value = arrays[letter] @ value
        right[block[s.row]] += number(s.coefficient) * value
    solved = np.linalg.solve(big, right)
    total = (
        number(pencil.readout.constant) * width if width > 1 else number(pencil.readout.constant)
    )
    for e in pencil.readout.terms:
        part = solved[block[e.column]]
        for letter in e.word:
            part = arrays[letter] @ part
        total += number(e.coefficient) * np.trace(part)
    return total


def naive_limits(
    linearization: Linearization, sizes: Mapping[Any, float], sweeps: int = 100_000
) -> list[float]:
    """The traces by the general rule of the Dyson equation: full matrices, damped iteration.

    No elimination, no pattern, no symmetry: ``g = (A - Sigma(g))^{-1}``, ``Sigma_ij`` the sum over
    pairs of entries of one random matrix, switched on in ten steps.
    """
    return [
        _naive(pencil, linearization.equivalent, sizes, sweeps) for pencil in linearization.pencils
    ]


def _naive(
    pencil: Pencil, equivalent: GaussianEquivalent, sizes: Mapping[Any, float], sweeps: int
) -> float:
    def number(value: Any) -> float:
        return float(sp.sympify(value).subs(dict(sizes), simultaneous=True))

    def base(factor: Any) -> Matrix:
        return factor.operand if isinstance(factor, Transpose) else factor

    count = len(pencil.sizes)
    same = np.array([[a == b for b in pencil.sizes] for a in pencil.sizes])
    a = np.zeros((count, count))
    for e in pencil.entries:
        if not e.is_random:
            a[e.row, e.column] += number(e.coefficient)
    random_entries = [e for e in pencil.entries if e.is_random]
    pairs = []
    for one in random_entries:
        for other in random_entries:
            turned = isinstance(one.factor, Transpose) != isinstance(other.factor, Transpose)
            if base(one.factor) != base(other.factor):
                continue
            if not isinstance(base(one.factor), Wigner) and not turned:
                continue
            weight = number(one.coefficient) * number(other.coefficient)
            pairs.append(
                (
                    one.row,
                    other.column,
                    one.column,
                    other.row,
                    weight * number(pencil.sizes[one.column]),
                )
            )
    pairs = pairs or [(0, 0, 0, 0, 0.0)]
    rows, columns, ks, ls, weights = (np.array(x) for x in zip(*pairs, strict=True))
    g = np.linalg.inv(a) * same
    for t in np.linspace(0.1, 1, 10):
        damping = 0.5
        for _ in range(sweeps if t == 1 else 200):
            sigma = np.zeros((count, count))
            np.add.at(sigma, (rows, columns), t * weights * g[ks, ls])
            new = np.linalg.inv(a - sigma) * same
            change = np.max(np.abs(new - g)) / np.max(np.abs(new))
            g = (1 - damping) * g + damping * new
            if change < 1e-14:
                break
    total = number(pencil.readout.constant)
    for e in pencil.readout.terms:
        for s in pencil.sources:
            total += number(e.coefficient * s.coefficient) * g[e.column, s.row]
    assert pencil.readout.trace is not None
    return number(pencil.readout.trace) * total
