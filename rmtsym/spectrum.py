r"""Spectra of self-adjoint expressions: Stieltjes transform, density, edges, atoms, outliers.

    m(z) = lim (1/n) tr (H - z)^{-1},    rho(x) = Im m(x + i0) / pi.

The solver follows the physical branch down in Im z; on the real axis z is raised by 1e-10 of its
size. Where the system has a polynomial that is found at once (Marchenko-Pastur, semicircle), its
root is followed instead, from one solution high above the real axis: no step is longer than half
the height it starts from, so the path stays where m is analytic, and ends on the real axis itself.

Low-rank terms leave rho alone and add isolated eigenvalues: the zeros, off the support, of the
determinant of the small matrix ``C - V G(z) U``. A unit vector v overlaps with the eigenvector by
``-Res v^T (H - z)^{-1} v``.

Source: F. Benaych-Georges and R. R. Nadakuditi, Adv. Math. 227 (2011) (outliers).

>>> from rmtsym.matrices import *
>>> n, p = dimensions("n p")
>>> Z = Gaussian("Z", p, n)
>>> m = stieltjes_transform(Z.T * Z / n, {n: 1, p: 1})
>>> print(round(m(-1).real, 12))
0.61803398875
>>> print(spectrum(Z.T * Z / p, {n: 1, p: sp.Rational(1, 4)}))
atoms: 0 (mass 0.75)
support: [1, 9]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import sympy as sp

from rmtsym.algebra import Inverse, Product, Scaled, Sum, Transpose
from rmtsym.compilation import CompiledSystem, Point, compile_system
from rmtsym.dyson import derive, fixed_point
from rmtsym.elimination import polynomial
from rmtsym.errors import ConvergenceError, InputError, RmtsymError, UnsupportedError
from rmtsym.linearization import linearize
from rmtsym.matrices import (
    Deterministic,
    Entrywise,
    Identity,
    Matrix,
    OffDiagonal,
    Trace,
    Vector,
    inner,
)
from rmtsym.pencil import Pencil, Readout, build
from rmtsym.rewriting import is_symmetric, walk
from rmtsym.simulation import sampled_model
from rmtsym.solver import Solution, bind, solve
from rmtsym.system import BilinearOutput, FixedPointSystem

__all__ = [
    "Outlier",
    "Spectrum",
    "StieltjesTransform",
    "draw",
    "eigenvalues",
    "resolvent_matrix",
    "spectrum",
    "stieltjes_transform",
]

Array = npt.NDArray[Any]
Z_SYMBOL = sp.Symbol("z")


@dataclass(frozen=True)
class Outlier:
    """An isolated eigenvalue and the squared overlaps of its unit eigenvector with the signals."""

    location: float
    overlaps: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """``atoms``: (location, mass); ``support``: intervals of the density; ``grid``, ``density``."""

    atoms: tuple[tuple[float, float], ...]
    support: tuple[tuple[float, float], ...]
    outliers: tuple[Outlier, ...]
    grid: Array
    density: Array

    def __str__(self) -> str:
        lines = []
        if self.atoms:
            lines.append("atoms: " + ", ".join(f"{x:.6g} (mass {w:.6g})" for x, w in self.atoms))
        bands = ", ".join(f"[{a:.6g}, {b:.6g}]" for a, b in self.support)
        lines.append("support: " + (bands or "none (atoms only)"))
        for outlier in self.outliers:
            overlaps = ", ".join(f"|<{v}, .>|^2 = {x:.6g}" for v, x in outlier.overlaps.items())
            lines.append(f"outlier: {outlier.location:.6g}" + (f" ({overlaps})" * bool(overlaps)))
        return "\n".join(lines)


def _resolvent(H: Matrix) -> Matrix:
    size = H.shape[0]
    if H.shape[0] != H.shape[1]:
        raise InputError(f"got a matrix of shape {H.shape}; a spectrum takes a square one")
    if not is_symmetric(H):
        raise UnsupportedError(
            f"got {H}, which is not its own transpose; densities are those of self-adjoint matrices"
        )
    return cast(Matrix, (H + (-Z_SYMBOL) * Identity(size)).inverse())


def resolvent_matrix(expression: Matrix) -> Matrix:
    """The H of the first resolvent ``(H + s I)^{-1}`` in an expression.

    >>> from rmtsym.models import MODELS
    >>> print(resolvent_matrix(MODELS["marchenko-pastur"].expression))
    1/n*X'*X
    """
    for node in walk(expression):
        if isinstance(node, Inverse) and isinstance(node.operand, Sum):
            rest = [t for t in node.operand.terms if not _is_ridge(t)]
            if 0 < len(rest) < len(node.operand.terms):
                return Sum.of(*rest) if len(rest) > 1 else rest[0]
    raise InputError(f"got {expression}, which holds no resolvent (H + s*Identity(n)).inverse()")


def _is_ridge(term: Matrix) -> bool:
    return isinstance(term.operand if isinstance(term, Scaled) else term, Identity)


def _trace_system(H: Matrix, sizes: Mapping[Any, Any] | None) -> FixedPointSystem:
    """``(1/n) tr (H - z)^{-1}``, and as a second limit the small matrix of the low-rank terms."""
    linearization = build(linearize(Trace(_resolvent(H)) / H.shape[0], spikes=True))
    pencil = linearization.pencils[0]
    spikes = Pencil(pencil.sizes, pencil.entries, (), Readout((), sp.Integer(0)), pencil.inverses)
    if any(size == 1 for size in pencil.sizes):
        linearization = replace(
            linearization,
            symbols=(*linearization.symbols, sp.Symbol("o_2")),
            pencils=(*linearization.pencils, spikes),
        )
    return fixed_point(linearization, sizes)


class _Follower:
    """The unknowns of a system at many z."""

    def __init__(self, compiled: CompiledSystem, values: Mapping[Any, Any]) -> None:
        self.compiled = compiled
        self.values = {s: values[s] for s in compiled.parameters if s != Z_SYMBOL}
        self.starts: dict[float, tuple[Array, ...]] = {}

    def start(self, height: float) -> tuple[Array, ...]:
        """The solution at ``i * height``, by continuation in the randomness."""
        if height not in self.starts:
            solution = solve(self.compiled, {**self.values, Z_SYMBOL: 1j * height})
            self.starts[height] = solution.unknowns
        return self.starts[height]

    def point(self, z: Array) -> Point:
        return self.compiled.at({**self.values, Z_SYMBOL: z.astype(complex)})

    def solution(self, z: Array) -> Solution:
        """The system at z (Im z >= 0, shape (k,)); nan where it was lost."""
        raised = _raised(z)
        return solve(self.compiled, {**self.values, Z_SYMBOL: raised}, accuracy=1e-6, strict=False)

    def __call__(self, z: Array) -> tuple[Point, list[Array]]:
        """The system at z and its unknowns, one array per component."""
        return self.point(_raised(z)), list(self.solution(z).unknowns)


def _raised(z: Array) -> Array:
    """z, a hair above the real axis at least: 1e-10 of its size."""
    hair = np.maximum(1e-10 * np.abs(z.real), 1e-16 * _height(z))
    return np.asarray(z.real + 1j * np.maximum(z.imag, hair))


def _height(z: Array) -> float:
    """A power of two above the size of all z: few starting points for many calls."""
    return float(2.0 ** np.ceil(np.log2(2 * max(1.0, float(np.max(np.abs(z)))))))


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

    Below the real axis ``m(conj z) = conj m(z)``; on it, the limit from above.
    """

    def __init__(self, system: FixedPointSystem, values: Mapping[Any, Any]) -> None:
        self.system = system
        self.follower = _Follower(compile_system(replace_formula(system)), values)
        self.spikes = _Follower(compile_system(system), values)
        symbol = system.linearization.symbols[0]
        self.scale = float(system.formula.subs(symbol, 1).subs(self.follower.values))
        self.polynomial: _Polynomial | None = None
        if len(system.unknowns) <= 3 and not any(
            block.law for c in system.components for block in c.core.blocks
        ):
            m = sp.Symbol("_m")
            at = {**self.follower.values, Z_SYMBOL: -10}
            try:
                found = polynomial(replace_formula(system), "value", m, at=at)
                self.polynomial = _Polynomial(found, m, self.follower.values)
            except RmtsymError:
                self.polynomial = None

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
            height = _height(upper)
            start = self.follower.start(height)
            single = self.follower.point(np.array([1j * height]))
            m0 = self.scale * complex(np.ravel(single.limits([u[None] for u in start])[0])[0])
            m = self.polynomial(upper, m0, height)
        if not np.all(np.isfinite(m)):
            bad = flat[~np.isfinite(m)][0]
            raise ConvergenceError(f"m(z) was lost on the way down to z = {bad}")
        m = np.where(flat.imag < 0, m.conj(), m).reshape(given.shape)
        return m if given.ndim else complex(m)


