"""Walks and rewritings of matrix expressions that keep their value.

>>> from rmtsym.matrices import Gaussian, dimensions
>>> n, p = dimensions("n p")
>>> print(transpose(Gaussian("A", n, p) * Gaussian("B", p, n)))
B'*A'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import sympy as sp

from rmtsym.algebra import Inverse, Product, Scaled, Sum, Transpose
from rmtsym.errors import InputError
from rmtsym.matrices import (
    D,
    Deterministic,
    Entrywise,
    Gaussian,
    Identity,
    Matrix,
    OffDiagonal,
    RowSoftmax,
    Trace,
    Vector,
    Wigner,
)


def walk(node: Matrix) -> Iterator[Matrix]:
    """The node and all below it, parents first."""
    yield node
    for child in node.children:
        yield from walk(child)


def rebuild(node: Matrix, children: tuple[Matrix, ...]) -> Matrix:
    """The same node over other children (in the order of ``node.children``)."""
    if children == node.children:
        return node
    match node:
        case Sum():
            return Sum.of(*children)
        case Product():
            return Product.of(*children)
        case Scaled():
            return Scaled.of(node.coefficient, children[0])
        case Transpose():
            return children[0].T
        case Inverse() | OffDiagonal() | Trace():
            return type(node)(children[0])
        case Entrywise():
            return Entrywise(node.f, children[0], node.centred)
        case RowSoftmax():
            return RowSoftmax(node.beta, children[0])
        case D():
            return D(children[0], node.variable)
    raise TypeError(f"{type(node).__name__} has no children")


def transpose(node: Matrix) -> Matrix:
    """The transpose with the sign ``'`` pushed down to the leaves."""
    match node:
        case Transpose():
            return push_transposes(node.operand)
        case Identity() | Wigner() | Deterministic() | Trace() | D():
            return push_transposes(node)
        case Gaussian() | Vector():
            return Transpose(node)
        case Sum():
            return Sum.of(*map(transpose, node.terms))
        case Product():
            return Product.of(*map(transpose, reversed(node.factors)))
        case Scaled():
            return Scaled.of(node.coefficient, transpose(node.operand))
        case Entrywise():
            return Entrywise(node.f, transpose(node.operand), node.centred)
        case RowSoftmax():
            return Transpose(push_transposes(node))
        case Inverse() | OffDiagonal():
            return type(node)(transpose(node.operand))
    raise TypeError(f"no transpose of {type(node).__name__}")


def push_transposes(node: Matrix) -> Matrix:
    """The same matrix with transposes on leaves only."""
    if isinstance(node, Transpose):
        return transpose(node.operand)
    return rebuild(node, tuple(map(push_transposes, node.children)))


def is_symmetric(node: Matrix) -> bool:
    """True where the expression is its own transpose term by term, whatever its leaves."""
    one = _sorted_terms(push_transposes(node))
    return one == _sorted_terms(transpose(node))


def _sorted_terms(node: Matrix) -> Matrix:
    node = rebuild(node, tuple(map(_sorted_terms, node.children)))
    return Sum(tuple(sorted(node.terms, key=str))) if isinstance(node, Sum) else node


def differentiate(node: Matrix, variable: sp.Symbol) -> Matrix | None:
    """The derivative as an expression; None where it is identically zero.

    ``d A^{-1} = -A^{-1} (dA) A^{-1}``: products of resolvents, no implicit function. Entry-wise
    nonlinearities must not contain the variable.
    """

    def plus(terms: list[Matrix]) -> Matrix | None:
        return Sum.of(*terms) if len(terms) > 1 else (terms[0] if terms else None)

    match node:
        case Scaled():
            terms = []
            slope = sp.diff(node.coefficient, variable)
            if slope != 0:
                terms.append(Scaled.of(slope, node.operand))
            inside = differentiate(node.operand, variable)
            if inside is not None:
                terms.append(Scaled.of(node.coefficient, inside))
            return plus(terms)
        case Sum():
            parts = (differentiate(term, variable) for term in node.terms)
            return plus([part for part in parts if part is not None])
        case Product():
            terms = []
            for position, factor in enumerate(node.factors):
                inside = differentiate(factor, variable)
                if inside is not None:
                    terms.append(
                        Product.of(*node.factors[:position], inside, *node.factors[position + 1 :])
                    )
            return plus(terms)
        case Inverse():
            inside = differentiate(node.operand, variable)
            return None if inside is None else -(node * inside * node)
        case Transpose() | OffDiagonal() | Trace():
            inside = differentiate(node.operand, variable)
            if inside is None:
                return None
            return inside.T if isinstance(node, Transpose) else type(node)(inside)
        case D():
            inside = differentiate(node.operand, node.variable)
            return None if inside is None else differentiate(inside, variable)
        case Entrywise() | RowSoftmax():
            scale = node.beta if isinstance(node, RowSoftmax) else sp.Integer(1)
            if variable in scale.free_symbols or differentiate(node.operand, variable) is not None:
                raise InputError(
                    f"got D in {variable}, which stands inside the nonlinearity {node}; "
                    "differentiate in a scalar outside it"
                )
            return None
    return None


def substitute(node: Matrix, values: Mapping[sp.Symbol, sp.Expr]) -> Matrix:
    """The expression with values for symbols in its scalars; sizes and leaves stay."""
    children = tuple(substitute(child, values) for child in node.children)
    if isinstance(node, Scaled):
        coefficient = node.coefficient.subs(dict(values), simultaneous=True)
        return Scaled.of(coefficient, children[0])
    return rebuild(node, children)


def free_symbols(node: Matrix) -> set[sp.Symbol]:
    """The SymPy symbols in the scalars of the expression, sizes included."""
    found: set[sp.Symbol] = set()
    for part in walk(node):
        if isinstance(part, Scaled):
            found |= part.coefficient.free_symbols
        elif isinstance(part, RowSoftmax):
            found |= part.beta.free_symbols
        for size in part.shape:
            found |= size.free_symbols
    return found
