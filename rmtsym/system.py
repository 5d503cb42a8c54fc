"""The fixed-point system of an expression: values, and how they read as mathematics.

``g_kl`` is the normalised trace of block (unknown k, row l) of the inverse of a pencil. Block by
block of one size, ``(A - Sigma(g)) g = 1``. A component is one pencil's noise: its *core*, in which
the scalar unknowns live, and the *full* pencil, with the unknowns that are plain combinations of
others. If R, J are the plain rows and unknowns and L, K the rest, then with ``M = A - Sigma``
of the full pencil and ``D = M_RJ`` (no randomness in it),

    G_JL = -D^{-1} M_RK G_KL,    G_KR = -G_KL M_LJ D^{-1},
    G_JR = D^{-1} + D^{-1} M_RK G_KL M_LJ D^{-1},

so every limit is a polynomial in the entries of the core. Low-rank terms enter last, by linear
equations in ``sigma_k_i``, the unknowns of size 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import sympy as sp

from rmtsym.errors import UnsupportedError
from rmtsym.linearization import HermiteSymbol
from rmtsym.matrices import Deterministic, SpectralLaw, Vector
from rmtsym.pencil import Entry, Linearization
from rmtsym.structure import reachable

Pair: TypeAlias = tuple[int, int]
Expectation = sp.Function("E")


@dataclass(frozen=True)
class Block:
    """The unknowns (and rows) of one size: their indices, the size, and the spectral law on it."""

    size: sp.Expr
    members: tuple[int, ...]
    law: SpectralLaw | None = None


@dataclass(frozen=True)
class SelfEnergy:
    """``Sigma_ij += coefficient * g``, with ``g`` the scalar unknown of this index."""

    row: int
    column: int
    coefficient: sp.Expr
    unknown: int


@dataclass(frozen=True)
class DysonEquation:
    """``g = (A - Sigma(g))^{-1}``: blocks, entries of A, and Sigma in the scalar unknowns.

    ``inverses`` lists the (row, unknown) where every inverse of the expression is regularised.
    """

    blocks: tuple[Block, ...]
    deterministic: tuple[Entry, ...]
    self_energy: tuple[SelfEnergy, ...]
    inverses: tuple[Pair, ...] = ()

    def matrix(self, block: Block, symbols: tuple[sp.Symbol, ...]) -> sp.Matrix:
        """``A - Sigma`` of a block (rows, unknowns); deterministic matrices as ``lambda_D``."""
        position = {k: a for a, k in enumerate(block.members)}
        matrix = sp.zeros(len(position), len(position))
        for entry in self.deterministic:
            if entry.row in position:
                word = sp.prod([eigenvalue(d) for d in entry.word])
                matrix[position[entry.row], position[entry.column]] += entry.coefficient * word
        for term in self.self_energy:
            if term.row in position:
                matrix[position[term.row], position[term.column]] -= (
                    term.coefficient * symbols[term.unknown]
                )
        return matrix


def eigenvalue(matrix: Deterministic) -> sp.Symbol:
    """The symbol of the eigenvalue of a deterministic matrix, a variable of its spectral law."""
    return sp.Symbol(f"lambda_{matrix}")


@dataclass(frozen=True)
class Component:
    """One noise pencil: the scalar unknowns, the equation that fixes them, the full pencil.

    ``pairs[u]`` is the pair (k, l) of the core pencil that scalar unknown u names; ``entries`` maps
    every (k, l) of the core that is not zero to (u, factor). ``full`` includes the plain unknowns
    (those equal to a combination of others when there are no low-rank terms); ``rows`` pairs the
    rows of the full pencil with their numbers in the core, ``plain`` lists (row, unknown) of the
    eliminated ones. ``symmetric``: the pencil is its own transpose up to names and scales.
    """

    core: DysonEquation
    full: DysonEquation
    pairs: tuple[Pair, ...]
    entries: tuple[tuple[Pair, int, sp.Expr], ...]
    symmetric: bool
    rows: tuple[Pair, ...]
    plain: tuple[Pair, ...]


@dataclass(frozen=True)
class TraceOutput:
    """``constant + size * sum coefficient * word * g_kl``; terms are (k, l, coefficient, word)."""

    component: int
    size: sp.Expr
    terms: tuple[tuple[int, int, sp.Expr, tuple[Deterministic, ...]], ...]
    constant: sp.Expr


@dataclass(frozen=True)
class BilinearOutput:
    """A linear form in ``sigma = (C - V G U)^{-1} (r - V G b)``.

    ``right`` lists (row, vector, column, coefficient): columns 0.. are the unknowns of size 1,
    the last one holds -b; ``left`` lists (row of size 1, unknown, vector, coefficient, word);
    ``corner`` (row, column, coefficient) is C with -r in the last column; ``gram`` the inner
    products of ``vectors``.
    """

    component: int
    count: int
    vectors: tuple[Vector, ...]
    gram: tuple[tuple[int, int, sp.Expr], ...]
    left: tuple[tuple[int, int, int, sp.Expr, tuple[Deterministic, ...]], ...]
    right: tuple[tuple[int, int, int, sp.Expr], ...]
    corner: tuple[tuple[int, int, sp.Expr], ...]
    readout: tuple[tuple[int, sp.Expr], ...]
    constant: sp.Expr


Output: TypeAlias = TraceOutput | BilinearOutput


class Reading:
    """A component as SymPy: the core's g, and the inverse of the full pencil in terms of it."""

    def __init__(self, component: Component, prime: str) -> None:
        self.component = component
        self.prime = prime
        self.symbols = tuple(self.name(k, l) for k, l in component.pairs)
        self.known = {pair: factor * self.symbols[u] for pair, u, factor in component.entries}

    def name(self, k: int, l: int) -> sp.Symbol:
        return sp.Symbol(f"g_{k + 1}_{l + 1}{self.prime}")

    def core(self, block: Block) -> sp.Matrix:
        """``g`` of a block: unknowns where they are unknowns, zero where the pattern says so."""
        matrix = self.component.core.matrix(block, self.symbols)
        pattern = _pattern(matrix)

        def entry(i: int, j: int) -> sp.Expr:
            pair = (block.members[i], block.members[j])
            if pair in self.known:
                return self.known[pair]
            return self.name(*pair) if pattern[i, j] else sp.Integer(0)

        return sp.Matrix(len(block.members), len(block.members), entry)

    def columns(self, block: Block, wanted: set[sp.Symbol]) -> list[int]:
        """The rows l of the block for which some ``g_kl`` is an unknown or wanted."""
        return [
            j
            for j, l in enumerate(block.members)
            if any((k, l) in self.known or self.name(k, l) in wanted for k in block.members)
        ]

    def equations(self, wanted: set[sp.Symbol]) -> list[sp.Expr]:
        """Entries of ``(A - Sigma) g - 1``; with a spectral law ``g - E (A - Sigma)^{-1}``."""
        found: list[sp.Expr] = []
        for block in self.component.core.blocks:
            matrix = self.component.core.matrix(block, self.symbols)
            columns = self.columns(block, wanted)
            if block.law is not None:
                inverse = _small_inverse(matrix)
                for (k, l), u in zip(self.component.pairs, self.symbols, strict=True):
                    if k in block.members:
                        i, j = block.members.index(k), block.members.index(l)
                        found.append(u - _mean(inverse[i, j], block, self.component.core))
            elif columns:
                g = self.core(block)[:, columns]
                unit = sp.eye(len(block.members))[:, columns]
                found += [
                    sp.factor_terms(entry) for entry in matrix * g - unit if sp.expand(entry) != 0
                ]
        return found

    def full(self) -> dict[Pair, sp.Expr]:
        """Entries (unknown, row) of the inverse of the full pencil.

        With a spectral law they are functions of its eigenvalues ``lambda_D``.
        """
        component = self.component
        core_block = {k: block for block in component.core.blocks for k in block.members}
        plain = dict(component.plain)
        found: dict[Pair, sp.Expr] = {}
        for block in component.full.blocks:
            matrix = component.full.matrix(block, self.symbols)
            place = {k: a for a, k in enumerate(block.members)}
            R = [r for r in block.members if r in plain]
            J = [plain[r] for r in R]
            L = [r for r, _ in component.rows if r in place]
            K = [k for k in block.members if k not in J]
            g = sp.zeros(len(K), len(L))
            if K:
                own = core_block[K[0]]
                inverse = (
                    self.core(own)
                    if own.law is None
                    else _small_inverse(component.core.matrix(own, self.symbols))
                )
                name = dict(component.rows)
                g = sp.Matrix(
                    len(K),
                    len(L),
                    lambda i, j, K=K, L=L, inverse=inverse, own=own, name=name: inverse[
                        own.members.index(K[i]), own.members.index(name[L[j]])
                    ],
                )

            def part(
                rows: list[int], unknowns: list[int], m: Any = matrix, place: Any = place
            ) -> sp.Matrix:
                return m.extract([place[r] for r in rows], [place[k] for k in unknowns])

            pieces = [(K, L, g)]
            if R:
                d = part(R, J).inv()
                left, right = d * part(R, K), part(L, J) * d
                pieces += [(J, L, -left * g), (K, R, -g * right), (J, R, d + left * g * right)]
            for unknowns, rows, values in pieces:
                for i, k in enumerate(unknowns):
                    for j, l in enumerate(rows):
                        found[k, l] = values[i, j]
        return found