def replace_formula(system: FixedPointSystem) -> FixedPointSystem:
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


def _values(
    system: FixedPointSystem,
    values: Mapping[Any, Any] | None,
    vectors: Mapping[Vector, Any] | None,
    nonlinearities: Mapping[Any, Any] | None,
) -> dict[Any, Any]:
    found = {sp.Symbol(k) if isinstance(k, str) else k: v for k, v in (values or {}).items()}
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
    system = _trace_system(H, sizes)
    return StieltjesTransform(system, _values(system, values, vectors, nonlinearities))


def spectrum(
    H: Matrix,
    sizes: Mapping[Any, Any] | None = None,
    values: Mapping[Any, Any] | None = None,
    *,
    vectors: Mapping[Vector, Any] | None = None,
    nonlinearities: Mapping[Any, Any] | None = None,
    signals: Sequence[Vector] = (),
    points: int = 400,
) -> Spectrum:
    """Density, edges, atoms and outliers of a self-adjoint expression.

    Parameters
    ----------
    vectors : coordinates of the vectors of H in one orthonormal basis per space.
    signals : vectors of H's space whose overlaps with the outliers' eigenvectors are wanted.
    points : number of grid points over the support.

    Bands and gaps narrower than 1/2000 of the support can be missed.
    """
    m = stieltjes_transform(H, sizes, values, vectors=vectors, nonlinearities=nonlinearities)
    support = _support(m)
    atoms = _atoms(m, support)
    pieces = [_chebyshev(a, b, points) for a, b in support]
    grid = np.unique(np.concatenate(pieces)) if pieces else np.zeros(0)
    density = np.maximum(np.imag(m(grid)), 0) / np.pi
    locations = _outliers(m, support)
    overlaps: list[dict[str, float]] = [{} for _ in locations]
    known = _values(m.system, values, vectors, nonlinearities)
    for v in signals:
        found = _overlaps(H, v, sizes, known, locations, support, vectors)
        for entry, value in zip(overlaps, found, strict=True):
            entry[v.name] = value
    outliers = tuple(Outlier(x, o) for x, o in zip(locations, overlaps, strict=True))
    return Spectrum(atoms, support, outliers, grid, density)


