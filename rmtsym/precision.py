"""Any number of correct digits, from exact inputs.

The double solution is polished by Newton's method in a private precision context, at twice the
working digits each time, and once more with guard digits: the digits are given only when both
values agree on them. mpmath's own precision is neither read nor changed.

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

from collections.abc import Mapping, Sequence
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from rmtsym.compilation import Array, CompiledSystem, Numbers, Point, compile_system, solve_linear
from rmtsym.digits import Digits
from rmtsym.errors import InputError, PrecisionError
from rmtsym.parsing import exact_number
from rmtsym.solver import Solution, bind, solve
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
        elif isinstance(value, sp.Basic) and value.is_number and not value.is_real:
            found[symbol] = exact_number(sp.re(value)) + sp.I * exact_number(sp.im(value))
        else:
            found[symbol] = exact_number(value)
        if isinstance(value, (float, complex, np.inexact)) and found[symbol].is_integer is not True:
            notes.append(f"{symbol} = {value} was read as {found[symbol]}")
    return found, tuple(notes)


def mpmath_numbers(digits: int) -> tuple[Any, Numbers]:
    """A private context of so many digits and its number type."""
    context = mpmath.ctx_mp.MPContext()
    context.dps = digits
    numbers = Numbers(
        f"mpmath, {digits} digits",
        lambda p, q: context.mpf(p) / q,
        context.sqrt,
        context.exp,
        context.log,
        context.pi + 0,
        object,
    )
    return context, numbers


def to_context(value: Any, context: Any) -> Any:
    """An exact SymPy number, or an mpmath number, in a context, rounded once."""
    if isinstance(value, sp.Rational):
        return context.mpf(int(value.p)) / int(value.q)
    if isinstance(value, sp.Basic):
        real, imaginary = value.as_real_imag()
        if imaginary != 0:
            return context.mpc(to_context(real, context), to_context(imaginary, context))
        if isinstance(real, sp.Rational):
            return to_context(real, context)
        return context.make_mpf(sp.N(real, context.dps + 5)._to_mpmath(context.prec + 10)._mpf_) + 0
    return context.make_mpf(value._mpf_) + 0


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
    start : unknowns near the solution, per component; found in double precision otherwise.

    Raises
    ------
    PrecisionError
        if the digits do not settle; InputError for inputs that are not numbers.
    ConvergenceError
        if double precision finds no solution to start from.
    """
    if isinstance(digits, bool) or not isinstance(digits, int) or not 1 <= digits <= 100_000:
        raise InputError(f"got digits={digits!r}; pass a whole number from 1")
    compiled = system if isinstance(system, CompiledSystem) else compile_system(system)
    exact, notes = exact_values(values)
    if start is None:
        rough = {key: complex(v) if v.has(sp.I) else float(v) for key, v in exact.items()}
        start = solve(compiled, rough, nonlinearities=nonlinearities).unknowns
    unknowns = [np.asarray(u, dtype=object) for u in start]
    previous, lost = None, GUARD
    for _ in range(ATTEMPTS):
        working = digits + lost
        bound = bind(compiled.system, exact, nonlinearities, working)
        unknowns, value, residual, context = _polish(compiled, bound, unknowns, working)
        if previous is not None:
            agree = _agreement(previous, value, context)
            if agree >= digits + 1:
                return Solution(
                    _vouched(value, digits, notes),
                    float(residual),
                    tuple(unknowns),
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


def _polish(
    compiled: CompiledSystem, values: Mapping[Any, Any], start: Sequence[Array], digits: int
) -> tuple[list[Array], Any, Any, Any]:
    """Newton's method with doubling precision, then the value: unknowns, value, residual."""
    ladder = [digits]
    while ladder[0] > 30:
        ladder.insert(0, ladder[0] // 2 + 4)
    unknowns = list(start)
    for step in ladder:
        context, numbers = mpmath_numbers(step)
        point = compiled.at(
            {s: to_context(values[s], context) for s in compiled.parameters}, numbers
        )
        residual = context.mpf(0)
        for component, u in enumerate(unknowns):
            inside = np.array([_convert(x, context) for x in u], dtype=object)
            unknowns[component], size = _newton(point, component, inside, context)
            residual = max(residual, size)
    return unknowns, point.value(unknowns), residual, context


def _newton(point: Point, component: int, u: Array, context: Any) -> tuple[Array, Any]:
    """Newton's method until the relative residual is at rounding or stops falling."""
    if not len(u):
        return u, context.mpf(0)
    goal = context.mpf(10) ** (3 - context.dps)
    best, size = u, context.inf
    for _ in range(40):
        value, inverses = point.phi(component, u)
        difference = value - u
        now = max(abs(x) for x in difference) / max(abs(x) for x in u)
        if now < size:
            best, improved, size = u, now < size / 4, now
        else:
            improved = False
        if size == 0 or (size < goal and not improved):
            break
        jacobian = point.jacobian(component, inverses)
        identity = np.eye(len(u), dtype=int).astype(object)
        u = u + solve_linear(identity - jacobian, difference[:, None])[:, 0]
    return best, size


def _convert(value: Any, context: Any) -> Any:
    if hasattr(value, "_mpf_"):
        return context.make_mpf(value._mpf_)
    if hasattr(value, "_mpc_"):
        return context.make_mpc(value._mpc_)
    return context.mpmathify(complex(value) if np.iscomplexobj(value) else float(value))


def _agreement(one: Any, other: Any, context: Any) -> float:
    """The number of significant digits on which two values agree."""
    gap = abs(_convert(one, context) - other)
    if gap == 0:
        return float(context.dps)
    return -float(context.log10(gap / abs(other))) if other != 0 else 0.0


def _vouched(value: Any, digits: int, notes: tuple[str, ...]) -> Any:
    if hasattr(value, "_mpc_"):
        return mpmath.mp.make_mpc(value._mpc_)
    return Digits.of(value, digits, notes)