def _pattern(matrix: sp.Matrix) -> Any:
    shape = range(matrix.rows)
    pattern = reachable([[matrix[i, j] != 0 for j in shape] for i in shape])
    if pattern is None:
        raise UnsupportedError("got an expression whose pencil is singular; check its inverses")
    return pattern


def _small_inverse(matrix: sp.Matrix) -> sp.Matrix:
    if matrix.rows > 6:
        raise UnsupportedError(
            f"got a block of {matrix.rows} unknowns under a spectral law; its equations are too "
            "long to write out: evaluate the system with solve()"
        )
    pattern = _pattern(matrix)
    determinant = sp.factor_terms(matrix.det(method="berkowitz"))
    return sp.Matrix(
        matrix.rows,
        matrix.cols,
        lambda i, j: (
            sp.factor_terms(matrix.cofactor(j, i, method="berkowitz")) / determinant
            if pattern[i, j]
            else sp.Integer(0)
        ),
    )


def _mean(value: sp.Expr, block: Block, equation: DysonEquation) -> sp.Expr:
    """``E value`` over the spectral law, as a sum where it has at most three atoms."""
    law = block.law
    letters = {d for e in equation.deterministic if e.row in block.members for d in e.word}
    if law is None or not value.free_symbols & {eigenvalue(d) for d in letters}:
        return value
    if len(law.atoms) > 3:
        return Expectation(value)
    total: sp.Expr = sp.Integer(0)
    for weight, atom in zip(law.weights, law.atoms, strict=True):
        total += weight * value.subs({eigenvalue(d): atom[d.component] for d in letters})
    return total


