r"""Draws of the random matrices, labels and vectors that an expression names.

Noise laws have mean 0 and variance 1. Vectors known by coordinates are realised in a random
orthonormal frame of their space, one frame for all vectors of one size: their inner products are
exact at every size and no entry is large. Every leaf has a generator of its own, spawned from
``SeedSequence(seed)`` by the number of the sample, so a sample depends on nothing else.

>>> rng = np.random.default_rng(1)
>>> Noise.read("rademacher").draw(rng, (1, 4)).tolist()
[[1.0, 1.0, -1.0, -1.0]]
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from rmtsym.errors import InputError
from rmtsym.matrices import (
    Deterministic,
    Gaussian,
    Indicator,
    Labels,
    Matrix,
    Ones,
    Vector,
    Wigner,
)

Array: TypeAlias = npt.NDArray[Any]
NoiseLaw: TypeAlias = "str | Noise | Callable[[np.random.Generator, tuple[int, int]], Array]"

LAWS = "gaussian, rademacher, laplace, student-t(DF) with DF > 4, or a callable(rng, shape)"


@dataclass(frozen=True)
class Noise:
    """A law of mean 0 and variance 1 for the entries of ``Gaussian`` and ``Wigner`` matrices.

    ``kurtosis`` is ``E z^4`` (None for a law given by a callable).

    >>> Noise.read("student-t(10)").kurtosis
    4.0
    >>> Noise.read("student-t(4)")
    Traceback (most recent call last):
    ...
    rmtsym.errors.InputError: got Student's t with 4 degrees of freedom, which has no fourth \
moment; pass more than 4
    """

    name: str
    degrees: float | None = None
    function: Callable[[np.random.Generator, tuple[int, int]], Array] | None = None

    @classmethod
    def read(cls, law: NoiseLaw) -> Noise:
        """A law by name, ``student-t(DF)``, or a callable ``(rng, shape) -> array``."""
        if isinstance(law, Noise):
            return law
        if callable(law):
            try:
                trial = np.asarray(law(np.random.default_rng(0), (200, 200)))
            except Exception as error:
                raise InputError(
                    f"got a noise law that fails ({type(error).__name__}: {error}); it is called "
                    "as law(rng, shape) and returns a real array of that shape"
                ) from error
            if trial.shape != (200, 200) or not np.isrealobj(trial):
                raise InputError(
                    f"got a noise law that returns shape {trial.shape} for (200, 200); "
                    "it must return a real array of the shape asked for"
                )
            mean, variance = float(trial.mean()), float(trial.var())
            if not (abs(mean) < 0.05 and abs(variance - 1) < 0.2):
                raise InputError(
                    f"got a noise law of mean {mean:.3g} and variance {variance:.3g}; "
                    "scale it to mean 0 and variance 1"
                )
            module, name = getattr(law, "__module__", "?"), getattr(law, "__qualname__", str(law))
            return cls(f"{module}.{name}", None, law)
        if law in ("gaussian", "rademacher", "laplace"):
            return cls(law)
        match = re.fullmatch(r"student-t\((\d+(?:\.\d+)?)\)", str(law))
        if match is None:
            raise InputError(f"got the noise law {law!r}; expected {LAWS}")
        degrees = float(match.group(1))
        if degrees <= 4:
            raise InputError(
                f"got Student's t with {degrees:g} degrees of freedom, which has no fourth "
                "moment; pass more than 4"
            )
        return cls("student-t", degrees)

    @property
    def kurtosis(self) -> float | None:
        if self.name == "student-t" and self.degrees is not None:
            return 3 + 6 / (self.degrees - 4)
        return {"gaussian": 3.0, "rademacher": 1.0, "laplace": 6.0}.get(self.name)

    def __str__(self) -> str:
        return self.name if self.degrees is None else f"{self.name}({self.degrees:g})"

    def draw(
        self, rng: np.random.Generator, shape: tuple[int, int], dtype: Any = np.float64
    ) -> Array:
        """An array of iid entries."""
        if self.function is not None:
            result = np.asarray(self.function(rng, shape))
            if result.shape != shape:
                raise InputError(
                    f"got noise of shape {result.shape}; the law was asked for {shape}"
                )
            return np.array(result, dtype=dtype, order="C")
        if self.name == "gaussian":
            return rng.standard_normal(shape, dtype=dtype)
        if self.name == "rademacher":
            signs = rng.integers(0, 2, size=shape, dtype=np.int8)
            signs *= 2
            signs -= 1
            return signs.astype(dtype)
        if self.name == "laplace":
            return rng.laplace(scale=np.sqrt(0.5), size=shape).astype(dtype, copy=False)
        assert self.degrees is not None
        result = rng.standard_t(self.degrees, size=shape)
        result *= np.sqrt((self.degrees - 2) / self.degrees)
        return result.astype(dtype, copy=False)


def leaves(expressions: tuple[Matrix, ...]) -> tuple[Matrix, ...]:
    """The sampled leaves of the expressions, sorted by kind and name."""
    from rmtsym.rewriting import walk

    kinds = (Gaussian, Wigner, Vector, Deterministic)
    found = {
        part for expression in expressions for part in walk(expression) if isinstance(part, kinds)
    }
    by_name: dict[tuple[str, str], Matrix] = {}
    for leaf in found:
        key = (
            (leaf.name, type(leaf).__name__)
            if not isinstance(leaf, Ones)
            else (str(leaf.size), "1")
        )
        if by_name.setdefault(key, leaf) != leaf:
            raise InputError(
                f"got two different matrices of one name {key[0]!r}; give each its own name"
            )
    return tuple(by_name[key] for key in sorted(by_name))


@dataclass(frozen=True)
class Recipe:
    """How to draw one sample of all leaves: sizes as numbers, coordinates of the vectors."""

    leaves: tuple[Matrix, ...]
    shapes: tuple[tuple[int, int], ...]
    coordinates: tuple[tuple[Matrix, tuple[float, ...]], ...]
    lengths: tuple[tuple[Matrix, float], ...]
    means: tuple[tuple[Matrix, float], ...]
    noise: Noise
    dtype: str = "float64"
    shares: tuple[tuple[Matrix, tuple[float, float]], ...] = ()

    @cached_property
    def _positions(self) -> dict[Matrix, int]:
        return {leaf: position for position, leaf in enumerate(self.leaves)}

    @cached_property
    def _spaces(self) -> tuple[tuple[int, int, tuple[Matrix, ...], Array], ...]:
        """For each space: rows, number, vectors, their coordinates as columns."""
        spaces: dict[str, list[tuple[Matrix, tuple[float, ...]]]] = {}
        for vector, row in self.coordinates:
            spaces.setdefault(str(vector.shape[0]), []).append((vector, row))
        result = []
        for number, space in enumerate(sorted(spaces)):
            vectors = tuple(vector for vector, _ in spaces[space])
            columns = np.array([row for _, row in spaces[space]]).T
            rows = self.shapes[self._positions[vectors[0]]][0]
            result.append((rows, number, vectors, columns))
        return tuple(result)

    def draws(self, seed: np.random.SeedSequence) -> Draws:
        """One sample of all leaves."""
        return Draws(self, seed)


class Draws:
    """One sample: ``draws(leaf)`` is the leaf's array; the same leaf gives the same array."""

    def __init__(self, recipe: Recipe, seed: np.random.SeedSequence) -> None:
        self.recipe, self.seed = recipe, seed
        self.vectors: dict[Matrix, Array] = {}
        dtype = np.dtype(recipe.dtype)
        for rows, number, vectors, columns in recipe._spaces:
            rng = np.random.default_rng(_child(seed, 1, number))
            frame, _ = np.linalg.qr(rng.standard_normal((rows, len(columns))))
            arrays = (frame @ columns).astype(dtype)
            for k, vector in enumerate(vectors):
                self.vectors[vector] = np.ascontiguousarray(arrays[:, k : k + 1])

    def __call__(self, leaf: Matrix) -> Array:
        if leaf not in self.vectors:
            array = self._draw(leaf)
            if not isinstance(leaf, Vector):
                return array
            self.vectors[leaf] = array
        return self.vectors[leaf]

    def _draw(self, leaf: Matrix) -> Array:
        recipe = self.recipe
        position = recipe._positions[leaf]
        rows, columns = recipe.shapes[position]
        dtype = np.dtype(recipe.dtype)
        rng = np.random.default_rng(_child(self.seed, 0, position))
        match leaf:
            case Ones():
                return np.ones((rows, 1), dtype)
            case Labels():
                positive = rows * (1 + dict(recipe.means)[leaf]) / 2
                count = int(np.floor(positive + rng.random()))
                column = np.where(np.arange(rows) < count, 1, -1).astype(dtype)
                return cast(Array, rng.permutation(column).reshape(rows, 1))
            case Indicator():
                return self._indicator(leaf, rows).astype(dtype)
            case Vector():
                column = rng.standard_normal(rows)
                column *= dict(recipe.lengths)[leaf] / np.linalg.norm(column)
                return cast(Array, column.astype(dtype).reshape(rows, 1))
            case Wigner():
                return _wigner(recipe.noise.draw(rng, (rows, rows), dtype))
            case Deterministic():
                return _eigenvalues(leaf, rows).astype(dtype)
        return recipe.noise.draw(rng, (rows, columns), dtype)

    def _indicator(self, leaf: Indicator, rows: int) -> Array:
        """Ones between two rounded places of one permutation for all classes of a size."""
        space = sum(ord(letter) << 8 * k for k, letter in enumerate(str(leaf.size)))
        order = np.random.default_rng(_child(self.seed, 2, space)).permutation(rows)
        start, stop = (round(rows * place) for place in dict(self.recipe.shares)[leaf])
        return ((start <= order) & (order < stop)).astype(float).reshape(rows, 1)


