"""Scalars, sizes and names: exact SymPy, read from whatever is given.

>>> scalar(0.1)
1/10
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias, cast

import sympy as sp

from rmtsym.errors import InputError, require

Scalar: TypeAlias = sp.Expr
ZERO, ONE = sp.Integer(0), sp.Integer(1)


def dimensions(names: str) -> Any:
    """Sizes: positive integer symbols, ``n, p = dimensions("n p")``.

    >>> dimensions("n p")
    (n, p)
    """
    return sp.symbols(names, positive=True, integer=True)


def scalar(value: Any) -> Scalar:
    """A scalar as exact SymPy; a float is read as the shortest decimal that prints it."""
    if isinstance(value, bool):
        raise InputError(f"got {value!r} as a scalar; pass a number or a SymPy expression")
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise InputError(f"got {value!r} as a scalar; pass a finite number")
        return cast(Scalar, sp.Rational(repr(value)))
    if isinstance(value, Fraction):
        return cast(Scalar, sp.Rational(value.numerator, value.denominator))
    if isinstance(value, str):
        raise InputError(f"got the text {value!r} as a scalar; pass a SymPy symbol or a number")
    try:
        result = sp.sympify(value)
    except (sp.SympifyError, TypeError, AttributeError) as error:
        raise InputError(
            f"got {value!r} as a scalar; pass a number or a SymPy expression"
        ) from error
    if not isinstance(result, sp.Expr) or not result.is_commutative:
        raise InputError(f"got {value!r} as a scalar; pass a commuting SymPy expression")
    return result


def read_size(value: Any) -> Scalar:
    """A size: a positive scalar."""
    size = scalar(value)
    require(
        bool(size.is_positive),
        f"got the size {value!r}; a size is a positive symbol from dimensions(...)",
    )
    return size


def read_name(name: str) -> str:
    """A name of a matrix or vector."""
    require(
        isinstance(name, str) and name != "" and not any(c.isspace() for c in name),
        f"got the name {name!r}; a name is a non-empty text without blanks",
    )
    return name


def latex_name(name: str) -> str:
    """A name in LaTeX, its indices as indices."""
    return cast(str, sp.latex(sp.Symbol(name)))
