"""The Dyson equation: closed values, traps with their right values, and what is refused by name."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import sympy as sp

from rmtsym.dyson import _without_plain, derive
from rmtsym.errors import ConvergenceError, InputError, UnsupportedError
from rmtsym.matrices import (
    D,
    Deterministic,
    Entrywise,
    Gaussian,
    Identity,
    Labels,
    Matrix,
    OffDiagonal,
    SpectralLaw,
    Trace,
    Vector,
    Wigner,
    dimensions,
    from_sympy,
    inner,
)
from rmtsym.models import attention
from rmtsym.pencil import Entry
from rmtsym.rewriting import differentiate, push_transposes, walk
from rmtsym.solver import solve

n, p, m = dimensions("n p m")
gamma, c = sp.symbols("gamma c", positive=True)
f = sp.Symbol("f")
X, A, B, S = Gaussian("X", n, p), Gaussian("A", n, n), Gaussian("B", n, n), Wigner("S", n)
ROOT = sp.sqrt(n)


def limit(expression, sizes=None, values=None):
    return solve(derive(expression, {n: 1, **(sizes or {})}), values or {}).value


# -- traps ----------------------------------------------------------------------------------


def test_words_do_not_commute():
    """tr W^T (Z1 Z1^T Z2 Z2^T + Z1 Z2^T Z2 Z1^T) W / m is phi^2 + phi, not 2 phi^2."""
    d = dimensions("d")
    phi, width = sp.symbols("phi width", positive=True)
    Z1, Z2, W = Gaussian("Z1", n, d), Gaussian("Z2", n, d), Gaussian("W", n, m)
    word = Z1 * Z1.T * Z2 * Z2.T + Z1 * Z2.T * Z2 * Z1.T
    system = derive(Trace(W.T * word * W) / m / n**3, {n: 1, d: phi, m: width})
    for value in (0.3, 0.7, 2.0):
        found = solve(system, {phi: value, width: 0.6}).value
        assert found == pytest.approx(value**2 + value, rel=1e-12)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (Trace(A * A) / n**2, 0),  # Ginibre: tr A^2 vanishes
        (Trace(A * A.T) / n**2, 1),
        (Trace(A * A * A.T * A.T) / n**3, 1),
        (Trace(A * A.T * A * A.T) / n**3, 2),
        (Trace(S * S) / n**2, 1),  # GOE
        (Trace(S**4) / n**3, 2),
        (Trace(S**6) / n**4, 5),
        (Trace((A + B) * (A + B).T) / n**2, 2),  # a sum inside a product
        (Trace((A + ROOT * Identity(n)) * (A + ROOT * Identity(n)).T) / n**2, 2),
        (Trace((A + A.T) * (A + A.T)) / n**2, 2),
        (Trace((3 * Identity(n) - A / ROOT).inverse()) / n, 1 / 3),
        (Trace((3 * Identity(n) - S / ROOT).inverse()) / n, (3 - math.sqrt(5)) / 2),
    ],
)
def test_square_gaussian_and_goe(expression, value):
    assert limit(expression) == pytest.approx(value, rel=1e-12, abs=1e-14)


def test_a_ginibre_matrix_twice_is_not_two_of_them():
    one = Trace((A * A / n + 3 * Identity(n)).inverse()) / n
    other = Trace((A * A.T / n + 3 * Identity(n)).inverse()) / n
    assert limit(one) == pytest.approx(1 / 3, rel=1e-12)
    assert limit(other) == pytest.approx((math.sqrt(21) - 3) / 6, rel=1e-12)


@pytest.mark.parametrize("ratio", [sp.Rational(1, 2), 1, 2])
def test_the_atom_at_zero(ratio):
    """gamma tr (X X^T/n + gamma)^{-1}/n tends to the mass at zero, max(0, 1 - p/n)."""
    Q = (X * X.T / n + gamma * Identity(n)).inverse()
    found = limit(gamma * Trace(Q) / n, {p: ratio}, {gamma: 1e-12})
    assert found == pytest.approx(max(0, 1 - float(ratio)), abs=2e-6)


def test_non_symmetric_deterministic_matrices_have_no_name_here():
    """A deterministic matrix is symmetric with a law; two laws on one space may not commute."""
    one = Deterministic("C", p, SpectralLaw.from_atoms([1, 2]))
    other = Deterministic("E", p, SpectralLaw.from_atoms([1, 5]))
    with pytest.raises(UnsupportedError, match="one joint SpectralLaw"):
        derive(Trace((X * one * X.T / n + X * other * X.T / n + Identity(n)).inverse()) / n)
    assert push_transposes(one.T) == one


def test_the_order_of_random_words_is_kept():
    """tr(A R A^T) is not tr(A^2 R): with R = (B B^T/n + 1)^{-1} they are tr R and 0."""
    R = (B * B.T / n + Identity(n)).inverse()
    assert limit(Trace(A * R * A.T) / n**2) == pytest.approx((math.sqrt(5) - 1) / 2, rel=1e-12)
    assert limit(Trace(A * A * R) / n**2) == pytest.approx(0, abs=1e-14)


def test_sympy_rewrites_are_not_ours():
    Z = sp.MatrixSymbol("Z", n, p)
    assert str(from_sympy(Z.T * Z / n)) == "1/n*Z'*Z"
    singular = (A * X * X.T * A.T).inverse() * A * X * X.T * A.T
    assert str(singular).startswith("(")


CODE = """
import sympy as sp
from rmtsym.models import MODELS
for name in ("attention", "random-features-training", "wishart-product", "ridge-bias"):
    system = MODELS[name].system
    print(system)
    print(system._repr_latex_())
