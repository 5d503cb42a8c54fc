"""Spectral laws: what a limit sees of deterministic matrices that commute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp

from rmtsym.errors import require
from rmtsym.scalars import Scalar, scalar


@dataclass(frozen=True)
class SpectralLaw:
    """Joint spectral law of commuting symmetric matrices: atoms with weights that sum to 1.

    ``atoms[i][j]`` is the eigenvalue of the j-th matrix on the i-th atom.

    >>> SpectralLaw.from_atoms([1, 3], weights=["1/2", "1/2"]).moment((1,))
    2
    """

    atoms: tuple[tuple[Scalar, ...], ...]
    weights: tuple[Scalar, ...]

    @classmethod
    def from_atoms(cls, values: Any, weights: Any = None) -> SpectralLaw:
        """``values``: eigenvalues, or rows of joint eigenvalues; ``weights``: default uniform."""

        def number(x: Any) -> Scalar:
            if isinstance(x, str):
                return sp.Rational(x)
            return scalar(x.item() if hasattr(x, "item") else x)

        def row(x: Any) -> list[Any]:
            return [x] if not hasattr(x, "__len__") or isinstance(x, str) else list(x)

        rows = tuple(tuple(map(number, row(value))) for value in values)
        require(len(rows) > 0, "got no eigenvalue; a spectral law has at least one atom")
        require(
            len({len(row) for row in rows}) == 1,
            "got rows of joint eigenvalues of different lengths; give one value per matrix",
        )
        if weights is None:
            chosen = tuple(sp.Rational(1, len(rows)) for _ in rows)
        else:
            chosen = tuple(number(w) for w in weights)
        require(
            len(chosen) == len(rows),
            f"got {len(rows)} atoms and {len(chosen)} weights; give one weight per atom",
        )
        total = sum(chosen, sp.Integer(0))
        if total.is_number:
            require(
                abs(float(total) - 1) < 1e-12 and all(float(w) >= 0 for w in chosen),
                f"got weights that sum to {total}; they must be >= 0 and sum to 1",
            )
        return cls(rows, chosen)

    @classmethod
    def from_density(
        cls, density: Any, lower: Any, upper: Any, *, nodes: int = 40, digits: int = 15
    ) -> SpectralLaw:
        """A law by its density on [lower, upper]: Gauss-Legendre nodes, weights of mass 1.

        ``density`` is a function of a number (an mpmath one if digits > 15) or a SymPy expression
        in one symbol; it may be unnormalised. Exact for polynomials of degree ``2 nodes - 1``.

        >>> x = sp.Symbol("x")
        >>> law = SpectralLaw.from_density(x, 0, 1, nodes=4)
        >>> round(float(law.moment((1,))), 12)
        0.666666666667
        """
        import mpmath

        context = mpmath.MPContext()
        context.dps = max(digits, 15) + 10
        low, high = (context.mpf(str(sp.N(scalar(x), context.dps))) for x in (lower, upper))
        require(low < high, f"got the support [{lower}, {upper}]; give lower < upper")
        if isinstance(density, sp.Basic):
            symbols = sorted(density.free_symbols, key=str)
            require(len(symbols) <= 1, f"got the density {density} of several symbols; it has one")
            density = sp.lambdify(symbols or [sp.Symbol("x")], density, modules=context)
        atoms, weights = [], []
        for index in range(1, nodes + 1):
            x = context.cos(context.pi * (index - context.mpf(1) / 4) / (nodes + 0.5))
            for _ in range(100):
                before, value = context.mpf(1), x
                for k in range(2, nodes + 1):
                    before, value = value, ((2 * k - 1) * x * value - (k - 1) * before) / k
                slope = nodes * (x * value - before) / (x * x - 1)
                x, step = x - value / slope, value / slope
                if abs(step) < context.mpf(10) ** (-context.dps + 4):
                    break
            place = (low + high) / 2 + (high - low) / 2 * x
            atoms.append(place)
            weights.append(context.mpf(density(place)) / ((1 - x * x) * slope * slope))
        total = context.fsum(weights)
        require(
            bool(total > 0 and min(weights) >= 0), "got a density that is negative or of mass zero"
        )

        def exact(value: Any) -> Scalar:
            return sp.Rational(context.nstr(value, context.dps - 5))

        ratios = [exact(w / total) for w in weights]
        ratios[nodes // 2] += 1 - sum(ratios)
        return cls(tuple((exact(x),) for x in atoms), tuple(ratios))

    @classmethod
    def uniform(cls, lower: Any, upper: Any, *, nodes: int = 40, digits: int = 15) -> SpectralLaw:
        """The uniform law on [lower, upper], by Gauss-Legendre nodes."""
        return cls.from_density(lambda _: 1, lower, upper, nodes=nodes, digits=digits)

    @classmethod
    def semicircle(
        cls, center: Any, radius: Any, *, nodes: int = 40, digits: int = 15
    ) -> SpectralLaw:
        """The semicircle law on [center - radius, center + radius]; Gauss-Chebyshev nodes."""
        kept = max(digits, 15) + 5
        angles = [sp.pi * sp.Rational(k, nodes + 1) for k in range(1, nodes + 1)]
        atoms = [sp.Rational(str(sp.N(sp.cos(a), kept))) for a in angles]
        weights = [sp.Rational(str(sp.N(2 * sp.sin(a) ** 2 / (nodes + 1), kept))) for a in angles]
        weights[nodes // 2] += 1 - sum(weights)
        middle, half = scalar(center), scalar(radius)
        return cls(tuple((middle + half * x,) for x in atoms), tuple(weights))

    def moment(self, powers: tuple[int, ...]) -> Scalar:
        """``E prod_j lambda_j ** powers[j]``."""
        total: Scalar = sp.Integer(0)
        for weight, atom in zip(self.weights, self.atoms, strict=True):
            term = weight
            for value, power in zip(atom, powers, strict=True):
                term = term * value**power
            total = total + term
        return total
