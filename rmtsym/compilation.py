"""A fixed-point system evaluated with arrays: at one point, or at many at once.

The coefficients of a system (entries of A, weights of Sigma, inner products) are exact expressions
in its parameters, written once as source. All that follows is linear algebra on arrays of floats:

    Phi(u) = entries of E (A - Sigma(u))^{-1},   dPhi = E G (dSigma) G,   G = (A - Sigma)^{-1}.

>>> from rmtsym.matrices import *
>>> from rmtsym.dyson import derive
>>> n, p = dimensions("n p")
>>> gamma, c = sp.symbols("gamma c", positive=True)
>>> Z = Gaussian("Z", p, n)
>>> system = derive(Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n, {n: 1, p: c})
>>> compiled = compile_system(system)
>>> point = compiled.at({gamma: 1.0, c: 1.0})
>>> residual = point.residual(0, np.array([0.6180339887498949, 0.6180339887498949]))
>>> bool(abs(residual).max() < 1e-15)
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import sympy as sp

from rmtsym.errors import InputError
from rmtsym.linalg import Array, inverses, solutions
from rmtsym.source import NUMPY, Program, load, source_of
from rmtsym.system import BilinearOutput, Block, DysonEquation, FixedPointSystem


class _Register:
    """Collects expressions; each is evaluated once and referred to by its index."""

    def __init__(self) -> None:
        self.index: dict[sp.Expr, int] = {}

    def __call__(self, expression: sp.Expr) -> int:
        return self.index.setdefault(sp.sympify(expression), len(self.index))


@dataclass(frozen=True)
class _Equation:
    """A Dyson equation with its coefficients replaced by indices into the register."""

    blocks: tuple[tuple[tuple[int, ...], Block], ...]
    deterministic: tuple[tuple[int, int, int, int, tuple[int, ...]], ...]
    self_energy: tuple[tuple[int, int, int, int, int], ...]
    inverses: tuple[tuple[int, int, int], ...]


def _equation(equation: DysonEquation, register: _Register) -> _Equation:
    place = {
        k: (b, a) for b, block in enumerate(equation.blocks) for a, k in enumerate(block.members)
    }
    deterministic = []
    for e in equation.deterministic:
        law = equation.blocks[place[e.row][0]].law
        powers = [0] * (len(law.atoms[0]) if law else 0)
        for matrix in e.word:
            powers[matrix.component] += 1
        deterministic.append(
            (
                place[e.row][0],
                place[e.row][1],
                place[e.column][1],
                register(e.coefficient),
                tuple(powers),
            )
        )
    self_energy = [
        (place[t.row][0], place[t.row][1], place[t.column][1], register(t.coefficient), t.unknown)
        for t in equation.self_energy
    ]
    return _Equation(
        tuple((block.members, block) for block in equation.blocks),
        tuple(deterministic),
        tuple(self_energy),
        tuple((place[row][0], place[row][1], place[k][1]) for row, k in equation.inverses),
    )


@dataclass(frozen=True)
class _Bilinear:
    count: int
    vectors: int
    gram: tuple[tuple[int, int, int], ...]
    left: tuple[tuple[int, int, int, int, tuple[Any, ...]], ...]
    right: tuple[tuple[int, int, int, int], ...]
    corner: tuple[tuple[int, int, int], ...]
    readout: tuple[tuple[int, int], ...]
    constant: int


@dataclass(frozen=True)
class _Trace:
    size: int
    terms: tuple[tuple[int, int, int, tuple[Any, ...]], ...]
    constant: int


@dataclass(eq=False)
class CompiledSystem:
    """A fixed-point system ready for numbers; made by :func:`compile_system`."""

    system: FixedPointSystem

    def __post_init__(self) -> None:
        register = _Register()
        self.core = tuple(_equation(c.core, register) for c in self.system.components)
        self.full = tuple(_equation(c.full, register) for c in self.system.components)
        self.outputs = tuple(self._output(limit, register) for limit in self.system.limits)
        self.expressions = tuple(register.index)
        self.parameters = self.system.parameters

    def _output(self, limit: Any, register: _Register) -> _Bilinear | _Trace:
        if not isinstance(limit, BilinearOutput):
            return _Trace(
                register(limit.size),
                tuple((k, l, register(value), word) for k, l, value, word in limit.terms),
                register(limit.constant),
            )
        return _Bilinear(
            limit.count,
            len(limit.vectors),
            tuple((i, j, register(value)) for i, j, value in limit.gram),
            tuple((r, k, v, register(value), word) for r, k, v, value, word in limit.left),
            tuple((r, v, c, register(value)) for r, v, c, value in limit.right),
            tuple((r, c, register(value)) for r, c, value in limit.corner),
            tuple((r, register(value)) for r, value in limit.readout),
            register(limit.constant),
        )

    @cached_property
    def source(self) -> str:
        """The generated source of all coefficients."""
        return source_of(self.expressions, self.parameters)

    @cached_property
    def function(self) -> Program:
        return load(self.source)

    def at(self, values: Mapping[Any, Any]) -> Point:
        """The system at given parameter values (arrays of one shape for many points)."""
        return Point(self, arguments(self.system, values))


def formula_of(system: FixedPointSystem) -> Program:
    """The value as a function of limits, slopes of limits and parameters, in this order."""
    symbols = (
        *system.linearization.symbols,
        *(symbol for symbol, _, _ in system.derivatives),
        *system.parameters,
    )
    return load(source_of([system.formula], symbols))


def by_symbol(system: FixedPointSystem, values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Values whose keys are the system's symbols, given as such or by name."""
    names = {str(symbol): symbol for symbol in system.parameters}
    return {
        names.get(key, sp.Symbol(key)) if isinstance(key, str) else key: value
        for key, value in values.items()
    }


