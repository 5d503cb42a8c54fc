"""Laws of the derivation over random rational expressions."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from expressions import Drawer, literal, m, n, naive_limits, p, pencil_value, sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmtsym.algebra import Product
from rmtsym.dyson import derive
from rmtsym.linearization import linearize
from rmtsym.matrices import Identity, Trace
from rmtsym.pencil import build
from rmtsym.rewriting import walk
from rmtsym.solver import solve

RELATIVE = {n: 1, p: sp.Rational(7, 10), m: sp.Rational(7, 5)}
relaxed = settings(
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def rational_expressions(draw, depth=3):
    return Drawer(lambda options: draw(st.sampled_from(list(options)))).expression(depth)


@st.composite
def pairs_of_square_expressions(draw):
    drawer = Drawer(lambda options: draw(st.sampled_from(list(options))))
    return drawer.square(n, 2), drawer.square(n, 2)


def limit(expression):
    return solve(derive(expression, RELATIVE), {}).value


@relaxed
@given(rational_expressions(), st.integers(0, 2**32 - 1), st.tuples(*[st.integers(2, 6)] * 3))
def test_pencil_inverse_block_is_the_expression(expression, seed, dims):
    numbers = dict(zip((n, p, m), dims, strict=True))
    linearization = build(linearize(expression))
    arrays = sample(list(walk(expression)), numbers, np.random.default_rng(seed))
    values = {
        symbol: pencil_value(pencil, arrays, numbers)
        for symbol, pencil in zip(linearization.symbols, linearization.pencils, strict=True)
    }
    read = float(linearization.formula.subs(values).subs(numbers))
    assert read == pytest.approx(literal(expression, arrays, numbers).item(), rel=1e-10, abs=1e-10)


@relaxed
@given(rational_expressions())
def test_reduced_system_is_the_general_rule(expression):
    linearization = build(linearize(expression))
    relative = {key: float(value) for key, value in RELATIVE.items()}
    plain = dict(zip(linearization.symbols, naive_limits(linearization, relative), strict=True))
    expected = float(linearization.formula.subs(plain).subs(relative))
    assert limit(expression) == pytest.approx(expected, rel=1e-10, abs=1e-12)


@relaxed
@given(rational_expressions())
def test_a_trace_is_that_of_the_transpose(expression):
    size = expression.operand.operand.shape[0]
    turned = Trace(expression.operand.operand.T) / size
    assert limit(turned) == pytest.approx(limit(expression), rel=1e-10, abs=1e-12)


@relaxed
@given(pairs_of_square_expressions())
def test_traces_are_linear_and_cyclic(pair):
    A, B = pair
    assert limit(Trace(A + 2 * B) / n) == pytest.approx(
        limit(Trace(A) / n) + 2 * limit(Trace(B) / n), rel=1e-10, abs=1e-12
    )
    assert limit(Trace(A * B) / n) == pytest.approx(limit(Trace(B * A) / n), rel=1e-9, abs=1e-12)


@relaxed
@given(pairs_of_square_expressions())
def test_an_inverse_undoes_its_operand(pair):
    A, _ = pair
    M = Product.of(A, A.T) + Identity(n)
    assert limit(Trace(M.inverse() * M) / n) == pytest.approx(1, rel=1e-10)


@relaxed
@given(pairs_of_square_expressions())
def test_the_resolvent_identity(pair):
    A, B = (Product.of(x, x.T) + Identity(n) for x in pair)
    P, Q = A.inverse(), B.inverse()
    left = limit(Trace(P) / n) - limit(Trace(Q) / n)
    assert left == pytest.approx(limit(Trace(P * (B - A) * Q) / n), rel=1e-9, abs=1e-10)
