"""Exact expressions as Python source, for every number type.

The source uses ``+ - * /``, integer powers, ``sqrt``, ``exp`` and ``log`` only; :class:`Numbers`
says what these, rationals and pi are for floats, NumPy arrays (many points at once), extended
doubles, balls, series.

>>> x = sp.Symbol("x")
>>> MATH.call(load(source_of([x / 3 + sp.sqrt(x)], [x])), [9.0])
[6.0]
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np
import sympy as sp

from rmtsym.errors import UnsupportedError

Program: TypeAlias = Callable[..., list[Any]]


@dataclass(frozen=True)
class Numbers:
    """The elementary operations of a number type."""

    name: str
    rational: Callable[[int, int], Any]
    sqrt: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    log: Callable[[Any], Any]
    pi: Any
    dtype: Any

    def call(self, program: Program, x: Sequence[Any]) -> list[Any]:
        """A generated function at numbers x of this type."""
        return program(x, self.rational, self.sqrt, self.exp, self.log, self.pi)


def cmath_or_math(name: str) -> Callable[[Any], Any]:
    """The function of ``math``, or of ``cmath`` at complex numbers."""
    real, complex_ = getattr(math, name), getattr(cmath, name)
    return lambda x: complex_(x) if isinstance(x, complex) else real(x)


NUMPY = Numbers("double", lambda p, q: p / q, np.sqrt, np.exp, np.log, np.pi, float)
MATH = Numbers(
    "double",
    lambda p, q: p / q,
    cmath_or_math("sqrt"),
    cmath_or_math("exp"),
    cmath_or_math("log"),
    math.pi,
    float,
)
EXTENDED = Numbers(
    "extended double",
    lambda p, q: np.longdouble(p) / np.longdouble(q),
    np.sqrt,
    np.exp,
    np.log,
    4 * np.arctan(np.longdouble(1)),
    np.longdouble,
)


def source_of(expressions: Sequence[sp.Expr], parameters: Sequence[sp.Symbol]) -> str:
    """Source of ``f(x, q, sqrt, exp, log, pi)`` that returns the values of the expressions.

    >>> a, b = sp.symbols("a b")
    >>> print(source_of([sp.sqrt(a) / 3 + b**2], [a, b]))
    def f(x, q, sqrt, exp, log, pi):
        return [x[1]**2 + q(1, 3)*sqrt(x[0])]
    """
    name = {symbol: f"x[{index}]" for index, symbol in enumerate(parameters)}
    shared, reduced = sp.cse(list(expressions), symbols=sp.numbered_symbols("t_"))
    lines = ["def f(x, q, sqrt, exp, log, pi):"]
    for symbol, expression in shared:
        name[symbol] = symbol.name
        lines.append(f"    {symbol.name} = {_emit(expression, name)}")
    lines.append(f"    return [{', '.join(_emit(e, name) for e in reduced)}]")
    return "\n".join(lines)


def _emit(expression: sp.Expr, name: Mapping[sp.Symbol, str]) -> str:
    if expression in name:
        return name[expression]
    if expression.is_Integer:
        return str(expression) if expression >= 0 else f"({expression})"
    if expression.is_Rational:
        return f"q({expression.p}, {expression.q})"
    if expression.is_Float:
        exact = Fraction(str(expression))
        return f"q({exact.numerator}, {exact.denominator})"
    if expression == sp.pi:
        return "pi"
    if expression.is_Add:
        return " + ".join(_emit(a, name) for a in sorted(expression.args, key=str))
    if expression.is_Mul:
        return "*".join(_wrap(a, name) for a in sorted(expression.args, key=str))
    if expression.is_Pow:
        base, exponent = expression.args
        if exponent.is_Integer:
            power = f"{_wrap(base, name)}**{abs(exponent)}" if abs(exponent) != 1 else None
            power = power or _wrap(base, name)
            return power if exponent > 0 else f"(1/{power})"
        if exponent.is_Rational and exponent.q == 2:
            power = f"sqrt({_emit(base, name)})" + (f"**{abs(exponent.p)}" * (abs(exponent.p) != 1))
            return power if exponent > 0 else f"(1/{power})"
        return f"exp({_wrap(exponent, name)}*log({_emit(base, name)}))"
    if isinstance(expression, (sp.exp, sp.log)):
        return f"{type(expression).__name__}({_emit(expression.args[0], name)})"
    raise UnsupportedError(
        f"got {expression} ({type(expression).__name__}) among the coefficients; they are built "
        "from symbols and rationals by + - * /, rational powers, exp and log"
    )


def _wrap(expression: sp.Expr, name: Mapping[sp.Symbol, str]) -> str:
    text = _emit(expression, name)
    return f"({text})" if (expression.is_Add or expression.is_Mul) and text[0] != "t" else text


def load(source: str) -> Program:
    """The function that a source defines."""
    namespace: dict[str, Any] = {}
    exec(compile(source, "<rmtsym coefficients>", "exec"), namespace)
    return cast(Program, namespace["f"])


@lru_cache(maxsize=256)
def slope_of(
    expressions: tuple[sp.Expr, ...], parameters: tuple[sp.Symbol, ...], variable: sp.Symbol
) -> Program:
    """The derivatives of the expressions in one parameter, as a function."""
    return load(source_of([sp.diff(e, variable) for e in expressions], parameters))