def _chebyshev(a: float, b: float, count: int) -> Array:
    angles = (np.arange(count) + 0.5) * np.pi / count
    return (a + b) / 2 - (b - a) / 2 * np.cos(angles)


def _inside(m: StieltjesTransform, x: Array) -> Array:
    value = m(x)
    return cast(Array, np.abs(value.imag) > 1e-6 * np.abs(value))


def _scale(m: StieltjesTransform) -> float:
    """The size of the spectrum: the root mean square of H, from m far out on the imaginary axis."""
    radius = 1.0
    while abs(1j * radius * m(1j * radius) + 1) > 0.03:
        radius *= 2
        if radius > 1e30:
            raise ConvergenceError("the spectrum has no finite scale")
    return radius * 0.06


def _support(m: StieltjesTransform) -> tuple[tuple[float, float], ...]:
    scale = _scale(m)
    away = scale * 10 ** np.linspace(-7, 2.2, 1200)
    grid = np.concatenate([-away[::-1], away])
    inside = _inside(m, grid)
    if not np.any(inside):
        return ()
    reach = float(np.max(np.abs(grid[inside])))
    low, high = float(grid[inside][0]), float(grid[inside][-1])
    width = high - low + 1e-2 * reach
    fine = np.linspace(low - 0.05 * width, high + 0.05 * width, 2000)
    grid = np.concatenate([grid, fine])
    order = np.argsort(grid)
    grid, inside = grid[order], np.concatenate([inside, _inside(m, fine)])[order]
    changes = np.flatnonzero(inside[1:] != inside[:-1])
    below, above = grid[changes].copy(), grid[changes + 1].copy()
    starts = inside[changes]
    for _ in range(44):
        middle = below + 0.49 * (above - below)  # never exactly 0, where m may be infinite
        same = _inside(m, middle) == starts
        below, above = np.where(same, middle, below), np.where(same, above, middle)
    edges = [0.0 if abs(e) < 1e-8 * reach else float(e) for e in (below + above) / 2]
    bands = zip(edges[::2], edges[1::2], strict=True)
    return tuple((a, b) for a, b in bands if b - a > 1e-6 * reach)


