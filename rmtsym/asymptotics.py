r"""Series of a limit at the ends of a parameter's range: which powers, which coefficients.

    value(t) ~ k_0 t^{p_0} + k_1 t^{p_1} + ...,      t -> 0+,

with t = gamma, 1/gamma, 1/snr, c, 1/c or any path of parameters. Limits are algebraic functions of
the parameters, so the powers are rational with one denominator (Puiseux). The solver gives
hundreds of digits at tiny t; the powers are read from ratios, then the coefficients from a linear
system in all powers of the grid, and once more at smaller t: digits are stated where both agree.

>>> from rmtsym.matrices import *
>>> from rmtsym.dyson import derive
>>> n, p = dimensions("n p")
>>> gamma, c = sp.symbols("gamma c", positive=True)
>>> Z = Gaussian("Z", p, n)
>>> system = derive(Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n, {n: 1, p: c})
>>> print(series(system, {c: 1}, gamma, terms=3))
gamma^(-1/2) - 0.5 + 0.125 gamma^(1/2) + ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import sympy as sp

from rmtsym.compilation import CompiledSystem, by_symbol
from rmtsym.digits import Digits
from rmtsym.errors import InputError, PrecisionError
from rmtsym.precision import exact_values, refine
from rmtsym.programs import programs
from rmtsym.system import FixedPointSystem

POINTS = 20
DENOMINATOR = 12


@dataclass(frozen=True)
class Series:
    """``terms`` as (exponent, coefficient), in powers of ``name`` as it tends to 0 or infinity."""

    name: str
    terms: tuple[tuple[Fraction, Any], ...]

    @property
    def leading(self) -> tuple[Fraction, Any]:
        """Exponent and coefficient of the first term."""
        return self.terms[0]

    def __call__(self, x: float) -> float:
        """The terms summed at a value of the parameter."""
        return float(sum(float(k) * float(x) ** float(p) for p, k in self.terms))

    def __str__(self) -> str:
        pieces = []
        for exponent, value in self.terms:
            number = mpmath.nstr(mpmath.mpf(abs(value)), 12)
            number = number.removesuffix(".0")
            power = "" if exponent == 0 else self.name if exponent == 1 else ""
            power = power or ("" if exponent == 0 else f"{self.name}^({exponent})")
            text = power if number == "1" and power else f"{number} {power}".strip()
            sign = "-" if value < 0 else "+"
            pieces.append(f"{sign} {text}")
        return " ".join(pieces).removeprefix("+ ") + " + ..."


def series(
    system: FixedPointSystem | CompiledSystem,
    values: Mapping[Any, Any],
    variable: Any,
    *,
    at: str = "zero",
    terms: int = 2,
    digits: int = 15,
    nonlinearities: Mapping[Any, Any] | None = None,
) -> Series:
    """The series in one parameter as it tends to ``at`` = "zero" or "infinity".

    values : exact numbers for all other parameters, as for :func:`rmtsym.precision.refine`.
    digits : of each coefficient.

    Raises
    ------
    PrecisionError
        where the powers or the digits do not settle (powers of too large a denominator).
    """
    if at not in ("zero", "infinity"):
        raise InputError(f"got at={at!r}; expected 'zero' or 'infinity'")
    symbol = sp.Symbol(variable) if isinstance(variable, str) else variable
    names = {str(s): s for s in programs(system).parameters}
    if str(symbol) not in names:
        raise InputError(f"got {variable}; the parameters are {', '.join(names)}")
    exact, _ = exact_values(by_symbol(programs(system).system, values))

    def path(t: sp.Rational) -> Mapping[Any, Any]:
        return {**exact, names[str(symbol)]: t if at == "zero" else 1 / t}

    found = along(
        system, path, terms=terms, digits=digits, nonlinearities=nonlinearities, name=str(symbol)
    )
    sign = 1 if at == "zero" else -1
    return Series(str(symbol), tuple((sign * p, k) for p, k in found.terms))


def along(
    system: FixedPointSystem | CompiledSystem,
    path: Callable[[sp.Rational], Mapping[Any, Any]],
    *,
    terms: int = 2,
    digits: int = 15,
    nonlinearities: Mapping[Any, Any] | None = None,
    name: str = "t",
) -> Series:
    """The series in t -> 0+ along any path ``t -> exact parameter values``.

    ``|mu| -> infinity`` with directions fixed, for instance, scales ``mu.mu`` by t^-2 and the
    products of mu with the weights by t^-1.
    """
    working = 12 * digits + 120
    context = mpmath.MPContext()
    context.dps = working
    first = _coefficients(system, path, 12, working, context, nonlinearities)
    second = _coefficients(system, path, 15, working, context, nonlinearities)
    if [p for p, _ in first[: terms + 1]] != [p for p, _ in second[: terms + 1]]:
        raise PrecisionError("the powers of the series do not settle; ask for fewer terms")
    chosen = []
    for (exponent, one), (_, other) in zip(first[:terms], second[:terms], strict=True):
        if abs(one - other) > abs(other) * context.mpf(10) ** (-digits):
            raise PrecisionError(f"{digits} digits of the coefficient of t^({exponent}) not found")
        chosen.append((exponent, Digits.of(other, digits)))
    return Series(name, tuple(chosen))


def _coefficients(
    system: Any, path: Any, exponent: int, working: int, context: Any, nonlinearities: Any
) -> list[tuple[Fraction, Any]]:
    """Powers and coefficients from t = 10^-exponent 2^-j."""
    times = [sp.Rational(1, 10**exponent * 2**j) for j in range(POINTS)]
    ts = [1 / context.mpf(int(t.q)) for t in times]
    samples = []
    for t in times:
        value = refine(system, path(t), nonlinearities=nonlinearities, digits=working).value
        samples.append(context.make_mpf(value._mpf_))
    if all(v == 0 for v in samples):
        return []
    lead = _rational(context.log(samples[-2] / samples[-1], 2), exponent)
    reduced = [v * t ** (-_mp(lead, context)) for v, t in zip(samples, ts, strict=True)]
    changes = [a - b for a, b in pairwise(reduced)]
    tiny = abs(reduced[-1]) * context.mpf(10) ** (20 - working)
    if abs(changes[-1]) <= tiny:
        return [(lead, reduced[-1])]
    step = _rational(context.log(changes[-2] / changes[-1], 2), exponent)
    grid = Fraction(1, math.lcm(lead.denominator, step.denominator))
    powers = [_mp(grid * j, context) for j in range(POINTS)]
    matrix = context.matrix([[(t / ts[0]) ** p for p in powers] for t in ts])
    scaled = context.lu_solve(matrix, context.matrix(reduced))
    solved = [value / ts[0] ** p for value, p in zip(scaled, powers, strict=True)]
    scale = abs(solved[0])
    found = []
    for j in range(POINTS // 2):
        # a vanishing coefficient is seen at the size of the truncation error
        if abs(solved[j]) > scale * context.mpf(10) ** (-exponent * float(grid) * 3):
            found.append((lead + grid * j, solved[j]))
    return found


def _mp(value: Fraction, context: Any) -> Any:
    return context.mpf(value.numerator) / value.denominator


def _rational(value: Any, exponent: int) -> Fraction:
    """The rational of small denominator that a ratio of samples points to."""
    guess = Fraction(float(value)).limit_denominator(DENOMINATOR)
    if not math.isfinite(float(value)) or abs(float(value) - guess) > 1e-2:
        raise PrecisionError(f"got an exponent {float(value):.6f} that is no small fraction")
    return guess