def _child(seed: np.random.SeedSequence, *key: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *key))


def sample_seed(seed: np.random.SeedSequence, number: int) -> np.random.SeedSequence:
    """The seed of sample ``number``: child ``number`` of ``seed.spawn``."""
    return _child(seed, number)


def _wigner(square: Array) -> Array:
    """Symmetric from the lower triangle, in place; diagonal entries get variance 2."""
    mirror(square)
    square[np.diag_indices_from(square)] *= np.sqrt(np.asarray(2, square.dtype))
    return square


def mirror(square: Array, block: int = 256) -> None:
    """Copy the lower triangle onto the upper one, in place."""
    size = len(square)
    for start in range(0, size, block):
        stop = min(start + block, size)
        corner = square[start:stop, start:stop]
        lower = np.tril(corner)
        corner[...] = lower + np.tril(corner, -1).T
        square[start:stop, stop:] = square[stop:, start:stop].T


def _eigenvalues(leaf: Deterministic, size: int) -> Array:
    """The diagonal: each atom as often as its weight says, largest remainders first."""
    weights = np.array([float(w) for w in leaf.law.weights]) * size
    counts = np.floor(weights).astype(int)
    order = np.argsort(counts - weights, kind="stable")
    counts[order[: size - counts.sum()]] += 1
    atoms = [float(atom[leaf.component]) for atom in leaf.law.atoms]
    return np.repeat(np.array(atoms), counts)
