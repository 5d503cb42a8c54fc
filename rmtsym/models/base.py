"""A model: one matrix expression, its sizes, and how to ask for its numbers.

>>> from rmtsym.models.attention import ATTENTION
>>> print(ATTENTION.title)
Interpolation error of nonlinear attention
>>> [str(symbol) for symbol in ATTENTION.system.parameters][:3]
['a_1', 'c', 'gamma']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import sympy as sp

from rmtsym.dyson import derive
from rmtsym.errors import InputError
from rmtsym.matrices import Matrix, Vector, inner
from rmtsym.parsing import exact_number
from rmtsym.system import FixedPointSystem


@dataclass(frozen=True)
class Example:
    """One point of a model: what ``simulate`` and ``solve`` take, and the literature's number.

    ``published`` is the value stated in the literature (or a closed form's), with the digits given.
    """

    values: tuple[tuple[sp.Symbol, Any], ...]
    vectors: tuple[tuple[Vector, tuple[Any, ...]], ...] = ()
    nonlinearities: tuple[tuple[sp.Symbol, str], ...] = ()
    published: Any = None


@dataclass(frozen=True)
class Model:
    """A named expression with its relative sizes ``(size, relative size)`` and its source."""

    name: str
    title: str
    expression: Matrix
    sizes: tuple[tuple[sp.Symbol, Any], ...]
    reference: str
    examples: tuple[Example, ...] = ()

    @cached_property
    def system(self) -> FixedPointSystem:
        """The fixed-point system of the expression, derived once."""
        return _system(self.expression, self.sizes)

    def __str__(self) -> str:
        return f"{self.title}\n  {self.expression}\n  {self.reference}"


@lru_cache(maxsize=64)
def _system(expression: Matrix, sizes: tuple[tuple[sp.Symbol, Any], ...]) -> FixedPointSystem:
    return derive(expression, dict(sizes))


def coordinates(given: Mapping[str, Any]) -> dict[str, tuple[sp.Expr, ...]]:
    """Vectors by name as exact coordinates, all of one length; None and () are zero vectors.

    >>> coordinates({"mu": [1.5, 0], "w_k": None})
    {'mu': (3/2, 0), 'w_k': (0, 0)}
    """
    rows: dict[str, tuple[sp.Expr, ...]] = {}
    for name, value in given.items():
        items: Sequence[Any] = () if value is None else value
        if isinstance(items, (str, bytes)) or not hasattr(items, "__len__"):
            raise InputError(
                f"got {name} = {value!r}; pass its coordinates as a list, for instance [1.5, 0]"
            )
        try:
            rows[name] = tuple(exact_number(x) for x in items)
        except InputError as error:
            raise InputError(f"in {name}: {error}") from error
    lengths = {name: len(row) for name, row in rows.items() if row}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InputError(
            f"got vectors of different lengths ({listed}); give all of them as coordinates in one "
            "orthonormal basis"
        )
    size = max(lengths.values(), default=1)
    return {name: row or (sp.Integer(0),) * size for name, row in rows.items()}


def notes_on_floats(given: Mapping[str, Any]) -> tuple[str, ...]:
    """A note for every float among numbers and vectors by name: how it is read.

    >>> notes_on_floats({"gamma": 0.1, "mu": [1.5, 0]})
    ('gamma = 0.1 was read as 1/10', 'mu[0] = 1.5 was read as 3/2')
    """
    single: dict[str, Any] = {}
    for name, value in given.items():
        items = value if isinstance(value, (list, tuple)) or hasattr(value, "__len__") else None
        if items is None or isinstance(items, str):
            single[name] = value
        else:
            single.update({f"{name}[{index}]": item for index, item in enumerate(items)})
    return tuple(
        f"{name} = {value} was read as {exact}"
        for name, value in single.items()
        if isinstance(value, float) and not (exact := exact_number(value)).is_integer
    )


def gram(vectors: Mapping[Vector, Sequence[sp.Expr]]) -> dict[sp.Symbol, sp.Expr]:
    """Values of the symbols ``inner(u, v)`` for vectors given by exact coordinates."""
    items = list(vectors.items())
    return {
        inner(u, v): sum((a * b for a, b in zip(x, y, strict=True)), sp.Integer(0))
        for position, (u, x) in enumerate(items)
        for v, y in items[position:]
    }


def positive(name: str, value: Any, meaning: str) -> Any:
    """A positive finite number (exact), or an array of them (float)."""
    import numpy as np

    if isinstance(value, (list, tuple)) or (hasattr(value, "shape") and np.ndim(value) > 0):
        entries = np.asarray(value)
        if not entries.size or entries.dtype.kind == "b":
            raise InputError(f"got {name} = {value!r}; {name} is {meaning}, numbers > 0")
        if entries.dtype.kind not in "fiu":
            entries = np.array([float(exact_number(x)) for x in entries.ravel()]).reshape(
                entries.shape
            )
        entries = entries.astype(float)
        if not (np.all(np.isfinite(entries)) and np.all(entries > 0)):
            raise InputError(
                f"got {name} with entries not positive and finite; {name} is {meaning}"
            )
        return entries
    try:
        number = exact_number(value)
    except InputError as error:
        raise InputError(f"got {name} = {value!r}; {name} is {meaning}, a number > 0") from error
    if not number > 0:
        raise InputError(f"got {name} = {value}; {name} is {meaning}, a number > 0")
    return number