@dataclass(frozen=True)
class FixedPointSystem:
    """Scalar unknowns and their equations, limits ``o_k``, and the value as a formula in them.

    ``equations`` may hold further ``g_k_l`` beside the ``unknowns``: entries of g that feed no
    self-energy, given linearly by the same equations.
    """

    linearization: Linearization
    sizes: tuple[tuple[sp.Symbol, sp.Expr], ...]
    components: tuple[Component, ...]
    limits: tuple[Output, ...]
    formula: sp.Expr

    @property
    def hermite_symbols(self) -> tuple[HermiteSymbol, ...]:
        """Symbols fixed by the nonlinearity, their scale in units of the relative sizes."""
        relative = dict(self.sizes)
        return tuple(
            HermiteSymbol(
                entry.symbol,
                entry.moment,
                entry.f,
                entry.g,
                sp.simplify(entry.tau.subs(relative, simultaneous=True)),
            )
            for entry in self.linearization.equivalent.symbols
        )

    @property
    def derivatives(self) -> tuple[tuple[sp.Symbol, int, sp.Symbol], ...]:
        """(symbol in the formula, limit, variable) for total derivatives of limits."""
        return self.linearization.derivatives

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """The components as SymPy."""
        return tuple(Reading(c, "'" * index) for index, c in enumerate(self.components))

    @cached_property
    def unknowns(self) -> tuple[sp.Symbol, ...]:
        """The scalar unknowns ``g_k_l``, all components in turn."""
        return tuple(symbol for reading in self.readings for symbol in reading.symbols)

    @cached_property
    def equations(self) -> tuple[sp.Expr, ...]:
        """Expressions that vanish: entries of ``(A - Sigma) g - 1``, block by block.

        Blocks with a spectral law give ``g - E (A(lambda) - Sigma)^{-1}``.
        """
        wanted = _symbols([*self.outputs, *self.spike_equations])
        return tuple(e for reading in self.readings for e in reading.equations(wanted))

    @cached_property
    def _limits(self) -> tuple[tuple[sp.Expr, tuple[sp.Expr, ...]], ...]:
        found = []
        full: dict[int, dict[Pair, sp.Expr]] = {}
        for index, limit in enumerate(self.limits):
            if limit.component not in full:
                full[limit.component] = self.readings[limit.component].full()
            inverse = full[limit.component]
            equation = self.components[limit.component].full
            mean = _means(equation)
            if isinstance(limit, TraceOutput):
                total = sum(
                    (
                        value * mean(k, inverse[k, l] * _letters(word))
                        for k, l, value, word in limit.terms
                        if (k, l) in inverse
                    ),
                    sp.Integer(0),
                )
                found.append((sp.factor_terms(limit.constant + limit.size * total), ()))
            else:
                found.append(_bilinear_reading(index, limit, inverse, mean))
        return tuple(found)

    @property
    def outputs(self) -> tuple[sp.Expr, ...]:
        """The limits ``o_k`` in terms of the unknowns and the ``sigma_k_i``."""
        return tuple(value for value, _ in self._limits)

    @property
    def spike_equations(self) -> tuple[sp.Expr, ...]:
        """Expressions that vanish: the linear equations of the ``sigma_k_i``."""
        return tuple(equation for _, equations in self._limits for equation in equations)

    @cached_property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """Every symbol that needs a value, sorted by name."""
        found: set[sp.Symbol] = set(self.formula.free_symbols)
        for component in self.components:
            for equation in (component.core, component.full):
                found |= _symbols(e.coefficient for e in equation.deterministic)
                found |= _symbols(t.coefficient for t in equation.self_energy)
                for block in equation.blocks:
                    if block.law is not None:
                        found |= _symbols(block.law.weights)
                        found |= _symbols(x for atom in block.law.atoms for x in atom)
        for limit in self.limits:
            found |= limit.constant.free_symbols
            if isinstance(limit, TraceOutput):
                found |= limit.size.free_symbols | _symbols(t[2] for t in limit.terms)
            else:
                found |= _symbols(x[-1] for x in (*limit.gram, *limit.corner, *limit.right))
                found |= _symbols(x[3] for x in limit.left) | _symbols(x[1] for x in limit.readout)
        found -= set(self.linearization.symbols)
        found -= {symbol for symbol, _, _ in self.derivatives}
        return tuple(sorted(found, key=str))

    def __str__(self) -> str:
        lines = ["unknowns: " + ", ".join(map(str, self.unknowns))]
        lines += [f"  {equation} = 0" for equation in self.equations]
        for symbol, (value, equations) in zip(
            self.linearization.symbols, self._limits, strict=True
        ):
            lines.append(f"{symbol} = {value}")
            lines += [f"  {equation} = 0" for equation in equations]
        lines.append(f"value = {self.formula}")
        return "\n".join(lines)

    def _repr_latex_(self) -> str:
        rows = [f"{sp.latex(equation)} &= 0" for equation in self.equations]
        for symbol, (value, equations) in zip(
            self.linearization.symbols, self._limits, strict=True
        ):
            rows.append(f"{sp.latex(symbol)} &= {sp.latex(value)}")
            rows += [f"{sp.latex(equation)} &= 0" for equation in equations]
        return r"$$\begin{aligned}" + r" \\ ".join(rows) + r"\end{aligned}$$"


