"""Zeros and equalities of the inverse of a pencil, each against explicit matrices."""

import numpy as np
import pytest
import sympy as sp

from rmtsym.dyson import derive
from rmtsym.matrices import Gaussian, Identity, Trace, Wigner, dimensions
from rmtsym.structure import odd_pairs, possible_pairs, reachable, transposition

n, p = dimensions("n p")


@pytest.mark.parametrize("seed", range(20))
def test_reachable_is_the_pattern_of_a_generic_inverse(seed):
    rng = np.random.default_rng(seed)
    pattern = (rng.random((6, 6)) < 0.3) | np.eye(6, dtype=bool)[rng.permutation(6)]
    found = reachable(pattern)
    assert found is not None
    inverse = np.linalg.inv(np.where(pattern, rng.standard_normal((6, 6)), 0))
    assert np.array_equal(np.abs(inverse) > 1e-9, found)


def test_a_singular_pattern_is_none():
    assert reachable([[True, True], [False, False]]) is None


def test_self_energies_fill_the_pattern():
    assert possible_pairs([[0, 1]], [(0, 0), (1, 1)], []) == {(0, 0), (1, 1)}
    fed = possible_pairs([[0, 1]], [(0, 0), (1, 1)], [(0, 1, 0, 0)])
    assert (0, 1) in fed and (1, 0) not in fed


def test_parity():
    is_odd = odd_pairs(2, [(0, 0), (1, 1)], [(0, 1, "Z"), (1, 0, "Z")])
    assert is_odd(0, 1) and is_odd(1, 0)
    assert not is_odd(0, 0) and not is_odd(1, 1)


def test_transposition_of_a_symmetric_pencil():
    one = sp.Integer(1)
    cells = {(0, 0): {"I": one}, (0, 1): {"Z'": one}, (1, 0): {"Z": one}, (1, 1): {"I": -one}}
    swap = {"Z": "Z'", "Z'": "Z"}
    found = transposition([[0], [1]], cells, lambda name: swap.get(name, name))
    assert found == ({0: 0, 1: 1}, {0: one, 1: one})


def test_symmetry_halves_the_unknowns():
    X, S = Gaussian("X", n, p), Wigner("S", n)
    Q = (X * X.T * S * S * X * X.T / n**3 + Identity(n)).inverse()
    system = derive(Trace(Q) / n, {n: 1, p: 1})
    (component,) = system.components
    assert component.symmetric
    assert len(system.unknowns) < len(component.entries)
