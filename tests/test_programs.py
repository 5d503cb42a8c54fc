"""Systems as straight-line programs: against the same equations on arrays, term by term."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from test_compilation import EXPRESSIONS, RATIO, VALUES

from rmtsym.compilation import compile_system
from rmtsym.dyson import derive
from rmtsym.matrices import Identity, Trace, Wigner, dimensions
from rmtsym.programs import DenseCore, programs

n = dimensions("n")
gamma, a = sp.symbols("gamma a", positive=True)


@pytest.fixture(params=EXPRESSIONS)
def case(request):
    system = derive(EXPRESSIONS[request.param], RATIO)
    return system, {symbol: VALUES[str(symbol)] for symbol in system.parameters}


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_the_residual_is_that_of_the_equations_on_arrays(case, shift):
    """At unknowns away from the solution; the eliminated ones follow the kept ones."""
    system, values = case
    found, point = programs(system), compile_system(system).at(values)
    k = found.coefficients(values)
    if found.shift is not None:
        k.a[found.shift] = shift
    rng = np.random.default_rng(4)
    kept, expanded = [], []
    for component, core in enumerate(found.cores):
        assert not isinstance(core, DenseCore)
        v = rng.uniform(0.1, 0.5, core.count)
        u = np.zeros(point.count(component))
        for _ in range(len(u) + 1):
            u[list(core.kept)] = v
            phi, _ = point.phi(component, u, shift=shift)
            u = phi.copy()
        expected = phi[list(core.kept)] - v
        residual = core.residual(list(v), k.a, k.s, k.l, mean=k.mean)
        np.testing.assert_allclose(residual, expected, rtol=1e-12)
        assert not core.count or np.max(np.abs(expected)) > 1e-3
        u[list(core.kept)] = v
        kept.append(list(v))
        expanded.append(u)
    for u, expected in zip(found.unknowns(kept, k), expanded, strict=True):
        np.testing.assert_allclose(u, expected, rtol=1e-12)


def test_ridges_are_alone_on_the_diagonal():
    S, T = Wigner("S", n), Wigner("T", n)
    inner = (T * T / n + gamma * Identity(n)).inverse()

    def ridges(outer):
        system = derive(Trace(outer.inverse()) / n, {n: 1})
        return {(str(symbol), sign) for _, symbol, sign in programs(system).ridges}

    base = S * S / n + Identity(n)
    assert ridges(S * S / n + gamma * Identity(n)) == {("gamma", 1)}
    assert ridges(S / sp.sqrt(n) - gamma * Identity(n)) == {("gamma", -1)}
    # Off the diagonal, beside a random matrix, or as a factor it is none.
    assert ridges(base + a * inner) == {("gamma", 1)}
    assert ridges(base - a * inner) == {("gamma", 1)}
    assert ridges(base + a * Identity(n)) == {("a", 1)}
    assert ridges(base - a * Identity(n)) == {("a", -1)}
    assert ridges(base + a * S / sp.sqrt(n)) == set()
    assert ridges(base + 2 * a * Identity(n)) == set()
