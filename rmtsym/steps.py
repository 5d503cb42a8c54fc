"""The steps an evaluation is made of: the arrays each reads, and how it reads as text.

Steps are numbered from 0 and written once; scalar factors travel beside the arrays.

>>> print(Multiply(Term(sp.Integer(1), 0, transposed=True), Term(sp.Integer(1), 1)))
0' 1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy as sp

from rmtsym.matrices import Matrix

ONE = sp.Integer(1)


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


def terms_of(step: Step) -> Iterator[Term]:
    """The arrays that a step reads."""
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


def scalars_of(step: Step) -> Iterator[Any]:
    """The scalars that a step reads."""
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
    for term in terms_of(step):
        yield term.coefficient
