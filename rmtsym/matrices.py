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
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias, cast

import sympy as sp

from rmtsym.errors import InputError

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

Scalar: TypeAlias = sp.Expr
ZERO, ONE = sp.Integer(0), sp.Integer(1)


def dimensions(names: str) -> Any:
    """Sizes: positive integer symbols, ``n, p = dimensions("n p")``.

    >>> dimensions("n p")
    (n, p)
    """
    return sp.symbols(names, positive=True, integer=True)


def scalar(value: Any) -> Scalar:
    """A scalar as exact SymPy; a float is read as the shortest decimal that prints it."""
    if isinstance(value, bool):
        raise InputError(f"got {value!r} as a scalar; pass a number or a SymPy expression")
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise InputError(f"got {value!r} as a scalar; pass a finite number")
        return cast(Scalar, sp.Rational(repr(value)))
    if isinstance(value, Fraction):
        return cast(Scalar, sp.Rational(value.numerator, value.denominator))
    if isinstance(value, str):
        raise InputError(f"got the text {value!r} as a scalar; pass a SymPy symbol or a number")
    try:
        result = sp.sympify(value)
    except (sp.SympifyError, TypeError, AttributeError) as error:
        raise InputError(
            f"got {value!r} as a scalar; pass a number or a SymPy expression"
        ) from error
    if not isinstance(result, sp.Expr) or not result.is_commutative:
        raise InputError(f"got {value!r} as a scalar; pass a commuting SymPy expression")
    return result


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Matrix)


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
        if _is_scalar(other):
            return Scaled.of(scalar(other), self)
        return Product.of(self, other)

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


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InputError(message)


def _name(name: str) -> str:
    _require(
        isinstance(name, str) and name != "" and not any(c.isspace() for c in name),
        f"got the name {name!r}; a name is a non-empty text without blanks",
    )
    return name


def _size(value: Any) -> Scalar:
    size = scalar(value)
    _require(
        bool(size.is_positive),
        f"got the size {value!r}; a size is a positive symbol from dimensions(...)",
    )
    return size


def _latex_name(name: str) -> str:
    return cast(str, sp.latex(sp.Symbol(name)))


@dataclass(frozen=True)
class Gaussian(Matrix):
    """Rectangular matrix of iid N(0, 1) entries, ``rows`` x ``columns``.

    Two ``Gaussian`` of one name and shape are the same matrix; of two names, independent.
    """

    name: str
    rows: Scalar
    columns: Scalar

    def __post_init__(self) -> None:
        _name(self.name)
        object.__setattr__(self, "rows", _size(self.rows))
        object.__setattr__(self, "columns", _size(self.columns))

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.rows, self.columns

    def __str__(self) -> str:
        return self.name

    def _latex(self) -> str:
        return _latex_name(self.name)


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
        _require(
            not self.kurtosis.is_number or bool(self.kurtosis >= 1),
            f"got the kurtosis {self.kurtosis}; E z^4 >= (E z^2)^2 = 1 for every law",
        )


