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
from functools import lru_cache
from typing import Any

import sympy as sp

from rmtsym.algebra import Transpose
from rmtsym.errors import InputError, UnsupportedError
from rmtsym.linearization import is_size, linearize
from rmtsym.matrices import Identity, Matrix, SpectralLaw, Vector, Wigner
from rmtsym.pencil import (
    Entry,
    Inner,
    Linearization,
    Pencil,
    build,
    relative_inner,
)
from rmtsym.scalars import ONE, scalar
from rmtsym.structure import odd_pairs, possible_pairs, transposition
from rmtsym.system import (
    BilinearOutput,
    Block,
    Component,
    DysonEquation,
    FixedPointSystem,
    Output,
    SelfEnergy,
    TraceOutput,
)


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
        self.laws: dict[sp.Expr, set[SpectralLaw]] = {}
        words = [e.word for e in (*pencil.entries, *pencil.readout.terms)]
        for matrix in (d for word in (*words, *(s.word for s in pencil.sources)) for d in word):
            self.laws.setdefault(matrix.size, set()).add(matrix.law)
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
        laws = tuple((size, frozenset(self.laws.get(size, ()))) for size in self.size)
        return tuple(self.size), tuple(self.entries), laws

    def component(self) -> Component:
        core_entries, combination, plain = _without_plain(self.entries, len(self.members))
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
        return Component(
            core,
            full,
            tuple(pairs),
            tuple(entries),
            symmetric,
            tuple(sorted(row_name.items())),
            tuple(plain),
        )

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
            laws = self.laws.get(self.size[group[0]], set())
            if len(laws) > 1:
                raise UnsupportedError(
                    f"got deterministic matrices of size {self.size[group[0]]} with different "
                    "spectral laws; matrices that meet in one expression must commute and share "
                    "one joint SpectralLaw"
                )
            law = next(iter(laws)) if laws else None
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
                if partner in alive and partner != pair:
                    if not _never_divides_by_zero(factor):
                        pair, partner, factor = partner, pair, _tidy(1 / factor)
                    found[pair], found[partner] = (len(pairs), sp.Integer(1)), (len(pairs), factor)
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


def _never_divides_by_zero(factor: sp.Expr) -> bool:
    return all(symbol.is_positive for symbol in sp.denom(factor).free_symbols)


@lru_cache(maxsize=4096)
def _tidy(value: sp.Expr) -> sp.Expr:
    return sp.powsimp(sp.expand(value))


def _without_plain(
    entries: list[Entry], count: int
) -> tuple[list[Entry], dict[int, dict[int, sp.Expr]], list[tuple[int, int]]]:
    """Eliminate rows that hold multiples of the identity only.

    Row i then reads ``x_j = sum_k factor_k x_k``; returns the entries left; for every eliminated
    unknown j, its combination of unknowns that stay; and the eliminated (row, unknown).
    """
    current = list(entries)
    combination: dict[int, dict[int, sp.Expr]] = {}
    kept = {e.row for e in entries if e.is_random or e.word}
    eliminated: list[tuple[int, int]] = []
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
        eliminated.append((row, pivot.column))
    return current, combination, eliminated


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
    facing = {(entry[2], other[1]) for entry in left for other in right}
    gram = [
        (i, j, value(relative_inner(u, v)))
        for u, i in vectors.items()
        for v, j in vectors.items()
        if u.size == v.size and (i, j) in facing
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


SMALLEST = sp.Rational(1, 10**100)


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
        if relative[key].is_number and not (
            relative[key].is_real and SMALLEST < relative[key] < 1 / SMALLEST
        ):
            raise InputError(
                f"got the relative size {key} = {sp.N(relative[key], 6)}; sizes are positive, "
                "between 1e-100 and 1e100"
            )
    moving = {symbol for value in relative.values() for symbol in value.free_symbols}
    for _, _, variable in linearization.derivatives:
        if variable in moving:
            raise UnsupportedError(
                f"got D in {variable}, a relative size; sizes are whole numbers in an expression: "
                "use sensitivities(system, values) for the derivative of a limit in it"
            )
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