def _letters(word: Iterable[Deterministic]) -> sp.Expr:
    return sp.prod([eigenvalue(d) for d in word])


def _means(equation: DysonEquation) -> Any:
    block_of = {k: block for block in equation.blocks for k in block.members}

    def mean(unknown: int, value: sp.Expr) -> sp.Expr:
        return _mean(value, block_of[unknown], equation)

    return mean


def _bilinear_reading(
    index: int, limit: BilinearOutput, inverse: Mapping[Pair, sp.Expr], mean: Any
) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
    gram = {(i, j): value for i, j, value in limit.gram}
    small = sp.zeros(limit.count, limit.count + 1)
    for row, column, value in limit.corner:
        small[row, column] += value
    for row, unknown, left_vector, left_value, word in limit.left:
        for source_row, vector, column, value in limit.right:
            pairing = gram.get((left_vector, vector), sp.Integer(0))
            if pairing != 0 and (unknown, source_row) in inverse:
                entry = mean(unknown, inverse[unknown, source_row] * _letters(word))
                small[row, column] -= left_value * value * pairing * entry
    sigma = [sp.Symbol(f"sigma_{index + 1}_{i + 1}") for i in range(limit.count)]
    # A row that gives one sigma with coefficient 1 and only earlier ones is substituted at once.
    known: dict[sp.Symbol, sp.Expr] = {}
    equations = []
    for row in range(limit.count):
        left = sum((small[row, j] * sigma[j] for j in range(limit.count)), sp.Integer(0))
        equation = left + small[row, limit.count]
        if small[row, row] == 1 and all(small[row, j] == 0 for j in range(limit.count) if j > row):
            known[sigma[row]] = (sigma[row] - equation).subs(known)
        else:
            equations.append((sigma[row], equation))
    value = limit.constant + sum((v * sigma[i] for i, v in limit.readout), sp.Integer(0))
    left_over = [(s, sp.expand(e.subs(known))) for s, e in equations]
    value = sp.expand(value.subs(known))
    if len(left_over) == 1:
        ((symbol, equation),) = left_over
        solution = -equation.coeff(symbol, 0) / equation.coeff(symbol, 1)
        return sp.factor_terms(value.subs(symbol, solution)), ()
    return sp.factor_terms(value), tuple(sp.collect(equation, sigma) for _, equation in left_over)


def _symbols(values: Any) -> set[sp.Symbol]:
    found: set[sp.Symbol] = set()
    for value in values:
        found |= value.free_symbols
    return found
