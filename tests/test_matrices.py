"""The vocabulary: shapes, printing, what is refused, and rewriting that keeps the value."""

import numpy as np
import pytest
import sympy as sp
from expressions import literal, m, n, p, sample, seeded

from rmtsym.errors import InputError, UnsupportedError
from rmtsym.linearization import degree, expand, linearize
from rmtsym.matrices import (
    D,
    Deterministic,
    Entrywise,
    Gaussian,
    Identity,
    Labels,
    OffDiagonal,
    Ones,
    SpectralLaw,
    Trace,
    Vector,
    Wigner,
    from_sympy,
    inner,
)
from rmtsym.rewriting import (
    differentiate,
    free_symbols,
    is_symmetric,
    push_transposes,
    substitute,
    transpose,
    walk,
)

X, A, S = Gaussian("X", n, p), Gaussian("A", n, n), Wigner("S", n)
f = sp.Symbol("f")
gamma = sp.Symbol("gamma", positive=True)


def test_nodes_are_values():
    assert Gaussian("X", n, p) == X and hash(Gaussian("X", n, p)) == hash(X)
    assert X.T.T == X and (X * X.T).shape == (n, n)
    assert str(2 * X * X.T / n - Identity(n)) == "2/n*X*X' + -1*I_n"
    assert (A**3).factors == (A, A, A)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: X + A, "one shape"),
        (lambda: X * X, "inner sizes"),
        (lambda: X.inverse(), "square"),
        (lambda: X + 1, "multiple of the identity"),
        (lambda: Trace(X), "square"),
        (lambda: D(A, gamma), "1 x 1"),
        (lambda: A**0.5, "integers"),
        (lambda: float("nan") * A, "finite"),
        (lambda: Gaussian("two words", n, p), "without blanks"),
        (lambda: Gaussian("X", -1, p), "positive"),
        (lambda: X / A, "division by a matrix"),
        (lambda: SpectralLaw.from_atoms([1, 2], weights=[1, 1]), "sum to 1"),
        (lambda: SpectralLaw.from_density(lambda x: 1, 2, 1), "lower < upper"),
        (lambda: Deterministic("C", p, SpectralLaw.from_atoms([1]), 1), "component"),
        (lambda: inner(Vector("u", n), Vector("v", p)), "one space"),
        (lambda: from_sympy(sp.Symbol("x")), "from_sympy reads"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_inner_products():
    y, one = Labels("y", n, mean=sp.Rational(1, 2)), Ones(n)
    assert inner(y, y) == n and inner(one, one) == n
    assert inner(y, one) == inner(one, y) == n / 2


def test_laws():
    law = SpectralLaw.semicircle(1, 2, nodes=8)
    assert sum(law.weights) == 1
    assert float(law.moment((2,))) == pytest.approx(2)
    uniform = SpectralLaw.uniform(0, 1, nodes=6, digits=40)
    assert abs(uniform.moment((10,)) - sp.Rational(1, 11)) < sp.Rational(1, 10**38)


@pytest.mark.parametrize("seed", range(4000, 4020))
def test_rewriting_keeps_the_value(seed):
    trace = seeded(seed, 4).operand
    body = trace.operand
    numbers = {n: 4, p: 3, m: 5}
    arrays = sample(list(walk(body)), numbers, np.random.default_rng(seed))
    value = literal(body, arrays, numbers)
    assert np.allclose(literal(push_transposes(body), arrays, numbers), value, rtol=1e-10)
    assert np.allclose(literal(transpose(body), arrays, numbers), value.T, rtol=1e-10)
    assert is_symmetric(body * body.T)


def test_differentiation_against_finite_differences():
    Q = (gamma * X * X.T / n + gamma**2 * Identity(n)).inverse()
    slope = differentiate(Trace(Q) / n, gamma)
    numbers = {n: 5, p: 3}
    arrays = sample(list(walk(Q)), numbers, np.random.default_rng(0))

    def value(node, at):
        return literal(node, arrays, {**numbers, gamma: at}).item()

    h = 1e-5
    expected = (value(Trace(Q) / n, 1 + h) - value(Trace(Q) / n, 1 - h)) / (2 * h)
    assert value(slope, 1) == pytest.approx(expected, rel=1e-8)
    assert differentiate(Trace(X * X.T) / n, gamma) is None
    with pytest.raises(InputError, match="inside the nonlinearity"):
        differentiate(Trace(Entrywise(f, gamma * A)) / n, gamma)


def test_substitute_and_free_symbols():
    Q = (gamma * Identity(n) + X * X.T / n).inverse()
    assert free_symbols(Q) == {gamma, n, p}
    assert str(substitute(Q, {gamma: sp.Integer(2)})) == "(2*I_n + 1/n*X*X')^-1"


def test_words_keep_their_order():
    words = [word for _, word in expand((A + S) * X * X.T)]
    assert words == [(A, X, X.T), (S, X, X.T)]
    assert degree(p / n**2) == -1
    with pytest.raises(UnsupportedError, match="powers of the sizes"):
        degree(sp.exp(n))


def test_gaussian_equivalents():
    Z = Gaussian("Z", p, n)
    gram = linearize(OffDiagonal(Entrywise(f, Z.T * Z / sp.sqrt(p))))
    layer = linearize(Entrywise(f, X * Z / sp.sqrt(p)))
    (noise, _, variance) = gram.covariance[0]
    assert isinstance(noise, Wigner)
    assert isinstance(layer.covariance[0][0], Gaussian)
    assert {s.name for s in variance.free_symbols} == {"a_1", "nu"}
    two = linearize(
        Entrywise(f, X * Z / sp.sqrt(p)) + Entrywise(sp.Symbol("g"), X * Z / sp.sqrt(p))
    )
    assert len(two.covariance) == 3
