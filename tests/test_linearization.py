"""Gaussian equivalents: the right scale, slope, diagonal and joint noise."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy as sp

from rmtsym.agreement import verify
from rmtsym.dyson import derive
from rmtsym.errors import UnsupportedError
from rmtsym.linearization import Exponential, expand, linearize, split_scale
from rmtsym.matrices import (
    Deterministic,
    Entrywise,
    Gaussian,
    Identity,
    OffDiagonal,
    Ones,
    SpectralLaw,
    Trace,
    dimensions,
)
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.solver import solve

n, p, d, m = dimensions("n p d m")
gamma, c = sp.symbols("gamma c", positive=True)
Z, f, g = Gaussian("Z", p, n), sp.Symbol("f"), sp.Symbol("g")
C = Deterministic("C", p, SpectralLaw.from_atoms([1, 3], ["1/4", "3/4"]))


def test_a_matrix_in_the_middle_sets_scale_and_diagonal():
    """``f(Z^T C Z / sqrt p)``: tau^2 = (1/p) tr C^2, diagonal (1/p) tr C times sqrt p."""
    K = OffDiagonal(Entrywise(f, Z.T * C * Z / sp.sqrt(p)))
    found = linearize(K)
    slope = next(e for e in found.symbols if e.moment == "slope")
    assert sp.simplify(slope.tau**2 - sp.Integer(7)) == 0
    ((_, _, variance),) = found.covariance
    power = next(e for e in found.symbols if e.moment == "product")
    assert sp.expand(variance - (power.symbol - 7 * slope.symbol**2)) == 0
    diagonal = [t for t in found.expression.terms if t.shape == (n, n) and "I_n" in str(t)]
    assert sp.simplify(diagonal[0].coefficient + slope.symbol * sp.sqrt(p) * sp.Rational(5, 2)) == 0


def test_its_trace_agrees_with_simulation():
    K = OffDiagonal(Entrywise(f, Z.T * C * Z / sp.sqrt(p))) / sp.sqrt(p)
    trace = Trace((K * K + gamma * Identity(n)).inverse()) / n
    tanh = {f: Nonlinearity("tanh(t)")}
    theory = solve(derive(trace, {n: 1, p: c}), {c: 0.5, gamma: 1}, nonlinearities=tanh).value
    sizes = [{n: 2 * k, p: k} for k in (40, 80, 160)]
    found = verify(
        trace, theory, sizes=sizes, repetitions=40, values={gamma: 1}, nonlinearities=tanh, seed=1
    )
    assert found.agrees and found.power < 0.05


def test_joint_noise_of_two_functions():
    A = Z.T * Z / sp.sqrt(p)
    found = linearize(OffDiagonal(Entrywise(f, A)) * OffDiagonal(Entrywise(g, A)))
    assert len(found.covariance) == 3
    chosen = {f: Nonlinearity("tanh(t)"), g: Nonlinearity("t**3")}
    numbers = {e.symbol: e.value(chosen, 1) for e in found.symbols}
    one, two = (np.array(x.coefficients(60)) for x in chosen.values())
    expected = {"ff": one[2:] @ one[2:], "fg": one[2:] @ two[2:], "gg": two[2:] @ two[2:]}
    for a, b, value in found.covariance:
        key = "".join(sorted(str(a)[-1] + str(b)[-1]))
        assert float(value.subs(numbers)) == pytest.approx(expected[key], rel=1e-7)


def test_a_product_and_its_transpose_share_their_noise():
    W, Y = Gaussian("W", n, d), Gaussian("Y", d, p)
    F = Entrywise(f, W * Y / sp.sqrt(d))
    found = linearize(Trace(F * F.T) / n)
    assert len(found.covariance) == 1
    value = solve(
        derive(Trace(F * F.T) / (n * p), {n: 1, p: c, d: 2}),
        {c: 0.5},
        nonlinearities={f: Nonlinearity("sign(t)")},
    ).value
    assert value == pytest.approx(1, rel=1e-12)  # every entry squared is 1


def test_words_and_scales():
    A, B = Gaussian("A", n, p), Gaussian("B", n, p)
    words = expand(2 * (A + B) * (A - 3 * B).T / n)
    assert [(c, "*".join(map(str, w))) for c, w in words] == [
        (2 / n, "A*A'"), (-6 / n, "A*B'"), (2 / n, "B*A'"), (-6 / n, "B*B'"),
    ]  # fmt: skip
    words = expand((A - 3 * B) * (A + B).T)
    assert [c for c, _ in words] == [1, 1, -3, -3]
    assert split_scale((3 * n + sp.sqrt(p)) / p**2) == (3 * n / p**2, -1)
    assert split_scale(sp.Integer(0)) == (0, -sp.oo)


@pytest.mark.parametrize("tau", [1, 2, sp.Rational(1, 3)])
def test_moments_of_a_softmax_are_those_of_its_function(tau):
    first, second = (Exponential(sp.Rational(b, 4), sp.sympify(tau)) for b in (3, 5))
    scaled = first.nonlinearity().scaled(tau)
    other = second.nonlinearity().scaled(tau)
    assert scaled.coefficient(0) == pytest.approx(0, abs=1e-15)
    assert float(first.moment("slope", first)) * tau == pytest.approx(scaled.coefficient(1))
    assert float(first.moment("energy", first)) == pytest.approx(scaled.nu())
    assert float(first.moment("product", second)) == pytest.approx(scaled.product_moment(other))


@pytest.mark.parametrize("given", [f, Nonlinearity("cos(t)").centred()])
@pytest.mark.parametrize("side", ["rows", "columns"])
def test_the_spikes_of_a_2_on_both_sides(side, given):
    """``K = (N + a_2/sqrt(d) (phi 1' + 1 phi''))/sqrt(n)`` for an even f: 1 sees one spike s 1 v'.

    With x, x~ the mean resolvents of N N'/n and N' N/n, the other spike apart,
    ``1'(K K' + gamma)^-1 1 / rows = x / (1 + gamma x x~ s^2)``.
    """
    left, right = Gaussian("A", d, n), Gaussian("B", d, m)
    K = Entrywise(given, left.T * right / sp.sqrt(d)) / sp.sqrt(n)
    if side == "columns":
        K = K.T
    rows, columns = K.shape
    one = Ones(rows)
    seen = one.T * (K * K.T + gamma * Identity(rows)).inverse() * one / rows
    shape = Nonlinearity("cos(t)").centred()
    sizes, penalty = {n: 1.0, m: 1.5, d: 0.5}, 0.3
    found = solve(derive(seen, sizes), {gamma: penalty}, nonlinearities={f: shape}).value

    r, k = sizes[rows], sizes[columns]
    nu, b = shape.nu(), penalty + shape.nu() * (k - r)
    x = (-b + np.sqrt(b * b + 4 * penalty * r * nu)) / (2 * penalty * r * nu)
    companion = (r * x - (r - k) / penalty) / k
    strength = shape.coefficient(2) ** 2 * r * k / sizes[d]
    assert strength > 0.1
    assert found == pytest.approx(x / (1 + penalty * x * companion * strength), rel=1e-9)


def test_a_slope_at_an_irrational_scale_has_its_digits():
    found = linearize(OffDiagonal(Entrywise(f, Z.T * C * Z / sp.sqrt(p))))
    entry = next(e for e in found.symbols if e.moment == "slope")
    tanh = Nonlinearity("tanh(t)")
    with mpmath.workdps(60):
        expected = tanh.scaled(sp.sqrt(7)).coefficient(1, digits=55) / mpmath.sqrt(7)
        slope = mpmath.mpf(str(sp.N(entry.value({f: tanh}, entry.tau, 45), 50)))
        assert abs(slope / expected - 1) < mpmath.mpf(10) ** -44


def test_a_gram_matrix_without_its_diagonal():
    """``Z'Z/p`` has the diagonal 1 + o(1)."""
    gram = Z.T * Z / p
    values = []
    for K in (OffDiagonal(gram), gram - Identity(n)):
        trace = Trace((K * K + gamma * Identity(n)).inverse()) / n
        values.append(solve(derive(trace, {n: 1, p: c}), {c: 0.5, gamma: 0.3}).value)
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_joint_noise_of_scores_with_and_without_a_matrix_in_the_middle_is_refused():
    with_middle = OffDiagonal(Entrywise(f, Z.T * C * Z / sp.sqrt(p)))
    without = OffDiagonal(Entrywise(g, Z.T * Z / sp.sqrt(p)))
    for both in (with_middle * without, without * with_middle):
        with pytest.raises(UnsupportedError, match="joint noise is not covered"):
            linearize(both)
