"""What is zero and what is equal in the inverse of a pencil, with the proof of each.

``g_kl`` is the normalised trace of block (unknown k, row l) of ``L^{-1}``. Three exact arguments
remove unknowns; none looks at a number.

- Reachability: without randomness the inverse has the pattern of a transitive closure; switching
  the randomness on only adds the self-energies that this pattern feeds. What never appears is zero.
- Parity: ``Z -> -Z`` leaves the law of Z alone. If it is undone by signs on rows and unknowns,
  ``g_kl`` equals its own negative wherever the signs disagree.
- Transposition: if the pencil equals its own transpose after renaming rows and rescaling them,
  ``g_kl`` and its mirror image are proportional.

>>> reachable([[True, False], [True, True]])
array([[ True, False],
       [ True,  True]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import sympy as sp

Pattern: TypeAlias = npt.NDArray[np.bool_]
Pair: TypeAlias = tuple[int, int]


def reachable(pattern: Any) -> Pattern | None:
    """Pattern of the inverse (unknown, row) of a generic matrix (row, unknown) with this pattern.

    None where every matrix of this pattern is singular.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    pattern = np.asarray(pattern, dtype=bool)
    unknown_of_row = maximum_bipartite_matching(csr_matrix(pattern), perm_type="column")
    if np.any(unknown_of_row < 0):
        return None
    size = len(pattern)
    closure = np.zeros((size, size), dtype=bool)
    closure[unknown_of_row] = pattern
    for middle in range(size):
        closure |= np.outer(closure[:, middle], closure[middle])
    inverse: Pattern = closure[:, unknown_of_row]
    return inverse


def possible_pairs(
    groups: Sequence[Sequence[int]],
    deterministic: Sequence[Pair],
    feeds: Sequence[tuple[int, int, int, int]],
) -> set[Pair]:
    """The pairs (k, l) whose ``g_kl`` can differ from zero, by reachability.

    ``groups``: indices of one size each; ``deterministic``: (row, unknown) of A; ``feeds``:
    (i, j, k, l) where ``g_kl`` feeds ``Sigma_ij``.
    """
    present: set[Pair] = set()
    everything = {(k, l) for group in groups for k in group for l in group}
    filled = set(deterministic)
    while True:
        found: set[Pair] = set()
        for group in groups:
            inverse = reachable([[(i, j) in filled for j in group] for i in group])
            if inverse is None:
                return everything
            found |= {
                (k, l) for a, k in enumerate(group) for b, l in enumerate(group) if inverse[a, b]
            }
        if found <= present:
            return present
        present |= found
        filled |= {(i, j) for i, j, k, l in feeds if (k, l) in present}


def odd_pairs(
    count: int, deterministic: Sequence[Pair], random: Sequence[tuple[int, int, str]]
) -> Callable[[int, int], bool]:
    """A test for ``g_kl = 0`` by parity; ``random`` lists (row, unknown, name of the matrix).

    Signs r on rows, c on unknowns, f on matrices with ``r_i + c_j + f_M = 0 (mod 2)`` for every
    entry form a vector space; ``g_kl`` vanishes if any of them has ``c_k + r_l`` odd.
    """
    names = sorted({name for _, _, name in random})
    width = 2 * count + len(names)
    rows = []
    for i, j, name in [(i, j, None) for i, j in deterministic] + list(random):
        row = np.zeros(width, dtype=np.uint8)
        row[i] ^= 1
        row[count + j] ^= 1
        if name is not None:
            row[2 * count + names.index(name)] ^= 1
        rows.append(row)
    kernel = _kernel_mod_2(np.array(rows, dtype=np.uint8).reshape(len(rows), width))

    def is_odd(unknown: int, row: int) -> bool:
        return bool(np.any(kernel[:, count + unknown] ^ kernel[:, row]))

    return is_odd


