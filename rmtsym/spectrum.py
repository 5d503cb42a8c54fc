r"""Spectra of self-adjoint expressions: density, edges, atoms, outliers.

    m(z) = lim (1/n) tr (H - z)^{-1},    rho(x) = Im m(x + i0) / pi.

Low-rank terms leave rho alone and add isolated eigenvalues: the zeros, off the support, of the
determinant of the small matrix ``C - V G(z) U``. A unit vector v overlaps with the eigenvector by
``-Res v^T (H - z)^{-1} v``.

Source: F. Benaych-Georges and R. R. Nadakuditi, Adv. Math. 227 (2011) (outliers).

>>> from rmtsym.matrices import *
>>> n, p = dimensions("n p")
>>> Z = Gaussian("Z", p, n)
>>> print(spectrum(Z.T * Z / p, {n: 4, p: 1}))
atoms: 0 (mass 0.75)
support: [1, 9]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import numpy as np

from rmtsym.algebra import Inverse, Product, Scaled, Sum, Transpose
from rmtsym.bands import Band, decompose
from rmtsym.compilation import compile_system
from rmtsym.dyson import derive
from rmtsym.errors import InputError, UnsupportedError
from rmtsym.linalg import Array
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
from rmtsym.rewriting import walk
from rmtsym.simulation import sampled_model
from rmtsym.stieltjes import (
    Follower,
    StieltjesTransform,
    parameter_values,
    resolvent,
    stieltjes_transform,
)
from rmtsym.system import BilinearOutput

__all__ = ["Outlier", "Spectrum", "draw", "eigenvalues", "resolvent_matrix", "spectrum"]


@dataclass(frozen=True)
class Outlier:
    """An isolated eigenvalue; the squared overlaps of its unit eigenvector, or of its eigenspace
    where the ``multiplicity`` is not 1, with the signals."""

    location: float
    overlaps: dict[str, float] = field(default_factory=dict)
    multiplicity: int = 1


@dataclass(frozen=True, eq=False)
class Spectrum:
    """``atoms``: (location, mass); ``support``: bands, with ``masses``; ``grid``, ``density``."""

    atoms: tuple[tuple[float, float], ...]
    support: tuple[tuple[float, float], ...]
    outliers: tuple[Outlier, ...]
    grid: Array
    density: Array
    masses: tuple[float, ...] = ()

    def __str__(self) -> str:
        lines = []
        if self.atoms:
            lines.append("atoms: " + ", ".join(f"{x:.6g} (mass {w:.6g})" for x, w in self.atoms))
        bands = ", ".join(f"[{a:.6g}, {b:.6g}]" for a, b in self.support)
        lines.append("support: " + (bands or "none (atoms only)"))
        for outlier in self.outliers:
            overlaps = ", ".join(f"|<{v}, .>|^2 = {x:.6g}" for v, x in outlier.overlaps.items())
            times = f", {outlier.multiplicity} times" if outlier.multiplicity > 1 else ""
            shown = f" ({overlaps})" if overlaps else ""
            lines.append(f"outlier: {outlier.location:.6g}{times}{shown}")
        return "\n".join(lines)


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

    The masses of atoms and bands add to 1 up to 1e-7, or up to the error of the quadrature (0.2 %
    where the density grows like ``x^(-2/3)``); a band narrower than 1e-8 of its location is
    an atom; a gap narrower than 1/2000 of its band can be missed. Raises ConvergenceError where
    mass is not found.
    """
    m = stieltjes_transform(H, sizes, values, vectors=vectors, nonlinearities=nonlinearities)
    measure = decompose(m)
    support = tuple((_snapped(b.low, b), _snapped(b.high, b)) for b in measure.bands)
    pieces = [_chebyshev(a, b, points) for a, b in support]
    grid = np.unique(np.concatenate(pieces)) if pieces else np.zeros(0)
    density = np.maximum(np.imag(m(grid)), 0) / np.pi
    isolated = _outliers(m, support)
    locations = [x for x, _ in isolated]
    overlaps: list[dict[str, float]] = [{} for _ in locations]
    known = parameter_values(m.system, values, vectors, nonlinearities)
    marks = [*(x for x, _ in measure.atoms), *(edge for edges in support for edge in edges)]
    for v in signals:
        found = _overlaps(H, v, sizes, known, locations, marks, vectors, m.scale)
        for entry, value in zip(overlaps, found, strict=True):
            entry[v.name] = value
    outliers = tuple(Outlier(x, o, k) for (x, k), o in zip(isolated, overlaps, strict=True))
    return Spectrum(
        tuple((float(f"{x:.10g}"), float(f"{w:.9g}")) for x, w in measure.atoms),
        support,
        outliers,
        grid,
        density,
        tuple(band.mass for band in measure.bands),
    )


def _snapped(edge: float, band: Band) -> float:
    """Hard edges are found at 0 up to rounding."""
    return 0.0 if abs(edge) < 1e-8 * (band.high - band.low) else edge


def _chebyshev(a: float, b: float, count: int) -> Array:
    angles = (np.arange(count) + 0.5) * np.pi / count
    return (a + b) / 2 - (b - a) / 2 * np.cos(angles)