@dataclass(frozen=True)
class Wigner(Matrix):
    """GOE matrix: symmetric Gaussian, variance 1 off the diagonal and 2 on it."""

    name: str
    size: Scalar

    def __post_init__(self) -> None:
        _name(self.name)
        object.__setattr__(self, "size", _size(self.size))

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.size, self.size

    def __str__(self) -> str:
        return self.name

    def _latex(self) -> str:
        return _latex_name(self.name)


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
        _name(self.name)
        object.__setattr__(self, "size", _size(self.size))
        if self.norm2 is not None:
            object.__setattr__(self, "norm2", scalar(self.norm2))

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.size, ONE

    def __str__(self) -> str:
        return self.name

    def _latex(self) -> str:
        return rf"\mathbf{{{_latex_name(self.name)}}}"


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
    _require(
        len(listed) == len(given) > 0,
        f"got {len(listed)} names and {len(given)} shares; give one share per class",
    )
    total = sum(given, ZERO)
    _require(
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
    _require(
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
class SpectralLaw:
    """Joint spectral law of commuting symmetric matrices: atoms with weights that sum to 1.

    ``atoms[i][j]`` is the eigenvalue of the j-th matrix on the i-th atom.

    >>> SpectralLaw.from_atoms([1, 3], weights=["1/2", "1/2"]).moment((1,))
    2
    """

    atoms: tuple[tuple[Scalar, ...], ...]
    weights: tuple[Scalar, ...]

    @classmethod
    def from_atoms(cls, values: Any, weights: Any = None) -> SpectralLaw:
        """``values``: eigenvalues, or rows of joint eigenvalues; ``weights``: default uniform."""

        def number(x: Any) -> Scalar:
            if isinstance(x, str):
                return sp.Rational(x)
            return scalar(x.item() if hasattr(x, "item") else x)

        def row(x: Any) -> list[Any]:
            return [x] if not hasattr(x, "__len__") or isinstance(x, str) else list(x)

        rows = tuple(tuple(map(number, row(value))) for value in values)
        _require(len(rows) > 0, "got no eigenvalue; a spectral law has at least one atom")
        _require(
            len({len(row) for row in rows}) == 1,
            "got rows of joint eigenvalues of different lengths; give one value per matrix",
        )
        if weights is None:
            chosen = tuple(sp.Rational(1, len(rows)) for _ in rows)
        else:
            chosen = tuple(number(w) for w in weights)
        _require(
            len(chosen) == len(rows),
            f"got {len(rows)} atoms and {len(chosen)} weights; give one weight per atom",
        )
        total = sum(chosen, sp.Integer(0))
        if total.is_number:
            _require(
                abs(float(total) - 1) < 1e-12 and all(float(w) >= 0 for w in chosen),
                f"got weights that sum to {total}; they must be >= 0 and sum to 1",
            )
        return cls(rows, chosen)

    @classmethod
    def from_density(
        cls, density: Any, lower: Any, upper: Any, *, nodes: int = 40, digits: int = 15
    ) -> SpectralLaw:
        """A law by its density on [lower, upper]: Gauss-Legendre nodes, weights of mass 1.

        ``density`` is a function of a number (an mpmath one if digits > 15) or a SymPy expression
        in one symbol; it may be unnormalised. Exact for polynomials of degree ``2 nodes - 1``.

        >>> x = sp.Symbol("x")
        >>> law = SpectralLaw.from_density(x, 0, 1, nodes=4)
        >>> round(float(law.moment((1,))), 12)
        0.666666666667
        """
        import mpmath

        context = mpmath.MPContext()
        context.dps = max(digits, 15) + 10
        low, high = (context.mpf(str(sp.N(scalar(x), context.dps))) for x in (lower, upper))
        _require(low < high, f"got the support [{lower}, {upper}]; give lower < upper")
        if isinstance(density, sp.Basic):
            symbols = sorted(density.free_symbols, key=str)
            _require(len(symbols) <= 1, f"got the density {density} of several symbols; it has one")
            density = sp.lambdify(symbols or [sp.Symbol("x")], density, modules=context)
        atoms, weights = [], []
        for index in range(1, nodes + 1):
            x = context.cos(context.pi * (index - context.mpf(1) / 4) / (nodes + 0.5))
            for _ in range(100):
                before, value = context.mpf(1), x
                for k in range(2, nodes + 1):
                    before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
                slope = nodes * (x * value - before) / (x * x - 1)
                x, step = x - value / slope, value / slope
                if abs(step) < context.mpf(10) ** (-context.dps + 4):
                    break
            place = (low + high) / 2 + (high - low) / 2 * x
            atoms.append(place)
            weights.append(context.mpf(density(place)) / ((1 - x * x) * slope * slope))
        total = context.fsum(weights)
        _require(
            bool(total > 0 and min(weights) >= 0), "got a density that is negative or of mass zero"
        )

        def exact(value: Any) -> Scalar:
            return sp.Rational(context.nstr(value, context.dps - 5))

        ratios = [exact(w / total) for w in weights]
        ratios[nodes // 2] += 1 - sum(ratios)
        return cls(tuple((exact(x),) for x in atoms), tuple(ratios))

    @classmethod
    def uniform(cls, lower: Any, upper: Any, *, nodes: int = 40, digits: int = 15) -> SpectralLaw:
        """The uniform law on [lower, upper], by Gauss-Legendre nodes."""
        return cls.from_density(lambda _: 1, lower, upper, nodes=nodes, digits=digits)

    @classmethod
    def semicircle(
        cls, center: Any, radius: Any, *, nodes: int = 40, digits: int = 15
    ) -> SpectralLaw:
        """The semicircle law on [center - radius, center + radius]; Gauss-Chebyshev nodes."""
        kept = max(digits, 15) + 5
        angles = [sp.pi * sp.Rational(k, nodes + 1) for k in range(1, nodes + 1)]
        atoms = [sp.Rational(str(sp.N(sp.cos(a), kept))) for a in angles]
        weights = [sp.Rational(str(sp.N(2 * sp.sin(a) ** 2 / (nodes + 1), kept))) for a in angles]
        weights[nodes // 2] += 1 - sum(weights)
        middle, half = scalar(center), scalar(radius)
        return cls(tuple((middle + half * x,) for x in atoms), tuple(weights))

    def moment(self, powers: tuple[int, ...]) -> Scalar:
        """``E prod_j lambda_j ** powers[j]``."""
        total: Scalar = sp.Integer(0)
        for weight, atom in zip(self.weights, self.atoms, strict=True):
            term = weight
            for value, power in zip(atom, powers, strict=True):
                term = term * value**power
            total = total + term
        return total


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
        _name(self.name)
        object.__setattr__(self, "size", _size(self.size))
        _require(
            isinstance(self.law, SpectralLaw),
            f"got the law {self.law!r} of {self.name}; pass "
            'SpectralLaw.from_atoms([1, 3], weights=["1/2", "1/2"]) or another SpectralLaw',
        )
        _require(
            0 <= self.component < len(self.law.atoms[0]),
            f"got component {self.component}; the law has {len(self.law.atoms[0])} matrices",
        )

    @property
    def shape(self) -> tuple[Scalar, Scalar]:
        return self.size, self.size

    def __str__(self) -> str:
        return self.name

    def _latex(self) -> str:
        return _latex_name(self.name)


@dataclass(frozen=True)
class Identity(Matrix):
    """The identity of a size."""

    size: Scalar

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _size(self.size))

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
            _require(
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
            _require(
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
        _require(
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
        return str(getattr(self.f, "name", None) or self.f)

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
        _require(
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
        _require(
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
        _require(
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
        _require(
            self.operand.shape == (ONE, ONE),
            f"got D of a matrix of shape {self.operand.shape}; it takes a 1 x 1 expression",
        )
        _require(
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
