"""The vocabulary: random matrices, vectors, and the expressions written with them.

Conventions
-----------
Sizes are positive SymPy symbols (``n, p = dimensions("n p")``) that grow together at fixed ratios.
``Gaussian`` entries have mean 0 and variance 1; ``Wigner`` is symmetric (GOE) with off-diagonal
variance 1 and diagonal variance 2. Every power of a size is written out by whoever writes the
expression, as on paper: ``Z.T * Z / n``. Vectors are columns, known in a limit by their inner
products only. Nodes are frozen values; nothing is rewritten on construction, words never commute.

>>> n, p = dimensions("n p")
>>> Z = Gaussian("Z", p, n)
>>> Q = (Z.T * Z / n + Identity(n)).inverse()
>>> print(Q)
(1/n*Z'*Z + I_n)^-1
>>> Q.shape
(n, n)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import sympy as sp

from rmtsym.algebra import (
    D,
    Entrywise,
    Identity,
    Matrix,
    OffDiagonal,
    Product,
    RowSoftmax,
    Sum,
    Trace,
)
from rmtsym.errors import InputError, require
from rmtsym.laws import SpectralLaw
from rmtsym.scalars import ONE, ZERO, Scalar, dimensions, latex_name, read_name, read_size, scalar

__all__ = [
    "D",
    "Deterministic",
    "Entrywise",
    "Gaussian",
    "Identity",
    "Iid",
    "Independent",
    "Indicator",
    "Labels",
    "Matrix",
    "OffDiagonal",
    "Ones",
    "RowSoftmax",
    "SpectralLaw",
    "Trace",
    "Vector",
    "Wigner",
    "dimensions",
    "from_sympy",
    "indicators",
    "inner",
]


@dataclass(frozen=True)
class Gaussian(Matrix):
    """Rectangular matrix of iid N(0, 1) entries, ``rows`` x ``columns``.

    Two ``Gaussian`` of one name and shape are the same matrix; of two names, independent.
    """

    name: str
    rows: Scalar
    columns: Scalar

    def __post_init__(self) -> None:
        read_name(self.name)
        object.__setattr__(self, "rows", read_size(self.rows))
        object.__setattr__(self, "columns", read_size(self.columns))

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.rows, self.columns

    def __str__(self) -> str:
        return self.name

    def _latex(self) -> str:
        return latex_name(self.name)


@dataclass(frozen=True)
class Iid(Gaussian):
    """Rectangular matrix of iid entries of mean 0, variance 1 and ``E z^4 = kurtosis``.

    Limits see no more of the law, and see ``kurtosis`` only where the vector of ones matters
    (labels of mean other than 0) and a nonlinearity has ``a_2 != 0``.
    """

    kurtosis: Scalar = field(default_factory=lambda: sp.Integer(3))

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "kurtosis", scalar(self.kurtosis))
        require(
            not self.kurtosis.is_number or bool(self.kurtosis >= 1),
            f"got the kurtosis {self.kurtosis}; E z^4 >= (E z^2)^2 = 1 for every law",
        )


@dataclass(frozen=True)
class Wigner(Matrix):
    """GOE matrix: symmetric Gaussian, variance 1 off the diagonal and 2 on it."""

    name: str
    size: Scalar

    def __post_init__(self) -> None:
        read_name(self.name)
        object.__setattr__(self, "size", read_size(self.size))

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.size, self.size

    def __str__(self) -> str:
        return self.name

    def _latex(self) -> str:
        return latex_name(self.name)


@dataclass(frozen=True)
class Vector(Matrix):
    """Deterministic column vector, known by its inner products, in generic position.

    Generic: seen by deterministic matrices as a random direction, ``u^T f(D) v = (u.v) E f``. A
    vector of another spectral measure is ``B * v``, with B a further matrix of the joint law of D
    (``B^2`` the density of its measure).

    ``norm2`` is its squared length (``n`` for a vector of signs); where it is None the length and
    all inner products enter as the symbols ``inner(u, v)``.
    """

    name: str
    size: Scalar
    norm2: Scalar | None = None

    def __post_init__(self) -> None:
        read_name(self.name)
        object.__setattr__(self, "size", read_size(self.size))
        if self.norm2 is not None:
            object.__setattr__(self, "norm2", scalar(self.norm2))

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.size, ONE

    def __str__(self) -> str:
        return self.name

    def _latex(self) -> str:
        return rf"\mathbf{{{latex_name(self.name)}}}"


@dataclass(frozen=True)
class Labels(Vector):
    """Vector of signs +-1 (squared length ``size``); sampled with mean ``mean``, 0 if balanced."""

    mean: Scalar = ZERO

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "norm2", self.size)
        object.__setattr__(self, "mean", scalar(self.mean))


@dataclass(frozen=True)
class Ones(Vector):
    """The all-ones vector, squared length ``size``."""

    name: str = field(default="1", init=False)
    size: Scalar = ONE
    norm2: Scalar | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "norm2", self.size)


@dataclass(frozen=True)
class Independent(Vector):
    """A vector of squared length ``size`` in a direction independent of all other vectors."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "norm2", self.size)


