"""Proven digits: the whole system enclosed in balls.

Krawczyk's test. For ``F(v) = Phi(v) - v`` on a box X around x, with Y near ``F'(x)^{-1}``, if

    K = x - Y F(x) + (1 - Y F'(X)) (X - x)   lies in the interior of X,

then X holds exactly one zero of F, and K holds it too. Parameters enter as balls (Hermite
coefficients with their proven radii), F and F' are the programs of the system run on balls, and so
are the derivative of the unknowns (a linear system, eliminated in balls) and every output. The
branch is the one followed from large ridges; the test proves that no other solution shares its box.

Source: R. Krawczyk, Computing 4 (1969); A. Neumaier, *Interval Methods for Systems of Equations*
(1990), Theorem 5.1.8; F. Johansson, *Arb* (2017).

>>> from rmtsym.matrices import *
>>> from rmtsym.dyson import derive
>>> n, p = dimensions("n p")
>>> gamma, c = sp.symbols("gamma c", positive=True)
>>> Z = Gaussian("Z", p, n)
>>> system = derive(Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n, {n: 1, p: c})
>>> found = certify(system, {gamma: 1, c: 1}, digits=30)
>>> print(found.value)
0.618033988749894848204586834366
>>> with precision(200):
...     print(found.enclosure.overlaps((arb(5).sqrt() - 1) / 2))
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from flint import acb, acb_mat, arb, arb_mat

from rmtsym.balls import BITS_PER_DIGIT, precision
from rmtsym.compilation import CompiledSystem, by_symbol
from rmtsym.errors import InputError, PrecisionError
from rmtsym.linalg import inverse
from rmtsym.precision import (
    ball,
    balls,
    exact_values,
    middle,
    polish,
    size,
    start_near,
    vouched,
)
from rmtsym.programs import AnyCore, Coefficients, Programs, programs
from rmtsym.solver import Solution
from rmtsym.system import FixedPointSystem

GUARD = 10
ATTEMPTS = 7


@dataclass(frozen=True, eq=False)
class CertifiedSolution(Solution):
    """A solution with ``enclosure``, a ball proven to hold the value, and the unknowns' boxes."""

    enclosure: Any = None
    boxes: tuple[tuple[Any, ...], ...] = ()


def certify(
    system: FixedPointSystem | CompiledSystem,
    values: Mapping[Any, Any],
    *,
    nonlinearities: Mapping[Any, Any] | None = None,
    digits: int = 50,
) -> CertifiedSolution:
    """The value with an enclosure whose relative radius is below ``10**-digits``.

    Parameters as for :func:`rmtsym.precision.refine`; symbols of Hermite coefficients are enclosed
    by their nonlinearities.

    Raises
    ------
    PrecisionError
        if the test does not succeed: the equations are singular at this point, or an input is not
        known exactly.
    """
    if isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= 10_000:
        raise InputError(f"got digits={digits!r}; pass a whole number from 1 to 10000")
    found = programs(system)
    exact, notes = exact_values(by_symbol(found.system, values))
    near = start_near(found, exact, nonlinearities, None)
    working = digits + 2 * GUARD
    for _ in range(ATTEMPTS):
        near, _, residual = polish(found, exact, nonlinearities, near, working)
        with precision(math.ceil(working * BITS_PER_DIGIT) + 16):
            x = _enclosed(found, exact, nonlinearities, working)
            k = found.coefficients(x, balls())
            boxes = [
                krawczyk(core, [ball(v) for v in one], k)
                for core, one in zip(found.cores, near, strict=True)
            ]
            if all(box is not None for box in boxes):
                value = found.value(x, boxes, balls(), k)
                if value.is_finite() and _radius(value) < -digits:
                    return CertifiedSolution(
                        vouched(middle(value), digits, notes),
                        10.0 ** max(residual, -300),
                        tuple(
                            np.array([complex(v) if isinstance(v, acb) else float(v) for v in one])
                            for one in found.unknowns(boxes, k)
                        ),
                        True,
                        digits,
                        notes=notes,
                        enclosure=value,
                        boxes=tuple(tuple(box or ()) for box in boxes),
                    )
        working = 2 * working
    raise PrecisionError(
        f"no enclosure of relative radius 1e-{digits} was proven with {working // 2} working "
        "digits; the equations are singular here, or an input is not known well enough"
    )


