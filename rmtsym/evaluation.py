r"""An expression evaluated literally on sampled matrices, at the price of its BLAS calls.

:func:`compile_program` turns 1 x 1 expressions into straight-line steps; :meth:`Program.run`
executes them on one sample. Nothing is approximated: ``f`` is applied entry by entry.

- Shared subexpressions are computed once, freed after their last use, and overwritten where the
  last use allows it. Scalar factors travel beside the arrays and cost no pass.
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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import scipy.linalg as sl
import sympy as sp
from scipy.linalg import lapack

from rmtsym.errors import InputError, SimulationError
from rmtsym.matrices import (
    D,
    Deterministic,
    Entrywise,
    Gaussian,
    Identity,
    Inverse,
    Matrix,
    OffDiagonal,
    Product,
    RowSoftmax,
    Scaled,
    Sum,
    Trace,
    Transpose,
    Vector,
    Wigner,
)
from rmtsym.rewriting import differentiate, is_symmetric, rebuild
from rmtsym.sampling import Array, mirror
from rmtsym.unlocked import gemm, syrk, sytrd

ONE, ZERO = sp.Integer(1), sp.Integer(0)
NARROW = 8
"""Widest array that is kept for many values of a scalar at once."""
SHARED_FROM = 6
"""Number of values from which one tridiagonal form is cheaper than a Cholesky each."""


@dataclass(frozen=True)
class Term:
    """``coefficient * array``, or its transpose."""

    coefficient: Any
    step: int
    transposed: bool = False

    def __str__(self) -> str:
        text = f"{self.step}'" if self.transposed else str(self.step)
        return text if self.coefficient == 1 else f"{self.coefficient}*{text}"


@dataclass(frozen=True)
class Load:
    """A sampled leaf (the diagonal of a ``Deterministic``)."""

    leaf: Matrix

    def __str__(self) -> str:
        return str(self.leaf)


@dataclass(frozen=True)
class Combine:
    """``sum of terms + diagonal * I + sum of left * right`` over narrow pairs."""

    terms: tuple[Term, ...]
    diagonal: Any
    pairs: tuple[tuple[Any, Term, Term], ...]
    size: int = 1

    def __str__(self) -> str:
        parts = [str(t) for t in self.terms]
        parts += [] if self.diagonal == 0 else [f"{self.diagonal}*I"]
        parts += [("" if c == 1 else f"{c}*") + f"{u} {v}" for c, u, v in self.pairs]
        return " + ".join(parts) or "0"


@dataclass(frozen=True)
class Multiply:
    """A product of two arrays."""

    left: Term
    right: Term

    def __str__(self) -> str:
        return f"{self.left} {self.right}"


@dataclass(frozen=True)
class Scale:
    """Rows times the entries of a diagonal."""

    diagonal: int
    operand: Term

    def __str__(self) -> str:
        return f"diag({self.diagonal}) {self.operand}"


@dataclass(frozen=True)
class Gram:
    """One triangle of ``M' M``."""

    operand: Term

    def __str__(self) -> str:
        flipped = Term(ONE, self.operand.step, not self.operand.transposed)
        return f"triangle of {flipped} {self.operand}"


@dataclass(frozen=True)
class Mirror:
    """Both triangles of a symmetric array."""

    step: int

    def __str__(self) -> str:
        return f"both triangles of {self.step}"


@dataclass(frozen=True)
class Apply:
    """``f(coefficient * A)`` entry by entry."""

    f: Any
    coefficient: Any
    step: int

    def __str__(self) -> str:
        return f"{getattr(self.f, 'name', None) or self.f}({Term(self.coefficient, self.step)})"


@dataclass(frozen=True)
class ClearDiagonal:
    """The array with a zero diagonal."""

    step: int

    def __str__(self) -> str:
        return f"{self.step} off the diagonal"


@dataclass(frozen=True)
class Softmax:
    """Softmax of every row of ``operand``, the diagonal masked."""

    operand: Term

    def __str__(self) -> str:
        return f"row softmax of {self.operand} off the diagonal"


@dataclass(frozen=True)
class Factor:
    """A factorisation of ``A + shift * I``: cholesky, lu, tridiagonal or small."""

    method: str
    step: int
    shift: Any

    def __str__(self) -> str:
        return f"{self.method} of {self.step}" + ("" if self.shift == 0 else f" + {self.shift}")


