"""Pencils: their inverse is the expression; small, readable, refused by name where it must be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from expressions import literal, n, p, pencil_value, sample, seeded

from rmtsym.errors import InputError, UnsupportedError
from rmtsym.linearization import linearize
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
)
from rmtsym.pencil import READOUT, Entry, Pencil, Readout, Source, _merge_infinite, build
from rmtsym.rewriting import walk

NUMBERS = {n: 4, p: 3, sp.Symbol("m", positive=True, integer=True): 5}
Z = Gaussian("Z", p, n)
gamma = sp.Symbol("gamma", positive=True)
Q = (Z.T * Z / n + gamma * Identity(n)).inverse()


def agrees(expression, numbers=NUMBERS, seed=0):
    linearization = build(linearize(expression))
    arrays = sample(list(walk(expression)), numbers, np.random.default_rng(seed))
    for leaf, array in arrays.items():
        if isinstance(leaf, Ones):
            array[:] = 1
    values = {
        symbol: pencil_value(pencil, arrays, numbers)
        for symbol, pencil in zip(linearization.symbols, linearization.pencils, strict=True)
    }
    read = float(linearization.formula.subs(values).subs(numbers))
    expected = literal(expression, arrays, numbers).item()
    assert read == pytest.approx(expected, rel=1e-10, abs=1e-12)
    return linearization


@pytest.mark.parametrize("seed", range(3000, 3060))
def test_the_inverse_of_the_pencil_is_the_expression(seed):
    agrees(seeded(seed, 4), seed=seed)


def test_low_rank_terms_and_bilinear_forms():
    mu, w = Vector("mu", p), Vector("w", p)
    y = Vector("y", n, norm2=n)
    X = Z + mu * y.T
    W = Identity(p) + w * mu.T
    numbers = {**NUMBERS, gamma: 0.7}
    agrees(y.T * (X.T * W * X / n + gamma * Identity(n)).inverse() * y / n, numbers)
    agrees(mu.T * X * (X.T * X / n + gamma * Identity(n)).inverse() * y / n, numbers)
    agrees((y.T * Q * y / n) * (mu.T * W * w), numbers)
    # A number inside a vector.
    agrees(y.T * (Q * y + y * (y.T * Q * y / n).inverse()) / n, numbers)


def test_deterministic_matrices():
    law = SpectralLaw.from_atoms([(1, 2), (3, 1)])
    C, E = Deterministic("C", p, law), Deterministic("E", p, law, 1)
    numbers = {**NUMBERS, gamma: 0.7}
    agrees(Trace((C * Z * Z.T * C / n + gamma * E).inverse() * E) / p, numbers)


def test_shared_subexpressions_enter_once():
    once = build(Trace(Q) / n).pencils[0]
    twice = build(Trace(Q * Z.T * Z * Q) / n**2).pencils[0]
    assert len(once.sizes) == 2
    assert len(twice.sizes) <= 6


def test_the_attention_resolvent_is_three_plus_three():
    K = OffDiagonal(Entrywise(sp.Symbol("f"), Z.T * Z / sp.sqrt(p))) / sp.sqrt(p)
    pencil = build(
        linearize(Trace((K.T * Z.T * Z * K / n + gamma * Identity(n)).inverse()) / n)
    ).pencils[0]
    assert sorted(map(str, pencil.sizes)) == ["n", "n", "n", "p", "p", "p"]


def test_a_derivative_is_not_expanded():
    linearization = build(D(Trace(Q) / n, gamma))
    assert len(linearization.pencils) == 1
    assert [v for _, _, v in linearization.derivatives] == [gamma]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (Trace(Q), "of order N"),
        (Trace((Z.T * Z + gamma * Identity(n)).inverse()) / n, "grow differently"),
        (Q, "of shape"),
        (Trace(Gaussian("A", 3, n) * Gaussian("B", n, 3)), "sizes must grow"),
    ],
)
def test_what_has_no_limit_is_refused_by_name(expression, message):
    with pytest.raises((InputError, UnsupportedError), match=message):
        build(expression)


def test_it_prints_the_program():
    assert str(build(Trace(Q) / n)) == (
        "value = o_1/n\no_1 = n tr x_1\n  gamma*x_1 + 1/n*Z'*x_2 = I_n\n  x_2 + -1*Z*x_1 = 0"
    )
    assert "aligned" in build(Trace(Q) / n)._repr_latex_()


def test_labels_and_ones_meet_in_their_mean():
    rho = sp.Symbol("rho")
    y = Labels("y", n, mean=rho)
    formula = build(y.T * Ones(n) / n)
    assert formula.pencils[0].readout.constant == 0 or formula.pencils[0].sources
    assert Wigner("S", n).T == Wigner("S", n).T


@pytest.mark.parametrize("ratio", [1, sp.Rational(-2, 3)])
def test_spikes_of_infinite_strength_that_meet_in_every_row_are_one(ratio):
    """``x = f / e`` and ``x' = f' / e``, seen in rows and readout as ``x + r x'``, for every e."""
    u, v, w, y = (Vector(name, n) for name in "uvwy")
    entries = [
        Entry(0, 0, sp.Integer(2)),
        Entry(0, 1, sp.Integer(3), u),
        Entry(0, 2, 3 * ratio, u),
        Entry(1, 0, sp.Integer(-5), v.T),
        Entry(2, 0, sp.Integer(7), w.T),
        Entry(1, 3, sp.Rational(1, 2)),
        Entry(2, 3, sp.Rational(1, 3)),
        Entry(3, 3, sp.Integer(1)),
        Entry(3, 0, sp.Integer(-1), y.T),
        Entry(3, 1, sp.Integer(4)),
        Entry(3, 2, 4 * ratio),
    ]
    sources = (Source(0, sp.Integer(1), y), Source(2, sp.Integer(6), Identity(1)))
    terms = [Entry(READOUT, 3, sp.Integer(1)), Entry(READOUT, 1, sp.Integer(2))]
    terms.append(Entry(READOUT, 2, 2 * ratio))
    sizes = (n, sp.Integer(1), sp.Integer(1), sp.Integer(1))
    pencil = Pencil(
        sizes, tuple(entries), sources, Readout(tuple(terms), sp.Integer(0)), (0, 1, 2, 3)
    )
    merged = _merge_infinite(pencil)
    assert (merged.sizes, merged.inverses) == ((n, 1, 1), (0, 1, 2))

    numbers, rng = {n: 4}, np.random.default_rng(3)
    arrays = {vector: rng.standard_normal((4, 1)) for vector in (u, v, w, y)}

    def value(pencil, infinite, e):
        diagonal = tuple(Entry(k, k, sp.Float(e)) for k in infinite)
        return pencil_value(replace(pencil, entries=pencil.entries + diagonal), arrays, numbers)

    for e in (0.3, 0.01):
        assert value(merged, (1,), e) == pytest.approx(value(pencil, (1, 2), e), rel=1e-9)
    # In different proportions they stay two.
    other = replace(pencil, entries=(*entries[:-1], Entry(3, 2, 5 * ratio)))
    assert _merge_infinite(other) == other
