"""Elimination to one polynomial, its branch, its budget."""

import pytest
import sympy as sp

from rmtsym import derive, solve
from rmtsym.elimination import polynomial, specialise
from rmtsym.errors import BudgetError, InputError, UnsupportedError
from rmtsym.matrices import (
    Entrywise,
    Gaussian,
    Identity,
    OffDiagonal,
    Trace,
    Wigner,
    dimensions,
)
from rmtsym.models import MODELS

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
f, M = sp.Symbol("f"), sp.Symbol("M")
Z = Gaussian("Z", p, n)
K = OffDiagonal(Entrywise(f, Z.T * Z / sp.sqrt(p))) / sp.sqrt(p)
NOISE = derive(Trace((K.T * Z.T * Z * K / n + gamma * Identity(n)).inverse()) / n, {n: 1, p: c})
a1, nu = (next(s for s in NOISE.parameters if s.name == name) for name in ("a_1", "nu"))


def test_marchenko_pastur_and_semicircle():
    system = MODELS["marchenko-pastur"].system
    assert sp.expand(polynomial(system, "value", M)) == sp.expand(
        c * gamma * M**2 + (gamma + 1 - c) * M - 1
    )
    S = Wigner("S", n)
    found = derive(Trace((gamma * Identity(n) - S / sp.sqrt(n)).inverse()) / n, {n: 1})
    assert sp.expand(polynomial(found, "value", M, at={gamma: 3})) == M**2 - M * gamma + 1


def test_attention_without_a_linear_part():
    """gamma m = z m0(z), z = c/(nu m); the root is m = 20 at c = nu = 1, gamma = 1/100."""
    found = polynomial(NOISE, "value", M, values={a1: 0})
    z = c / (nu * M)
    m0 = gamma * M / z
    expected = sp.numer(sp.together(z * m0**2 + (z - 1 + c) * m0 - 1))
    assert sp.rem(sp.expand(found), sp.expand(expected), M) == 0 or sp.cancel(
        expected / found
    ).free_symbols <= {c, nu, gamma}
    point = {c: 1, nu: 1, gamma: sp.Rational(1, 100)}
    assert found.subs({**point, M: 20}) == 0


def test_specialising_removes_blocks():
    special = specialise(NOISE, {a1: 0})
    assert len(special.unknowns) < len(NOISE.unknowns)
    values = {c: 1, nu: 1, gamma: 0.01}
    assert solve(special, values).value == pytest.approx(20, rel=1e-12)
    with pytest.raises(InputError, match="exact"):
        specialise(NOISE, {a1: 0.5})


def test_a_single_unknown():
    system = MODELS["marchenko-pastur"].system
    unknown = system.unknowns[1]
    found = polynomial(system, unknown)
    point = {c: sp.Rational(1, 2), gamma: sp.Rational(1, 3)}
    solution = solve(system, point)
    root = dict(zip(system.unknowns, solution.unknowns[0], strict=True))[unknown]
    assert abs(float(found.subs({**point, unknown: root}))) < 1e-12


def test_the_budget_is_kept():
    with pytest.raises(BudgetError, match="seconds"):
        polynomial(NOISE, "value", M, budget=3)


def test_what_cannot_be_eliminated_is_refused():
    with pytest.raises(UnsupportedError, match="spectral law"):
        polynomial(MODELS["anisotropic"].system, "value")
    with pytest.raises(UnsupportedError, match=r"derivatives|spikes"):
        polynomial(MODELS["regression"].system, "value")
    with pytest.raises(InputError, match="this system has"):
        polynomial(MODELS["semicircle"].system, "q")
