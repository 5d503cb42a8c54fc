"""Systems evaluated with arrays: against the programs, differences and plain linear algebra."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from rmtsym.compilation import compile_system
from rmtsym.dyson import derive
from rmtsym.linalg import inverse, inverses, solutions, solve_batch, solve_linear
from rmtsym.matrices import (
    D,
    Deterministic,
    Gaussian,
    Identity,
    Labels,
    SpectralLaw,
    Trace,
    Vector,
    Wigner,
    dimensions,
    inner,
)
from rmtsym.models import attention
from rmtsym.solver import solve

n, p = dimensions("n p")
gamma, c, s = sp.symbols("gamma c s", positive=True)
Z, S, y, mu = Gaussian("Z", p, n), Wigner("S", n), Labels("y", n), Vector("mu", p)
w = Vector("w", p)
C = Deterministic("C", p, SpectralLaw.from_atoms([1, 3], ["1/4", "3/4"]))
X = Z + gamma * mu * y.T
Q = (X.T * X / n + gamma * s * S / sp.sqrt(n) + (3 + gamma) * Identity(n)).inverse()
R = (s * C * Z * Z.T * C / n + gamma * C + Identity(p)).inverse()
RATIO = {n: 1, p: c}

EXPRESSIONS = {
    "trace": gamma * s * Trace(gamma * Q * (Identity(n) + Q)) / n,
    "slope of a trace": D(Trace(gamma**2 * Q + gamma * Identity(n)) / n, gamma),
    "slope of a form": D(gamma * (y.T * Q * (gamma**2 * y)) / n, gamma),
    "slope in another symbol": D(Trace(s * Q) / n + s * (y.T * Q * y) / n, s),
    "form through the tokens": D(
        (gamma * mu.T + w.T) * X * Q * y / n + gamma * (mu.T * (gamma * w)), gamma
    ),
    "slope in a length": D(
        (gamma * mu.T + w.T) * X * Q * y / n + s * (mu.T * (gamma * w)), inner(mu, mu)
    ),
    "covariance": D(Trace(gamma * C * R * C) / p, gamma),
    "form with a covariance": D(gamma * (w.T * C * R * C * w), gamma),
    "attention": attention.ERROR,
    "two components": gamma * Trace(Q) / n + s * Trace(R) / p,
}
VALUES = {
    "gamma": 0.7, "c": 0.6, "s": 0.4, "a_1": 0.6, "nu": 0.8, "mu.mu": 2.25, "w.w": 1.5,
    "mu.w": 0.4, "w_k.w_k": 2.0, "w_q.w_q": 1.7, "mu.w_k": 1.1, "mu.w_q": 0.9, "w_k.w_q": 0.3,
}  # fmt: skip


@pytest.fixture(params=EXPRESSIONS)
def case(request):
    """A compiled system, its point, and the solution of the programs."""
    system = derive(EXPRESSIONS[request.param], RATIO)
    values = {symbol: VALUES[str(symbol)] for symbol in system.parameters}
    return compile_system(system), values, solve(system, values)


def difference(function, x, step=1e-5):
    """A derivative by differences of fourth order."""
    return (
        8 * (function(x + step) - function(x - step))
        - (function(x + 2 * step) - function(x - 2 * step))
    ) / (12 * step)


def test_the_unknowns_solve_the_equations(case):
    compiled, values, solution = case
    point = compiled.at(values)
    for component, u in enumerate(solution.unknowns):
        assert np.max(np.abs(point.residual(component, u)), initial=0) < 1e-11


def test_the_value_is_that_of_the_limits_and_their_slopes(case):
    """Slopes by differences, the equations solved anew at every point."""
    compiled, values, solution = case
    system = compiled.system
    limits = compiled.at(values).limits(solution.unknowns)
    known = dict(zip(system.linearization.symbols, limits, strict=True))
    for symbol, k, variable in system.derivatives:

        def limit(x, variable=variable, k=k):
            moved = values | {variable: x}
            return compiled.at(moved).limits(solve(system, moved).unknowns)[k]

        known[symbol] = difference(limit, values[variable])
    value = float(system.formula.subs(known | values))
    assert value == pytest.approx(solution.value, rel=1e-7 if system.derivatives else 1e-11)


def test_jacobian(case):
    compiled, values, solution = case
    point = compiled.at(values)
    for component, u in enumerate(solution.unknowns):
        jacobian = point.jacobian(component, point.phi(component, u)[1])
        for k in range(len(u)):
            unit = np.eye(len(u))[k]

            def phi(x, u=u, unit=unit, component=component):
                return point.phi(component, u + x * unit)[0]

            np.testing.assert_allclose(jacobian[:, k], difference(phi, 0.0), atol=1e-8)


def test_a_shift_regularises_every_inverse(case):
    """``shift`` adds to each inverse: its slope, and its sign on a plain resolvent."""
    compiled, values, solution = case
    point = compiled.at(values)
    for component, u in enumerate(solution.unknowns):

        def phi(x, u=u, component=component):
            return point.phi(component, u, shift=x)[0]

        slope = point.shift_slope(component, point.inverses(component, u, shift=0.2))
        np.testing.assert_allclose(slope, difference(phi, 0.2), atol=1e-8)
    plain = derive(Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n, RATIO)
    compiled = compile_system(plain)
    (u,) = solve(plain, {gamma: 0.7, c: 0.6}).unknowns
    one = compiled.at({gamma: 0.7, c: 0.6}).phi(0, u, shift=0.3)[0]
    other = compiled.at({gamma: 1.0, c: 0.6}).phi(0, u)[0]
    np.testing.assert_allclose(one, other, rtol=1e-14)


def test_many_points_at_once(case):
    compiled, values, _ = case
    system, many = compiled.system, {k: np.array([v, 1.1 * v]) for k, v in values.items()}
    solution = solve(system, many)
    whole = compiled.at(many).limits(solution.unknowns)
    for index in range(2):
        one = {k: float(v[index]) for k, v in many.items()}
        limits = compiled.at(one).limits([u[index] for u in solution.unknowns])
        np.testing.assert_allclose([limit[index] for limit in whole], limits, rtol=1e-11)


def test_linear_systems_of_exact_numbers():
    rng = np.random.default_rng(1)
    plain = rng.integers(-5, 6, (5, 5)) + np.diag([0, 7, 0, 7, 0])
    exact = np.array([[Fraction(int(x)) for x in row] for row in plain], dtype=object)
    right = np.array([[Fraction(k), Fraction(1)] for k in range(5)], dtype=object)
    assert np.all(exact @ solve_linear(exact, right) == right)
    found = np.array(inverse(5, list(exact.ravel())), dtype=object).reshape(5, 5)
    assert np.all(exact @ found == np.eye(5, dtype=int))
    batch = np.stack([exact, 2 * exact])
    assert np.all(batch[1] @ solve_batch(batch, np.stack([right, right]))[1] == right)
    with pytest.raises(ZeroDivisionError):
        solve_linear(np.array([[1, 2], [2, 4]], dtype=object), np.array([[1], [1]], dtype=object))


def test_singular_matrices_are_nan():
    assert np.all(np.isnan(solutions(np.ones((2, 2)), np.ones((2, 1)))))
    singular = np.stack([np.ones((2, 2)), np.eye(2)])
    found = inverses(singular)
    assert np.array_equal(found[1], np.eye(2)) and np.isnan(found[0]).all()
