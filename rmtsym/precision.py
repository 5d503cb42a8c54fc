"""Any number of correct digits, from exact inputs.

The solution is polished by Newton's method with the precision doubling, in numbers of
python-flint, and once more with guard digits: digits are given only when both values agree on
them. Precision is an argument; that of mpmath and of flint is as before afterwards.

>>> from rmtsym.matrices import *
>>> from rmtsym.dyson import derive
>>> n, p = dimensions("n p")
>>> gamma, c = sp.symbols("gamma c", positive=True)
>>> Z = Gaussian("Z", p, n)
>>> system = derive(Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n, {n: 1, p: c})
>>> print(refine(system, {gamma: 1, c: 1}, digits=40).value)
0.6180339887498948482045868343656381177203
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import mpmath
import numpy as np
import sympy as sp
from flint import acb, arb, fmpq

from rmtsym.balls import BITS_PER_DIGIT, compile_ball, precision, to_mpf
from rmtsym.compilation import CompiledSystem, by_symbol
from rmtsym.digits import Digits
from rmtsym.errors import ConvergenceError, InputError, PrecisionError
from rmtsym.linalg import Array, inverse
from rmtsym.parsing import exact_number
from rmtsym.programs import AnyCore, Coefficients, Programs, programs
from rmtsym.solver import Solution, bind, solve
from rmtsym.source import Numbers
from rmtsym.system import FixedPointSystem

GUARD = 12
ATTEMPTS = 8


def exact_values(values: Mapping[Any, Any]) -> tuple[dict[Any, Any], tuple[str, ...]]:
    """Exact SymPy numbers, and a note for every float read as its shortest decimal.

    >>> exact_values({"gamma": 0.1, "c": "2/3"})
    ({gamma: 1/10, c: 2/3}, ('gamma = 0.1 was read as 1/10',))
    """
    found: dict[Any, Any] = {}
    notes = []
    for key, value in values.items():
        symbol = sp.Symbol(key) if isinstance(key, str) else key
        if isinstance(value, (complex, np.complexfloating)):
            parts = exact_number(float(value.real)), exact_number(float(value.imag))
            found[symbol] = parts[0] + sp.I * parts[1]
        elif isinstance(value, sp.Basic) and value.is_number and value.is_real is False:
            found[symbol] = exact_number(sp.re(value)) + sp.I * exact_number(sp.im(value))
        else:
            found[symbol] = exact_number(value)
        if isinstance(value, (float, complex, np.inexact)) and found[symbol].is_integer is not True:
            notes.append(f"{symbol} = {value} was read as {found[symbol]}")
    return found, tuple(notes)


def balls() -> Numbers:
    """The number type of real and complex balls at the current precision."""
    return Numbers(
        "balls",
        lambda p, q: arb(p) / q,
        lambda x: arb(x).sqrt() if isinstance(x, int) else x.sqrt(),
        lambda x: x.exp(),
        lambda x: x.log(),
        arb.pi(),
        object,
    )


def ball(value: Any) -> Any:
    """A number as a ball: exact SymPy numbers rounded once, mpmath numbers and floats as they are.

    >>> ball(sp.Rational(1, 4))
    0.250000000000000
    """
    if isinstance(value, (arb, acb)):
        return value
    if isinstance(value, sp.Basic):
        real, imaginary = value.as_real_imag()
        if imaginary != 0:
            return acb(ball(real), ball(imaginary))
        if isinstance(real, sp.Rational):
            return arb(fmpq(int(real.p), int(real.q)))
        return compile_ball(real, sp.Symbol("t", real=True))(arb(0), False)
    if hasattr(value, "_mpf_"):
        sign, mantissa, exponent, _ = value._mpf_
        return arb(int(-mantissa if sign else mantissa)) * arb(2) ** int(exponent)
    if np.iscomplexobj(value):
        return acb(float(value.real), float(value.imag))
    return arb(float(value))


def middle(value: Any) -> Any:
    """The midpoint of a ball, without radius."""
    return acb(value.real.mid(), value.imag.mid()) if isinstance(value, acb) else value.mid()


def size(value: Any) -> float:
    """log10 of the magnitude of a midpoint; -inf for zero."""
    top = middle(value).abs_upper()
    if top.is_zero():
        return -math.inf
    mantissa, exponent = top.man_exp()
    return (math.log2(int(mantissa)) + int(exponent)) / BITS_PER_DIGIT


def refine(
    system: FixedPointSystem | CompiledSystem,
    values: Mapping[Any, Any],
    *,
    nonlinearities: Mapping[Any, Any] | None = None,
    digits: int = 50,
    start: Sequence[Array] | None = None,
) -> Solution:
    """The value with ``digits`` correct digits.

    Parameters
    ----------
    values : exact numbers (SymPy, Fraction, int, decimal or fraction strings); a float is read as
        the shortest decimal that prints it, and ``Solution.notes`` says so.
    nonlinearities : as in :func:`rmtsym.solver.solve`; their coefficients come with guard digits.
    start : unknowns near the solution, per component; found in double precision otherwise, and
        where that fails by continuation with more digits.

    Raises
    ------
    PrecisionError
        if the digits do not settle; InputError for inputs that are not numbers.
    ConvergenceError
        if no solution is found to start from.
    """
    if isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= 100_000:
        raise InputError(f"got digits={digits!r}; pass a whole number from 1")
    compiled = programs(system)
    exact, notes = exact_values(by_symbol(compiled.system, values))
    vs = start_near(compiled, exact, nonlinearities, start)
    previous, working, lost = None, 0, GUARD
    for _ in range(ATTEMPTS):
        working = digits + lost
        found, value, residual = polish(compiled, exact, nonlinearities, vs, working)
        if not value.is_finite():
            lost *= 2
            continue
        vs = found
        if previous is not None:
            agree = size(value) - size(value - previous) if value != previous else working
            if agree >= digits + 1 and residual < -digits - 3:
                unknowns = tuple(
                    np.array([complex(x) if isinstance(x, acb) else float(x) for x in one])
                    for one in _unknowns(compiled, exact, nonlinearities, vs)
                )
                return Solution(
                    vouched(value, digits, notes),
                    10.0 ** max(residual, -300),
                    unknowns,
                    True,
                    digits,
                    notes=notes,
                )
            lost = max(2 * lost, lost + digits + 5 - int(max(agree, 0)))
        else:
            lost += GUARD
        previous = value
    raise PrecisionError(
        f"{digits} digits did not settle at {working} working digits; the point lies at (or within "
        "rounding of) a place where the solution branches"
    )


def parameters(
    compiled: Programs, exact: Mapping[Any, Any], nonlinearities: Any, digits: int
) -> dict[Any, Any]:
    """All parameters as balls at the current precision."""
    bound = bind(compiled.system, exact, nonlinearities, digits)
    return dict(zip(compiled.parameters, [ball(x) for x in compiled.arguments(bound)], strict=True))


def polish(
    compiled: Programs,
    exact: Mapping[Any, Any],
    nonlinearities: Any,
    start: Sequence[Sequence[Any]],
    digits: int,
) -> tuple[list[list[Any]], Any, float]:
    """Newton's method with doubling precision, then the value: unknowns, value, log10 residual."""
    ladder = [digits]
    while ladder[0] > 30:
        ladder.insert(0, ladder[0] // 2 + 4)
    bound = bind(compiled.system, exact, nonlinearities, digits)
    arguments = compiled.arguments(bound)
    vs = [list(v) for v in start]
    value, residual = None, -math.inf
    for step in ladder:
        with precision(math.ceil(step * BITS_PER_DIGIT) + 8):
            x = dict(zip(compiled.parameters, map(ball, arguments), strict=True))
            k = compiled.coefficients(x, balls())
            residual = -math.inf
            for component, core in enumerate(compiled.cores):
                vs[component], gap = newton(core, [ball(v) for v in vs[component]], k, step)
                residual = max(residual, gap)
            if step == digits:
                try:
                    value = middle(compiled.value(x, vs, balls(), k))
                except ZeroDivisionError:
                    value = arb("nan")
    return vs, value, residual


def newton(core: AnyCore, v: list[Any], k: Coefficients, digits: int) -> tuple[list[Any], float]:
    """Newton's method until the corrections are at rounding; log10 of the last one, relative."""
    if not core.count:
        return v, -math.inf
    last, idle = math.inf, 0
    for _ in range(60):
        try:
            flat = core.step(v, k.a, k.s, k.l, mean=k.mean, inverse=inverse)
        except ZeroDivisionError:
            return v, math.inf
        change = flat[core.count :]
        if not all(d.is_finite() for d in change):
            return v, math.inf
        v = [middle(x + d) for x, d in zip(v, change, strict=True)]
        gap = _relative(change, v, v)
        if gap < 5 - digits:
            return v, gap
        idle = idle + 1 if gap > last - 0.3 else 0
        if idle == 4:
            return v, gap
        last = gap
    return v, last


def start_near(
    compiled: Programs, exact: Mapping[Any, Any], nonlinearities: Any, start: Any
) -> list[list[Any]]:
    if start is None:
        rough = {key: complex(v) if v.has(sp.I) else float(v) for key, v in exact.items()}
        solution = solve(
            compiled.system, rough, nonlinearities=nonlinearities, accuracy=math.inf, strict=False
        )
        found = bool(np.all(np.isfinite(solution.residual)))
        start = solution.unknowns if found else None
    if start is not None:
        return [
            [np.ravel(u)[index] for index in core.kept]
            for core, u in zip(compiled.cores, start, strict=True)
        ]
    smallest = min(
        (abs(complex(exact[s])) for _, s, _ in compiled.ridges if s in exact), default=1.0
    )
    digits = CLIMB + 3 * max(0, math.ceil(-math.log10(smallest or 1.0)))
    if digits > 5 * CLIMB:
        raise ConvergenceError(
            f"no solution on the physical branch found: the ridge {smallest:.1e} is out of reach; "
            "take the series for small ridges (rmtsym.series, rmtsym.exact_series)"
        )
    with precision(math.ceil(digits * BITS_PER_DIGIT)):
        x = parameters(compiled, exact, nonlinearities, digits)
        k = compiled.coefficients(x, balls())
        _require_real(compiled, x, k)
        return [_climb(compiled, core, k) for core in compiled.cores]


def _require_real(compiled: Programs, x: Mapping[Any, Any], k: Coefficients) -> None:
    """InputError where real parameters give a coefficient that is not real."""
    if any(isinstance(value, acb) for value in x.values()):
        return
    for expression, value in zip(compiled.expressions, (*k.a, *k.s, *k.o), strict=True):
        number = acb(value)
        if not (number.is_finite() and number.imag.contains(0)):
            where = ", ".join(f"{s} = {x[s].str(6, radius=False)}" for s in x if expression.has(s))
            raise InputError(
                f"got {where}, where {expression}, a coefficient of the equations, is no real "
                "number; give values inside its domain"
            )


CLIMB = 60
"""Digits in which the path is followed where double precision loses it; more for tiny ridges."""
STRIDES = 20_000
"""Steps of that path, which narrow where the equations are nearly singular."""


def _climb(compiled: Programs, core: AnyCore, k: Coefficients) -> list[Any]:
    """The unknowns of one component, followed down from large ridges; as :mod:`rmtsym.solver`."""
    calls = {"mean": k.mean, "inverse": inverse}
    ridges = [(place, sign * k.a[place]) for place, _, sign in compiled.ridges]
    if not ridges or any(isinstance(r, acb) or not r > 0 for _, r in ridges):
        raise ConvergenceError(
            "no solution on the physical branch found; check that every inverse exists there"
        )

    def at(x: arb) -> tuple[list[Any], list[Any]]:
        a, da = list(k.a), [arb(0)] * len(k.a)
        for place, _ in ridges:
            a[place] = da[place] = k.a[place] * x.exp()
        return a, da

    least = min((r for _, r in ridges), key=size)
    for far in (3, 9, 18, 30, 60, 120, 240):
        x = arb(max(0.0, (far - size(least)) * math.log(10)))
        a, _ = at(x)
        v = [arb(0)] * core.count
        v = core.residual(v, a, [arb(0)] * len(k.s), k.l, **calls)
        gap = math.inf
        for _ in range(20):
            change = core.residual(v, a, k.s, k.l, **calls)
            v = [middle(y + d) for y, d in zip(v, change, strict=True)]
            gap = _relative(change, v, v)
        if gap < -4:
            break
    base, slope, h, rate = v, [arb(0)] * core.count, 1.0, v
    zero = [arb(0)] * len(k.s)
    goal, start = x, x
    for _ in range(STRIDES):
        a, da = at(goal)
        first = last = math.inf
        good = False
        for step in range(8):
            flat = core.follow(v, a, k.s, k.l, da, zero, **calls)
            change, rate = flat[core.count : 2 * core.count], flat[2 * core.count :]
            gap = _relative(change, v, rate)
            first = gap if step == 0 else first
            if (step == 0 and gap > -0.3) or (step and gap > last - 0.7) or gap == math.inf:
                break
            v = [middle(y + d) for y, d in zip(v, change, strict=True)]
            last = gap
            if gap < -7:
                good = True
                break
        if good and float(goal) == 0:
            return v
        if good:
            slope = [
                middle(r / y) if not y.contains(0) else arb(0) for r, y in zip(rate, v, strict=True)
            ]
            base, start = v, goal
            h = min(h * (2.0 if first < -2 else 1.3), 6.0)
        else:
            h /= 3
            if h < 1e-12:
                break
        goal = max(start - h, arb(0), key=float)
        way = goal - start
        v = [
            middle(
                y
                * (
                    (s * way).exp()
                    if abs(float(s)) < 1.5
                    else 1 + s * max(way, arb(-1.5), key=float)
                )
            )
            for y, s in zip(base, slope, strict=True)
        ]
    raise ConvergenceError("the path from large ridges was lost even with 60 digits")


def _relative(change: list[Any], v: list[Any], rate: list[Any]) -> float:
    """log10 of the largest relative change; inf where it is not a number."""
    if not all(x.is_finite() for x in change):
        return math.inf
    gaps = [
        size(d) - max(size(y), size(r))
        for d, y, r in zip(change, v, rate, strict=True)
        if size(d) > -math.inf
    ]
    return max(gaps, default=-math.inf)


def _unknowns(
    compiled: Programs, exact: Mapping[Any, Any], nonlinearities: Any, vs: list[list[Any]]
) -> list[list[Any]]:
    with precision(80):
        x = parameters(compiled, exact, nonlinearities, 22)
        return compiled.unknowns(vs, compiled.coefficients(x, balls()))


def vouched(value: Any, digits: int, notes: tuple[str, ...]) -> Any:
    bits = math.ceil((digits + 4) * BITS_PER_DIGIT)
    if isinstance(value, acb):
        real, imaginary = to_mpf(value.real, bits), to_mpf(value.imag, bits)
        return mpmath.mp.make_mpc((real._mpf_, imaginary._mpf_))
    return Digits.of(to_mpf(value, bits), digits, notes)