def _spike_determinant(m: StieltjesTransform, x: Array) -> Array:
    """det (C - V G U) at x off the support, Im x >= 0, scaled to 1 at infinity."""
    (index,) = (k for k, o in enumerate(m.system.limits) if isinstance(o, BilinearOutput))
    limit = m.system.limits[index]
    assert isinstance(limit, BilinearOutput)
    point, us = m.spikes(x.astype(complex))
    small = point.spike_matrix(index, us)[..., : limit.count]
    return cast(Array, np.linalg.det(small))


def _outliers(
    m: StieltjesTransform, support: tuple[tuple[float, float], ...]
) -> list[tuple[float, int]]:
    """(location, multiplicity) of the zeros of the spikes' determinant off the support."""
    if not support or not any(isinstance(o, BilinearOutput) for o in m.system.limits):
        return []
    scale = max(b for _, b in support) - min(a for a, _ in support)
    farthest = 1e4 * max(abs(x) for edges in support for x in edges)
    away = np.geomspace(1e-7 * scale, farthest, 400)
    pieces = [support[0][0] - away[::-1], support[-1][1] + away]
    for (_, a), (b, _) in pairwise(support):
        angles = (np.arange(300) + 0.5) * np.pi / 300
        pieces.append((a + b) / 2 - (b - a) / 2 * np.cos(angles))
    zeros: list[float] = []
    for x in sorted(x for piece in pieces for x in _sign_changes(m, piece)):
        if not zeros or x - zeros[-1] > 1e-6 * scale:
            zeros.append(x)
    edges = [x for band in support for x in band]
    found = []
    for x in zeros:
        gap = min(abs(x - y) for y in (*edges, *zeros) if y != x)
        multiplicity = _multiplicity(m, x, gap / 2)
        if multiplicity > 0:  # a pole has a negative one
            found.append((x, multiplicity))
    return found


def _sign_changes(m: StieltjesTransform, grid: Array) -> list[float]:
    """Where the determinant changes sign, or touches zero as it does at two equal outliers."""
    from scipy.optimize import brentq, minimize_scalar

    def at(x: float) -> float:
        return float(_spike_determinant(m, np.array([x]))[0].real)

    value = _spike_determinant(m, grid)
    real = np.where(np.abs(value.imag) < 1e-6 * np.abs(value) + 1e-12, value.real, np.nan)
    with np.errstate(invalid="ignore"):
        signs, size = np.sign(real), np.abs(real)
        dips = np.flatnonzero(
            (size[1:-1] <= size[:-2]) & (size[1:-1] < size[2:]) & (np.abs(np.diff(signs, 2)) == 0)
        )
        brackets = [(grid[k], grid[k + 1]) for k in np.flatnonzero(signs[1:] * signs[:-1] < 0)]
    found = []
    for k in dips:
        low, high, sign = grid[k], grid[k + 2], signs[k]
        lowest = minimize_scalar(
            lambda x, sign=sign: sign * at(x),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-10 * (high - low)},
        )
        if lowest.fun < 0:
            brackets += [(low, lowest.x), (lowest.x, high)]
        elif lowest.fun < 1e-8 * min(size[k], size[k + 2]):
            found.append(float(lowest.x))
    for low, high in brackets:
        tiny = 1e-14 * (abs(low) + abs(high))
        found.append(float(brentq(at, low, high, xtol=tiny, maxiter=1000)))
    return found


def _multiplicity(m: StieltjesTransform, x: float, radius: float) -> int:
    """The winding of the determinant about x: twice its turn along the upper half of a circle."""
    z = x + radius * np.exp(1j * np.linspace(0, np.pi, 49))
    turn = np.unwrap(np.angle(_spike_determinant(m, z)))
    return round(float(turn[-1] - turn[0]) / np.pi)


def _overlaps(
    H: Matrix,
    v: Vector,
    sizes: Mapping[Any, Any] | None,
    known: Mapping[Any, Any],
    locations: Sequence[float],
    marks: Sequence[float],
    vectors: Mapping[Vector, Any] | None,
    unit: float,
) -> list[float]:
    """``-Res v^T (H - z)^{-1} v / v.v`` by the trapezoidal rule on a circle."""
    if not locations:
        return []
    system = derive(v.T * resolvent(H) * v / inner(v, v), sizes)
    numbers = parameter_values(system, known, vectors, None)
    follower = Follower(compile_system(system), numbers, unit)
    scale = float(system.formula.subs(system.linearization.symbols[0], 1).subs(numbers))
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
    resolvent(H)
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
        marks = [x for edges in found.support for x in edges] + [x for x, _ in found.atoms]
        scale = max(map(abs, marks))
        bulk = sample[
            np.all([np.abs(sample - x) > 1e-6 * scale for x, _ in found.atoms], axis=0)
            if found.atoms
            else slice(None)
        ]
        weight = np.full(len(bulk), 1 / len(sample))
        count = max(30, int(2 * np.sqrt(len(sample))))
        low, high = min(marks), max(marks)
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