def krawczyk(core: AnyCore, x: list[Any], k: Coefficients) -> list[Any] | None:
    """A box around x proven to hold exactly one zero of F, or None."""
    if not core.count:
        return []
    calls = {"mean": k.mean, "inverse": inverse}
    count = core.count
    is_complex = any(isinstance(v, acb) for v in (*x, *k.a, *k.s))
    matrix = acb_mat if is_complex else arb_mat
    flat = core.jacobian(x, k.a, k.s, k.l, **calls)
    try:
        y = _mid(matrix(count, count, flat[count:]).inv())
    except ZeroDivisionError:
        return None
    newton = y * matrix(count, 1, flat[:count])
    if not all(newton[i, 0].is_finite() for i in range(count)):
        return None
    identity = matrix(count, count, [int(i == j) for i in range(count) for j in range(count)])
    widths = [_reach(newton[i, 0]) for i in range(count)]
    floor = max(
        (w / abs(middle(v)) for w, v in zip(widths, x, strict=True) if not v.contains(0)),
        default=arb(0),
        key=lambda r: float(r.abs_upper()) if r.is_finite() else math.inf,
    )
    for growth in (4, 64, 2**14, 2**30):
        radii = [growth * (w + floor * abs(v) / 16) for w, v in zip(widths, x, strict=True)]
        box = [_around(v, r, is_complex) for v, r in zip(x, radii, strict=True)]
        slope = matrix(count, count, core.jacobian(box, k.a, k.s, k.l, **calls)[count:])
        spread = matrix(count, 1, [b - v for b, v in zip(box, x, strict=True)])
        image = matrix(count, 1, x) - newton + (identity - y * slope) * spread
        inside = [image[i, 0] for i in range(count)]
        if all(
            v.is_finite() and (b.contains_interior(v) or (v.is_exact() and v == b))
            for v, b in zip(inside, box, strict=True)
        ):
            return inside
    return None


def _mid(matrix: Any) -> Any:
    return matrix.mid()


def _reach(value: Any) -> arb:
    return arb(value.abs_upper())


def _around(center: Any, radius: arb, is_complex: bool) -> Any:
    wide = arb(0, radius.abs_upper())
    return acb(center) + acb(wide, wide) if is_complex else center + wide


def _radius(value: Any) -> float:
    """log10 of the relative radius."""
    parts = (value.real, value.imag) if isinstance(value, acb) else (value,)
    return max(size(p.rad()) for p in parts) - size(value)


def _enclosed(
    found: Programs, exact: Mapping[Any, Any], nonlinearities: Any, digits: int
) -> dict[Any, Any]:
    """All parameters as balls that hold them."""
    full = dict(exact)
    for entry in found.system.hermite_symbols:
        if entry.symbol in full or entry.symbol not in found.parameters:
            continue
        tau = sp.sympify(entry.tau).subs(full)
        given = nonlinearities or {}
        f, g = (given.get(h, h) for h in (entry.f, entry.g))
        if not (hasattr(f, "coefficient") and hasattr(g, "coefficient")):
            raise InputError(f"got no nonlinearity for {entry.f}; pass nonlinearities={{...}}")
        same = f == g
        if tau != 1:
            f, g = f.scaled(tau), g.scaled(tau)
        if entry.moment in ("mean", "second"):
            order = 0 if entry.moment == "mean" else 2
            value = f.coefficient(order, digits=digits, certified=True)
        elif entry.moment == "slope":
            value = f.coefficient(1, digits=digits, certified=True) / ball(sp.sympify(tau))
        elif same:
            value = f.nu(digits=digits, certified=True)
        else:
            value = f.product_moment(g, digits=digits, certified=True)
        full[entry.symbol] = value
    return {s: ball(v) for s, v in zip(found.parameters, found.arguments(full), strict=True)}
