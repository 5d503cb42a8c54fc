"""The algebra of matrix expressions: sums, products, inverses, traces and entrywise maps.

Nodes are frozen values that carry their shape; nothing is rewritten on construction, words never
commute. What the expressions are about, random matrices and vectors, is in
:mod:`rmtsym.matrices`.

>>> A = (2 * Identity(3) + Identity(3)).inverse()
>>> print(Trace(A.T * A))
tr((2*I_3 + I_3)^-1'*(2*I_3 + I_3)^-1)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sympy as sp

from rmtsym.errors import InputError, require
from rmtsym.scalars import ONE, Scalar, read_size, scalar


class Matrix:
    """A matrix expression: a frozen value with a shape and Python's operators.

    ``A + B``, ``A - B``, ``A * B``, ``s * A``, ``A / s``, ``A ** k``, ``A.T``, ``A.inverse()``.
    A scalar may be added to a 1 x 1 expression only (write ``s * Identity(n)`` otherwise).
    """

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        raise TypeError(f"{type(self).__name__} has no shape")

    @property
    def children(self) -> tuple[Matrix, ...]:
        return ()

    @property
    def T(self) -> Matrix:
        return self.operand if isinstance(self, Transpose) else Transpose(self)

    def inverse(self) -> Matrix:
        return Inverse(self)

    def __add__(self, other: Any) -> Matrix:
        return Sum.of(self, self._same_kind(other))

    def __radd__(self, other: Any) -> Matrix:
        return Sum.of(self._same_kind(other), self)

    def __sub__(self, other: Any) -> Matrix:
        return self + (-1) * self._same_kind(other)

    def __rsub__(self, other: Any) -> Matrix:
        return self._same_kind(other) + (-1) * self

    def __neg__(self) -> Matrix:
        return (-1) * self

    def __mul__(self, other: Any) -> Matrix:
        if isinstance(other, Matrix):
            return Product.of(self, other)
        return Scaled.of(scalar(other), self)

    def __rmul__(self, other: Any) -> Matrix:
        return Scaled.of(scalar(other), self)

    __matmul__ = __mul__

    def __truediv__(self, other: Any) -> Matrix:
        if isinstance(other, Matrix):
            if other.shape != (ONE, ONE):
                raise InputError(
                    f"got a division by a matrix of shape {other.shape}; "
                    "multiply by other.inverse() on the side you mean"
                )
            return Product.of(self, other.inverse())
        return Scaled.of(1 / scalar(other), self)

    def __rtruediv__(self, other: Any) -> Matrix:
        return Scaled.of(scalar(other), self.inverse())

    def __pow__(self, exponent: int) -> Matrix:
        if not isinstance(exponent, int) or isinstance(exponent, bool):
            raise InputError(f"got the power {exponent!r}; matrix powers are integers")
        if exponent == 0:
            return Identity(self.shape[0])
        base = self if exponent > 0 else self.inverse()
        return Product.of(*([base] * abs(exponent))) if abs(exponent) > 1 else base

    def _same_kind(self, other: Any) -> Matrix:
        if isinstance(other, Matrix):
            return other
        value = scalar(other)
        if self.shape == (ONE, ONE):
            return Scaled.of(value, Identity(1))
        raise InputError(
            f"got {value} + a matrix of shape {self.shape}; "
            f"write {value}*Identity({self.shape[0]}) for a multiple of the identity"
        )

    def _latex(self) -> str:
        return str(self)

    def _repr_latex_(self) -> str:
        return f"${self._latex()}$"


@dataclass(frozen=True)
class Identity(Matrix):
    """The identity of a size."""

    size: Scalar

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", read_size(self.size))

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.size, self.size

    def __str__(self) -> str:
        return f"I_{self.size}"

    def _latex(self) -> str:
        return rf"I_{{{sp.latex(self.size)}}}"


def _parenthesised(node: Matrix, text: str, kinds: tuple[type, ...]) -> str:
    return f"({text})" if isinstance(node, kinds) else text


@dataclass(frozen=True)
class Scaled(Matrix):
    """``coefficient * operand``."""

    coefficient: Scalar
    operand: Matrix

    @staticmethod
    def of(coefficient: Scalar, operand: Matrix) -> Matrix:
        if isinstance(operand, Scaled):
            return Scaled(coefficient * operand.coefficient, operand.operand)
        return Scaled(coefficient, operand)

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.operand.shape

    @property
    def children(self) -> tuple[Matrix, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        text = str(self.coefficient)
        if self.coefficient.is_Add:
            text = f"({text})"
        return f"{text}*{_parenthesised(self.operand, str(self.operand), (Sum,))}"

    def _latex(self) -> str:
        text = sp.latex(self.coefficient)
        if self.coefficient.is_Add:
            text = rf"\left({text}\right)"
        text = "-" if self.coefficient == -1 else text + r"\,"
        return text + _parenthesised(self.operand, self.operand._latex(), (Sum,))


@dataclass(frozen=True)
class Sum(Matrix):
    """``terms[0] + terms[1] + ...``, all of one shape."""

    terms: tuple[Matrix, ...]

    @staticmethod
    def of(*terms: Matrix) -> Matrix:
        flat: list[Matrix] = []
        for term in terms:
            flat.extend(term.terms if isinstance(term, Sum) else (term,))
        for term in flat[1:]:
            require(
                term.shape == flat[0].shape,
                f"got a sum of shapes {flat[0].shape} and {term.shape}; "
                f"both terms must have one shape: {flat[0]} and {term}",
            )
        return Sum(tuple(flat))

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.terms[0].shape

    @property
    def children(self) -> tuple[Matrix, ...]:
        return self.terms

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))

    def _latex(self) -> str:
        return " + ".join(term._latex() for term in self.terms).replace("+ -", "- ")


@dataclass(frozen=True)
class Product(Matrix):
    """``factors[0] * factors[1] * ...``, in this order."""

    factors: tuple[Matrix, ...]

    @staticmethod
    def of(*factors: Matrix) -> Matrix:
        coefficient: Scalar = ONE
        flat: list[Matrix] = []
        for factor in factors:
            if isinstance(factor, Scaled):
                coefficient, factor = coefficient * factor.coefficient, factor.operand
            flat.extend(factor.factors if isinstance(factor, Product) else (factor,))
        for left, right in pairwise(flat):
            require(
                left.shape[1] == right.shape[0],
                f"got a product of shapes {left.shape} and {right.shape}; the inner sizes must "
                f"be equal: {left} times {right}",
            )
        product = Product(tuple(flat)) if len(flat) > 1 else flat[0]
        return product if coefficient == 1 else Scaled.of(coefficient, product)

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.factors[0].shape[0], self.factors[-1].shape[1]

    @property
    def children(self) -> tuple[Matrix, ...]:
        return self.factors

    def __str__(self) -> str:
        return "*".join(_parenthesised(f, str(f), (Sum,)) for f in self.factors)

    def _latex(self) -> str:
        return " ".join(
            rf"\left({f._latex()}\right)" if isinstance(f, Sum) else f._latex()
            for f in self.factors
        )


@dataclass(frozen=True)
class Transpose(Matrix):
    """The transpose."""

    operand: Matrix

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.operand.shape[1], self.operand.shape[0]

    @property
    def children(self) -> tuple[Matrix, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return _parenthesised(self.operand, str(self.operand), (Sum, Product, Scaled)) + "'"

    def _latex(self) -> str:
        return (
            _parenthesised(self.operand, self.operand._latex(), (Sum, Product, Scaled)) + r"^{\top}"
        )


@dataclass(frozen=True)
class Inverse(Matrix):
    """The inverse of a square matrix."""

    operand: Matrix

    def __post_init__(self) -> None:
        rows, columns = self.operand.shape
        require(
            rows == columns,
            f"got the inverse of a matrix of shape {self.operand.shape}; it must be square",
        )

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.operand.shape

    @property
    def children(self) -> tuple[Matrix, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return _parenthesised(self.operand, str(self.operand), (Sum, Product, Scaled)) + "^-1"

    def _latex(self) -> str:
        if isinstance(self.operand, (Sum, Product, Scaled)):
            return rf"\left({self.operand._latex()}\right)^{{-1}}"
        return rf"{self.operand._latex()}^{{-1}}"


@dataclass(frozen=True)
class Entrywise(Matrix):
    """``f`` applied to every entry of ``operand``.

    ``f`` is a :class:`~rmtsym.nonlinearity.Nonlinearity`, or a SymPy symbol that stands for a
    nonlinearity not chosen yet (its coefficients then stay symbols). ``centred=False`` says that
    ``E f(xi)`` is not zero: a spike along the vector of ones that grows without bound.
    """

    f: Any
    operand: Matrix
    centred: bool = True

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.operand.shape

    @property
    def children(self) -> tuple[Matrix, ...]:
        return (self.operand,)

    @property
    def label(self) -> str:
        name = getattr(self.f, "name", None) or getattr(self.f, "__name__", None)
        return str(name or (self.f if isinstance(self.f, sp.Basic) else type(self.f).__name__))

    def __str__(self) -> str:
        return f"{self.label}({self.operand})"

    def _latex(self) -> str:
        return rf"\operatorname{{{self.label}}}\left({self.operand._latex()}\right)"


@dataclass(frozen=True)
class RowSoftmax(Matrix):
    """Softmax of every row of ``beta * operand``, the diagonal masked.

    ``exp(beta A_ij) / sum_{k != i} exp(beta A_ik)`` off the diagonal, 0 on it.
    """

    beta: Scalar
    operand: Matrix

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", scalar(self.beta))
        rows, columns = self.operand.shape
        require(
            rows == columns,
            f"got RowSoftmax of a matrix of shape {self.operand.shape}; it masks the diagonal, "
            "and must be square",
        )

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.operand.shape

    @property
    def children(self) -> tuple[Matrix, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return f"softmax({Scaled.of(self.beta, self.operand)})"

    def _latex(self) -> str:
        argument = Scaled.of(self.beta, self.operand)._latex()
        return rf"\operatorname{{softmax}}\left({argument}\right)"


@dataclass(frozen=True)
class OffDiagonal(Matrix):
    """``operand`` with its diagonal set to zero."""

    operand: Matrix

    def __post_init__(self) -> None:
        rows, columns = self.operand.shape
        require(
            rows == columns,
            f"got OffDiagonal of a matrix of shape {self.operand.shape}; it must be square",
        )

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.operand.shape

    @property
    def children(self) -> tuple[Matrix, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return f"offdiag({self.operand})"

    def _latex(self) -> str:
        return rf"\operatorname{{offdiag}}\left[{self.operand._latex()}\right]"


@dataclass(frozen=True)
class Trace(Matrix):
    """The trace, not normalised: a 1 x 1 expression. Write ``Trace(A) / n``."""

    operand: Matrix

    def __post_init__(self) -> None:
        rows, columns = self.operand.shape
        require(
            rows == columns,
            f"got the trace of a matrix of shape {self.operand.shape}; it must be square",
        )

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return ONE, ONE

    @property
    def children(self) -> tuple[Matrix, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return f"tr({self.operand})"

    def _latex(self) -> str:
        return rf"\operatorname{{tr}}\left[{self.operand._latex()}\right]"


@dataclass(frozen=True)
class D(Matrix):
    """Derivative of a 1 x 1 expression in a scalar symbol, total: ``D(y.T*Q*y/n, gamma)``."""

    operand: Matrix
    variable: sp.Symbol

    def __post_init__(self) -> None:
        require(
            self.operand.shape == (ONE, ONE),
            f"got D of a matrix of shape {self.operand.shape}; it takes a 1 x 1 expression",
        )
        require(
            isinstance(self.variable, sp.Symbol),
            f"got D in {self.variable!r}; the variable is a SymPy symbol",
        )

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return ONE, ONE

    @property
    def children(self) -> tuple[Matrix, ...]:
        return (self.operand,)

    def __str__(self) -> str:
        return f"d/d{self.variable}[{self.operand}]"

    def _latex(self) -> str:
        return rf"\frac{{d}}{{d {sp.latex(self.variable)}}}\left[{self.operand._latex()}\right]"
