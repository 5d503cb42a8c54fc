"""A fixed-point system as straight-line programs, one for every number type.

The equations are recorded on a :class:`~rmtsym.tape.Tape`,

    Phi(u) = entries of E (A - Sigma(u))^{-1},    F(v) = Phi(v, w(v)) - v,    dF/dv,

where blocks that feed only others are eliminated (``w = Phi_w(v)``), so that Newton's method keeps
few unknowns v; then the limits and their total derivatives. The programs take numbers of any type:
floats, NumPy arrays (many points at once), extended doubles, balls, series.

>>> from rmtsym.matrices import *
>>> from rmtsym.dyson import derive
>>> n, p = dimensions("n p")
>>> gamma, c = sp.symbols("gamma c", positive=True)
>>> Z = Gaussian("Z", p, n)
>>> system = derive(Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n, {n: 1, p: c})
>>> found = programs(system)
>>> k = found.coefficients({gamma: 1.0, c: 1.0})
>>> print(*found.cores[0].residual([0.5], k.a, k.s, k.l))
0.10000000000000009
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
import sympy as sp

from rmtsym.compilation import CompiledSystem, arguments, formula_of
from rmtsym.cores import DenseCore, DenseEquation
from rmtsym.linalg import Array, inverse
from rmtsym.source import NUMPY, Numbers, Program, load, slope_of, source_of
from rmtsym.system import (
    BilinearOutput,
    Block,
    Component,
    DysonEquation,
    FixedPointSystem,
    TraceOutput,
)
from rmtsym.tape import Tape, Value, sum_of

FEW = 14
"""Cores of more unknowns than this, eliminated ones aside, are solved with matrices."""

SHIFT = sp.Symbol("shift")
"""Added to every inverse of the expression; 0 but on the way to systems that need it."""


# -- recording ----------------------------------------------------------------------------------


class _Register:
    """Expressions of one group; each is evaluated once, minus signs are taken out."""

    def __init__(self, tape: Tape, group: str, *, fold: bool) -> None:
        self.tape, self.group, self.fold = tape, group, fold
        self.index: dict[sp.Expr, int] = {}

    def __call__(self, expression: sp.Expr) -> Value:
        expression = sp.sympify(expression)
        if self.fold and expression.is_Integer:
            return int(expression)
        if expression.could_extract_minus_sign():
            return -self(-expression)
        place = self.index.setdefault(expression, len(self.index))
        return self.tape.input(self.group, place)


class Core:
    """The equations ``F(v) = 0`` of one component: the kept unknowns and its programs.

    ``residual(v, a, s, l) -> F``; ``step(...) -> F, Newton's correction``; ``tangent(..., da, ds)
    -> dv`` when the coefficients change at rates da, ds; ``follow`` gives all three;
    ``jacobian(v, a, s, l) -> F, dF/dv`` row by row. Each is written when first used.
    """

    def __init__(
        self, tape: Tape, name: str, kept: tuple[int, ...], outputs: list[Value], rates: Any
    ) -> None:
        self.tape, self.name, self.kept, self.outputs, self.rates = tape, name, kept, outputs, rates
        self.count = len(kept)
        self.plain = [name, "a", "s", "l"]

    @cached_property
    def _slopes(self) -> list[list[Value]]:
        """``dF/dv``, column by column."""
        v = [self.tape.input(self.name, k) for k in range(self.count)]
        return [self.tape.derivative(self.outputs, {x: 1}) for x in v]

    @cached_property
    def _steps(self) -> list[list[Value]]:
        size = range(self.count)
        minus = [[-self._slopes[j][i] for j in size] for i in size]
        change = self.tape.derivative(self.outputs, self.rates)
        return self.tape.solve(minus, [self.outputs, change])

    @cached_property
    def residual(self) -> Program:
        return self.tape.function("residual", self.outputs, self.plain)

    @cached_property
    def step(self) -> Program:
        return self.tape.function("step", [*self.outputs, *self._steps[0]], self.plain)

    @cached_property
    def tangent(self) -> Program:
        return self.tape.function("tangent", self._steps[1], [*self.plain, "da", "ds"])

    @cached_property
    def follow(self) -> Program:
        outputs = [*self.outputs, *self._steps[0], *self._steps[1]]
        return self.tape.function("follow", outputs, [*self.plain, "da", "ds"])

    @cached_property
    def jacobian(self) -> Program:
        size = range(self.count)
        entries = [self._slopes[j][i] for i in size for j in size]
        return self.tape.function("jacobian", [*self.outputs, *entries], self.plain)


AnyCore: TypeAlias = Core | DenseCore


@dataclass(frozen=True)
class Coefficients:
    """Numbers of the groups: a (entries of A), s (weights of Sigma), o (outputs), l (laws)."""

    a: list[Any]
    s: list[Any]
    o: list[Any]
    l: list[Any]
    weights: list[Any] = field(default_factory=list)

    def single(self) -> Coefficients:
        """The same at the only point, as plain numbers."""

        def plain(value: Any) -> Any:
            return value.item() if isinstance(value, np.ndarray) else value

        return replace(
            self,
            a=[plain(x) for x in self.a],
            s=[plain(x) for x in self.s],
            o=[plain(x) for x in self.o],
            l=[np.reshape(x, len(x)) for x in self.l],
        )

    def take(self, chosen: Any) -> Coefficients:
        """Those of some points; numbers that do not vary stay as they are."""

        def pick(value: Any) -> Any:
            return value[chosen] if np.ndim(value) else value

        return replace(
            self,
            a=[pick(x) for x in self.a],
            s=[pick(x) for x in self.s],
            o=[pick(x) for x in self.o],
        )

    def mean(self, law: int, value: Any) -> Any:
        """The mean over a spectral law: over the first axis, the atoms."""
        weights = self.weights[law]
        if np.ndim(value) < np.ndim(self.l[0]):
            return value
        return np.tensordot(weights, value, axes=(0, 0))[()]


@dataclass(eq=False)
class Programs:
    """All programs of a fixed-point system; made by :func:`programs`."""

    system: FixedPointSystem

    def __post_init__(self) -> None:
        self.parameters = self.system.parameters
        self.tape = Tape()
        self._a = _Register(self.tape, "a", fold=True)
        self._s = _Register(self.tape, "s", fold=False)
        self._o = _Register(self.tape, "o", fold=True)
        self._laws: dict[Any, int] = {}
        self._monomials: dict[Any, int] = {}
        unknowns = []
        recorded = []
        for number, component in enumerate(self.system.components):
            values, core = self._core(number, component)
            unknowns.append(values)
            recorded.append(core)
        limits = self._limits(unknowns)
        self.expressions = (*self._a.index, *self._s.index, *self._o.index)
        self.sizes = (len(self._a.index), len(self._s.index), len(self._o.index))
        self._unknowns, self._limit_nodes = unknowns, limits
        self.cores: tuple[AnyCore, ...] = tuple(core() for core in recorded)

    # -- the equations

    def _law_number(self, block: Block) -> int:
        return self._laws.setdefault(block.law, len(self._laws))

    def _monomial(self, block: Block, word: Sequence[Any]) -> Value:
        if not word:
            return 1
        assert block.law is not None
        powers = [0] * len(block.law.atoms[0])
        for matrix in word:
            powers[matrix.component] += 1
        key = (self._law_number(block), tuple(powers))
        return self.tape.input("l", self._monomials.setdefault(key, len(self._monomials)))

    def _inverses(
        self,
        equation: DysonEquation,
        block: Block,
        values: Mapping[int, Value],
        *,
        shifted: bool,
    ) -> list[list[Value]]:
        return self.tape.inverse(self._matrix(equation, block, values, shifted=shifted))

    def _matrix(
        self,
        equation: DysonEquation,
        block: Block,
        values: Mapping[int, Value],
        *,
        shifted: bool,
    ) -> list[list[Value]]:
        place = {k: a for a, k in enumerate(block.members)}
        matrix: list[list[Value]] = [[0] * len(place) for _ in place]
        for e in equation.deterministic:
            if e.row in place:
                entry = self._a(e.coefficient) * self._monomial(block, e.word)
                matrix[place[e.row]][place[e.column]] = (
                    matrix[place[e.row]][place[e.column]] + entry
                )
        for t in equation.self_energy:
            if t.row in place:
                matrix[place[t.row]][place[t.column]] = (
                    matrix[place[t.row]][place[t.column]]
                    - self._s(t.coefficient) * values[t.unknown]
                )
        for row, unknown in equation.inverses if shifted else ():
            if row in place:
                i, j = place[row], place[unknown]
                matrix[i][j] = matrix[i][j] + self._a(SHIFT)
        return matrix

    def _phi(
        self, component: Component, block: Block, values: Mapping[int, Value]
    ) -> dict[int, Value]:
        place = {k: a for a, k in enumerate(block.members)}
        own = [(u, k, l) for u, (k, l) in enumerate(component.pairs) if k in place]
        if not own:
            return {}
        g = self._inverses(component.core, block, values, shifted=True)
        found = {u: g[place[k]][place[l]] for u, k, l in own}
        if block.law is None:
            return found
        law = self._law_number(block)
        return {u: self.tape.mean(law, value) for u, value in found.items()}

    def _core(self, number: int, component: Component) -> Any:
        blocks = [b for b in component.core.blocks if _owned(component, b)]
        eliminated = _eliminable(component, blocks)
        kept = tuple(sorted(u for b in blocks if b not in eliminated for u in _owned(component, b)))
        if len(kept) > FEW:
            return self._dense(number, component, blocks)
        v = self.tape.inputs(f"v{number}", len(kept))
        values: dict[int, Value] = dict(zip(kept, v, strict=True))
        for block in eliminated:
            values.update(self._phi(component, block, values))
        found: dict[int, Value] = {}
        for block in blocks:
            if block not in eliminated:
                found.update(self._phi(component, block, values))
        outputs = [found[u] - values[u] for u in kept]

        def core() -> Core:
            return Core(self.tape, f"v{number}", kept, outputs, self._rates())

        return values, core

    def _rates(self) -> dict[Any, Value]:
        return {
            self.tape.input(group, k): self.tape.input(f"d{group}", k)
            for group, size in zip("as", self.sizes, strict=False)
            for k in range(size)
        }

    def _dense(self, number: int, component: Component, blocks: list[Block]) -> Any:
        """All unknowns are kept; the tape holds the entries of ``A - Sigma`` only."""
        name = f"v{number}"
        v = self.tape.inputs(name, len(component.pairs))
        values: dict[int, Value] = dict(enumerate(v))
        equations = []
        for block in blocks:
            place = {k: a for a, k in enumerate(block.members)}
            own = _owned(component, block)
            terms = [t for t in component.core.self_energy if t.row in place]
            matrix = self._matrix(component.core, block, values, shifted=True)
            equations.append(
                DenseEquation(
                    len(place),
                    None if block.law is None else self._law_number(block),
                    own,
                    [place[component.pairs[u][0]] for u in own],
                    [place[component.pairs[u][1]] for u in own],
                    [place[t.row] for t in terms],
                    [place[t.column] for t in terms],
                    [t.unknown for t in terms],
                    [x for row in matrix for x in row],
                    [self._s(t.coefficient) for t in terms],
                )
            )

        def core() -> DenseCore:
            return DenseCore(self.tape, name, len(v), equations, self._rates())

        return values, core

    # -- the limits

    def _limits(self, unknowns: list[dict[int, Value]]) -> list[Value]:
        inverses: dict[int, dict[tuple[int, int], Value]] = {}
        for number, component in enumerate(self.system.components):
            entries: dict[tuple[int, int], Value] = {}
            for block in component.full.blocks:
                g = self._inverses(component.full, block, unknowns[number], shifted=False)
                for i, k in enumerate(block.members):
                    for j, l in enumerate(block.members):
                        entries[k, l] = g[i][j]
            inverses[number] = entries
        return [
            self._bilinear(limit, inverses[limit.component])
            if isinstance(limit, BilinearOutput)
            else self._trace(limit, inverses[limit.component])
            for limit in self.system.limits
        ]

    def _entry(
        self, number: int, g: Mapping[tuple[int, int], Value], k: int, l: int, word: Any
    ) -> Value:
        """Mean over the law of ``word * G_kl``; zero where sizes differ."""
        blocks = self.system.components[number].full.blocks
        block = next(b for b in blocks if k in b.members)
        value = g.get((k, l), 0)
        if block.law is None:
            return value
        return self.tape.mean(self._law_number(block), self._monomial(block, word) * value)

    def _trace(self, limit: TraceOutput, g: Mapping[tuple[int, int], Value]) -> Value:
        total = sum_of(
            self._o(value) * self._entry(limit.component, g, k, l, word)
            for k, l, value, word in limit.terms
        )
        return self._o(limit.constant) + self._o(limit.size) * total

    def _bilinear(self, limit: BilinearOutput, g: Mapping[tuple[int, int], Value]) -> Value:
        count = limit.count
        gram = {(i, j): self._o(value) for i, j, value in limit.gram}
        small: list[list[Value]] = [[0] * (count + 1) for _ in range(count)]
        for row, column, value in limit.corner:
            small[row][column] = small[row][column] + self._o(value)
        for row, unknown, one, value, word in limit.left:
            for source, other, column, factor in limit.right:
                entry = self._entry(limit.component, g, unknown, source, word)
                product = self._o(value) * self._o(factor) * gram.get((one, other), 0) * entry
                small[row][column] = small[row][column] - product
        readout: dict[int, Value] = {}
        for index, value in limit.readout:
            readout[index] = readout.get(index, 0) + self._o(value)
        return self._o(limit.constant) - self.tape.bilinear(
            [readout.get(k, 0) for k in range(count)],
            [row[:count] for row in small],
            [row[count] for row in small],
        )

    @property
    def atoms(self) -> int:
        """The number of atoms of the largest spectral law, 1 without."""
        return max((len(law.weights) for law in self._laws), default=1)

    @property
    def shift(self) -> int | None:
        """The place of the shift of all inverses in group a."""
        return self._a.index.get(SHIFT)

    @cached_property
    def ridges(self) -> tuple[tuple[int, sp.Symbol, int], ...]:
        """(place in group a, symbol, sign) of ridges: +-symbol + constant, on diagonals of A only.

        Far from the origin in all of them the equations are solved by iteration.
        """
        elsewhere = set().union(*(e.free_symbols for e in self._s.index), set())
        found = set()
        for component in self.system.components:
            for e in component.core.deterministic:
                for symbol in e.coefficient.free_symbols:
                    if e.row != e.column or e.word or abs(e.coefficient.diff(symbol)) != 1:
                        elsewhere.add(symbol)
                    else:
                        sign = -1 if e.coefficient.could_extract_minus_sign() else 1
                        found.add((self._a.index[sign * e.coefficient], symbol, sign))
        ridges = sorted((entry for entry in found if entry[1] not in elsewhere), key=str)
        return tuple({place: (place, symbol, sign) for place, symbol, sign in ridges}.values())

    @cached_property
    def limits(self) -> Program:
        """``limits(v0, ..., a, s, o, l)``."""
        return self.tape.function("limits", self._limit_nodes, [*self._groups, "a", "s", "o", "l"])

    @cached_property
    def slopes(self) -> Program:
        """``slopes(v0, ..., dv0, ..., a, s, o, l, da, ds, do)``: limits, then their slopes."""
        tape = self.tape
        rates = {
            tape.input(group, k): tape.input(f"d{group}", k)
            for group in [*self._groups, "a", "s", "o"]
            for k in range(tape.groups.get(group, 0))
        }
        slopes = tape.derivative(self._limit_nodes, rates)
        moving = [f"d{g}" for g in self._groups]
        groups = [*self._groups, *moving, "a", "s", "o", "l", "da", "ds", "do"]
        return tape.function("slopes", [*self._limit_nodes, *slopes], groups)

    @property
    def _groups(self) -> list[str]:
        return [f"v{k}" for k in range(len(self.system.components))]

    # -- numbers

    @cached_property
    def source(self) -> str:
        """The generated source of all coefficients."""
        return source_of([e.subs(SHIFT, 0) for e in self.expressions], self.parameters)

    @cached_property
    def _function(self) -> Program:
        return load(self.source)

    @cached_property
    def _formula(self) -> Program:
        return formula_of(self.system)

    @cached_property
    def variables(self) -> tuple[sp.Symbol, ...]:
        """The parameters in which limits are differentiated."""
        return tuple(dict.fromkeys(variable for _, _, variable in self.system.derivatives))

    def arguments(self, values: Mapping[Any, Any]) -> tuple[Any, ...]:
        """The parameters' values in order; InputError names those missing."""
        return arguments(self.system, values)

    def _split(self, flat: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        first, second, _ = self.sizes
        return flat[:first], flat[first : first + second], flat[first + second :]

    def coefficients(self, values: Mapping[Any, Any], numbers: Numbers = NUMPY) -> Coefficients:
        """All coefficients at given parameters (numbers, or arrays of one shape)."""
        x = self.arguments(values)
        flat = numbers.call(self._function, x)
        laws = self._law_numbers(x, numbers)
        return Coefficients(*self._split(flat), *laws)

    def rates(
        self, values: Mapping[Any, Any], variable: sp.Symbol, numbers: Numbers = NUMPY
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """The derivatives of the coefficients a, s, o in one parameter."""
        program = slope_of(self.expressions, self.parameters, variable)
        return self._split(numbers.call(program, self.arguments(values)))

    def _law_numbers(self, x: tuple[Any, ...], numbers: Numbers) -> tuple[list[Any], list[Any]]:
        if not self._laws:
            return [], []
        batched = any(isinstance(value, np.ndarray) for value in x) or (
            not x and numbers.dtype is not object
        )
        tables, weights = [], []
        for law in self._laws:
            flat = [*law.weights, *(value for atom in law.atoms for value in atom)]
            found = self._constants(tuple(flat), x, numbers)
            count = len(law.weights)
            weights.append(np.array(found[:count]))
            tables.append(np.array(found[count:]).reshape(count, -1))
        monomials = []
        for law_number, powers in self._monomials:
            value: Any = 1
            for component, power in enumerate(powers):
                if power:
                    value = value * tables[law_number][:, component] ** power
            monomials.append(value[:, None] if batched else value)
        return monomials, weights

    def _constants(
        self, expressions: tuple[sp.Expr, ...], x: tuple[Any, ...], numbers: Numbers
    ) -> list[Any]:
        if all(e.is_Rational for e in expressions):
            return [numbers.rational(int(e.p), int(e.q)) for e in expressions]
        return numbers.call(_constant_program(expressions, self.parameters), x)

    def value(
        self,
        values: Mapping[Any, Any],
        vs: Sequence[Any],
        numbers: Numbers = NUMPY,
        k: Coefficients | None = None,
    ) -> Any:
        """The expression's value at solved unknowns; derivatives by implicit differentiation."""
        k = k or self.coefficients(values, numbers)
        calls = {"mean": k.mean, "inverse": inverse}
        limits: list[Any] = []
        totals: dict[sp.Symbol, list[Any]] = {}
        for variable in self.variables:
            da, ds, do = self.rates(values, variable, numbers)
            moving = [
                core.tangent(v, k.a, k.s, k.l, da, ds, **calls)
                for core, v in zip(self.cores, vs, strict=True)
            ]
            flat = self.slopes(*vs, *moving, k.a, k.s, k.o, k.l, da, ds, do, **calls)
            limits, totals[variable] = flat[: len(flat) // 2], flat[len(flat) // 2 :]
        if not limits:
            limits = self.limits(*vs, k.a, k.s, k.o, k.l, **calls)
        slopes = [totals[variable][index] for _, index, variable in self.system.derivatives]
        return numbers.call(self._formula, (*limits, *slopes, *self.arguments(values)))[0]

    def unknowns(self, vs: Sequence[Any], k: Coefficients) -> list[list[Any]]:
        """All scalar unknowns of every component, the eliminated ones too."""
        return self._all(*vs, k.a, k.s, k.l, mean=k.mean, inverse=inverse)

    @cached_property
    def _all(self) -> Program:
        counts = [len(values) for values in self._unknowns]
        flat = [values[u] for values in self._unknowns for u in range(len(values))]
        program = self.tape.function("unknowns", flat, [*self._groups, "a", "s", "l"])

        def split(*arguments: Any, **calls: Any) -> list[Any]:
            found, start = program(*arguments, **calls), 0
            parts = []
            for count in counts:
                parts.append(found[start : start + count])
                start += count
            return parts

        return split


def _owned(component: Component, block: Block) -> list[int]:
    return [u for u, (k, _) in enumerate(component.pairs) if k in block.members]


def _eliminable(component: Component, blocks: list[Block]) -> list[Block]:
    """Blocks whose unknowns follow from the others', most unknowns first, in order of use."""
    feeds = {
        b: {t.unknown for t in component.core.self_energy if t.row in b.members} for b in blocks
    }
    chosen: list[Block] = []
    for block in sorted(blocks, key=lambda b: -len(_owned(component, b))):
        order = _in_order([*chosen, block], feeds, component)
        if order is not None:
            chosen = order
    return chosen


def _in_order(
    blocks: list[Block], feeds: Mapping[Block, set[int]], component: Component
) -> list[Block] | None:
    """The blocks so that each is fed by earlier ones only; None where they feed in a circle."""
    left, order = list(blocks), []
    while left:
        ready = [
            b for b in left if not any(feeds[b] & set(_owned(component, other)) for other in left)
        ]
        if not ready:
            return None
        order += ready
        left = [b for b in left if b not in ready]
    return order


@lru_cache(maxsize=64)
def _constant_program(
    expressions: tuple[sp.Expr, ...], parameters: tuple[sp.Symbol, ...]
) -> Program:
    return load(source_of(expressions, parameters))


def programs(system: FixedPointSystem | CompiledSystem) -> Programs:
    """Record once; later calls with an equal system return the same object."""
    return _programs(system.system if isinstance(system, CompiledSystem) else system)


@lru_cache(maxsize=256)
def _programs(system: FixedPointSystem) -> Programs:
    return Programs(system)


def run(program: Any, v: Array, *lists: list[Any], k: Coefficients) -> Array:
    """A program of (v, a, s, l, ...) at many points; at one, on plain numbers, which is faster."""
    points = v.shape[1]
    if points == 1:
        k = k.single()
        plain = [[x.item() if isinstance(x, np.ndarray) else x for x in one] for one in lists]
        try:
            found = program(
                v[:, 0].tolist(), *plain[:2], k.l, *plain[2:], mean=k.mean, inverse=inverse
            )
        except (ZeroDivisionError, OverflowError):
            return np.full((1, 1), np.nan)
        return np.array(found)[:, None]
    found = program(v, *lists[:2], k.l, *lists[2:], mean=k.mean, inverse=inverse)
    result = np.empty((len(found), points), dtype=np.result_type(*found))
    for row, value in zip(result, found, strict=True):
        row[:] = value
    return result
