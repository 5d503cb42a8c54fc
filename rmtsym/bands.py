r"""Atoms and bands of a measure of mass 1, from its Stieltjes transform.

    P(x + i eta) = eta Im m(x + i eta) = int eta^2 / ((lambda - x)^2 + eta^2) rho(d lambda)

is at least half of the mass in [x - eta, x + eta].  Intervals are halved where P is not small, down
to one whose middle lies in a band (Im m > 0 on the real axis) or to an atom (P has a limit).  What
is found is taken out of m, and the search goes on until the masses add to 1.

>>> import numpy as np
>>> from dataclasses import dataclass
>>> @dataclass
... class Semicircle:
...     scale, radius = 1, 1e4
...     def __call__(self, z):
...         return (np.sqrt(z - 2 + 0j) * np.sqrt(z + 2 + 0j) - z) / 2
>>> (band,) = decompose(Semicircle()).bands
>>> print(round(band.low, 9), round(band.high, 9), round(band.mass, 9))
-2.0 2.0 1.0
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from rmtsym.errors import ConvergenceError
from rmtsym.linalg import Array

MISSED = 1e-7
"""The mass that may be missing at the end; far more where the quadrature of a band is in doubt."""
PIECES = 128
"""A piece of this share of the missing mass is found in one pass."""
NARROW = 1e-8
"""A band narrower than this share of its location is an atom."""
TINY = 1e-8
"""What is closer to 0 than this share of the scale is at 0."""
UNEVEN = 1.0471975511965976
"""No point of the search is a round number, where an atom may be."""
NODES = (222, 666, 1998)
"""Points over a band, for its mass and its gaps; more where a third of them gives another mass."""


class Transform(Protocol):
    """``m(z)`` at complex z of any shape.

    ``scale`` is the root mean square, roughly; beyond ``radius`` lies less than 1e-7 of the mass.
    """

    @property
    def scale(self) -> float: ...

    @property
    def radius(self) -> float: ...

    def __call__(self, z: Any) -> Any: ...


@dataclass(frozen=True, eq=False)
class Band:
    """An interval of positive density; ``weights`` are the masses at the Chebyshev ``nodes``."""

    low: float
    high: float
    nodes: Array
    weights: Array

    @property
    def mass(self) -> float:
        return float(self.weights.sum())

    @property
    def doubt(self) -> float:
        """How much the mass changes with a third of the nodes."""
        return abs(self.mass - 3 * float(self.weights[1::3].sum()))

    def holds(self, x: Array, half: float) -> Array:
        """Which intervals ``x +- half`` lie inside, or on an edge that is not resolved there."""
        inside = (x - half > self.low) & (x + half < self.high)
        edge = (x + half > self.low) & (x - half < self.high)
        return inside | (edge & (half < 1e-6 * (self.high - self.low)))


@dataclass(frozen=True)
class Measure:
    """``atoms`` (location, mass) and ``bands``, both from left to right."""

    atoms: tuple[tuple[float, float], ...] = ()
    bands: tuple[Band, ...] = ()

    @property
    def mass(self) -> float:
        return sum(w for _, w in self.atoms) + sum(band.mass for band in self.bands)

    @property
    def doubt(self) -> float:
        return MISSED + 2 * sum(band.doubt for band in self.bands)

    def transform(self, z: Array) -> Array:
        """``int rho(d lambda) / (lambda - z)``."""
        value = sum((w / (x - z) for x, w in self.atoms), np.zeros(z.shape, complex))
        for band in self.bands:
            value = value + (1 / (band.nodes - z[:, None])) @ band.weights
        return value

    def joined(self, atoms: Any = (), bands: Any = ()) -> Measure:
        return Measure(
            tuple(sorted((*self.atoms, *atoms))),
            tuple(sorted((*self.bands, *bands), key=lambda band: band.low)),
        )


def decompose(m: Transform) -> Measure:
    """All atoms and bands with more than 1e-7 of the mass.

    A gap narrower than 1/2000 of its band can be missed.  Raises ConvergenceError where the masses
    found do not add to 1.
    """
    found = Measure()
    at_zero = _weight(m, 0.0, 100 * TINY * m.scale)
    if at_zero:
        found = found.joined(atoms=[(0.0, at_zero)])
    while (missing := 1 - found.mass) > found.doubt:
        more = _search(m, found, missing)
        if more is None:
            break
        found = found.joined(more.atoms, more.bands)
    if abs(missing) > found.doubt:
        raise ConvergenceError(
            f"the atoms and bands found hold {found.mass:.9g} of the mass instead of 1 "
            f"(atoms {[x for x, _ in found.atoms]}, "
            f"bands {[(band.low, band.high) for band in found.bands]})"
        )
    return found


def _search(m: Transform, found: Measure, missing: float) -> Measure | None:
    """The first bands, or else the largest atom, met by halving; None where nothing is left."""
    half = UNEVEN * m.radius / 2
    centres = np.array([-half, half])
    while True:
        z = centres + 1j * half
        left = half * np.imag(m(z) - found.transform(z))
        keep = left > missing / PIECES / 2
        for band in found.bands:
            keep &= ~band.holds(centres, half)
        centres, left = centres[keep], left[keep]
        if not centres.size:
            return None
        more = Measure()
        for x in centres[_inside(m, centres)]:
            if not any(b.low <= x <= b.high for b in (*found.bands, *more.bands)):
                more = more.joined(bands=_bands(m, float(x), half))
        if more.bands:
            return _narrow_ones_as_atoms(m, more)
        best = float(centres[np.argmax(left)])
        if half < max(NARROW * abs(best), TINY * m.scale):
            return _atom(m, best, half)
        centres = np.concatenate([centres - half / 2, centres + half / 2])
        half /= 2


def _inside(m: Transform, x: Array) -> Array:
    return _positive(m(x.astype(complex)))


def _positive(value: Array) -> Array:
    return np.asarray(np.abs(value.imag) > 1e-6 * np.abs(value))


def _bands(m: Transform, x: float, step: float) -> list[Band]:
    """The band around x; several if gaps are seen in it."""
    steps = UNEVEN * step * 2.0 ** np.arange(np.ceil(np.log2(8 * m.radius / step)))
    inner, outer = [], []
    for side in (-1, 1):
        out = int(np.argmin(_inside(m, x + side * steps)))
        inner.append(x + side * steps[out - 1] if out else x)
        outer.append(x + side * steps[out])
    low, high = _edges(m, np.array(inner), np.array(outer))
    pending, bands = [(low, high)], []
    while pending:
        low, high = pending.pop()
        band, inside = _measured(m, float(low), float(high))
        if inside.all():
            bands.append(band)
            continue
        nodes, inside = band.nodes, np.concatenate([[True], inside, [True]])
        marks = np.concatenate([[low], nodes, [high]])
        leave = np.flatnonzero(inside[:-1] & ~inside[1:])
        enter = np.flatnonzero(~inside[:-1] & inside[1:])
        ends = _edges(m, marks[leave], marks[leave + 1])
        starts = _edges(m, marks[enter + 1], marks[enter])
        pieces = zip([low, *starts], [*ends, high], strict=True)
        pending += [(a, b) for a, b in pieces if b - a > NARROW * max(abs(a), abs(b))]
    return bands


def _measured(m: Transform, low: float, high: float) -> tuple[Band, Array]:
    """The band between two edges, and which of its nodes lie inside.

    Chebyshev nodes suit edges like ``x^(+-1/2)``; where they do not do, the density may be singular
    at 0 too, and the band is taken in two parts.
    """
    plans = [(count, [low, high]) for count in NODES]
    if min(-low, high) > 1e-6 * (high - low):
        plans.append((NODES[-1] // 2, [low, 0.0, high]))
    tried = []
    for count, ends in plans:
        angles = (np.arange(count) + 0.5) * np.pi / count
        middles, halves = np.array([((a + b) / 2, (b - a) / 2) for a, b in pairwise(ends)]).T
        nodes = np.ravel(middles[:, None] - halves[:, None] * np.cos(angles))
        value = m(nodes.astype(complex))
        weights = value.imag * np.ravel(halves[:, None] * np.sin(angles)) / count
        band, inside = Band(low, high, nodes, weights), _positive(value)
        tried.append((band.doubt, band, inside))
        if band.doubt < MISSED / 2 or not inside.all():
            return band, inside
    _, band, inside = min(tried, key=lambda entry: entry[0])
    return band, inside


def _edges(m: Transform, inner: Array, outer: Array) -> Array:
    """Where bands end, between points inside and points outside."""
    for _ in range(50):
        middle = inner + 0.49 * (outer - inner)  # never exactly 0, where m may be infinite
        inside = _inside(m, middle)
        inner, outer = np.where(inside, middle, inner), np.where(inside, outer, middle)
    return (inner + outer) / 2


def _narrow_ones_as_atoms(m: Transform, found: Measure) -> Measure:
    """On the real axis z lies a hair above it, where an atom looks like a narrow band."""
    atoms: list[tuple[float, float]] = []
    bands = []
    for band in found.bands:
        middle = (band.low + band.high) / 2
        atom = None
        if band.high - band.low < 1e-3 * abs(middle):
            atom = _atom(m, middle, NARROW * abs(middle))
        if atom is None:
            bands.append(band)
        else:
            atoms += atom.atoms
    return Measure(tuple(atoms), tuple(bands))


def _atom(m: Transform, x: float, half: float) -> Measure | None:
    """An atom within a few ``half`` of x."""
    for height in half * 4.0 ** np.arange(3, -1, -1):
        value = 1 / m(np.array([x - height / 2, x, x + height / 2]) + 1j * height)
        x = float(np.real(x + 1j * height - value[1] * height / (value[2] - value[0])))
    weight = _weight(m, x, half)
    return Measure(atoms=((x, weight),)) if weight else None


def _weight(m: Transform, x: float, half: float) -> float:
    """The limit of P at x, 0 if it vanishes."""
    high, low = (eta * m(x + 1j * eta).imag for eta in (half, half / 100))
    return float(low) if low > 0.9 * high and low > MISSED / PIECES else 0.0
