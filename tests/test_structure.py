"""What is zero, equal or eliminated: against integrals over the Marchenko-Pastur law."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sympy as sp

from rmtsym.dyson import derive
from rmtsym.matrices import Gaussian, Identity, Trace, Wigner, dimensions
from rmtsym.solver import solve
from rmtsym.structure import odd_pairs, possible_pairs, reachable, transposition

n, p = dimensions("n p")
Z = Gaussian("Z", p, n)
H, I = Z.T * Z / n, Identity(n)


def mean(function, ratio, nodes=4000):
    """``E function(lambda)`` over the law of ``Z^T Z / n``, p/n = ratio."""
    low, high = (1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2
    theta = (np.arange(nodes) + 0.5) * np.pi / nodes
    x = (high + low) / 2 + (high - low) / 2 * np.cos(theta)
    weight = ((high - low) / 2 * np.sin(theta)) ** 2 / (2 * np.pi * x)
    return float(np.sum(function(x) * weight) * np.pi / nodes) + max(0, 1 - ratio) * function(0.0)


NESTED = {
    "plain unknown through plain unknown": (
        H * (2 * I + (3 * I + (H + I).inverse()).inverse()).inverse(),
        lambda x: x / (2 + 1 / (3 + 1 / (x + 1))),
    ),
    "three levels": (
        H * (I + (2 * I + (5 * I + 2 * (H + I).inverse()).inverse()).inverse()).inverse() * H,
        lambda x: x**2 / (1 + 1 / (2 + 1 / (5 + 2 / (x + 1)))),
    ),
    "two on one": (
        (H + (2 * I + H).inverse() + 3 * (I + 2 * (H + I).inverse()).inverse()).inverse() * H,
        lambda x: x / (x + 1 / (2 + x) + 3 / (1 + 2 / (x + 1))),
    ),
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("ratio", [0.4, 2.5])
def test_plain_unknowns_are_eliminated_with_their_factors(name, ratio):
    expression, function = NESTED[name]
    found = solve(derive(Trace(expression) / n, {n: 1, p: sp.Rational(str(ratio))}), {}).value
    assert found == pytest.approx(mean(function, ratio), rel=1e-9)


def test_an_output_is_any_formula_in_limits():
    """Constants, products and quotients of traces, sizes cancelling where they must."""
    ratio, Q = 0.4, (H + I).inverse()
    first = mean(lambda x: 1 / (1 + x), ratio)
    second = mean(lambda x: 1 / (1 + x) ** 2, ratio)
    for expression, expected in (
        (3 + Trace(Q) / n, 3 + first),
        (Trace(Q) / n * (2 - Trace(Q) / n), first * (2 - first)),
        (Trace(Q) / Trace(Q * Q), first / second),
        (n / Trace(Q), 1 / first),
        (Trace(Q) * Trace(Q * Q) / n**2 + 1, first * second + 1),
    ):
        found = solve(derive(expression, {n: 1, p: sp.Rational(2, 5)}), {}).value
        assert found == pytest.approx(expected, rel=1e-9)


def test_reachability():
    assert reachable([[1, 1], [0, 1]]).tolist() == [[True, True], [False, True]]
    assert reachable([[0, 1], [1, 0]]).tolist() == [[False, True], [True, False]]
    assert reachable([[1, 0], [1, 0]]) is None
    # A chain feeds forward only; one self-energy closes it.
    pairs = possible_pairs([[0, 1, 2]], [(0, 0), (1, 1), (2, 2), (0, 1)], [])
    assert pairs == {(0, 0), (1, 1), (2, 2), (0, 1)}
    pairs = possible_pairs([[0, 1]], [(0, 0), (1, 1)], [(1, 0, 0, 0)])
    assert pairs == {(0, 0), (1, 1), (1, 0)}


def test_parity():
    # x_1 + M x_2 and its mirror: an odd number of M between unknown and row means zero.
    is_odd = odd_pairs(2, [(0, 0), (1, 1)], [(0, 1, "M"), (1, 0, "M")])
    assert not is_odd(0, 0) and not is_odd(1, 1) and is_odd(0, 1) and is_odd(1, 0)
    # A deterministic link between the two spoils the symmetry.
    is_odd = odd_pairs(2, [(0, 0), (1, 1), (0, 1)], [(0, 1, "M"), (1, 0, "M")])
    assert not is_odd(0, 1)


@pytest.mark.parametrize("seed", range(30))
def test_parity_is_that_of_every_choice_of_signs(seed):
    """Against all signs of rows, unknowns and matrices that leave every entry as it is."""
    rng = np.random.default_rng(seed)
    count, names = 3, ["M", "N", "P"]
    pairs = list(itertools.product(range(count), repeat=2))
    plain = [pair for pair in pairs if rng.random() < 0.3]
    random = [(*pair, str(rng.choice(names))) for pair in pairs if rng.random() < 0.5]
    used = sorted({name for *_, name in random})
    odd = set()
    for signs in itertools.product((1, -1), repeat=2 * count + len(used)):
        row, column = signs[:count], signs[count : 2 * count]
        matrix = dict(zip(used, signs[2 * count :], strict=True))
        if all(row[i] * column[j] == 1 for i, j in plain) and all(
            row[i] * column[j] * matrix[name] == 1 for i, j, name in random
        ):
            odd |= {(u, r) for u, r in pairs if column[u] * row[r] == -1}
    is_odd = odd_pairs(count, plain, random)
    assert {pair for pair in pairs if is_odd(*pair)} == odd


def test_transposition():
    a, b = sp.symbols("a b", positive=True)
    cells = {
        (0, 0): {"I": a}, (0, 1): {"S": b}, (1, 0): {"S": 2 * b}, (1, 1): {"I": sp.Integer(1)},
    }  # fmt: skip
    tau, epsilon = transposition([[0, 1]], cells, lambda name: name)
    for j in tau:
        for k in tau:
            for factor in ("I", "S"):
                one = epsilon[j] * cells.get((tau[j], k), {}).get(factor, 0)
                other = epsilon[k] * cells.get((tau[k], j), {}).get(factor, 0)
                assert sp.simplify(one - other) == 0
    assert transposition(
        [[0, 1]], {(0, 0): {"A": a}, (1, 1): {"B": a}}, dict(A="B", B="A").get
    ) in (
        None,
        ({0: 1, 1: 0}, {0: 1, 1: 1}),
    )


def test_transposition_stops_at_its_budget():
    cells = {(k, k): {f"D{k}": sp.Integer(1)} for k in range(4)}
    assert transposition([[0, 1, 2, 3]], cells, lambda name: name, budget=4) is not None
    assert transposition([[0, 1, 2, 3]], cells, lambda name: name, budget=3) is None


def test_factors_that_agree_after_simplification_agree():
    """Three unknowns in a circle: the factor reached by two ways, as 1 and as sin^2 + cos^2."""
    one, angle = sp.Integer(1), sp.Symbol("a", positive=True)
    same = sp.sin(angle) ** 2 + sp.cos(angle) ** 2
    cells = {(k, k): {f"D{k}": one} for k in range(3)}
    for (j, k), value in {(0, 1): one, (1, 2): one, (0, 2): same}.items():
        cells[j, k], cells[k, j] = {f"F{j}{k}": value}, {f"F{j}{k}": one}
    assert transposition([[0, 1, 2]], cells, lambda name: name) is not None
    cells[0, 2] = {"F02": 2 * one}
    assert transposition([[0, 1, 2]], cells, lambda name: name) is None


@pytest.mark.parametrize("ratio", [0.4, 2.5])
def test_symmetric_noise_beside_a_gram_matrix(ratio):
    """GOE pairs with itself in every order: tr (S H S) = tr H, tr (S H S H) = (tr H)^2."""
    S = Wigner("S", n)
    words = {S * H * S / n: ratio, S * H * S * H / n: ratio**2, S * S * S * S / n**2: 2}
    for word, expected in words.items():
        system = derive(Trace(word) / n, {n: 1, p: sp.Rational(str(ratio))})
        assert solve(system, {}).value == pytest.approx(expected, rel=1e-12)
