"""From a rational expression to a linear pencil.

An expression applied to a vector is a straight-line program: one new unknown vector for each place
where a random matrix meets something that is not yet a plain unknown, one for each inverse, one for
each shared subexpression. Written as equations this is a pencil ``L x = b``,

    L = A (x) I + sum (coefficient) (x) (random matrix) + (low rank),

linear in every random matrix, and the expression is read off ``L^{-1}``. Row k of the pencil is the
equation that defines unknown k; both have one size. Unknowns of size 1 carry the low-rank terms:
``mu y^T u`` is ``sigma = y^T u`` and ``mu sigma``.

All scalings are taken out: with ``N`` the common scale of the sizes, random matrices enter with
variance 1/N and vectors with length of order 1, and sizes are measured in units of N.

Source: J. W. Helton, T. Mai and R. Speicher, J. Funct. Anal. 274 (2018) (linearization).

>>> from rmtsym.matrices import *
>>> n, p = dimensions("n p")
>>> Z = Gaussian("Z", p, n)
>>> gamma = sp.Symbol("gamma", positive=True)
>>> print(build(linearize(Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n)))
value = o_1/n
o_1 = n tr x_1
  gamma*x_1 + 1/n*Z'*x_2 = I_n
  x_2 + -1*Z*x_1 = 0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import sympy as sp

from rmtsym.algebra import Inverse, Product, Scaled, Sum, Transpose
from rmtsym.errors import InputError, UnsupportedError
from rmtsym.linearization import GaussianEquivalent, linearize, split_scale
from rmtsym.matrices import (
    D,
    Deterministic,
    Entrywise,
    Gaussian,
    Identity,
    Matrix,
    OffDiagonal,
    Trace,
    Vector,
    Wigner,
    inner,
)
from rmtsym.rewriting import differentiate, rebuild, walk
from rmtsym.scalars import ONE

Random: TypeAlias = Gaussian | Wigner | Transpose
READOUT = -1
"""The row of what is read off."""


@dataclass(frozen=True)
class Entry:
    """One term of the pencil: ``coefficient * factor * words`` in a row, acting on an unknown.

    ``factor`` is None (a multiple of the identity), a random matrix, a vector (in a column of size
    1) or a transposed vector (in a row of size 1); ``word`` holds commuting deterministic matrices.
    """

    row: int
    column: int
    coefficient: sp.Expr
    factor: Matrix | None = None
    word: tuple[Deterministic, ...] = ()

    @property
    def is_random(self) -> bool:
        return is_random(self.factor)

    def __str__(self) -> str:
        parts = [str(self.coefficient)] if self.coefficient != 1 else []
        parts = [f"({part})" if self.coefficient.is_Add else part for part in parts]
        parts += [str(self.factor)] if self.factor is not None else []
        parts += map(str, self.word)
        return "*".join([*parts, f"x_{self.column + 1}"])


@dataclass(frozen=True)
class Source:
    """One term of the right-hand side: ``coefficient * word * source`` in a row.

    ``source`` is a vector, ``Identity(d)`` (the input of a trace), or ``Identity(1)`` (a number).
    """

    row: int
    coefficient: sp.Expr
    source: Matrix
    word: tuple[Deterministic, ...] = ()


@dataclass(frozen=True)
class Readout:
    """``value = constant + sum coefficient * (unknown)``, traced where ``trace`` is a size."""

    terms: tuple[Entry, ...]
    constant: sp.Expr
    trace: sp.Expr | None = None


@dataclass(frozen=True)
class Pencil:
    """``L x = b`` for one limit: unknown sizes, entries of L, sources b, and what is read off.

    ``inverses`` are the unknowns that an inverse introduced: adding ``delta * x_k`` to row k turns
    ``M^{-1}`` into ``(M + delta)^{-1}``.
    """

    sizes: tuple[sp.Expr, ...]
    entries: tuple[Entry, ...]
    sources: tuple[Source, ...]
    readout: Readout
    inverses: tuple[int, ...] = ()

    def __str__(self) -> str:
        left = " + ".join(
            str(term).replace("x_", "tr x_") if self.readout.trace is not None else str(term)
            for term in self.readout.terms
        )
        if self.readout.constant != 0:
            left = f"{self.readout.constant} + {left}"
        lines = [f"{self.readout.trace} {left}" if self.readout.trace is not None else left]
        for row in range(len(self.sizes)):
            terms = " + ".join(str(entry) for entry in self.entries if entry.row == row)
            right = " + ".join(
                "*".join(
                    [str(source.coefficient)] * (source.coefficient != 1)
                    + [*map(str, source.word), str(source.source)]
                )
                for source in self.sources
                if source.row == row
            )
            lines.append(f"  {terms} = {right or '0'}")
        return "\n".join(lines)

    def _repr_latex_(self) -> str:
        rows = []
        for row in range(len(self.sizes)):
            terms = " + ".join(
                (sp.latex(e.coefficient) if e.coefficient != 1 else "")
                + (e.factor._latex() if e.factor is not None else "")
                + "".join(d._latex() for d in e.word)
                + f" x_{{{e.column + 1}}}"
                for e in self.entries
                if e.row == row
            )
            right = " + ".join(
                (sp.latex(s.coefficient) if s.coefficient != 1 else "") + s.source._latex()
                for s in self.sources
                if s.row == row
            )
            rows.append(rf"{terms} &= {right or '0'}")
        return r"$$\begin{aligned}" + r" \\ ".join(rows) + r"\end{aligned}$$"


@dataclass(frozen=True)
class Linearization:
    """A scalar expression as a formula in limits ``o_k``, one pencil for each.

    ``formula`` also holds symbols for total derivatives of the limits; ``derivatives`` maps each
    to (k, variable).
    """

    equivalent: GaussianEquivalent
    formula: sp.Expr
    symbols: tuple[sp.Symbol, ...]
    pencils: tuple[Pencil, ...]
    derivatives: tuple[tuple[sp.Symbol, int, sp.Symbol], ...] = ()

    def __str__(self) -> str:
        lines = [f"value = {self.formula}"]
        for symbol, pencil in zip(self.symbols, self.pencils, strict=True):
            lines.append(f"{symbol} = {pencil}")
        return "\n".join(lines)

    def _repr_latex_(self) -> str:
        return self.pencils[0]._repr_latex_() if self.pencils else f"${sp.latex(self.formula)}$"


def is_random(factor: Matrix | None) -> bool:
    """True for a random matrix or its transpose."""
    if isinstance(factor, Transpose):
        factor = factor.operand
    return isinstance(factor, (Gaussian, Wigner))


Key: TypeAlias = tuple[Matrix | None, tuple[Deterministic, ...], int | Matrix]


@dataclass(frozen=True)
class _Form:
    """A linear form in unknowns and sources, times N**degree; homogeneous by construction."""

    size: sp.Expr
    terms: tuple[tuple[Key, sp.Expr], ...]
    degree: sp.Expr

    @staticmethod
    def of(size: sp.Expr, terms: dict[Key, sp.Expr], degree: sp.Expr) -> _Form:
        kept = tuple((key, value) for key, value in terms.items() if value != 0)
        return _Form(size, kept, degree if kept else sp.Integer(0))

    def map(self, size: sp.Expr, change: Callable[[Key], Key], degree: sp.Expr) -> _Form:
        return _Form(size, tuple((change(k), v) for k, v in self.terms), self.degree + degree)

    @property
    def is_plain(self) -> bool:
        return all(f is None and not w and isinstance(x, int) for (f, w, x), _ in self.terms)


def relative_inner(u: Vector, v: Vector) -> sp.Expr:
    """``u . v`` for the vectors scaled to length of order 1, sizes in units of N."""
    value, degree = split_scale(inner(u, v))
    natural = (vector_degree(u) + vector_degree(v)) / 2
    if value != 0 and degree > natural:
        raise InputError(
            f"got inner({u}, {v}) = {inner(u, v)}, larger than the lengths of {u} and {v} allow"
        )
    return value if degree == natural else sp.Integer(0)


def vector_degree(v: Vector) -> sp.Expr:
    """The power of N in ``|v|^2``."""
    return split_scale(inner(v, v))[1]


class _Builder:
    """The straight-line program of one limit."""

    def __init__(self) -> None:
        self.sizes: list[sp.Expr] = []
        self.entries: list[Entry] = []
        self.sources: list[Source] = []
        self.inverses: list[int] = []
        self.memory: dict[Any, _Form] = {}

    def unknown(self, size: sp.Expr) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def write(self, row: int, form: _Form, sign: int) -> None:
        """Put ``sign * form`` on the left of a row; its sources go to the right."""
        for (factor, word, variable), coefficient in form.terms:
            if isinstance(variable, int):
                self.entries.append(Entry(row, variable, sign * coefficient, factor, word))
            else:
                self.sources.append(Source(row, -sign * coefficient, variable, word))

    def materialize(self, form: _Form) -> _Form:
        """A plain unknown equal to the form."""
        if form.is_plain or not form.terms:
            return form
        unit = replace(form, degree=sp.Integer(0))
        if unit not in self.memory:
            new = self.unknown(form.size)
            self.entries.append(Entry(new, new, sp.Integer(1)))
            self.write(new, form, -1)
            self.memory[unit] = _Form.of(form.size, {(None, (), new): sp.Integer(1)}, unit.degree)
        return replace(self.memory[unit], degree=form.degree)

    def apply(self, node: Matrix, form: _Form) -> _Form:
        if not form.terms:
            return replace(form, size=node.shape[0])
        if isinstance(node, (Identity, Scaled, Sum, Product)):
            return self._apply(node, form)
        unit = replace(form, degree=sp.Integer(0))
        if (node, unit) not in self.memory:
            self.memory[node, unit] = self._apply(node, unit)
        known = self.memory[node, unit]
        return replace(known, degree=known.degree + form.degree)

    def _apply(self, node: Matrix, form: _Form) -> _Form:
        match node:
            case Identity():
                return form
            case Scaled():
                coefficient, degree = split_scale(node.coefficient)
                inside = self.apply(node.operand, form)
                terms = {key: coefficient * value for key, value in inside.terms}
                return _Form.of(inside.size, terms, inside.degree + degree)
            case Sum():
                if any(_needs_plain(term, form) for term in node.terms):
                    form = self.materialize(form)
                return self.add(node, [self.apply(term, form) for term in node.terms])
            case Product():
                for factor in reversed(node.factors):
                    form = self.apply(factor, form)
                return form
            case Inverse():
                return self.invert(node, form)
            case Vector():
                return self.outward(node, form)
            case Transpose() if isinstance(node.operand, Vector):
                return self.inward(node.operand, form)
            case Deterministic():
                if any(
                    is_random(f) or isinstance(f, Vector) or isinstance(x, Vector)
                    for (f, _, x), _ in form.terms
                ):
                    form = self.materialize(form)
                return form.map(
                    form.size,
                    lambda k: (k[0], tuple(sorted((*k[1], node), key=str)), k[2]),
                    sp.Integer(0),
                )
            case _ if is_random(node):
                form = self.materialize(form)
                return form.map(node.shape[0], lambda k: (node, (), k[2]), sp.Rational(1, 2))
        raise UnsupportedError(
            f"got {node} ({type(node).__name__}) inside a rational expression; linearize() first, "
            "and use traces and derivatives on 1 x 1 expressions only"
        )

    def add(self, node: Sum, forms: list[_Form]) -> _Form:
        present = [(term, f) for term, f in zip(node.terms, forms, strict=True) if f.terms]
        if not present:
            return forms[0]
        first = present[0]
        for term, form in present[1:]:
            if form.degree != first[1].degree:
                raise UnsupportedError(
                    f"got a sum of terms that grow differently with the sizes: {first[0]} like "
                    f"N^{first[1].degree} and {term} like N^{form.degree}; scale them alike "
                    "(for instance Z.T*Z/n + gamma*Identity(n))"
                )
        total: dict[Key, sp.Expr] = {}
        for _, form in present:
            for key, value in form.terms:
                total[key] = total.get(key, sp.Integer(0)) + value
        return _Form.of(first[1].size, total, first[1].degree)

    def invert(self, node: Inverse, form: _Form) -> _Form:
        new = self.unknown(form.size)
        self.inverses.append(new)
        image = self.apply(
            node.operand, _Form.of(form.size, {(None, (), new): sp.Integer(1)}, sp.Integer(0))
        )
        if not image.terms and form.size != ONE:
            raise InputError(f"got the inverse of {node.operand}, which is zero")
        # 1/0, a spike of infinite strength: the row reads 0 = form.
        self.write(new, image, 1)
        self.write(new, form, -1)
        return _Form.of(form.size, {(None, (), new): sp.Integer(1)}, form.degree - image.degree)

    def outward(self, vector: Vector, form: _Form) -> _Form:
        """``vector * (a number)``."""
        if not all(f is None for (f, _, _), _ in form.terms):
            form = self.materialize(form)
        terms: dict[Key, sp.Expr] = {}
        for (_, _, variable), value in form.terms:
            is_number = not isinstance(variable, int)
            terms[(None, (), vector) if is_number else (vector, (), variable)] = value
        return _Form.of(vector.size, terms, form.degree + vector_degree(vector) / 2)

    def inward(self, vector: Vector, form: _Form) -> _Form:
        """``vector . (a form)``: a new unknown of size 1."""
        if any(is_random(f) or isinstance(f, Vector) for (f, _, _), _ in form.terms):
            form = self.materialize(form)
        new = self.unknown(ONE)
        self.entries.append(Entry(new, new, sp.Integer(1)))
        for (_, word, variable), value in form.terms:
            if isinstance(variable, int):
                self.entries.append(Entry(new, variable, -value, Transpose(vector), word))
            elif isinstance(variable, Vector):
                self.sources.append(Source(new, value, inner_source(vector, variable), word))
        return _Form.of(
            ONE,
            {(None, (), new): sp.Integer(1)},
            form.degree + vector_degree(vector) / 2,
        )

    def finish(self, form: _Form, trace: sp.Expr | None) -> Pencil:
        if any(f is not None for (f, _, _), _ in form.terms):
            form = self.materialize(form)
        terms, constant = [], sp.Integer(0)
        for (factor, word, variable), value in form.terms:
            if isinstance(variable, int):
                terms.append(Entry(READOUT, variable, value, factor, word))
            elif trace is not None:
                constant += value * word_moment(word)
            else:
                raise UnsupportedError("got a deterministic matrix outside every bilinear form")
        pencil = Pencil(
            tuple(self.sizes),
            _collect(self.entries),
            tuple(self.sources),
            Readout(tuple(terms), constant, trace),
            tuple(self.inverses),
        )
        return _merge_infinite(pencil)


def _merge_infinite(pencil: Pencil) -> Pencil:
    """One unknown for spikes of infinite strength that meet in every row.

    ``x = f / e`` and ``x' = f' / e``, e -> 0, of which only ``x + r x'`` is used, are the one
    unknown ``x + r x' = (f + r f') / e``: together they are one spike of infinite strength.
    """
    diagonal = {entry.row for entry in pencil.entries if entry.row == entry.column}
    infinite = [k for k in pencil.inverses if pencil.sizes[k] == ONE and k not in diagonal]
    columns: dict[int, dict[Any, sp.Expr]] = {k: {} for k in infinite}
    for entry in (*pencil.entries, *pencil.readout.terms):
        if entry.column in columns:
            key = (entry.row, entry.factor, entry.word)
            columns[entry.column][key] = entry.coefficient
    for position, one in enumerate(infinite):
        for other in infinite[position + 1 :]:
            if columns[one].keys() != columns[other].keys():
                continue
            ratios = {sp.cancel(columns[other][key] / columns[one][key]) for key in columns[one]}
            if len(ratios) == 1:
                return _merge_infinite(_merged(pencil, one, other, ratios.pop()))
    return pencil


def _merged(pencil: Pencil, one: int, other: int, ratio: sp.Expr) -> Pencil:
    """Column and row ``other`` joined to ``one``, and the indices closed up."""

    def place(k: int) -> int:
        return k - (k > other)

    def row(item: Any) -> Any:
        if item.row == other:
            return replace(item, row=place(one), coefficient=ratio * item.coefficient)
        return replace(item, row=place(item.row))

    def column(entry: Entry) -> Entry:
        return replace(entry, column=place(entry.column))

    entries = [column(row(entry)) for entry in pencil.entries if entry.column != other]
    terms = [column(entry) for entry in pencil.readout.terms if entry.column != other]
    return Pencil(
        tuple(size for k, size in enumerate(pencil.sizes) if k != other),
        _collect(entries),
        tuple(row(source) for source in pencil.sources),
        replace(pencil.readout, terms=tuple(terms)),
        tuple(place(k) for k in pencil.inverses if k != other),
    )


def _needs_plain(node: Matrix, form: _Form) -> bool:
    """Whether ``node`` acts on plain unknowns only; all terms of a sum then act on the same one."""
    match node:
        case Scaled():
            return _needs_plain(node.operand, form)
        case Sum():
            return any(_needs_plain(term, form) for term in node.terms)
        case Product():
            return _needs_plain(node.factors[-1], form)
        case Inverse() | Identity() | Vector():
            return False
    return is_random(node) or any(f is not None for (f, _, _), _ in form.terms)


@dataclass(frozen=True)
class Inner(Matrix):
    """A number on the right-hand side: the inner product of two vectors."""

    left: Vector
    right: Vector

    @property
    def shape(self) -> tuple[sp.Expr, sp.Expr]:
        return ONE, ONE

    def __str__(self) -> str:
        return f"({self.left}.{self.right})"


def inner_source(left: Vector, right: Vector) -> Matrix:
    return Inner(left, right)


def word_moment(word: tuple[Deterministic, ...]) -> sp.Expr:
    """``(1/d) tr`` of a word of commuting deterministic matrices."""
    if not word:
        return sp.Integer(1)
    powers = [0] * len(word[0].law.atoms[0])
    for matrix in word:
        powers[matrix.component] += 1
    return word[0].law.moment(tuple(powers))


def _collect(entries: list[Entry]) -> tuple[Entry, ...]:
    total: dict[tuple[Any, ...], sp.Expr] = {}
    for entry in entries:
        key = (entry.row, entry.column, entry.factor, entry.word)
        total[key] = total.get(key, sp.Integer(0)) + entry.coefficient
    collected = [
        Entry(row, column, sp.expand(value), factor, word)
        for (row, column, factor, word), value in total.items()
    ]
    order = sorted(
        (entry for entry in collected if entry.coefficient != 0),
        key=lambda e: (e.row, e.factor is not None, e.column, str(e.factor), str(e.word)),
    )
    return tuple(order)


class _Limits:
    """Splits a scalar expression into limits."""

    def __init__(self) -> None:
        self.pencils: dict[Matrix, tuple[sp.Symbol, Pencil, sp.Expr]] = {}
        self.derivatives: dict[tuple[sp.Symbol, sp.Symbol], sp.Symbol] = {}

    def read(self, node: Matrix) -> tuple[sp.Expr, sp.Expr]:
        """The value (sizes in units of N) and its degree in N."""
        match node:
            case Identity():
                return sp.Integer(1), sp.Integer(0)
            case Scaled():
                value, degree = self.read(node.operand)
                coefficient, more = split_scale(node.coefficient)
                return coefficient * value, degree + more
            case Sum():
                parts = [self.read(term) for term in node.terms]
                parts = [part for part in parts if part[0] != 0] or parts[:1]
                if len({degree for _, degree in parts}) > 1:
                    raise UnsupportedError(
                        f"got {node}, a sum of terms of the orders "
                        f"{', '.join(f'N^{degree}' for _, degree in parts)}; scale them alike"
                    )
                return sum((value for value, _ in parts), sp.Integer(0)), parts[0][1]
            case Inverse():
                value, degree = self.read(node.operand)
                return 1 / value, -degree
            case Trace():
                return self.limit(node)
            case D():
                return self.derivative(node)
            case Product():
                pieces = _scalar_pieces(node)
                if len(pieces) == 1:
                    return self.limit(node)
                values = [self.read(piece) for piece in pieces]
                return sp.prod([v for v, _ in values]), sum((d for _, d in values), sp.Integer(0))
        raise UnsupportedError(
            f"got {node} as an output; an output is a 1 x 1 expression: Trace(A)/n, u.T*A*v, "
            "derivatives D(., s), and sums, products and quotients of these"
        )

    def limit(self, node: Matrix) -> tuple[sp.Expr, sp.Expr]:
        if node not in self.pencils:
            builder = _Builder()
            if isinstance(node, Trace):
                size = node.operand.shape[0]
                start = _Form.of(size, {(None, (), Identity(size)): sp.Integer(1)}, sp.Integer(0))
                form = builder.apply(node.operand, start)
                pencil, degree = builder.finish(form, size), form.degree + 1
            else:
                start = _Form.of(ONE, {(None, (), Identity(ONE)): sp.Integer(1)}, sp.Integer(0))
                form = builder.apply(node, start)
                pencil, degree = builder.finish(form, None), form.degree
            symbol = sp.Symbol(f"o_{len(self.pencils) + 1}")
            self.pencils[node] = (symbol, pencil, degree)
        symbol, _, degree = self.pencils[node]
        return symbol, degree

    def derivative(self, node: D) -> tuple[sp.Expr, sp.Expr]:
        operand = _without_derivatives(node.operand)
        if operand is None:
            return sp.Integer(0), sp.Integer(0)
        value, degree = self.read(operand)
        slope = sp.diff(value, node.variable)
        for symbol, _, _ in list(self.pencils.values()):
            partial = sp.diff(value, symbol)
            if partial != 0:
                key = (symbol, node.variable)
                name = f"{symbol}_d{node.variable}"
                self.derivatives.setdefault(key, sp.Symbol(name))
                slope += partial * self.derivatives[key]
        return slope, degree


def _without_derivatives(node: Matrix) -> Matrix | None:
    """The expression with every D carried out on the expression itself; None where it is zero."""
    if not any(isinstance(part, D) for part in walk(node)):
        return node
    if isinstance(node, D):
        inside = _without_derivatives(node.operand)
        return None if inside is None else differentiate(inside, node.variable)
    children = [_without_derivatives(child) for child in node.children]
    if isinstance(node, Sum):
        kept = [child for child in children if child is not None]
        return Sum.of(*kept) if kept else None
    if any(child is None for child in children):
        return None
    return rebuild(node, tuple(child for child in children if child is not None))


def _scalar_pieces(node: Product) -> list[Matrix]:
    """The 1 x 1 factors of a product: ``(u^T A v)(w^T B z)``."""
    pieces: list[list[Matrix]] = [[]]
    for left, right in pairwise((*node.factors, None)):
        assert left is not None
        pieces[-1].append(left)
        if right is not None and left.shape[1] == ONE and right.shape[0] == ONE:
            pieces.append([])
    return [Product.of(*piece) for piece in pieces]


def build(equivalent: GaussianEquivalent | Matrix) -> Linearization:
    """The pencils of a 1 x 1 expression.

    Raises ``UnsupportedError`` if the expression is not of order 1 as the sizes grow, or if terms
    of one sum are of different orders.
    """
    if isinstance(equivalent, Matrix):
        equivalent = linearize(equivalent)
    expression = equivalent.expression
    if expression.shape != (ONE, ONE):
        raise InputError(
            f"got an expression of shape {expression.shape}; a limit is a 1 x 1 expression: "
            "a trace Trace(A)/n or a bilinear form u.T*A*v"
        )
    for node in walk(expression):
        if isinstance(node, (Entrywise, OffDiagonal)):
            raise UnsupportedError(f"got {node} in a pencil; linearize() the expression first")
        if isinstance(node, (Gaussian, Wigner)) and any(s.is_number for s in node.shape):
            raise UnsupportedError(
                f"got {node} of shape {node.shape}; sizes must grow: use a symbol per size"
            )
    limits = _Limits()
    formula, degree = limits.read(expression)
    if degree != 0 and formula != 0:
        raise UnsupportedError(
            f"got {expression}, which is of order N^{degree} as the sizes grow; "
            "scale it to order 1 (for instance Trace(A)/n, y.T*A*y/n for |y|^2 = n)"
        )
    used = [entry for entry in limits.pencils.values()]
    order = {symbol: k for k, (symbol, _, _) in enumerate(used)}
    return Linearization(
        equivalent,
        formula,
        tuple(symbol for symbol, _, _ in used),
        tuple(pencil for _, pencil, _ in used),
        tuple(
            (symbol, order[limit], variable)
            for (limit, variable), symbol in limits.derivatives.items()
        ),
    )