def _atoms(
    m: StieltjesTransform, support: tuple[tuple[float, float], ...]
) -> tuple[tuple[float, float], ...]:
    """Where ``eta Im m(x + i eta)`` has a limit: at 0, and wherever mass is missing."""
    scale = max((max(abs(a), abs(b)) for a, b in support), default=_scale(m))

    def mass(x: float, heights: tuple[float, float] = (1e-6, 1e-8)) -> float:
        high, low = (eta * m(x + 1j * eta).imag for eta in scale * np.array(heights))
        return float(low) if low > 0.9 * high and low > 1e-6 else 0.0

    found = [(0.0, mass(0.0))] if mass(0.0) else []
    total = sum(w for _, w in found) + sum(_mass(m, a, b) for a, b in support)
    if total < 1 - 1e-2:
        width = scale / 200
        grid = np.arange(-1.5 * scale, 1.5 * scale, width / 2)
        height = width * np.imag(m(grid + 1j * width))
        peaks = np.flatnonzero(
            (height[1:-1] >= height[:-2]) & (height[1:-1] > height[2:]) & (height[1:-1] > 5e-3)
        )
        for x in grid[peaks + 1]:
            x = _pole(m, float(x), width)
            weight = mass(x, (1e-3, 1e-4))
            if weight and all(abs(x - y) > width for y, _ in found):
                found.append((float(f"{x:.5g}"), float(f"{weight:.4g}")))
    return tuple(sorted((x, _rounded(w)) for x, w in found))


def _rounded(value: float) -> float:
    return float(f"{value:.7g}")


def _mass(m: StieltjesTransform, a: float, b: float) -> float:
    angles = (np.arange(400) + 0.5) * np.pi / 400
    density = np.imag(m((a + b) / 2 - (b - a) / 2 * np.cos(angles))) / np.pi
    return float(np.sum(density * np.sin(angles)) * (b - a) / 2 * np.pi / 400)


def _pole(m: StieltjesTransform, x: float, width: float) -> float:
    """The zero of 1/m near x, by secants at a falling height."""
    for height in width * 4.0 ** -np.arange(6):
        value = 1 / m(np.array([x - height / 2, x, x + height / 2]) + 1j * height)
        slope = (value[2] - value[0]) / height
        x = float(np.real(x + 1j * height - value[1] / slope))
    return x


def _spike_determinant(m: StieltjesTransform, x: Array) -> Array:
    """det (C - V G U) at real x off the support, scaled to 1 at infinity; nan inside."""
    (index,) = (k for k, o in enumerate(m.system.limits) if isinstance(o, BilinearOutput))
    limit = m.system.limits[index]
    assert isinstance(limit, BilinearOutput)
    point, us = m.spikes(x.astype(complex))
    small = point.spike_matrix(index, us)[..., : limit.count]
    return cast(Array, np.linalg.det(small))


def _outliers(m: StieltjesTransform, support: tuple[tuple[float, float], ...]) -> tuple[float, ...]:
    if not support or not any(isinstance(o, BilinearOutput) for o in m.system.limits):
        return ()
    from scipy.optimize import brentq

    scale = max(b for _, b in support) - min(a for a, _ in support)
    away = scale * np.concatenate([10 ** np.linspace(-7, 0, 200), 10 ** np.linspace(0, 4, 200)[1:]])
    pieces = [support[0][0] - away[::-1], support[-1][1] + away]
    for (_, a), (b, _) in pairwise(support):
        angles = (np.arange(300) + 0.5) * np.pi / 300
        pieces.append((a + b) / 2 - (b - a) / 2 * np.cos(angles))
    found = []
    for piece in pieces:
        value = _spike_determinant(m, piece)
        real = np.where(np.abs(value.imag) < 1e-6 * np.abs(value) + 1e-12, value.real, np.nan)
        with np.errstate(invalid="ignore"):
            jumps = np.flatnonzero(real[1:] * real[:-1] < 0)
        for jump in jumps:
            x = brentq(
                lambda x: float(_spike_determinant(m, np.array([x]))[0].real),
                piece[jump],
                piece[jump + 1],
                xtol=1e-13 * scale,
            )
            if abs(_spike_determinant(m, np.array([x]))[0]) < 1:  # a zero, not a pole
                found.append(float(x))
    return tuple(sorted(found))