def arguments(system: FixedPointSystem, values: Mapping[Any, Any]) -> tuple[Any, ...]:
    """The parameters' values in order; InputError names those missing."""
    missing = [s for s in system.parameters if s not in values]
    if missing:
        raise InputError(
            f"got no value for {', '.join(map(str, missing))}; "
            f"this system needs {', '.join(map(str, system.parameters))}"
        )
    return tuple(values[s] for s in system.parameters)


@lru_cache(maxsize=256)
def compile_system(system: FixedPointSystem) -> CompiledSystem:
    """Compile once; later calls with an equal system return the same object."""
    return CompiledSystem(system)


class Point:
    """A compiled system at one point, or at many (leading axis)."""

    def __init__(
        self, compiled: CompiledSystem, values: tuple[Any, ...], batch: tuple[int, ...] = ()
    ) -> None:
        self.compiled = compiled
        self.system = compiled.system
        self.values = values
        self.batch: tuple[int, ...] = np.broadcast_shapes(batch, *map(np.shape, values))
        if len(self.batch) > 1:
            raise InputError(f"got parameters of shape {self.batch}; flatten them to one axis")
        self.coefficients = NUMPY.call(compiled.function, values)
        kinds = [np.asarray(c).dtype for c in self.coefficients]
        self.dtype: Any = np.result_type(float, *kinds)
        self._assembled: dict[Any, Any] = {}

    def take(self, chosen: Array) -> Point:
        """The same system at some of the points."""
        if not self.batch:
            return self
        picked = tuple(np.broadcast_to(v, self.batch)[chosen] for v in self.values)
        return Point(self.compiled, picked, np.empty(self.batch)[chosen].shape)

    def _number(self, value: sp.Expr) -> Any:
        if not value.free_symbols:
            return float(value)
        return NUMPY.call(load(source_of([value], self.compiled.parameters)), self.values)[0]

    def _law(self, block: Block) -> tuple[Array, Array] | None:
        """Weights (atoms,) and eigenvalues (atoms, matrices)."""
        if block.law is None:
            return None
        key = ("law", block.law)
        if key not in self._assembled:
            weights = [self._number(w) for w in block.law.weights]
            atoms = [[self._number(x) for x in atom] for atom in block.law.atoms]
            self._assembled[key] = (
                np.array(weights, dtype=self.dtype),
                np.array(atoms, dtype=self.dtype),
            )
        return cast(tuple[Array, Array], self._assembled[key])

    def _zeros(self, *shape: int) -> Array:
        return np.zeros((*self.batch, *shape), dtype=self.dtype)

    def _a(self, equation: _Equation, coefficients: list[Any], key: Any) -> list[Array]:
        if key in self._assembled:
            return cast(list[Array], self._assembled[key])
        found = []
        for index, (members, block) in enumerate(equation.blocks):
            size = len(members)
            law = self._law(block)
            atoms = 1 if law is None else len(law[0])
            a = self._zeros(atoms, size, size)
            for b, i, j, c, powers in equation.deterministic:
                if b != index:
                    continue
                value = np.asarray(coefficients[c])[..., None]
                for component, power in enumerate(powers):
                    if power:
                        assert law is not None
                        value = value * law[1][:, component] ** power
                a[..., i, j] += value
            found.append(a)
        self._assembled[key] = found
        return found

    def _sigma(self, equation: _Equation, coefficients: list[Any], u: Array) -> list[Array]:
        found = [self._zeros(1, len(m), len(m)) for m, _ in equation.blocks]
        for b, i, j, c, unknown in equation.self_energy:
            found[b][..., 0, i, j] += coefficients[c] * u[..., unknown]
        return found

    def _mean(self, block: Block, values: Array) -> Array:
        """Mean over the law; the atom axis comes first among the last three (or two)."""
        law = self._law(block)
        if law is None:
            return values[..., 0, :, :]
        mean: Array = np.tensordot(law[0], np.moveaxis(values, -3, 0), axes=(0, 0))
        return mean

    def inverses(
        self, component: int, u: Array, *, full: bool = False, shift: Any = None
    ) -> list[Array]:
        """``(A - Sigma(u))^{-1}`` per block: (..., atoms, unknowns, rows).

        ``shift`` (core only) regularises every inverse of the expression, ``M + shift``.
        """
        equation = (self.compiled.full if full else self.compiled.core)[component]
        a = self._a(equation, self.coefficients, ("a", component, full))
        sigma = self._sigma(equation, self.coefficients, u)
        if shift is not None:
            for b, i, j in equation.inverses:
                sigma[b][..., 0, i, j] -= shift
        return [inverses(x - y) for x, y in zip(a, sigma, strict=True)]

    def _pairs(self, component: int) -> list[tuple[int, Block, Array, Array, Array]]:
        """Per block: the scalar unknowns on it and their places (unknown, row)."""
        key = ("pairs", component)
        if key not in self._assembled:
            found = []
            pairs = self.system.components[component].pairs
            for b, (members, block) in enumerate(self.compiled.core[component].blocks):
                place = {k: a for a, k in enumerate(members)}
                own = [u for u, (k, _) in enumerate(pairs) if k in place]
                found.append(
                    (
                        b,
                        block,
                        np.array(own, dtype=int),
                        np.array([place[pairs[u][0]] for u in own], dtype=int),
                        np.array([place[pairs[u][1]] for u in own], dtype=int),
                    )
                )
            self._assembled[key] = found
        known: list[tuple[int, Block, Array, Array, Array]] = self._assembled[key]
        return known

    def count(self, component: int) -> int:
        return len(self.system.components[component].pairs)

    def phi(self, component: int, u: Array, shift: Any = None) -> tuple[Array, list[Array]]:
        """``Phi(u)`` and the inverses it came from."""
        inverses = self.inverses(component, u, shift=shift)
        value = self._zeros(self.count(component))
        for b, block, own, k, l in self._pairs(component):
            if len(own):
                value[..., own] = self._mean(block, inverses[b])[..., k, l]
        return value, inverses

    def residual(self, component: int, u: Array) -> Array:
        """``Phi(u) - u``."""
        return self.phi(component, u)[0] - u

    def shift_slope(self, component: int, inverses: list[Array]) -> Array:
        """``dPhi/dshift``."""
        value = self._zeros(self.count(component))
        for b, block, own, k, l in self._pairs(component):
            if not len(own):
                continue
            law = self._law(block)
            g = inverses[b]
            for tb, i, j in self.compiled.core[component].inverses:
                if tb == b:
                    product = g[..., k, i] * g[..., j, l]
                    value[..., own] -= (
                        product[..., 0, :]
                        if law is None
                        else np.tensordot(law[0], np.moveaxis(product, -2, 0), axes=(0, 0))
                    )
        return value

    def jacobian(self, component: int, inverses: list[Array]) -> Array:
        """``dPhi/du``."""
        count = self.count(component)
        value = self._zeros(count, count)
        terms = self.compiled.core[component].self_energy
        for b, block, own, k, l in self._pairs(component):
            if not len(own):
                continue
            law = self._law(block)
            g = inverses[b]
            for tb, i, j, c, unknown in terms:
                if tb != b:
                    continue
                product = g[..., k, i] * g[..., j, l]
                mean = (
                    product[..., 0, :]
                    if law is None
                    else np.tensordot(law[0], np.moveaxis(product, -2, 0), axes=(0, 0))
                )
                value[..., own, unknown] += np.asarray(self.coefficients[c])[..., None] * mean
        return value

    # -- limits -----------------------------------------------------------------------------

    def _monomial(self, block: Block, word: tuple[Any, ...]) -> Any:
        law = self._law(block)
        if law is None or not word:
            return None
        value: Any = 1
        for matrix in word:
            value = value * law[1][:, matrix.component]
        return value

    def _owner(self, component: int) -> dict[int, tuple[int, int, Block]]:
        return {
            k: (b, a, block)
            for b, (members, block) in enumerate(self.compiled.full[component].blocks)
            for a, k in enumerate(members)
        }

    def _entry(self, owner: Any, inverses: list[Array], k: int, l: int, word: Any) -> Any:
        """Mean over the law of ``word * G_kl``; None where sizes differ."""
        b, i, block = owner[k]
        other, j, _ = owner[l]
        if b != other:
            return None
        values = inverses[b][..., i, j]
        law = self._law(block)
        if law is None:
            return values[..., 0]
        monomial = self._monomial(block, word)
        weights = law[0] if monomial is None else law[0] * monomial
        return np.tensordot(weights, np.moveaxis(values, -1, 0), axes=(0, 0))

    def limits(self, us: Sequence[Array]) -> list[Any]:
        """The limits ``o_k`` at the solved unknowns of every component."""
        g = [self.inverses(component, u, full=True) for component, u in enumerate(us)]
        return [
            self._trace(output, limit.component, g[limit.component])
            if isinstance(output, _Trace)
            else self._bilinear(output, limit.component, g[limit.component])
            for limit, output in zip(self.system.limits, self.compiled.outputs, strict=True)
        ]

    def _trace(self, output: _Trace, component: int, g: list[Array]) -> Any:
        owner = self._owner(component)
        value: Any = 0
        for k, l, c, word in output.terms:
            entry = self._entry(owner, g, k, l, word)
            if entry is not None:
                value = value + self.coefficients[c] * entry
        return self.coefficients[output.constant] + self.coefficients[output.size] * value

    def _bilinear(self, output: _Bilinear, component: int, g: list[Array]) -> Any:
        k = output.count
        small = self._spikes(output, component, g)
        solution = -solutions(small[..., :k], small[..., k:])[..., 0]
        total: Any = self.coefficients[output.constant]
        for index, c in output.readout:
            total = total + self.coefficients[c] * solution[..., index]
        return total

    def spike_matrix(self, index: int, us: Sequence[Array]) -> Array:
        """``(C - V G U, V G b - r)`` of bilinear limit ``index``: (..., k, k + 1)."""
        output = self.compiled.outputs[index]
        if isinstance(output, _Trace):
            raise InputError(f"got limit {index}, a trace; only bilinear limits have spikes")
        component = self.system.limits[index].component
        return self._spikes(output, component, self.inverses(component, us[component], full=True))

    def _spikes(self, output: _Bilinear, component: int, g: list[Array]) -> Array:
        owner = self._owner(component)
        small = self._zeros(output.count, output.count + 1)
        gram = {(i, j): c for i, j, c in output.gram}
        for row, column, c in output.corner:
            small[..., row, column] += self.coefficients[c]
        for row, unknown, one, c, word in output.left:
            for source, other, column, d in output.right:
                if (one, other) not in gram:
                    continue
                entry = self._entry(owner, g, unknown, source, word)
                if entry is not None:
                    x, y, z = (self.coefficients[k] for k in (c, d, gram[one, other]))
                    small[..., row, column] -= x * y * z * entry
        return small