def _kernel_mod_2(matrix: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    matrix = matrix.copy()
    pivots: list[int] = []
    for column in range(matrix.shape[1]):
        rank = len(pivots)
        candidates = np.flatnonzero(matrix[rank:, column])
        if len(candidates) == 0:
            continue
        pivot = rank + candidates[0]
        matrix[[rank, pivot]] = matrix[[pivot, rank]]
        others = np.flatnonzero(matrix[:, column])
        matrix[others[others != rank]] ^= matrix[rank]
        pivots.append(column)
    free = [column for column in range(matrix.shape[1]) if column not in pivots]
    kernel = np.zeros((len(free), matrix.shape[1]), dtype=np.uint8)
    for index, column in enumerate(free):
        kernel[index, column] = 1
        kernel[index, pivots] = matrix[: len(pivots), column]
    return kernel


Cell: TypeAlias = dict[str, sp.Expr]


def transposition(
    groups: Sequence[Sequence[int]],
    cells: dict[Pair, Cell],
    mirror: Callable[[str], str],
    budget: int = 20_000,
) -> tuple[dict[int, int], dict[int, sp.Expr]] | None:
    """Rows ``tau`` and factors ``epsilon`` with ``M = (epsilon_j L[tau(j), k])`` equal to ``M^T``.

    ``cells[row, unknown]`` maps the name of each factor to its coefficient; ``mirror`` names the
    transposed factor. Then ``g[k, tau(j)] / epsilon_j = g[j, tau(k)] / epsilon_k``. None where no
    such renaming exists (or none was found within the budget).
    """
    by_row: dict[int, dict[int, Cell]] = {}
    by_unknown: dict[int, dict[int, Cell]] = {}
    for (row, unknown), cell in cells.items():
        by_row.setdefault(row, {})[unknown] = cell
        by_unknown.setdefault(unknown, {})[row] = {mirror(f): c for f, c in cell.items()}

    def signature(neighbours: dict[int, Cell]) -> Any:
        return sorted(tuple(sorted(cell)) for cell in neighbours.values())

    unknowns = [k for group in groups for k in group]
    candidates = {
        k: [
            row
            for row in group
            if signature(by_row.get(row, {})) == signature(by_unknown.get(k, {}))
        ]
        for group in groups
        for k in group
    }
    unknowns.sort(key=lambda k: (len(candidates[k]), k))
    tau: dict[int, int] = {}
    steps = 0

    def fits(j: int) -> bool:
        for k in tau:
            one = by_row.get(tau[j], {}).get(k, {})
            other = by_unknown.get(j, {}).get(tau[k], {})
            if set(one) != set(other):
                return False
        return True

    def search(position: int) -> dict[int, sp.Expr] | None:
        nonlocal steps
        if position == len(unknowns):
            return _row_factors(unknowns, tau, by_row, by_unknown)
        j = unknowns[position]
        for row in candidates[j]:
            steps += 1
            if steps > budget:
                return None
            if row in tau.values():
                continue
            tau[j] = row
            if fits(j):
                found = search(position + 1)
                if found is not None:
                    return found
            del tau[j]
        return None

    epsilon = search(0)
    return None if epsilon is None else (dict(tau), epsilon)


def _row_factors(
    unknowns: Sequence[int],
    tau: dict[int, int],
    by_row: dict[int, dict[int, Cell]],
    by_unknown: dict[int, dict[int, Cell]],
) -> dict[int, sp.Expr] | None:
    """Factors epsilon that make M symmetric, checked term by term; None where there are none."""
    ties: dict[int, list[tuple[int, sp.Expr, sp.Expr]]] = {k: [] for k in unknowns}
    for j in unknowns:
        for k in unknowns:
            one = by_row.get(tau[j], {}).get(k, {})
            other = by_unknown.get(j, {}).get(tau[k], {})
            for factor, coefficient in one.items():
                ties[j].append((k, coefficient, other[factor]))
    epsilon: dict[int, sp.Expr] = {}
    for start in unknowns:
        if start in epsilon:
            continue
        epsilon[start] = sp.Integer(1)
        stack = [start]
        while stack:
            j = stack.pop()
            for k, one, other in ties[j]:
                wanted = sp.powsimp(sp.cancel(epsilon[j] * one / other))
                if k not in epsilon:
                    epsilon[k] = wanted
                    stack.append(k)
                elif wanted != epsilon[k] and sp.simplify(wanted - epsilon[k]) != 0:
                    return None
    return epsilon