@dataclass(frozen=True)
class Indicator(Vector):
    """Indicator of a class: 1 on a share of the entries, 0 elsewhere; made by :func:`indicators`.

    Classes of one size are disjoint: the entries from ``start`` on, in units of ``size``, after
    one permutation for all.
    """

    share: Scalar = ONE
    start: Scalar = ZERO

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "share", scalar(self.share))
        object.__setattr__(self, "start", scalar(self.start))
        object.__setattr__(self, "norm2", self.share * self.size)


def indicators(names: str, size: Any, shares: Any) -> tuple[Indicator, ...]:
    """Indicators of disjoint classes; ``shares`` are positive and sum to 1.

    >>> n, p = dimensions("n p")
    >>> one, two = indicators("j_1 j_2", n, [sp.Rational(1, 3), sp.Rational(2, 3)])
    >>> inner(one, one), inner(one, two), inner(two, Ones(n))
    (n/3, 0, 2*n/3)
    """
    given = [scalar(share) for share in shares]
    listed = names.split()
    require(
        len(listed) == len(given) > 0,
        f"got {len(listed)} names and {len(given)} shares; give one share per class",
    )
    total = sum(given, ZERO)
    require(
        not total.is_number or (total == 1 and all(share > 0 for share in given)),
        f"got the shares {', '.join(map(str, given))}; they must be positive and sum to 1",
    )
    starts = [sum(given[:k], ZERO) for k in range(len(given))]
    return tuple(
        Indicator(name, size, share=share, start=start)
        for name, share, start in zip(listed, given, starts, strict=True)
    )


def inner(u: Vector, v: Vector) -> Scalar:
    """The inner product ``u . v`` as a scalar: a symbol unless a length or a rule gives it.

    >>> n, p = dimensions("n p")
    >>> inner(Vector("mu", p), Vector("w", p))
    mu.w
    >>> inner(Labels("y", n), Labels("y", n))
    n
    """
    require(
        u.size == v.size,
        f"got inner({u}, {v}) of sizes {u.size} and {v.size}; both must lie in one space",
    )
    if u == v and u.norm2 is not None:
        return u.norm2
    for a, b in ((u, v), (v, u)):
        if isinstance(a, Labels) and isinstance(b, Ones):
            return a.mean * a.size
        if isinstance(a, Indicator) and isinstance(b, Ones):
            return a.share * a.size
        if isinstance(a, Independent) and u != v:
            return ZERO
        if isinstance(a, Indicator) and isinstance(b, Indicator) and u != v:
            return ZERO
    first, second = sorted((u.name, v.name))
    if u == v:
        return cast(Scalar, sp.Symbol(f"{first}.{second}", nonnegative=True))
    return cast(Scalar, sp.Symbol(f"{first}.{second}", real=True))


@dataclass(frozen=True)
class Deterministic(Matrix):
    """Deterministic symmetric matrix, known by its spectral law.

    ``component`` picks the matrix among the commuting ones that share ``law``; all deterministic
    matrices of one size must share one law (they are then simultaneously diagonal).
    """

    name: str
    size: Scalar
    law: SpectralLaw
    component: int = 0

    def __post_init__(self) -> None:
        read_name(self.name)
        object.__setattr__(self, "size", read_size(self.size))
        require(
            isinstance(self.law, SpectralLaw),
            f"got the law {self.law!r} of {self.name}; pass "
            'SpectralLaw.from_atoms([1, 3], weights=["1/2", "1/2"]) or another SpectralLaw',
        )
        require(
            0 <= self.component < len(self.law.atoms[0]),
            f"got component {self.component}; the law has {len(self.law.atoms[0])} matrices",
        )

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.size, self.size

    def __str__(self) -> str:
        return self.name

    def _latex(self) -> str:
        return latex_name(self.name)


def from_sympy(expression: Any) -> Matrix:
    """A SymPy matrix expression as an rmtsym expression, node for node.

    A rectangular ``MatrixSymbol`` becomes :class:`Gaussian`, one with a single column
    :class:`Vector`. What SymPy already rewrote on construction cannot be seen from here.

    >>> n, p = dimensions("n p")
    >>> Z = sp.MatrixSymbol("Z", p, n)
    >>> print(from_sympy(Z.T * Z / n))
    1/n*Z'*Z
    """
    if isinstance(expression, Matrix):
        return expression
    if isinstance(expression, sp.MatrixSymbol):
        rows, columns = expression.shape
        if columns == 1:
            return Vector(expression.name, rows)
        return Gaussian(expression.name, rows, columns)
    if isinstance(expression, sp.Identity):
        return Identity(expression.shape[0])
    if isinstance(expression, sp.MatAdd):
        return Sum.of(*map(from_sympy, expression.args))
    if isinstance(expression, sp.MatMul):
        coefficient, factors = expression.as_coeff_matrices()
        product = Product.of(*map(from_sympy, factors))
        return product if coefficient == 1 else coefficient * product
    if isinstance(expression, sp.Transpose):
        return from_sympy(expression.arg).T
    if isinstance(expression, sp.MatPow) and expression.exp.is_Integer:
        return from_sympy(expression.base) ** int(expression.exp)
    if isinstance(expression, sp.Trace):
        return Trace(from_sympy(expression.arg))
    raise InputError(
        f"got {expression!r} ({type(expression).__name__}); from_sympy reads MatrixSymbol, "
        "Identity, sums, products, transposes, integer powers, inverses and traces"
    )