@dataclass(frozen=True)
class Solve:
    """``A^{-1} B``, or ``A'^{-1} B``."""

    factor: int
    right: Term
    transposed: bool

    def __str__(self) -> str:
        return f"{self.factor}{chr(39) if self.transposed else ''} \\ {self.right}"


@dataclass(frozen=True)
class InverseTrace:
    """``tr A^{-power}`` of a symmetric ``A``."""

    factor: int
    power: int

    def __str__(self) -> str:
        return f"tr {self.factor}^-{self.power}"


@dataclass(frozen=True)
class Contract:
    """``tr(L R)``, or ``tr L``."""

    left: Term
    right: Term | None

    def __str__(self) -> str:
        return f"tr {self.left}" + ("" if self.right is None else f" {self.right}")


Step: TypeAlias = (
    Load
    | Combine
    | Multiply
    | Scale
    | Gram
    | Mirror
    | Apply
    | ClearDiagonal
    | Softmax
    | Factor
    | Solve
    | InverseTrace
    | Contract
)


def _terms(step: Step) -> Iterator[Term]:
    match step:
        case Combine():
            yield from step.terms
            for _, left, right in step.pairs:
                yield left
                yield right
        case Multiply():
            yield step.left
            yield step.right
        case Gram() | Softmax():
            yield step.operand
        case Scale():
            yield Term(ONE, step.diagonal)
            yield step.operand
        case Mirror() | Apply() | ClearDiagonal() | Factor():
            yield Term(ONE, step.step)
        case Solve():
            yield Term(ONE, step.factor)
            yield step.right
        case InverseTrace():
            yield Term(ONE, step.factor)
        case Contract():
            yield step.left
            if step.right is not None:
                yield step.right
        case Load():
            return


def _scalars(step: Step) -> Iterator[Any]:
    match step:
        case Combine():
            yield step.diagonal
            yield from (c for c, _, _ in step.pairs)
        case Apply():
            yield step.coefficient
        case Factor():
            yield step.shift
        case _:
            pass
    for term in _terms(step):
        yield term.coefficient


class _NotShared(Exception):
    """The values of the varied scalars cannot be carried through at once."""


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
            for term in _terms(step):
                self.last[term.step] = index
        for term in program.results:
            self.last[term.step] = len(program.steps)
        self.kept = {
            term.step
            for index, step in enumerate(program.steps)
            for term in _terms(step)
            if program.depends[index] and not program.depends[term.step]
        }
        self.index, self.final = 0, True

    def execute(self, index: int, step: Step, load: Callable[[Matrix], Array], final: bool) -> None:
        self.index, self.final = index, final
        self.arrays[index] = load(step.leaf) if isinstance(step, Load) else self._compute(step)
        for used in {term.step for term in _terms(step)}:
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
                return _factor(step.method, self._own(step.step), self.scalar(step.shift))
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
        narrow = any(np.ndim(self.arrays[t.step]) > 2 for t in _terms(step))
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


class _Cholesky:
    def __init__(self, array: Array, shift: float) -> None:
        array = array if array.flags.f_contiguous else array.T
        self.given, self.shift = array, shift
        index = np.arange(len(array))
        array[index, index] += shift
        (potrf, self.potrs) = lapack.get_lapack_funcs(("potrf", "potrs"), (array,))
        self.lower, info = potrf(array, lower=1, overwrite_a=1, clean=0)
        if info != 0:
            raise SimulationError(
                f"Cholesky stopped at pivot {info} of {len(array)}: the matrix is positive "
                "definite, but not to this precision; use float64 or a larger shift"
            )

    def solve(self, right: Array, transposed: bool) -> Array:
        if right.ndim == 3:
            return _stacked(lambda b: self.solve(b, transposed), right)
        return cast(Array, self.potrs(self.lower, right, lower=1)[0])

    def trace(self, power: int) -> Array:
        if power == 1:
            (trtri,) = lapack.get_lapack_funcs(("trtri",), (self.lower,))
            inverse = np.tril(trtri(self.lower, lower=1)[0])
            return np.full((1, 1), float(np.vdot(inverse, inverse)))
        lower = np.tril(self.lower)
        singular = sl.svdvals(lower, check_finite=False)
        return np.full((1, 1), float((singular ** (-2.0 * power)).sum()))


