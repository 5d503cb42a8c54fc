r"""The Stieltjes transform of a self-adjoint expression H.

    m(z) = lim (1/n) tr (H - z)^{-1}

The solver follows the physical branch down in Im z; on the real axis z is raised by 1e-14 of its
size. Where the system has a polynomial that is found at once (Marchenko-Pastur, semicircle), its
root is followed instead, from one solution high above the real axis: no step is longer than half
the height it starts from, so the path stays where m is analytic, and ends on the real axis itself.

>>> from rmtsym.matrices import *
>>> n, p = dimensions("n p")
>>> Z = Gaussian("Z", p, n)
>>> m = stieltjes_transform(Z.T * Z / n, {n: 1, p: 1})
>>> print(round(m(-1).real, 12))
0.61803398875
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import sympy as sp

from rmtsym.bands import MISSED
from rmtsym.compilation import CompiledSystem, Point, by_symbol, compile_system
from rmtsym.dyson import fixed_point
from rmtsym.elimination import polynomial
from rmtsym.errors import ConvergenceError, InputError, RmtsymError, UnsupportedError
from rmtsym.linalg import Array
from rmtsym.linearization import linearize
from rmtsym.matrices import Identity, Matrix, Trace, Vector, inner
from rmtsym.pencil import Pencil, Readout, build
from rmtsym.rewriting import is_symmetric
from rmtsym.solver import Solution, bind, solve
from rmtsym.system import FixedPointSystem

__all__ = ["StieltjesTransform", "stieltjes_transform"]

Z_SYMBOL = sp.Symbol("z")


def resolvent(H: Matrix) -> Matrix:
    size = H.shape[0]
    if H.shape[0] != H.shape[1]:
        raise InputError(f"got a matrix of shape {H.shape}; a spectrum takes a square one")
    if not is_symmetric(H):
        raise UnsupportedError(
            f"got {H}, which is not its own transpose; densities are those of self-adjoint matrices"
        )
    return cast(Matrix, (H + (-Z_SYMBOL) * Identity(size)).inverse())


def trace_system(H: Matrix, sizes: Mapping[Any, Any] | None) -> FixedPointSystem:
    """``(1/n) tr (H - z)^{-1}``, and as a second limit the small matrix of the low-rank terms."""
    linearization = build(linearize(Trace(resolvent(H)) / H.shape[0], spikes=True))
    pencil = linearization.pencils[0]
    spikes = Pencil(pencil.sizes, pencil.entries, (), Readout((), sp.Integer(0)), pencil.inverses)
    if any(size == 1 for size in pencil.sizes):
        linearization = replace(
            linearization,
            symbols=(*linearization.symbols, sp.Symbol("o_2")),
            pencils=(*linearization.pencils, spikes),
        )
    return fixed_point(linearization, sizes)


class Follower:
    """The unknowns of a system at many z."""

    def __init__(
        self, compiled: CompiledSystem, values: Mapping[Any, Any], unit: float = 1.0
    ) -> None:
        self.compiled = compiled
        self.values = {s: values[s] for s in compiled.parameters if s != Z_SYMBOL}
        self.unit = unit
        self.starts: dict[float, tuple[Array, ...]] = {}

    def start(self, height: float) -> tuple[Array, ...]:
        """The solution at ``i * height``, by continuation in the randomness."""
        if height not in self.starts:
            solution = solve(self.compiled, {**self.values, Z_SYMBOL: 1j * height})
            self.starts[height] = solution.unknowns
        return self.starts[height]

    def point(self, z: Array) -> Point:
        return self.compiled.at({**self.values, Z_SYMBOL: z.astype(complex)})

    def height(self, z: Array) -> float:
        """A power of two above the unit and all z: few starting points for many calls."""
        return float(2.0 ** np.ceil(np.log2(2 * max(self.unit, float(np.max(np.abs(z)))))))

    def raised(self, z: Array) -> Array:
        """z, a hair above the real axis at least: 1e-14 of its size."""
        hair = np.maximum(1e-14 * np.abs(z.real), 1e-16 * self.height(z))
        return np.asarray(z.real + 1j * np.maximum(z.imag, hair))

    def solution(self, z: Array) -> Solution:
        """The system at z (Im z >= 0, shape (k,)); nan where it was lost."""
        at = {**self.values, Z_SYMBOL: self.raised(z)}
        return solve(self.compiled, at, accuracy=1e-6, strict=False)

    def __call__(self, z: Array) -> tuple[Point, list[Array]]:
        """The system at z and its unknowns, one array per component."""
        return self.point(self.raised(z)), list(self.solution(z).unknowns)


def _lower(heights: Array, goal: Array, top: float) -> Array:
    """Half the height, down to 1e-10 of the top, then the goal itself."""
    lower = np.where(heights < 1e-10 * top, 0, heights / 2)
    return np.maximum(lower, goal)


class _Polynomial:
    """m as a root of P(m, z), followed by Newton's method with Horner's rule."""

    def __init__(self, expression: sp.Expr, m: sp.Symbol, values: Mapping[Any, Any]) -> None:
        exact = {s: sp.nsimplify(v, rational=True) for s, v in values.items()}
        poly = sp.Poly(expression.subs(exact), m)
        self.coefficients = [
            np.array(sp.Poly(c, Z_SYMBOL).all_coeffs(), dtype=float) for c in poly.all_coeffs()
        ]

    def newton(self, m: Array, z: Array, tolerance: float, steps: int) -> Array:
        heads = [_horner(c, z) for c in self.coefficients]
        for _ in range(steps):
            value, slope = heads[0], np.zeros_like(z)
            for head in heads[1:]:
                slope = slope * m + value
                value = value * m + head
            update = value / slope
            m = m - update
            if np.max(np.abs(update) / np.abs(m)) < tolerance:
                break
        return m

    def __call__(self, z: Array, start: complex, height: float) -> Array:
        x, goal = z.real, z.imag
        heights = np.full(len(z), height)
        here = x + 1j * heights
        # 1/m is close to linear: exactly so for a single pole, and -1/m maps upper to upper.
        inverse = 1 / self.newton(1 / (1 / start - x), here, 1e-4, 12)
        slope = np.full(len(z), -1j)
        with np.errstate(all="ignore"):
            while np.any(heights > goal):
                lower = _lower(heights, goal, height)
                last = bool(np.all(lower <= goal))
                change = lower - heights
                guess = 1 / (inverse + change * slope)
                found = 1 / self.newton(guess, x + 1j * lower, *((1e-15, 6) if last else (1e-2, 6)))
                slope = np.where(change != 0, (found - inverse) / change, slope)
                inverse, heights = found, lower
        return 1 / inverse


def _horner(coefficients: Array, z: Array) -> Any:
    value: Any = np.full(z.shape, coefficients[0], dtype=complex)
    for c in coefficients[1:]:
        value = value * z + c
    return value


class StieltjesTransform:
    """``m(z) = (1/n) tr (H - z)^{-1}`` in the limit, at complex z of any shape.

    Below the real axis ``m(conj z) = conj m(z)``; on it, the limit from above. Beyond ``radius``
    lies less than 1e-7 of the spectrum; ``scale`` is its root mean square, roughly.
    """

    def __init__(self, system: FixedPointSystem, values: Mapping[Any, Any]) -> None:
        self.system = system
        self.follower = Follower(compile_system(_without_spikes(system)), values)
        symbol = system.linearization.symbols[0]
        self.factor = float(system.formula.subs(symbol, 1).subs(self.follower.values))
        self.polynomial: _Polynomial | None = None
        if len(system.unknowns) <= 3 and not any(
            block.law for c in system.components for block in c.core.blocks
        ):
            m = sp.Symbol("_m")
            at = {**self.follower.values, Z_SYMBOL: -10}
            try:
                found = polynomial(_without_spikes(system), "value", m, at=at)
                self.polynomial = _Polynomial(found, m, self.follower.values)
            except RmtsymError:
                self.polynomial = None
        self.radius = self._radius()
        self.scale = self.follower.unit = self.radius * math.sqrt(MISSED / 2)
        self.spikes = Follower(compile_system(system), values, self.scale)

    def _radius(self) -> float:
        def holds_all(radius: float) -> bool:
            """``Re (1 + iR m(iR)) = int x^2/(x^2 + R^2)`` is half the mass beyond R at least."""
            self.follower.unit = radius
            return bool(np.real(1 + 1j * radius * self(1j * radius)) < MISSED / 2)

        radius = 1.0
        while holds_all(radius):
            radius /= 8
            if radius < 1e-100:
                raise ConvergenceError("all but 1e-7 of the spectrum is an atom at 0")
        while not holds_all(radius):
            radius *= 2
            if radius > 1e100:
                raise ConvergenceError("the spectrum has no finite scale")
        return radius

    def __call__(self, z: Any) -> Any:
        given = np.asarray(z, dtype=complex)
        if not np.all(np.isfinite(given)):
            raise InputError("got z with entries that are not finite")
        if not given.size:
            return given
        flat = given.ravel()
        upper = np.where(flat.imag < 0, flat.conj(), flat)
        if self.polynomial is None:
            m = np.broadcast_to(self.follower.solution(upper).value, flat.shape)
        else:
            height = self.follower.height(upper)
            start = self.follower.start(height)
            single = self.follower.point(np.array([1j * height]))
            m0 = self.factor * complex(np.ravel(single.limits([u[None] for u in start])[0])[0])
            m = self.polynomial(upper, m0, height)
        if not np.all(np.isfinite(m)):
            bad = flat[~np.isfinite(m)][0]
            raise ConvergenceError(f"m(z) was lost on the way down to z = {bad}")
        m = np.where(flat.imag < 0, m.conj(), m).reshape(given.shape)
        return m if given.ndim else complex(m)


def _without_spikes(system: FixedPointSystem) -> FixedPointSystem:
    """The system without its second limit (the spikes), its value the transform itself."""
    linearization = system.linearization
    return replace(
        system,
        linearization=replace(
            linearization, symbols=linearization.symbols[:1], pencils=linearization.pencils[:1]
        ),
        limits=system.limits[:1],
        components=system.components[: system.limits[0].component + 1],
    )


def parameter_values(
    system: FixedPointSystem,
    values: Mapping[Any, Any] | None,
    vectors: Mapping[Vector, Any] | None,
    nonlinearities: Mapping[Any, Any] | None,
) -> dict[Any, Any]:
    """A number for every parameter but z."""
    found = by_symbol(system, values or {})
    for key in values or {}:
        if isinstance(key, str) and key not in map(str, system.parameters):
            names = ", ".join(str(s) for s in system.parameters if s != Z_SYMBOL)
            raise InputError(f"got a value for {key}; this spectrum has the parameters {names}")
    items = [(v, np.atleast_1d(np.asarray(x, float))) for v, x in (vectors or {}).items()]
    for position, (u, x) in enumerate(items):
        for v, y in items[position:]:
            if u.size == v.size:
                size = max(len(x), len(y))
                padded = [np.pad(w, (0, size - len(w))) for w in (x, y)]
                found[inner(u, v)] = float(padded[0] @ padded[1])
    by_name = {str(s): s for s in system.parameters}
    found = {by_name.get(str(k), k): v for k, v in found.items()}
    full = bind(system, found, nonlinearities)
    missing = [s for s in system.parameters if s not in full and s != Z_SYMBOL]
    if missing:
        raise InputError(f"got no value for {', '.join(map(str, missing))}; give it in values={{}}")
    return {s: complex(full[s]).real for s in system.parameters if s != Z_SYMBOL}


def stieltjes_transform(
    H: Matrix,
    sizes: Mapping[Any, Any] | None = None,
    values: Mapping[Any, Any] | None = None,
    *,
    vectors: Mapping[Vector, Any] | None = None,
    nonlinearities: Mapping[Any, Any] | None = None,
) -> StieltjesTransform:
    """The Stieltjes transform of a self-adjoint expression, ready to be called.

    ``sizes`` relative sizes, ``{n: 1, p: c}``; ``values`` numbers for all symbols.
    """
    system = trace_system(H, sizes)
    return StieltjesTransform(system, parameter_values(system, values, vectors, nonlinearities))
