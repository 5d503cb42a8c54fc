"""Closed forms (placeholder, replaced in the next step)."""

from __future__ import annotations

from sympy import Expr, Symbol


def parity(f: Expr, t: Symbol) -> int | None:
    for s in (1, -1):
        if f.subs(t, -t) == s * f:
            return s
    return None


def exact_moment(f: Expr, t: Symbol, k: int) -> Expr | None:
    return None


def exact_energy(f: Expr, t: Symbol) -> Expr | None:
    return None


def generating_function(f: Expr, t: Symbol, s: Expr) -> Expr | None:
    return None


def general_moment(f: Expr, t: Symbol, k: Expr) -> Expr | None:
    return None


def orthonormal(k: int, x: Expr) -> Expr:
    """he_k(x) = He_k(x)/sqrt(k!)."""
    import sympy

    return sympy.hermite_prob(k, x) / sympy.sqrt(sympy.factorial(k))
