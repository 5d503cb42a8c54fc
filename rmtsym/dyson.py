"""From linear pencil to fixed-point system: the matrix Dyson equation.

``g_kl`` is the normalised trace of block (unknown k, row l) of the inverse of the pencil
``L = A + (random)``. In the limit, block by block of equal size,

    g = ( A - Sigma(g) )^{-1},
    Sigma_ij = sum over entries L_ik = alpha M, L_lj = beta M' of  alpha beta Cov(M, M') d_k g_kl,

where M and M' are one random matrix, once transposed and once not (GOE: every pairing), random
matrices have variance 1/N and ``d_k = (size of k) / N``. With deterministic matrices, known by
their joint spectral law, g is the mean of ``(A(lambda) - Sigma)^{-1}`` over the law.

Low-rank terms do not enter; they are carried by the unknowns of size 1, whose equations are closed
with ``L^{-1} ~ G = (A - Sigma)^{-1}``: with U, V, C the pencil's entries on (large, 1), (1, large)
and (1, 1), ``sigma = (C - V G U)^{-1} (r - V G b)``, in which only inner products of vectors enter.

Source: J. W. Helton, R. Rashidi Far and R. Speicher, IMRN (2007); O. Ajanki, L. Erdos and
T. Krueger, Probab. Theory Relat. Fields 173 (2019); F. Benaych-Georges and R. R. Nadakuditi, Adv.
Math. 227 (2011) (low rank).

>>> from rmtsym.matrices import *
>>> n, p = dimensions("n p")
>>> c, gamma = sp.symbols("c gamma", positive=True)
>>> Z = Gaussian("Z", p, n)
>>> print(derive(Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n, sizes={n: 1, p: c}))
unknowns: g_1_1, g_2_2
  g_1_1*(c*g_2_2 + gamma) - 1 = 0
  g_2_2*(g_1_1 + 1) - 1 = 0
o_1 = g_1_1
value = o_1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import sympy as sp

from rmtsym.errors import InputError, UnsupportedError
from rmtsym.linearization import HermiteSymbol, is_size, linearize
from rmtsym.matrices import (
    ONE,
    Deterministic,
    Identity,
    Matrix,
    SpectralLaw,
    Transpose,
    Vector,
    Wigner,
    scalar,
)
from rmtsym.pencil import (
    Entry,
    Inner,
    Linearization,
    Pencil,
    build,
    relative_inner,
)
from rmtsym.structure import odd_pairs, possible_pairs, transposition


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
    inverses: tuple[tuple[int, int], ...] = ()

    def matrices(self, block: Block, symbols: tuple[sp.Symbol, ...]) -> tuple[sp.Matrix, sp.Matrix]:
        """``A`` and ``Sigma`` of a block as SymPy matrices (rows, unknowns)."""
        position = {k: a for a, k in enumerate(block.members)}
        size = len(position)
        a, sigma = sp.zeros(size, size), sp.zeros(size, size)
        for entry in self.deterministic:
            if entry.row in position:
                factor = sp.prod([sp.Symbol(f"lambda_{d}") for d in entry.word])
                a[position[entry.row], position[entry.column]] += entry.coefficient * factor
        for term in self.self_energy:
            if term.row in position:
                sigma[position[term.row], position[term.column]] += (
                    term.coefficient * symbols[term.unknown]
                )
        return a, sigma


@dataclass(frozen=True)
class Component:
    """One noise pencil: the scalar unknowns, the equation that fixes them, the full pencil.

    ``pairs[u]`` is the pair (k, l) of the core pencil that scalar unknown u names; ``entries`` maps
    every (k, l) of the core that is not zero to (u, factor). ``full`` includes the plain unknowns
    (those equal to a combination of others when there are no low-rank terms).
    """

    core: DysonEquation
    full: DysonEquation
    pairs: tuple[tuple[int, int], ...]
    entries: tuple[tuple[tuple[int, int], int, sp.Expr], ...]
    symmetric: bool


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


Output = TraceOutput | BilinearOutput


@dataclass(frozen=True)
class FixedPointSystem:
    """Scalar unknowns and their equations, limits ``o_k``, and the value as a formula in them."""

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
    def unknowns(self) -> tuple[sp.Symbol, ...]:
        """The scalar unknowns ``g_k_l``, all components in turn."""
        return tuple(symbol for names in self._names for symbol in names)

    @cached_property
    def _names(self) -> tuple[tuple[sp.Symbol, ...], ...]:
        return tuple(
            tuple(sp.Symbol(f"g_{k + 1}_{l + 1}" + "'" * index) for k, l in component.pairs)
            for index, component in enumerate(self.components)
        )

    @cached_property
    def equations(self) -> tuple[sp.Expr, ...]:
        """Expressions that vanish: the entries of ``(A - Sigma) g - I``, block by block.

        Entries of g that feed no self-energy are eliminated where the block is small; blocks with a
        spectral law give ``g - E (A(lambda) - Sigma)^{-1}``.
        """
        found: list[sp.Expr] = []
        for component, symbols in zip(self.components, self._names, strict=True):
            values = {pair: factor * symbols[u] for pair, u, factor in component.entries}
            for block in component.core.blocks:
                found.extend(_block_equations(component, block, symbols, values))
        return tuple(found)

    @cached_property
    def outputs(self) -> tuple[sp.Expr, ...]:
        """The limits ``o_k`` in terms of the unknowns, small enough ones in closed form."""
        return tuple(self._output(limit) for limit in self.limits)

    def _output(self, limit: Output) -> sp.Expr:
        component = self.components[limit.component]
        symbols = self._names[limit.component]
        inverse: dict[tuple[int, int], sp.Expr] = {}
        for block in component.full.blocks:
            if block.law is not None:
                raise UnsupportedError(
                    "got a system with a spectral law; its outputs are integrals over the law: "
                    "evaluate them with solve()"
                )
            a, sigma = component.full.matrices(block, symbols)
            inverse.update(_named_inverse(component, block, a - sigma, symbols))
        if isinstance(limit, TraceOutput):
            total = sum((value * inverse[k, l] for k, l, value, _ in limit.terms), sp.Integer(0))
            return limit.constant + limit.size * total
        gram = {(i, j): value for i, j, value in limit.gram}
        small = sp.zeros(limit.count, limit.count + 1)
        for row, column, value in limit.corner:
            small[row, column] += value
        for row, unknown, left_vector, left_value, _ in limit.left:
            for source_row, vector, column, value in limit.right:
                pairing = gram.get((left_vector, vector), sp.Integer(0))
                if pairing != 0 and (unknown, source_row) in inverse:
                    small[row, column] -= (
                        left_value * value * pairing * inverse[unknown, source_row]
                    )
        solution = -small[:, : limit.count].LUsolve(small[:, limit.count])
        return limit.constant + sum(
            (value * solution[index] for index, value in limit.readout), sp.Integer(0)
        )

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
        for symbol, limit in zip(self.linearization.symbols, self.limits, strict=True):
            if isinstance(limit, TraceOutput) or limit.count <= 3:
                lines.append(f"{symbol} = {self._output(limit)}")
            else:
                lines.append(
                    f"{symbol} = entry of the inverse of a {limit.count} x {limit.count} matrix"
                )
        lines.append(f"value = {self.formula}")
        return "\n".join(lines)

    def _repr_latex_(self) -> str:
        rows = [f"{sp.latex(equation)} &= 0" for equation in self.equations]
        return r"$$\begin{aligned}" + r" \\ ".join(rows) + r"\end{aligned}$$"


def _symbols(values: Any) -> set[sp.Symbol]:
    found: set[sp.Symbol] = set()
    for value in values:
        found |= value.free_symbols
    return found


def _block_equations(
    component: Component,
    block: Block,
    symbols: tuple[sp.Symbol, ...],
    values: dict[tuple[int, int], sp.Expr],
) -> list[sp.Expr]:
    a, sigma = component.core.matrices(block, symbols)
    members = block.members
    size = len(members)
    known = [(i, j) for i in range(size) for j in range(size) if (members[i], members[j]) in values]
    if not known:
        return []
    if block.law is not None:
        expectation = []
        for i, j in known:
            owner = (members[i], members[j])
            if symbols.index(next(iter(values[owner].free_symbols))) not in {
                u for pair, u, factor in component.entries if pair == owner and factor == 1
            }:
                continue
            element = (a - sigma).inv()[i, j]
            mean = sum(
                (
                    weight * element.subs(_eigenvalues(component, block, atom))
                    for weight, atom in zip(block.law.weights, block.law.atoms, strict=True)
                ),
                sp.Integer(0),
            )
            expectation.append(values[owner] - mean)
        return expectation
    matrix = a - sigma
    if all((members[i], members[j]) in values for i, j in _pattern(matrix)):
        g = sp.Matrix(size, size, lambda i, j: values.get((members[i], members[j]), 0))
        product = matrix * g - sp.eye(size)
        entries = [sp.factor_terms(entry) for entry in product if sp.expand(entry) != 0]
        if len(entries) == len({u for pair, u, _ in component.entries if pair[0] in members}):
            return entries
    return _cramer(component, members, matrix, symbols)


def _pattern(matrix: sp.Matrix) -> list[tuple[int, int]]:
    from rmtsym.structure import reachable

    inverse = reachable(
        [[matrix[i, j] != 0 for j in range(matrix.cols)] for i in range(matrix.rows)]
    )
    assert inverse is not None
    return [(i, j) for i in range(matrix.rows) for j in range(matrix.cols) if inverse[i, j]]


def _cramer(
    component: Component,
    members: tuple[int, ...],
    matrix: sp.Matrix,
    symbols: tuple[sp.Symbol, ...],
) -> list[sp.Expr]:
    """``det(M) g_kl - adj(M)_kl``, one equation per unknown."""
    determinant = sp.factor_terms(matrix.det(method="berkowitz"))
    found = []
    for u, (k, l) in enumerate(component.pairs):
        if k in members:
            minor = matrix.cofactor(members.index(l), members.index(k), method="berkowitz")
            found.append(symbols[u] * determinant - sp.factor_terms(minor))
    return found


def _named_inverse(
    component: Component, block: Block, matrix: sp.Matrix, symbols: tuple[sp.Symbol, ...]
) -> dict[tuple[int, int], sp.Expr]:
    inverse = matrix.inv(method="ADJ") if matrix.rows <= 4 else matrix.LUsolve(sp.eye(matrix.rows))
    named = {}
    same = len(block.members) and component.full == component.core
    values = {pair: factor * symbols[u] for pair, u, factor in component.entries} if same else {}
    for i, k in enumerate(block.members):
        for j, l in enumerate(block.members):
            named[k, l] = values.get((k, l), inverse[i, j])
    return named


def _eigenvalues(component: Component, block: Block, atom: Any) -> dict[sp.Symbol, sp.Expr]:
    names = {
        d: d.component
        for entry in component.core.deterministic
        for d in entry.word
        if entry.row in block.members
    }
    return {sp.Symbol(f"lambda_{d}"): atom[index] for d, index in names.items()}


class _Noise:
    """The noise part of a pencil: entries between unknowns of growing size, sizes relative."""

    def __init__(
        self, pencil: Pencil, linearization: Linearization, relative: dict[sp.Symbol, sp.Expr]
    ) -> None:
        self.relative = relative
        self.covariance_of = linearization.equivalent.covariance_of
        self.members = [k for k, size in enumerate(pencil.sizes) if size != ONE]
        self.number = {k: index for index, k in enumerate(self.members)}
        self.size = [pencil.sizes[k] for k in self.members]
        self.inverses = [self.number[k] for k in pencil.inverses if k in self.number]
        self.entries = [
            Entry(
                self.number[e.row],
                self.number[e.column],
                self.value(e.coefficient),
                e.factor,
                e.word,
            )
            for e in pencil.entries
            if e.row in self.number and e.column in self.number
        ]

    def value(self, expression: sp.Expr) -> sp.Expr:
        return sp.sympify(expression).subs(self.relative, simultaneous=True)

    def key(self) -> Any:
        return tuple(self.size), tuple(self.entries)

    def component(self) -> Component:
        core_entries, combination = _without_plain(self.entries, len(self.members))
        core_members = [k for k in range(len(self.members)) if k not in combination]
        rows = {e.row for e in core_entries}
        core_rows = [r for r in range(len(self.members)) if r in rows]
        # Rows and unknowns of the core are paired again by size, in order.
        groups = self._groups(core_members, core_rows)
        relabel = {k: k for k in core_members}
        row_name: dict[int, int] = {}
        for unknowns, own_rows in groups:
            row_name.update(zip(own_rows, unknowns, strict=True))
        core_entries = [
            Entry(row_name[e.row], relabel[e.column], e.coefficient, e.factor, e.word)
            for e in core_entries
        ]
        core_groups = [unknowns for unknowns, _ in groups]
        feeds = self._feeds(core_entries)
        full_feeds = [
            (i, j, (core_unknown, row_name[l]), value * factor)
            for i, j, k, l, value in self._feeds(self.entries)
            for core_unknown, factor in combination.get(k, {k: sp.Integer(1)}).items()
        ]
        # Rows of full_feeds hold random matrices, so they are rows of the core.
        relevant = sorted({(k, l) for _, _, k, l, _ in feeds} | {feed[2] for feed in full_feeds})
        entries, pairs, symmetric = self._unknowns(core_groups, core_entries, feeds, relevant)
        index = {pair: (u, factor) for pair, u, factor in entries}

        def self_energy(terms: Any) -> tuple[SelfEnergy, ...]:
            total: dict[tuple[int, int, int], sp.Expr] = {}
            for i, j, pair, coefficient in terms:
                if pair in index:
                    u, factor = index[pair]
                    key = (i, j, u)
                    total[key] = total.get(key, sp.Integer(0)) + coefficient * factor
            return tuple(
                SelfEnergy(i, j, value, u)
                for (i, j, u), raw in sorted(total.items())
                if (value := _tidy(raw)) != 0
            )

        core = DysonEquation(
            self._blocks(core_groups),
            tuple(e for e in core_entries if not e.is_random),
            self_energy((i, j, (k, l), value) for i, j, k, l, value in feeds),
            tuple((row_name[k], k) for k in self.inverses if k in row_name and k in relabel),
        )
        full = DysonEquation(
            self._blocks(self._by_size(range(len(self.members)))),
            tuple(e for e in self.entries if not e.is_random),
            self_energy(full_feeds),
        )
        return Component(core, full, tuple(pairs), tuple(entries), symmetric)

    def _by_size(self, indices: Any) -> list[list[int]]:
        groups: dict[sp.Expr, list[int]] = {}
        for k in indices:
            groups.setdefault(self.size[k], []).append(k)
        return list(groups.values())

    def _groups(self, unknowns: list[int], rows: list[int]) -> list[tuple[list[int], list[int]]]:
        by_row = {self.size[group[0]]: group for group in self._by_size(rows)}
        found = []
        for group in self._by_size(unknowns):
            own = by_row.get(self.size[group[0]], [])
            if len(own) != len(group):
                raise UnsupportedError(
                    "got an expression whose pencil is singular; check its inverses"
                )
            found.append((group, own))
        return found

    def _blocks(self, groups: list[list[int]]) -> tuple[Block, ...]:
        blocks = []
        for group in groups:
            laws = {
                d.law
                for e in self.entries
                for d in e.word
                if self.size[e.row] == self.size[group[0]]
            }
            if len(laws) > 1:
                raise UnsupportedError(
                    f"got deterministic matrices of size {self.size[group[0]]} with different "
                    "spectral laws; matrices that meet in one expression must commute and share "
                    "one joint SpectralLaw"
                )
            law = laws.pop() if laws else None
            blocks.append(Block(self.value(self.size[group[0]]), tuple(group), law))
        return tuple(blocks)

    def _feeds(self, entries: list[Entry]) -> list[tuple[int, int, int, int, sp.Expr]]:
        """(i, j, k, l, coefficient): ``Sigma_ij += coefficient * g_kl``."""
        random = [e for e in entries if e.is_random]
        found = []
        for one in random:
            for other in random:
                pairing = self._pairing(one.factor, other.factor)
                if pairing != 0:
                    found.append(
                        (
                            one.row,
                            other.column,
                            one.column,
                            other.row,
                            one.coefficient
                            * other.coefficient
                            * pairing
                            * self.value(self.size[one.column]),
                        )
                    )
        return found

    def _pairing(self, one: Matrix | None, other: Matrix | None) -> sp.Expr:
        assert one is not None and other is not None
        first = one.operand if isinstance(one, Transpose) else one
        second = other.operand if isinstance(other, Transpose) else other
        if isinstance(first, Wigner) != isinstance(second, Wigner):
            return sp.Integer(0)
        turned = isinstance(one, Transpose) != isinstance(other, Transpose)
        if not isinstance(first, Wigner) and not turned:
            return sp.Integer(0)
        return self.value(self.covariance_of(first, second))

    def _unknowns(
        self,
        groups: list[list[int]],
        entries: list[Entry],
        feeds: list[tuple[int, int, int, int, sp.Expr]],
        relevant: list[tuple[int, int]],
    ) -> Any:
        deterministic = [(e.row, e.column) for e in entries if not e.is_random]
        random = [(e.row, e.column, _base_name(e.factor)) for e in entries if e.is_random]
        possible = possible_pairs(groups, deterministic, [feed[:4] for feed in feeds])
        is_odd = odd_pairs(len(self.members), deterministic, self._independent(random))
        alive = [pair for pair in relevant if pair in possible and not is_odd(*pair)]
        cells: dict[tuple[int, int], dict[str, sp.Expr]] = {}
        for e in entries:
            name = "*".join(["I" if e.factor is None else str(e.factor), *map(str, e.word)])
            cells.setdefault((e.row, e.column), {})[name] = e.coefficient
        symmetry = transposition(groups, cells, self._mirror(entries))
        found: dict[tuple[int, int], tuple[int, sp.Expr]] = {}
        pairs: list[tuple[int, int]] = []
        for pair in alive:
            if pair in found:
                continue
            found[pair] = (len(pairs), sp.Integer(1))
            if symmetry is not None:
                tau, epsilon = symmetry
                back = {row: k for k, row in tau.items()}
                k, j = pair[0], back[pair[1]]
                partner = (j, tau[k])
                factor = _tidy(epsilon[k] / epsilon[j])
                if partner == pair and factor != 1:
                    del found[pair]
                    continue
                if partner in alive:
                    found[partner] = (len(pairs), factor if partner != pair else sp.Integer(1))
            pairs.append(pair)
        entries_out = [(pair, u, factor) for pair, (u, factor) in sorted(found.items())]
        return entries_out, pairs, symmetry is not None

    def _independent(self, random: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
        """Correlated matrices change sign together: give them one name."""
        names = sorted({name for _, _, name in random})
        leader = {name: name for name in names}
        by_name = {
            _base_name(e.factor): (
                e.factor.operand if isinstance(e.factor, Transpose) else e.factor
            )
            for e in self.entries
            if e.factor is not None and e.is_random
        }
        for a in names:
            for b in names:
                if a < b and self.covariance_of(by_name[a], by_name[b]) != 0:
                    old, new = leader[b], leader[a]
                    leader = {k: new if v == old else v for k, v in leader.items()}
        return [(i, j, leader[name]) for i, j, name in random]

    @staticmethod
    def _mirror(entries: list[Entry]) -> Any:
        swap: dict[str, str] = {}
        for e in entries:
            if e.factor is not None and e.is_random and not isinstance(e.factor, Wigner):
                base = e.factor.operand if isinstance(e.factor, Transpose) else e.factor
                swap[str(base)], swap[str(base.T)] = str(base.T), str(base)
        return lambda name: swap.get(name, name)


def _base_name(factor: Matrix | None) -> str:
    return str(factor.operand if isinstance(factor, Transpose) else factor)


@lru_cache(maxsize=4096)
def _tidy(value: sp.Expr) -> sp.Expr:
    return sp.powsimp(sp.expand(value))


def _without_plain(
    entries: list[Entry], count: int
) -> tuple[list[Entry], dict[int, dict[int, sp.Expr]]]:
    """Eliminate rows that hold multiples of the identity only.

    Row i then reads ``x_j = sum_k factor_k x_k``; returns the entries left and, for every
    eliminated unknown j, its combination of unknowns that stay.
    """
    current = list(entries)
    combination: dict[int, dict[int, sp.Expr]] = {}
    kept = {e.row for e in entries if e.is_random or e.word}
    for row in range(count):
        if row in kept:
            continue
        own = [e for e in current if e.row == row]
        pivots = [e for e in own if e.column == row and e.coefficient.is_number]
        if not pivots:
            continue
        pivot = pivots[0]
        rule = {e.column: _tidy(-e.coefficient / pivot.coefficient) for e in own if e is not pivot}
        total: dict[tuple[Any, ...], sp.Expr] = {}
        for e in current:
            if e.row == row:
                continue
            targets = rule if e.column == pivot.column else {e.column: sp.Integer(1)}
            for column, factor in targets.items():
                key = (e.row, column, e.factor, e.word)
                total[key] = total.get(key, sp.Integer(0)) + factor * e.coefficient
        current = [
            Entry(i, j, value, factor, word)
            for (i, j, factor, word), raw in total.items()
            if (value := _tidy(raw)) != 0
        ]
        for known in combination.values():
            if pivot.column in known:
                weight = known.pop(pivot.column)
                for column, factor in rule.items():
                    known[column] = known.get(column, sp.Integer(0)) + weight * factor
        combination[pivot.column] = dict(rule)
    return current, combination


def _bilinear(pencil: Pencil, noise: _Noise, component: int, value: Any) -> BilinearOutput:
    small = [k for k, size in enumerate(pencil.sizes) if size == ONE]
    column = {k: index for index, k in enumerate(small)}
    last = len(small)
    vectors: dict[Vector, int] = {}

    def index(vector: Matrix | None) -> int:
        base = vector.operand if isinstance(vector, Transpose) else vector
        assert isinstance(base, Vector)
        return vectors.setdefault(base, len(vectors))

    left, right, corner = [], [], []
    for e in pencil.entries:
        if e.row in column and e.column in column:
            corner.append((column[e.row], column[e.column], value(e.coefficient)))
        elif e.row in column:
            left.append(
                (
                    column[e.row],
                    noise.number[e.column],
                    index(e.factor),
                    value(e.coefficient),
                    e.word,
                )
            )
        elif e.column in column:
            right.append(
                (noise.number[e.row], index(e.factor), column[e.column], value(e.coefficient))
            )
    for s in pencil.sources:
        if s.row in column:
            number = (
                relative_inner(s.source.left, s.source.right)
                if isinstance(s.source, Inner)
                else sp.Integer(1)
            )
            corner.append((column[s.row], last, value(-s.coefficient * number)))
        else:
            right.append((noise.number[s.row], index(s.source), last, value(-s.coefficient)))
    gram = [
        (i, j, value(relative_inner(u, v)))
        for u, i in vectors.items()
        for v, j in vectors.items()
        if u.size == v.size
    ]
    return BilinearOutput(
        component,
        last,
        tuple(vectors),
        tuple(entry for entry in gram if entry[2] != 0),
        tuple(left),
        tuple(right),
        tuple(corner),
        tuple((column[e.column], value(e.coefficient)) for e in pencil.readout.terms),
        value(pencil.readout.constant),
    )


def _trace(pencil: Pencil, noise: _Noise, component: int, value: Any) -> TraceOutput:
    trace = pencil.readout.trace
    assert trace is not None
    terms = [
        (
            noise.number[e.column],
            noise.number[s.row],
            value(e.coefficient * s.coefficient),
            tuple(sorted((*e.word, *s.word), key=str)),
        )
        for e in pencil.readout.terms
        for s in pencil.sources
        if isinstance(s.source, Identity)
    ]
    return TraceOutput(
        component, value(trace), tuple(terms), value(trace * pencil.readout.constant)
    )


def fixed_point(
    linearization: Linearization, sizes: Mapping[Any, Any] | None = None
) -> FixedPointSystem:
    """The fixed-point system of a linearization.

    ``sizes`` gives the relative sizes, ``{n: 1, p: c}``; a size left out stays a symbol of its own.
    """
    relative = {key: scalar(value) for key, value in (sizes or {}).items()}
    for key in relative:
        if not is_size(key):
            raise InputError(f"got {key!r} among the sizes; sizes come from dimensions(...)")
    components: list[Component] = []
    known: dict[Any, int] = {}
    limits: list[Output] = []
    for pencil in linearization.pencils:
        noise = _Noise(pencil, linearization, relative)
        key = noise.key()
        if key not in known:
            known[key] = len(components)
            components.append(noise.component())
        if pencil.readout.trace is not None:
            limits.append(_trace(pencil, noise, known[key], noise.value))
        else:
            limits.append(_bilinear(pencil, noise, known[key], noise.value))
    formula = sp.sympify(linearization.formula).subs(relative, simultaneous=True)
    return FixedPointSystem(
        linearization,
        tuple(sorted(relative.items(), key=str)),
        tuple(components),
        tuple(limits),
        formula,
    )


def derive(expression: Matrix, sizes: Mapping[Any, Any] | None = None) -> FixedPointSystem:
    """All passes at once: expression -> Gaussian equivalent -> pencil -> fixed-point system."""
    return fixed_point(build(linearize(expression)), sizes)