def _overlaps(
    H: Matrix,
    v: Vector,
    sizes: Mapping[Any, Any] | None,
    known: Mapping[Any, Any],
    locations: Sequence[float],
    support: tuple[tuple[float, float], ...],
    vectors: Mapping[Vector, Any] | None,
) -> list[float]:
    """``-Res v^T (H - z)^{-1} v / v.v`` by the trapezoidal rule on a circle."""
    if not locations:
        return []
    system = derive(v.T * _resolvent(H) * v / inner(v, v), sizes)
    numbers = _values(system, known, vectors, None)
    follower = _Follower(compile_system(system), numbers)
    scale = float(system.formula.subs(system.linearization.symbols[0], 1).subs(numbers))
    marks = [x for edges in support for x in edges]
    found = []
    for x in locations:
        gap = min(abs(x - y) for y in [*marks, *(y for y in locations if y != x)])
        angles = (np.arange(24) + 0.5) * np.pi / 24
        z = x + 0.5 * gap * np.exp(1j * angles)
        point, us = follower(z)
        value = np.asarray(point.limits(us)[0])
        found.append(-scale * float(np.mean((value * (z - x)).real)))
    return found


def eigenvalues(
    H: Matrix,
    *,
    sizes: Mapping[Any, int],
    values: Mapping[Any, Any] | None = None,
    vectors: Mapping[Any, Any] | None = None,
    nonlinearities: Mapping[Any, Any] | None = None,
    seed: int = 0,
) -> Array:
    """All eigenvalues, sorted, of the expression on one sample (matrices of :func:`simulate`)."""
    _resolvent(H)
    model, _ = sampled_model(
        Trace(H) / H.shape[0],
        sizes=sizes,
        values=values,
        vectors=vectors,
        nonlinearities=nonlinearities,
        seed=seed,
    )
    numbers = {**dict(model.sizes), **{s: v[0] for s, v in model.values}}
    functions = dict(model.functions)
    drawn = model.draws(0)
    inside = set(walk(H))
    arrays = {leaf: drawn(leaf) for leaf in model.recipe.leaves if leaf in inside}

    def dense(node: Matrix) -> Array:
        if node in arrays:
            array = arrays[node]
            return np.diag(array) if isinstance(node, Deterministic) and array.ndim == 1 else array
        match node:
            case Identity():
                return np.eye(int(node.size.subs(numbers)))
            case Transpose():
                return dense(node.operand).T
            case Scaled():
                return float(node.coefficient.subs(numbers)) * dense(node.operand)
            case Sum():
                return cast(Array, sum(dense(term) for term in node.terms))
            case Product():
                value = dense(node.factors[0])
                for factor in node.factors[1:]:
                    value = value @ dense(factor)
                return value
            case Inverse():
                return np.linalg.inv(dense(node.operand))
            case Entrywise():
                return np.asarray(functions.get(node.f, node.f)(dense(node.operand)))
            case OffDiagonal():
                array = dense(node.operand).copy()
                np.fill_diagonal(array, 0)
                return array
        raise UnsupportedError(f"got {node} in a matrix whose eigenvalues are asked for")

    return cast(Array, np.linalg.eigvalsh(dense(H)))


def draw(found: Spectrum, sample: Array | None = None, axes: Any = None) -> Any:
    """The density over the histogram of a sample's eigenvalues, atoms and outliers marked.

    Returns the Matplotlib axes (new ones unless given).
    """
    if axes is None:
        from matplotlib.figure import Figure

        axes = Figure(figsize=(7, 4), layout="constrained").subplots()
    if sample is not None:
        scale = max(abs(x) for edges in found.support for x in edges)
        bulk = sample[
            np.all([np.abs(sample - x) > 1e-6 * scale for x, _ in found.atoms], axis=0)
            if found.atoms
            else slice(None)
        ]
        weight = np.full(len(bulk), 1 / len(sample))
        count = max(30, int(2 * np.sqrt(len(sample))))
        low, high = found.support[0][0], found.support[-1][1]
        counts, bins = np.histogram(bulk, bins=np.linspace(low, high, count), weights=weight)
        axes.stairs(counts / np.diff(bins), bins, fill=True, color="0.8", label="sample")
        outside = bulk[(bulk < low - 0.01 * (high - low)) | (bulk > high + 0.01 * (high - low))]
        axes.plot(outside, np.zeros_like(outside), "x", color="0.3", label="sample, isolated")
    for number, (a, b) in enumerate(found.support):
        own = (found.grid >= a) & (found.grid <= b)
        axes.plot(
            found.grid[own],
            found.density[own],
            color="C0",
            label="density" if number == 0 else None,
        )
    for number, outlier in enumerate(found.outliers):
        label = "outlier" if number == 0 else None
        axes.plot([outlier.location], [0], "o", mfc="none", color="C3", label=label)
    for x, w in found.atoms:
        axes.axvline(x, color="C1", linestyle=":", label=f"atom {w:.3g} at {x:.3g}")
    axes.set_xlabel("eigenvalue")
    axes.set_ylabel("density")
    axes.legend()
    return axes
