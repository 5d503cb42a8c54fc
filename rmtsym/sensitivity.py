"""Derivatives of a limit in any parameter, the best parameter, and boundaries between regimes.

The programs of a system are run on numbers that carry their gradient. At a solution one step of
Newton's method in these numbers is the implicit function theorem: the unknowns' gradient comes out
exact, and with it that of every output. No differences are taken.

>>> from rmtsym.matrices import *
>>> from rmtsym.dyson import derive
>>> n, p = dimensions("n p")
>>> gamma, c = sp.symbols("gamma c", positive=True)
>>> Z = Gaussian("Z", p, n)
>>> system = derive(Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n, {n: 1, p: c})
>>> found = sensitivities(system, {gamma: 1, c: 1})
>>> {str(s): round(x, 12) for s, x in found.items()}
{'c': -0.27639320225, 'gamma': -0.4472135955}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy as sp

from rmtsym.compilation import CompiledSystem
from rmtsym.errors import InputError
from rmtsym.linalg import inverse
from rmtsym.programs import programs
from rmtsym.solver import bind, solve
from rmtsym.source import Numbers
from rmtsym.system import FixedPointSystem

Array = npt.NDArray[np.float64]


class Jet:
    """A number and its gradient."""

    __slots__ = ("slopes", "value")

    def __init__(self, value: Any, slopes: Any) -> None:
        self.value, self.slopes = value, slopes

    def _other(self, other: Any) -> Jet:
        return other if isinstance(other, Jet) else Jet(other, 0 * self.slopes)

    def __add__(self, other: Any) -> Jet:
        other = self._other(other)
        return Jet(self.value + other.value, self.slopes + other.slopes)

    __radd__ = __add__

    def __neg__(self) -> Jet:
        return Jet(-self.value, -self.slopes)

    def __sub__(self, other: Any) -> Jet:
        return self + (-self._other(other))

    def __rsub__(self, other: Any) -> Jet:
        return self._other(other) - self

    def __mul__(self, other: Any) -> Jet:
        other = self._other(other)
        return Jet(self.value * other.value, self.slopes * other.value + other.slopes * self.value)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Jet:
        other = self._other(other)
        ratio = self.value / other.value
        return Jet(ratio, (self.slopes - other.slopes * ratio) * (1 / other.value))

    def __rtruediv__(self, other: Any) -> Jet:
        return self._other(other) / self

    def __pow__(self, power: int) -> Jet:
        return Jet(self.value**power, self.slopes * (power * self.value ** (power - 1)))

    def __abs__(self) -> Any:
        return abs(self.value)

    def sqrt(self) -> Jet:
        # at 0 only polynomials of the root are met; its slope is left to them
        root = self.value**0.5
        return Jet(root, self.slopes * (0.5 / root if root else 0.0))

    def exp(self) -> Jet:
        value = np.exp(self.value)
        return Jet(value, self.slopes * value)

    def log(self) -> Jet:
        return Jet(np.log(self.value), self.slopes / self.value)


def _call(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(x, name)() if isinstance(x, Jet) else getattr(np, name)(x)


JETS = Numbers(
    "numbers with gradients",
    lambda p, q: p / q,
    _call("sqrt"),
    _call("exp"),
    _call("log"),
    np.pi,
    object,
)


def sensitivities(
    system: FixedPointSystem | CompiledSystem,
    values: Mapping[Any, Any],
    *,
    nonlinearities: Mapping[Any, Any] | None = None,
) -> dict[sp.Symbol, float]:
    """The derivative of the value in every parameter of the system, at one point.

    Hermite symbols (a_1, nu) are parameters like the others: each derivative holds the others
    fixed. Raises what :func:`rmtsym.solver.solve` raises.
    """
    return gradient(system, values, nonlinearities=nonlinearities)[1]


def gradient(
    system: FixedPointSystem | CompiledSystem,
    values: Mapping[Any, Any],
    *,
    nonlinearities: Mapping[Any, Any] | None = None,
) -> tuple[float, dict[sp.Symbol, float]]:
    """The value and its derivatives in every parameter."""
    found = programs(system)
    bound = bind(found.system, values, nonlinearities)
    solution = solve(found.system, bound, accuracy=1e-8)
    if np.ndim(solution.value):
        raise InputError("got arrays of parameters; sensitivities are taken at one point")
    numbers = [float(sp.sympify(x)) for x in found.arguments(bound)]
    unit = np.eye(len(numbers))
    x = {
        s: Jet(number, unit[i])
        for i, (s, number) in enumerate(zip(found.parameters, numbers, strict=True))
    }
    k = found.coefficients(x, JETS)
    calls = {"mean": k.mean, "inverse": inverse}
    vs = []
    for core, u in zip(found.cores, solution.unknowns, strict=True):
        v = [Jet(float(u[place]), 0 * unit[0]) for place in core.kept]
        for _ in range(2):
            flat = core.step(v, k.a, k.s, k.l, **calls)
            v = [one + change for one, change in zip(v, flat[core.count :], strict=True)]
        vs.append(v)
    value = found.value(x, vs, JETS, k)
    slopes = value.slopes if isinstance(value, Jet) else unit[0] * 0
    return float(solution.value), {
        s: float(d) for s, d in zip(found.parameters, slopes, strict=True)
    }


def best(
    system: FixedPointSystem | CompiledSystem,
    values: Mapping[Any, Any],
    variable: sp.Symbol,
    low: float,
    high: float,
    *,
    nonlinearities: Mapping[Any, Any] | None = None,
) -> tuple[float, float]:
    """Where the value is least for ``variable`` in [low, high] (> 0), and the value there.

    The zero of the derivative, located on a logarithmic grid of 33 points; an end of the interval
    where the value is monotone.
    """
    from scipy.optimize import brentq

    if not 0 < low < high < np.inf:
        raise InputError(f"got the interval [{low}, {high}]; expected 0 < low < high")
    bound = bind(programs(system).system, {**values, variable: low}, nonlinearities)
    grid = np.geomspace(low, high, 33)
    curve = np.asarray(solve(system, {**bound, variable: grid}).value)
    place = int(np.argmin(curve))
    if place in (0, len(grid) - 1):
        return float(grid[place]), float(curve[place])

    def slope(x: float) -> float:
        return gradient(system, {**bound, variable: float(np.exp(x))})[1][variable]

    ends = np.log(grid[place - 1]), np.log(grid[place + 1])
    found = float(np.exp(brentq(slope, *ends, xtol=1e-13)))
    return found, float(solve(system, {**bound, variable: found}).value)


# -- boundaries -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ZeroSet:
    """``difference`` on the grid (y, x), and the curves on which it vanishes, (points, 2) each."""

    x: Array
    y: Array
    difference: Array
    boundary: tuple[Array, ...]


def zero_set(
    difference: Callable[[Array, Array], Any], x: Any, y: Any, *, steps: int = 48
) -> ZeroSet:
    """Where a function of two parameters is positive, negative, and zero.

    difference : takes arrays of x and y of one shape, for instance attention's error minus
        regression's. x, y : increasing grids; crossings between neighbours are refined along the
        grid lines by bisection, all at once, to the last digit.

    >>> x = y = np.linspace(-2, 2, 9)
    >>> found = zero_set(lambda x, y: x**2 + y**2 - 2, x, y)
    >>> len(found.boundary), bool(np.allclose((found.boundary[0] ** 2).sum(axis=1), 2))
    (1, True)
    """
    xs, ys = np.asarray(x, float), np.asarray(y, float)
    for name, grid in (("x", xs), ("y", ys)):
        if grid.ndim != 1 or len(grid) < 2 or not np.all(np.diff(grid) > 0):
            raise InputError(f"got {name} that is not an increasing grid of two points or more")
    mesh = np.meshgrid(xs, ys)
    table = np.asarray(difference(*mesh), dtype=float)
    positive = table > 0
    finite = np.isfinite(table)
    edges = []
    for axis in (0, 1):
        one, other = _sides(positive, axis)
        good = np.logical_and(*_sides(finite, axis))
        for row, column in np.argwhere((one != other) & good):
            edges.append((axis, int(row), int(column)))
    points = _crossings(difference, xs, ys, table, edges, steps)
    return ZeroSet(xs, ys, table, _chains(dict(zip(edges, points, strict=True)), table))


def _sides(table: Any, axis: int) -> tuple[Any, Any]:
    return (table[:-1], table[1:]) if axis == 0 else (table[:, :-1], table[:, 1:])


def _crossings(
    difference: Callable[[Array, Array], Any],
    xs: Array,
    ys: Array,
    table: Array,
    edges: Sequence[tuple[int, int, int]],
    steps: int,
) -> Array:
    if not edges:
        return np.empty((0, 2))
    a = np.array([[xs[j], ys[i]] for _, i, j in edges])
    b = np.array([[xs[j + (axis == 1)], ys[i + (axis == 0)]] for axis, i, j in edges])
    sign = np.array([table[i, j] > 0 for _, i, j in edges])
    for _ in range(steps):
        middle = (a + b) / 2
        same = (np.asarray(difference(middle[:, 0], middle[:, 1])) > 0) == sign
        a, b = np.where(same[:, None], middle, a), np.where(same[:, None], b, middle)
    return np.asarray((a + b) / 2)


def _chains(points: Mapping[tuple[int, int, int], Array], table: Array) -> tuple[Array, ...]:
    """Crossings joined through the cells they bound; a saddle is cut by the mean of its corners."""
    links: dict[Any, list[Any]] = {edge: [] for edge in points}
    for i in range(table.shape[0] - 1):
        for j in range(table.shape[1] - 1):
            around = [(1, i, j), (0, i, j + 1), (1, i + 1, j), (0, i, j)]
            own = [edge for edge in around if edge in points]
            if len(own) == 4:
                mean = float(np.mean(table[i : i + 2, j : j + 2]))
                turn = (mean > 0) == (table[i, j] > 0)
                pairs = [(0, 1), (2, 3)] if turn else [(3, 0), (1, 2)]
                joined = [(around[s], around[t]) for s, t in pairs]
            else:
                joined = [(own[0], own[1])] if len(own) == 2 else []
            for one, other in joined:
                links[one].append(other)
                links[other].append(one)
    found, seen = [], set()
    for start in sorted(links, key=lambda edge: (len(links[edge]) != 1, edge)):
        if start in seen:
            continue
        chain, here = [], start
        while here is not None and here not in seen:
            seen.add(here)
            chain.append(points[here])
            here = next((edge for edge in links[here] if edge not in seen), None)
        if start in links.get(_last(links, seen, chain, points), []) and len(chain) > 2:
            chain.append(chain[0])
        found.append(np.array(chain))
    return tuple(found)


def _last(links: Any, seen: Any, chain: list[Any], points: Any) -> Any:
    return next(edge for edge in seen if points[edge] is chain[-1])
