r"""The cheapest way to evaluate an expression literally on sampled matrices.

:func:`compile_program` plans 1 x 1 expressions as straight-line steps, which
:class:`~rmtsym.execution.Program` executes. Nothing is approximated: ``f`` is applied entry by
entry.

- Shared subexpressions are computed once. Scalar factors cost no pass over an array.
- Products are ordered by their cost in flops; ``M' M`` is a rank-k update of one triangle;
  ``I + u v'`` inside a product never becomes a p x p array.
- An inverse is a factorisation: Cholesky where the form of the expression proves it positive
  definite, LU otherwise. ``D`` follows ``d A^{-1} = -A^{-1} (dA) A^{-1}`` on the same factors.
- Many values of a scalar that enters as ``shift * Identity`` in symmetric inverses share one
  tridiagonal form of the matrix.

>>> from rmtsym.matrices import Gaussian, Labels, dimensions
>>> n, p = dimensions("n p")
>>> gamma = sp.Symbol("gamma", positive=True)
>>> Z, y = Gaussian("Z", p, n), Labels("y", n)
>>> Q = (Z.T * Z / n + gamma * Identity(n)).inverse()
>>> print(compile_program((D(y.T * Q * y / n, gamma),), {n: 400, p: 200}, {gamma: (0.5,)}))
0: y
1: Z
2: triangle of 1' 1
3: cholesky of 2 + gamma*n
4: 3 \ 0
5: 4' 4
result: -n*5
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy as sp

from rmtsym.algebra import Inverse, Product, Scaled, Sum, Transpose
from rmtsym.errors import InputError
from rmtsym.execution import Program
from rmtsym.matrices import (
    D,
    Deterministic,
    Entrywise,
    Gaussian,
    Identity,
    Matrix,
    OffDiagonal,
    RowSoftmax,
    Trace,
    Vector,
    Wigner,
)
from rmtsym.rewriting import differentiate, is_symmetric, rebuild
from rmtsym.sampling import Array
from rmtsym.steps import (
    ONE,
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
    scalars_of,
    terms_of,
)

ZERO = sp.Integer(0)
NARROW = 8
"""Widest array that is kept for many values of a scalar at once."""
SHARED_FROM = 6
"""Number of values from which one tridiagonal form is cheaper than a Cholesky each."""


class _NotShared(Exception):
    """The values of the varied scalars cannot be carried through at once."""


def plain(node: Matrix) -> Matrix:
    """Derivatives carried out, transposes moved to sums, maps, inverses and leaves."""
    match node:
        case D():
            derivative = differentiate(node.operand, node.variable)
            return ZERO * Identity(1) if derivative is None else plain(derivative)
        case Transpose():
            inside = node.operand
            match inside:
                case Transpose():
                    return plain(inside.operand)
                case Product():
                    return plain(Product.of(*(f.T for f in reversed(inside.factors))))
                case Scaled():
                    return plain(Scaled.of(inside.coefficient, inside.operand.T))
                case Trace() | D():
                    return plain(inside)
            inside = plain(inside)
            return inside if is_symmetric(inside) else Transpose(inside)
    return rebuild(node, tuple(map(plain, node.children)))


class _Compiler:
    def __init__(
        self,
        sizes: Mapping[Any, int],
        values: Mapping[Any, tuple[float, ...]],
        functions: Mapping[Any, Any],
        shared: bool,
    ) -> None:
        self.sizes, self.values, self.functions, self.shared = sizes, values, functions, shared
        self.varied = {symbol for symbol, numbers in values.items() if len(numbers) > 1}
        self.sample = {symbol: numbers[0] for symbol, numbers in values.items()}
        self.steps: list[Step] = []
        self.shapes: list[tuple[int, int]] = []
        self.depends: list[bool] = []
        self.symmetric: list[bool] = []
        self.triangle: list[bool] = []
        self.numbers: dict[Step, int] = {}
        self.memo: dict[Matrix, Term] = {}

    # -- emission

    def emit(
        self, step: Step, shape: tuple[int, int], symmetric: bool = False, triangle: bool = False
    ) -> int:
        if step in self.numbers:
            return self.numbers[step]
        depends = any(self.depends[t.step] for t in terms_of(step)) or any(
            bool(getattr(c, "free_symbols", set()) & self.varied) for c in scalars_of(step)
        )
        if self.shared and depends:
            kept = isinstance(step, Factor) and step.method in ("tridiagonal", "small")
            if not kept and min(shape) > NARROW:
                raise _NotShared
        self.steps.append(step)
        self.shapes.append(shape)
        self.depends.append(depends)
        self.symmetric.append(symmetric)
        self.triangle.append(triangle)
        self.numbers[step] = len(self.steps) - 1
        return len(self.steps) - 1

    def size(self, scalar: Any) -> int:
        return int(sp.sympify(scalar).subs(self.sizes))

    def shape(self, node: Matrix) -> tuple[int, int]:
        return self.size(node.shape[0]), self.size(node.shape[1])

    def number(self, scalar: Any) -> float:
        return float(sp.sympify(scalar).subs({**self.sizes, **self.sample}))

    def full(self, term: Term) -> Term:
        """The term with both triangles filled."""
        if not self.triangle[term.step]:
            return term
        step = self.emit(Mirror(term.step), self.shapes[term.step], symmetric=True)
        return Term(term.coefficient, step)

    def bare(self, term: Term) -> Term:
        return Term(ONE, term.step, term.transposed and not self.symmetric[term.step])

    def flip(self, term: Term) -> Term:
        if self.symmetric[term.step]:
            return term
        return Term(term.coefficient, term.step, not term.transposed)

    def term_shape(self, term: Term) -> tuple[int, int]:
        rows, columns = self.shapes[term.step]
        return (columns, rows) if term.transposed else (rows, columns)

    # -- nodes

    def value(self, node: Matrix) -> Term:
        """The node as an array; a symmetric one may hold one triangle only."""
        if node not in self.memo:
            self.memo[node] = self._value(node)
        return self.memo[node]

    def _value(self, node: Matrix) -> Term:
        shape = self.shape(node)
        match node:
            case Transpose():
                return self.flip(self.value(node.operand))
            case Scaled():
                inside = self.value(node.operand)
                return Term(node.coefficient * inside.coefficient, inside.step, inside.transposed)
            case Product():
                return self.chain(node.factors)
            case Sum():
                return self.combination(self.parts(node), shape)
            case Identity():
                return self.combination([(ONE, node)], shape)
            case Inverse():
                return self.chain((node, Identity(node.shape[0])), keep=True)
            case Entrywise():
                inside = self.full(self.value(node.operand))
                f = self.functions.get(node.f, node.f)
                step = self.emit(
                    Apply(f, inside.coefficient, inside.step),
                    self.shapes[inside.step],
                    self.symmetric[inside.step],
                )
                return Term(ONE, step, inside.transposed)
            case RowSoftmax():
                inside = self.full(self.value(node.operand))
                operand = Term(node.beta * inside.coefficient, inside.step, inside.transposed)
                return Term(ONE, self.emit(Softmax(operand), shape))
            case OffDiagonal():
                inside = self.full(self.value(node.operand))
                step = self.emit(
                    ClearDiagonal(inside.step),
                    self.shapes[inside.step],
                    self.symmetric[inside.step],
                )
                return Term(inside.coefficient, step, inside.transposed)
            case Trace():
                return self.trace(node.operand)
            case Deterministic():
                unit = self.combination([(ONE, Identity(node.size))], shape)
                return self._operate(node, self.full(unit))
            case Gaussian() | Vector() | Wigner():
                return Term(ONE, self.emit(Load(node), shape, isinstance(node, Wigner)))
        raise InputError(f"got {type(node).__name__}, which simulate does not know")

    def parts(self, node: Matrix, coefficient: Any = ONE) -> list[tuple[Any, Matrix]]:
        match node:
            case Sum():
                return [part for term in node.terms for part in self.parts(term, coefficient)]
            case Scaled():
                return self.parts(node.operand, coefficient * node.coefficient)
            case Transpose() if isinstance(node.operand, Sum):
                return [(c, plain(m.T)) for c, m in self.parts(node.operand, coefficient)]
        return [(coefficient, node)]

    def thin(self, node: Matrix) -> int | None:
        """Where a product of large shape has a narrow waist: split before this factor."""
        if not isinstance(node, Product) or min(self.shape(node)) <= NARROW:
            return None
        widths = [self.size(f.shape[1]) for f in node.factors[:-1]]
        waist = min(range(len(widths)), key=widths.__getitem__)
        return waist + 1 if widths[waist] <= NARROW else None

    def light(self, node: Matrix) -> bool:
        """A sum of multiples of the identity and of narrow products only."""
        return isinstance(node, (Sum, Transpose)) and all(
            isinstance(m, Identity) or self.thin(m) is not None for _, m in self.parts(node)
        )

    def combination(self, parts: list[tuple[Any, Matrix]], shape: tuple[int, int]) -> Term:
        diagonal, terms, pairs = ZERO, [], []
        for coefficient, node in parts:
            waist = self.thin(node)
            if isinstance(node, Identity):
                diagonal = diagonal + coefficient
            elif waist is not None:
                assert isinstance(node, Product)
                left, right = self.chain(node.factors[:waist]), self.chain(node.factors[waist:])
                coefficient = coefficient * left.coefficient * right.coefficient
                pairs.append((coefficient, self.bare(left), self.bare(right)))
            else:
                inside = self.value(node)
                terms.append(Term(coefficient * inside.coefficient, inside.step, inside.transposed))
        triangle = (
            any(self.triangle[t.step] for t in terms)
            and all(self.symmetric[t.step] for t in terms)
            and not pairs
        )
        if not triangle:
            terms = [self.full(t) for t in terms]
        if len(terms) == 1 and not pairs and diagonal == 0:
            return terms[0]
        common = terms[0].coefficient if terms else (diagonal if diagonal != 0 else ONE)
        if common.is_zero or (terms and common.free_symbols & self.varied):
            common = ONE
        step = Combine(
            tuple(Term(t.coefficient / common, t.step, t.transposed) for t in terms),
            diagonal / common,
            tuple((c / common, u, v) for c, u, v in pairs),
            shape[0],
        )
        symmetric = all(self.symmetric[t.step] for t in terms) and not pairs
        number = self.emit(step, shape, symmetric, triangle)
        return Term(common, number)

    # -- products

    def chain(self, factors: tuple[Matrix, ...], keep: bool = False) -> Term:
        """A product, cheapest order first."""
        coefficient: Any = ONE
        flat: list[Matrix] = []
        for factor in factors:
            while isinstance(factor, Scaled):
                coefficient, factor = coefficient * factor.coefficient, factor.operand
            if isinstance(factor, Product):
                flat.extend(factor.factors)
            elif keep or not isinstance(factor, Identity):
                flat.append(factor)
        if any(isinstance(f, Scaled) for f in flat):
            inside = self.chain(tuple(flat))
        elif not flat:
            inside = self.value(factors[0])
        elif len(flat) == 1:
            inside = self.value(flat[0])
        else:
            inside = self._expanded(tuple(flat))
        return Term(coefficient * inside.coefficient, inside.step, inside.transposed)

    def _expanded(self, flat: tuple[Matrix, ...]) -> Term:
        """``A (d I + u v') B`` as ``d A B + (A u)(v' B)``."""
        light = [k for k, f in enumerate(flat) if self.light(f)]
        if not light or len(light) > 4:
            return self._ordered(flat)
        position = light[0]
        parts = []
        for coefficient, inside in self.parts(flat[position]):
            while isinstance(inside, Scaled):
                coefficient, inside = coefficient * inside.coefficient, inside.operand
            middle = () if isinstance(inside, Identity) else (inside,)
            product = Product.of(*flat[:position], *middle, *flat[position + 1 :])
            parts.append((coefficient, product))
        rows, columns = self.size(flat[0].shape[0]), self.size(flat[-1].shape[1])
        return self.combination(parts, (rows, columns))

    def _ordered(self, flat: tuple[Matrix, ...]) -> Term:
        dims = [self.size(f.shape[0]) for f in flat] + [self.size(flat[-1].shape[1])]
        count = len(flat)
        costs: dict[tuple[int, int], float] = {}
        splits: dict[tuple[int, int], int] = {}
        for k, factor in enumerate(flat):
            operator = isinstance(self._core(factor), (Inverse, Deterministic))
            costs[k, k + 1] = 4.0 * dims[k] ** 3 if operator else 0.0
        for length in range(2, count + 1):
            for start in range(count - length + 1):
                stop = start + length
                best = (math.inf, 0)
                if self._palindrome(flat[start:stop]):
                    middle = start + length // 2
                    inner, outer = dims[middle], dims[stop]
                    best = (costs[middle, stop] + outer * outer * inner, middle)
                for middle in range(start + 1, stop):
                    a, b, c = dims[start], dims[middle], dims[stop]
                    left, right = costs[start, middle], costs[middle, stop]
                    if middle == start + 1 and isinstance(self._core(flat[start]), Inverse):
                        left = 0.0
                    elif middle == stop - 1 and isinstance(self._core(flat[middle]), Inverse):
                        right = 0.0
                    best = min(best, (left + right + 2.0 * a * b * c, middle))
                costs[start, stop], splits[start, stop] = best
        return self._build(flat, 0, count, splits)

    def _core(self, node: Matrix) -> Matrix:
        return node.operand if isinstance(node, Transpose) else node

    def _palindrome(self, factors: tuple[Matrix, ...]) -> bool:
        if len(factors) % 2:
            return False
        half = len(factors) // 2
        return all(
            plain(factors[k].T) == factors[-1 - k]
            or (factors[k] == factors[-1 - k] and is_symmetric(factors[k]))
            for k in range(half)
        )

    def _build(
        self, flat: tuple[Matrix, ...], start: int, stop: int, splits: dict[tuple[int, int], int]
    ) -> Term:
        if stop - start == 1:
            core = self._core(flat[start])
            if isinstance(core, Inverse):
                return self._solve(flat[start], self.value(Identity(core.shape[0])))
            return self.full(self.value(flat[start]))
        key = Product.of(*flat[start:stop])
        if key in self.memo:
            return self.memo[key]
        term = self._split(flat, start, stop, splits)
        self.memo[key] = term
        return term

    def _split(
        self, flat: tuple[Matrix, ...], start: int, stop: int, splits: dict[tuple[int, int], int]
    ) -> Term:
        middle = splits[start, stop]
        width = self.size(flat[stop - 1].shape[1])
        if self._palindrome(flat[start:stop]) and middle == start + (stop - start) // 2:
            half = self.full(self._build(flat, middle, stop, splits))
            coefficient, bare = half.coefficient**2, self.bare(half)
            if width > NARROW:
                step = self.emit(Gram(bare), (width, width), symmetric=True, triangle=True)
                return Term(coefficient, step)
            step = self.emit(Multiply(self.flip(bare), bare), (width, width), symmetric=True)
            return Term(coefficient, step)
        left_core = self._core(flat[start])
        right_core = self._core(flat[stop - 1])
        if middle == start + 1 and isinstance(left_core, (Inverse, Deterministic)):
            right = self.full(self._build(flat, middle, stop, splits))
            return self._operate(flat[start], right)
        if middle == stop - 1 and isinstance(right_core, (Inverse, Deterministic)):
            left = self.full(self._build(flat, start, middle, splits))
            return self.flip(self._operate(plain(flat[stop - 1].T), self.flip(left)))
        left = self.full(self._build(flat, start, middle, splits))
        right = self.full(self._build(flat, middle, stop, splits))
        shape = self.term_shape(left)[0], self.term_shape(right)[1]
        step = self.emit(Multiply(self.bare(left), self.bare(right)), shape)
        return Term(left.coefficient * right.coefficient, step)

    def _operate(self, operator: Matrix, right: Term) -> Term:
        core = self._core(operator)
        if isinstance(core, Inverse):
            return self._solve(operator, right)
        diagonal = self.emit(Load(core), (self.shape(core)[0], 1))
        step = self.emit(Scale(diagonal, self.bare(right)), self.term_shape(right))
        return Term(right.coefficient, step)

    # -- inverses and traces

    def factor(self, node: Inverse) -> Term:
        """``coefficient * factorisation`` of the inverse."""
        size = self.shape(node)[0]
        parts = self.parts(node.operand)
        shift = sum((c for c, m in parts if isinstance(m, Identity)), ZERO)
        rest = [(c, m) for c, m in parts if not isinstance(m, Identity)]
        symmetric = is_symmetric(node.operand)
        if size <= NARROW:
            inside = self.value(node.operand)
            inside = self.full(inside)
            step = self.emit(Factor("small", inside.step, ZERO), (size, size), symmetric)
            return Term(1 / inside.coefficient, step, inside.transposed)
        inside = self.combination(rest, (size, size)) if rest else self.value(node.operand)
        shift = shift if rest else ZERO
        scale = inside.coefficient
        shift = shift / scale
        varied = self.shared and (
            bool(getattr(shift, "free_symbols", set()) & self.varied) or self.depends[inside.step]
        )
        if varied:
            if not symmetric or self.depends[inside.step]:
                raise _NotShared
            method = "tridiagonal"
        else:
            positive = symmetric and self.positive(node.operand)
            method = "cholesky" if positive and self.number(scale) > 0 else "lu"
        if method == "lu":
            inside = self.full(inside)
        step = self.emit(Factor(method, inside.step, shift), (size, size), symmetric)
        return Term(1 / scale, step, inside.transposed and not symmetric)

    def positive(self, node: Matrix, strictly: bool = True) -> bool:
        """True where the form of the expression proves it positive (semi)definite."""
        match node:
            case Identity():
                return True
            case Scaled():
                return self.number(node.coefficient) > 0 and self.positive(node.operand, strictly)
            case Sum():
                return all(self.positive(t, False) for t in node.terms) and (
                    not strictly or any(self.positive(t) for t in node.terms)
                )
            case Inverse():
                return is_symmetric(node.operand) and self.positive(node.operand)
            case Deterministic():
                return all(float(atom[node.component]) > 0 for atom in node.law.atoms)
            case Product() if not strictly:
                factors = tuple(f for f in node.factors if not isinstance(f, Identity))
                if len(factors) % 2 == 0:
                    return self._palindrome(factors)
                half = len(factors) // 2
                outer = factors[:half] + factors[half + 1 :]
                return self.positive(factors[half], False) and (
                    not outer or self._palindrome(outer)
                )
        return False

    def _solve(self, operator: Matrix, right: Term) -> Term:
        inverse = self._core(operator)
        assert isinstance(inverse, Inverse)
        factor = self.factor(inverse)
        transposed = isinstance(operator, Transpose) != factor.transposed
        transposed = transposed and not self.symmetric[factor.step]
        right = self.full(right)
        step = self.emit(Solve(factor.step, self.bare(right), transposed), self.term_shape(right))
        return Term(factor.coefficient * right.coefficient, step)

    def trace(self, node: Matrix) -> Term:
        parts = self.parts(plain(node))
        terms = []
        for coefficient, part in parts:
            inside = self._trace(part)
            terms.append(Term(coefficient * inside.coefficient, inside.step))
        if len(terms) == 1:
            return terms[0]
        return Term(ONE, self.emit(Combine(tuple(terms), ZERO, ()), (1, 1), symmetric=True))

    def _trace(self, node: Matrix) -> Term:
        one = (1, 1)
        factors = node.factors if isinstance(node, Product) else (node,)
        factors = tuple(f for f in factors if not isinstance(f, Identity))
        if not factors:
            step = self.emit(Combine((), ONE, ()), one, symmetric=True)
            return Term(node.shape[0], step)
        first = factors[0]
        if isinstance(first, Inverse) and all(f == first for f in factors):
            factor = self.factor(first)
            step = self.emit(InverseTrace(factor.step, len(factors)), one, symmetric=True)
            return Term(factor.coefficient ** len(factors), step)
        if len(factors) == 1:
            inside = self.value(first)
            step = self.emit(Contract(self.bare(inside), None), one, symmetric=True)
            return Term(inside.coefficient, step)
        scalar = next((k for k, f in enumerate(factors) if self.size(f.shape[0]) == 1), None)
        if scalar is not None:
            return self.chain(factors[scalar:] + factors[:scalar])
        if self._palindrome(factors):
            half = self.full(self.chain(factors[len(factors) // 2 :]))
            bare = self.bare(half)
            step = self.emit(Contract(self.flip(bare), bare), one, symmetric=True)
            return Term(half.coefficient**2, step)
        start = next((k for k, f in enumerate(factors) if isinstance(f, Inverse)), 0)
        factors = factors[start:] + factors[:start]
        if isinstance(factors[0], Inverse):
            whole = self.full(self.chain(factors))
            step = self.emit(Contract(self.bare(whole), None), one, symmetric=True)
            return Term(whole.coefficient, step)
        cut = len(factors) // 2
        left, right = self.full(self.chain(factors[:cut])), self.full(self.chain(factors[cut:]))
        step = self.emit(Contract(self.bare(left), self.bare(right)), one, symmetric=True)
        return Term(left.coefficient * right.coefficient, step)


def compile_program(
    expressions: tuple[Matrix, ...],
    sizes: Mapping[Any, int],
    values: Mapping[Any, tuple[float, ...]],
    functions: Mapping[Any, Any] | None = None,
) -> Program:
    """Straight-line steps for 1 x 1 ``expressions``.

    ``sizes``: a number for each size symbol; ``values``: for each scalar symbol a tuple of one
    number, or of as many numbers as the longest; ``functions``: for each symbol that stands as a
    nonlinearity the function. Raises :class:`InputError` for a symbol left without a number.
    """
    count = max((len(numbers) for numbers in values.values()), default=1)
    nodes = tuple(map(plain, expressions))
    attempts = (True, False) if count >= SHARED_FROM else (False,)
    for shared in attempts:
        compiler = _Compiler(sizes, values, functions or {}, shared)
        try:
            results = tuple(map(compiler.value, nodes))
        except _NotShared:
            continue
        break
    else:  # pragma: no cover - the last attempt never raises _NotShared
        raise AssertionError
    scalars = {}
    for step in compiler.steps:
        for scalar in scalars_of(step):
            scalars[scalar] = _numbers(scalar, sizes, values, count)
    for term in results:
        scalars[term.coefficient] = _numbers(term.coefficient, sizes, values, count)
    return Program(tuple(compiler.steps), results, tuple(compiler.depends), shared, scalars, count)


def _numbers(
    scalar: Any, sizes: Mapping[Any, int], values: Mapping[Any, tuple[float, ...]], count: int
) -> Array:
    scalar = sp.sympify(scalar).subs(sizes)
    varied = sorted((s for s in scalar.free_symbols if len(values.get(s, ())) > 1), key=str)
    scalar = scalar.subs({s: v[0] for s, v in values.items() if s not in varied})
    missing = scalar.free_symbols - set(varied)
    if missing:
        raise InputError(
            f"got no number for {', '.join(sorted(map(str, missing)))}; give each size in "
            "sizes={...} and each scalar in values={...}"
        )
    if not varied:
        number = complex(scalar)
        if number.imag != 0 or not math.isfinite(number.real):
            raise InputError(f"got the coefficient {scalar}; simulate takes finite real numbers")
        return np.array([number.real])
    function = sp.lambdify(varied, scalar, "math")
    return np.array([float(function(*(values[s][k] for s in varied))) for k in range(count)])