class _LU:
    def __init__(self, array: Array, shift: float) -> None:
        self.flipped = not array.flags.f_contiguous
        array = array.T if self.flipped else array
        index = np.arange(len(array))
        array[index, index] += shift
        (getrf, self.getrs) = lapack.get_lapack_funcs(("getrf", "getrs"), (array,))
        self.lu, self.pivots, info = getrf(array, overwrite_a=1)
        if info > 0:
            raise SimulationError(f"a matrix to be inverted is singular (pivot {info} is zero)")

    def solve(self, right: Array, transposed: bool) -> Array:
        if right.ndim == 3:
            return _stacked(lambda b: self.solve(b, transposed), right)
        trans = int(transposed != self.flipped)
        return cast(Array, self.getrs(self.lu, self.pivots, right, trans=trans)[0])

    def trace(self, power: int) -> Array:
        result = identity = np.eye(len(self.lu), dtype=self.lu.dtype)
        for _ in range(power):
            result = self.solve(result, False)
        return np.full((1, 1), float((result * identity).sum()))


class _Tridiagonal:
    """``A = P T P'``; every shift is then a tridiagonal solve."""

    def __init__(self, array: Array, shift: Any) -> None:
        array = array if array.flags.f_contiguous else array.T
        self.shifts = np.atleast_1d(np.asarray(shift, array.dtype).reshape(-1))
        (self.ormqr,) = lapack.get_lapack_funcs(("ormqr",), (array,))
        reflectors, self.d, self.e, self.tau = sytrd(array)
        self.reflectors = np.asfortranarray(reflectors[1:, :-1])

    def _rotate(self, columns: Array, trans: str) -> Array:
        columns = np.array(columns, order="F")
        tail = np.asfortranarray(columns[1:])
        work = int(self.ormqr("L", trans, self.reflectors, self.tau, tail, -1)[1][0])
        columns[1:] = self.ormqr("L", trans, self.reflectors, self.tau, tail, work)[0]
        return columns

    def solve(self, right: Array, transposed: bool) -> Array:
        count, columns = len(self.shifts), right.shape[-1]
        if right.ndim == 3:
            flat = right.transpose(1, 0, 2).reshape(right.shape[1], -1)
            inside = self._rotate(flat, "T").reshape(-1, count, columns)
        else:
            rotated = self._rotate(right, "T")
            inside = np.broadcast_to(rotated[:, None], (len(rotated), count, columns))
        (gtsv,) = lapack.get_lapack_funcs(("gtsv",), (inside,))
        solved = np.empty((len(inside), count, columns), inside.dtype)
        for k, shift in enumerate(self.shifts):
            *_, solved[:, k], info = gtsv(self.e, self.d + shift, self.e, inside[:, k])
            if info > 0:
                raise SimulationError("a matrix to be inverted is singular")
        back = self._rotate(solved.reshape(len(solved), -1), "N")
        return cast(Array, back.reshape(len(solved), count, columns).transpose(1, 0, 2))

    def trace(self, power: int) -> Array:
        values = sl.eigvalsh_tridiagonal(self.d, self.e)
        return cast(Array, ((values + self.shifts[:, None]) ** (-power)).sum(1).reshape(-1, 1, 1))


class _Small:
    """Arrays of a few rows, possibly one for each value."""

    def __init__(self, array: Array, shift: Any) -> None:
        self.array = array + shift * np.eye(array.shape[-1])

    def solve(self, right: Array, transposed: bool) -> Array:
        array = np.swapaxes(self.array, -1, -2) if transposed else self.array
        try:
            return cast(Array, np.linalg.solve(array, right))
        except np.linalg.LinAlgError as error:
            raise SimulationError("a matrix to be inverted is singular") from error

    def trace(self, power: int) -> Array:
        inverse = np.linalg.matrix_power(np.linalg.inv(self.array), power)
        return np.asarray(np.trace(inverse, axis1=-2, axis2=-1)).reshape(-1, 1, 1)


def _stacked(solve: Callable[[Array], Array], right: Array) -> Array:
    count, rows, columns = right.shape
    flat = solve(right.transpose(1, 0, 2).reshape(rows, count * columns))
    return flat.reshape(rows, count, columns).transpose(1, 0, 2)


def _factor(method: str, array: Array, shift: Any) -> Any:
    kinds = {"cholesky": _Cholesky, "lu": _LU, "tridiagonal": _Tridiagonal, "small": _Small}
    return kinds[method](array, shift)


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
        depends = any(self.depends[t.step] for t in _terms(step)) or any(
            bool(getattr(c, "free_symbols", set()) & self.varied) for c in _scalars(step)
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
        for scalar in _scalars(step):
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