"""


def test_the_text_does_not_depend_on_the_hash_seed():
    texts = {
        subprocess.run(
            [sys.executable, "-c", CODE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(texts) == 1
    assert len(texts.pop()) > 1000


def test_no_equation_is_ever_a_relational():
    assert not any(isinstance(e, sp.Equality) for e in attention.ATTENTION.system.equations)


# -- inverses without a regulariser ---------------------------------------------------------


def test_inverses_that_exist_by_their_randomness():
    half = {p: sp.Rational(1, 2)}
    W = X.T * X / n
    assert limit(Trace(W.inverse()) / p, half) == pytest.approx(2, rel=1e-10)
    assert limit(Trace(W.inverse() ** 2) / p, half) == pytest.approx(8, rel=1e-10)
    assert limit(Trace(X * (X.T * X).inverse() * X.T) / n, half) == pytest.approx(0.5, rel=1e-12)
    negative = (-1 * W).inverse()
    assert limit(Trace(negative) / p, half) == pytest.approx(-2, rel=1e-10)


def test_inverses_that_do_not_exist_are_refused():
    with pytest.raises(ConvergenceError, match="every inverse exists"):
        limit(Trace((X.T * X / n).inverse()) / p, {p: 2})


# -- deterministic matrices -----------------------------------------------------------------


def numeric_resolvent(eigenvalues, ratio, z, count=4000):
    """Independent: s = 1/(z + c E t/(1 + t s)) by damped iteration."""
    s = 1 / z
    for _ in range(count):
        s = 0.5 * s + 0.5 / (z + ratio * np.mean(eigenvalues / (1 + eigenvalues * s)))
    return s


def test_an_empirical_spectrum():
    eigenvalues = np.random.default_rng(0).gamma(2, size=50)
    C = Deterministic("C", p, SpectralLaw.from_atoms(eigenvalues))
    found = limit(Trace((X * C * X.T / n + Identity(n)).inverse()) / n, {p: 2})
    assert found == pytest.approx(numeric_resolvent(eigenvalues, 2, 1.0), rel=1e-10)


def test_commuting_families_and_powers():
    law = SpectralLaw.from_atoms([(1, 4), (2, 1), (3, 9)])
    C, E = Deterministic("C", p, law), Deterministic("E", p, law, 1)
    Q = (C * X.T * X * C / n + E).inverse()
    # Pull the covariance out: Q = C^{-1} (X^T X/n + E/C^2)^{-1} C^{-1}.
    found = limit(Trace(Q) / p, {p: sp.Rational(1, 2)})
    m0 = 1.0
    for _ in range(4000):
        g = np.mean([a**2 / (a**2 * m0 + b) for a, b in ((1, 4), (2, 1), (3, 9))])
        m0 = 0.5 * m0 + 0.5 / (1 + 0.5 * g)
    expected = np.mean([1 / (a**2 * m0 + b) for a, b in ((1, 4), (2, 1), (3, 9))])
    assert found == pytest.approx(expected, rel=1e-10)


def test_vectors_are_generic_and_can_be_aligned_by_the_joint_law():
    law = SpectralLaw.from_atoms([(1, 1), (3, 2)])
    C, G = Deterministic("C", p, law), Deterministic("G", p, law, 1)
    v, w = Vector("v", p), Vector("w", p)
    symbol = inner(v, w)
    assert limit(v.T * C * w, {p: 1}, {symbol: 0.5}) == pytest.approx(0.5 * 2, rel=1e-12)
    assert limit(v.T * G * C * G * w, {p: 1}, {symbol: 0.5}) == pytest.approx(
        0.5 * (1 + 3 * 4) / 2, rel=1e-12
    )


def test_a_deterministic_matrix_outside_the_resolvent():
    """tr(C (X^T X/n + 1)^{-1}): free of each other, so the product of the two means."""
    C = Deterministic("C", p, SpectralLaw.from_atoms([1, 5]))
    Q = (X.T * X / n + Identity(p)).inverse()
    alone = limit(Trace(Q) / p, {p: 1})
    assert limit(Trace(C * Q) / p, {p: 1}) == pytest.approx(3 * alone, rel=1e-12)
    assert limit(Trace(C * Q * C) / p, {p: 1}) == pytest.approx(13 * alone, rel=1e-12)
    assert limit(Trace(C) / p, {p: 1}) == pytest.approx(3, rel=1e-12)


# -- spikes, derivatives, routes ------------------------------------------------------------


def test_two_routes_to_the_attention_error():
    """The derivative in gamma, and products of two resolvents."""
    values = {
        "c": 2 / 3,
        "gamma": 0.2,
        "a_1": 0.6057055096021591,
        "nu": 0.39429449039784176,
        "mu.mu": 2.25,
        "mu.w_k": 1.5,
        "mu.w_q": 1.5,
        "w_k.w_k": 2,
        "w_k.w_q": 1,
        "w_q.w_q": 2,
    }
    model = attention.ATTENTION
    inside = attention.y.T * attention.Q * attention.y / attention.n
    product = differentiate(inside, attention.gamma)
    other = derive(-(attention.gamma**2) * product, dict(model.sizes))
    one = solve(model.system, {s: values[s.name] for s in model.system.parameters}).value
    two = solve(other, {s: values[s.name] for s in other.parameters}).value
    assert one == pytest.approx(two, rel=1e-10)
    assert round(one, 5) == 0.21443


def test_noise_only_attention_has_twelve_unknowns():
    Z = Gaussian("Z", p, n)
    K = OffDiagonal(Entrywise(f, Z.T * Z / sp.sqrt(p))) / sp.sqrt(p)
    Q = (K.T * Z.T * Z * K / n + gamma * Identity(n)).inverse()
    system = derive(Trace(Q) / n, {n: 1, p: c})
    assert len(system.unknowns) <= 12
    numbers = {"a_1": 0, "nu": 1, "c": 1, "gamma": 0.01}
    assert solve(system, {s: numbers[s.name] for s in system.parameters}).value == pytest.approx(
        20, rel=1e-12
    )


def test_a_derivative_in_any_scalar():
    s = sp.Symbol("s", positive=True)
    Q = (s * X.T * X / n + Identity(p)).inverse()
    system = derive(D(Trace(Q) / p, s), {n: 1, p: c})
    exact = solve(system, {s: 2, c: 0.7}).value
    plain = derive(Trace(Q) / p, {n: 1, p: c})
    h = 1e-5
    slope = (solve(plain, {s: 2 + h, c: 0.7}).value - solve(plain, {s: 2 - h, c: 0.7}).value) / (
        2 * h
    )
    assert exact == pytest.approx(slope, rel=1e-7)


def test_products_and_quotients_of_limits():
    y = Labels("y", n)
    Q = (X * X.T / n + gamma * Identity(n)).inverse()
    ratio = (y.T * Q * Q * y / n) / (Trace(Q * Q) / n)
    assert limit(ratio, {p: 2}, {gamma: 0.3}) == pytest.approx(1, rel=1e-12)


def test_equations_vanish_at_the_solution():
    system = attention.ATTENTION.system
    model = derive(
        Trace((X.T * X / n + gamma * Identity(p)).inverse()) / p,
        {n: 1, p: c},
    )
    solution = solve(model, {c: 0.7, gamma: 0.3})
    known = dict(zip(model.unknowns, solution.unknowns[0], strict=True))
    for equation in model.equations:
        assert abs(float(equation.subs({**known, c: 0.7, gamma: 0.3}))) < 1e-12
    assert len(str(system)) < 6000
    assert len(system.spike_equations) > 0


def test_many_points_at_once():
    system = derive(Trace((X.T * X / n + gamma * Identity(p)).inverse()) / p, {n: 1, p: c})
    values = solve(system, {c: np.array([[0.5], [2.0]]), gamma: np.array([0.1, 1, 10])}).value
    assert values.shape == (2, 3)
    assert values[0, 1] == pytest.approx(solve(system, {c: 0.5, gamma: 1}).value, rel=1e-12)


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        (Trace(Entrywise(f, Entrywise(f, X * X.T / ROOT))) / n, UnsupportedError, "layer rule"),
        (Trace(Entrywise(f, X * X.T / ROOT)) / n, UnsupportedError, "diagonal"),
        (Trace(X * X.T) / n, UnsupportedError, "of order N"),
    ],
)
def test_refused_by_name(expression, error, message):
    with pytest.raises(error, match=message):
        derive(expression)


def test_shapes_are_checked_where_they_are_written():
    with pytest.raises(InputError, match="inner sizes"):
        X * X
    with pytest.raises(InputError, match="must be square"):
        X.inverse()
    assert isinstance(X, Matrix) and list(walk(X)) == [X]


def test_a_derivative_in_a_relative_size_is_refused():
    import sympy as sp

    from rmtsym import D, Gaussian, Identity, Trace, UnsupportedError, derive, dimensions

    n, p = dimensions("n p")
    c = sp.Symbol("c", positive=True)
    Z = Gaussian("Z", p, n)
    expression = D(Trace((Z.T * Z / n + Identity(n)).inverse()) / n, c)
    with pytest.raises(UnsupportedError, match="relative size"):
        derive(expression, {n: 1, p: c})


@pytest.mark.parametrize("seed", range(6))
def test_eliminated_rows_hold_for_every_solution(seed):
    """Rows of identities, each reaching the others by several ways: A x = b, b = 0 on them."""
    rng = np.random.default_rng(seed)
    count, plain = 6, 3
    A = rng.integers(-3, 4, (count, count)) + 7 * np.eye(count, dtype=int)
    Z = Gaussian("Z", n, n)
    entries = [
        Entry(i, j, sp.Integer(int(A[i, j])), None if i < plain else Z)
        for i in range(count)
        for j in range(count)
        if A[i, j]
    ]
    left, combination, eliminated = _without_plain(entries, count)
    assert [row for row, _ in eliminated] == list(range(plain))
    x = np.linalg.solve(A, np.r_[np.zeros(plain), rng.standard_normal(count - plain)])
    for unknown, others in combination.items():
        assert x[unknown] == pytest.approx(sum(float(v) * x[k] for k, v in others.items()))
    for row in range(plain, count):
        rest = sum(float(e.coefficient) * x[e.column] for e in left if e.row == row)
        assert rest == pytest.approx(A[row] @ x)


GOLDEN = (5**0.5 - 1) / 2
"""The Marchenko-Pastur resolvent at c = gamma = 1; below u.v = 1/2."""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda q, u, v: Trace(2 * q * 3) / n, 6 * GOLDEN),
        (lambda q, u, v: Trace(4 * q + 5 * Identity(n)) / n, 4 * GOLDEN + 5),
        (
            lambda q, u, v: 7 * Trace(q * (2 * q + 3 * Identity(n)) * gamma) / n,
            14 / 5**0.5 + 21 * GOLDEN,
        ),
        (lambda q, u, v: u.T * v + 3 * u.T * q * v, 0.5 + 1.5 * GOLDEN),
        (lambda q, u, v: (2 * Identity(1) + 21 * u.T * v).inverse(), 0.08),
        (
            lambda q, u, v: 1 / 3 * (2 * Identity(1) + u.T * v + 5 * u.T * q * v).inverse(),
            1 / (7.5 + 7.5 * GOLDEN),
        ),
        (lambda q, u, v: (u.T * v) * (u.T * q * v) * (2 * u.T * v), 0.25 * GOLDEN),
        (lambda q, u, v: u.T * (q * v + v * (u.T * q * v).inverse()), GOLDEN / 2 + 1 / GOLDEN),
    ],
)
def test_constants_reach_the_value(expression, expected):
    """Coefficients of sources, readouts and corners: none may be lost on the way."""
    u, v, z = Vector("u", n), Vector("v", n), Gaussian("Z", p, n)
    q = (z.T * z / n + gamma * Identity(n)).inverse()
    node = expression(q, u, v)
    system = derive(node, {n: 1, p: c})
    numbers = {"c": 1, "gamma": 1, "u.v": 0.5, "u.u": 1, "v.v": 2}
    value = solve(system, {s: numbers[str(s)] for s in system.parameters}).value
    assert value == pytest.approx(expected)


def test_a_constant_in_a_trace_counts_its_size():
    z = Gaussian("Z", p, n)
    q = (z * z.T / n + gamma * Identity(p)).inverse()
    found = limit(Trace(4 * Identity(p) + q) / n, {n: 1, p: c}, {c: 0.5, gamma: 1})
    small = (4.25**0.5 - 0.5) / 2  # of Z'Z/n: gamma m^2 + (c + gamma - 1) m = 1
    assert found == pytest.approx(4 * 0.5 + small - 0.5)


def test_noise_on_an_eliminated_unknown_counts_its_factor():
    """``x = P R`` with ``2 x + 3 Q x = R`` is a row of numbers: E T P R T' = tr(P R), T apart."""
    s, t = Wigner("S", n), Gaussian("T", n, n)
    q, r = ((s * s / n + k * Identity(n)).inverse() for k in (1, 2))
    x = (2 * Identity(n) + 3 * q).inverse() * r
    plain = limit(Trace(x) / n, {n: 1}, {})
    assert limit(Trace(t * x * t.T) / n**2, {n: 1}, {}) == pytest.approx(plain, rel=1e-12)
    moment = limit(Trace(x * s * s) / n**2, {n: 1}, {})
    assert limit(Trace(s * x * s) / n**2, {n: 1}, {}) == pytest.approx(moment, rel=1e-12)
    semicircle = np.cos((np.arange(4000) + 0.5) * np.pi / 4000) * 2
    weights = 4 - semicircle**2
    power = semicircle**2
    values = 1 / (power + 2) / (2 + 3 / (power + 1))
    assert plain == pytest.approx(np.average(values, weights=weights), rel=1e-6)
