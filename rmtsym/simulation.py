r"""Monte Carlo from the expression itself: ``simulate`` -> ``Estimate``.

Every sample draws all leaves anew and evaluates the expression literally
(:mod:`rmtsym.evaluation`). Sample ``i`` depends on ``seed`` and ``i`` only, so the result is the
same to the bit in one process, in many, and in any order of completion.

>>> from rmtsym.matrices import D, Entrywise, Gaussian, Identity, Trace, dimensions
>>> n, p = dimensions("n p")
>>> Z = Gaussian("Z", p, n)
>>> m = Trace((Z.T * Z / n + Identity(n)).inverse()) / n
>>> estimate = simulate(m, sizes={n: 200, p: 100}, repetitions=4, seed=1)
>>> abs(estimate.mean - (17**0.5 - 1) / 4) < 0.01
True
"""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import sympy as sp
from threadpoolctl import ThreadpoolController

from rmtsym import controls
from rmtsym.errors import InputError, RmtsymError, SimulationError
from rmtsym.evaluation import compile_program
from rmtsym.execution import Program
from rmtsym.matrices import (
    D,
    Entrywise,
    Gaussian,
    Iid,
    Indicator,
    Labels,
    Matrix,
    Ones,
    Vector,
    Wigner,
)
from rmtsym.rewriting import free_symbols, walk
from rmtsym.sampling import Array, Draws, Noise, NoiseLaw, Recipe, leaves, sample_seed

__all__ = ["Estimate", "Model", "SimulationInterrupted", "sampled_model", "simulate"]

Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True)
class Estimate:
    """Sample mean with its standard error.

    ``mean``, ``standard_error``: float, or arrays of shape (expressions..., values...);
    ``samples``: shape (repetitions, expressions..., values...), in order of the sample number.
    """

    mean: Any
    standard_error: Any
    repetitions: int
    samples: npt.NDArray[np.float64] = field(repr=False)
    sizes: dict[str, int] = field(default_factory=dict)
    seed: int = 0
    digest: str = ""
    controls: npt.NDArray[np.float64] | None = field(default=None, repr=False)

    @classmethod
    def from_samples(cls, samples: Any, **provenance: Any) -> Estimate:
        """From an array whose first axis runs over samples (two at least)."""
        samples = np.asarray(samples, float)
        count = len(samples)
        if count < 2:
            raise InputError(f"got {count} samples; an error bar takes 2 at least")
        mean = samples.mean(0)
        error = samples.std(0, ddof=1) / np.sqrt(count)
        if samples.ndim == 1:
            mean, error = float(mean), float(error)
        return cls(mean, error, count, samples, **provenance)

    def __str__(self) -> str:
        if np.ndim(self.mean) == 0:
            return f"{self.mean:.6g} +- {self.standard_error:.2g} ({self.repetitions} samples)"
        return f"{self.mean} +- {self.standard_error} ({self.repetitions} samples)"


class SimulationInterrupted(KeyboardInterrupt):
    """Ctrl-C during a simulation; ``estimate`` holds the finished samples (None below two)."""

    def __init__(self, done: int, total: int, estimate: Estimate | None) -> None:
        super().__init__(f"interrupted after {done} of {total} samples")
        self.estimate = estimate


def _name(f: Any) -> str:
    return str(getattr(f, "name", None) or getattr(f, "__name__", None) or type(f).__name__)


def _hashed(values: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, float).tobytes()).hexdigest()[:16]


@dataclass(frozen=True)
class Model:
    """Everything that fixes a sample but its number: a frozen value that travels to workers."""

    expressions: tuple[Matrix, ...]
    sizes: tuple[tuple[Any, int], ...]
    values: tuple[tuple[Any, tuple[float, ...]], ...]
    functions: tuple[tuple[Any, Any], ...]
    recipe: Recipe
    seed: int
    stream: tuple[int, ...] = ()
    controlled: bool = False

    @cached_property
    def program(self) -> Program:
        """The steps of one sample."""
        return compile_program(
            self.expressions, dict(self.sizes), dict(self.values), dict(self.functions)
        )

    @cached_property
    def _programs(self) -> list[str]:
        """What functions and laws given as programs do: their values at fixed places, hashed.

        A name or an address does not tell two closures apart, nor one function in two processes.
        """
        found = [(str(name), f) for name, f in self.functions]
        parts = (part for expression in self.expressions for part in walk(expression))
        found += [
            (part.label, part.f)
            for part in parts
            if isinstance(part, Entrywise) and not isinstance(part.f, sp.Basic)
        ]
        places = np.random.default_rng(0).normal(0, 2, (64, 64))
        with np.errstate(all="ignore"):
            lines = [f"{name}: {_name(f)} {_hashed(f(places.copy()))}" for name, f in found]
            if self.recipe.noise.function is not None:
                law = self.recipe.noise.function(np.random.default_rng(0), (64, 64))
                lines.append(f"noise: {self.recipe.noise} {_hashed(law)}")
        return list(dict.fromkeys(lines))

    def description(self) -> str:
        """The expression and all parameters as text; equal texts, equal samples."""
        lines = [f"expression: {expression}" for expression in self.expressions]
        for leaf in self.recipe.leaves:
            lines.append(f"{leaf}: {type(leaf).__name__} {leaf.shape[0]} x {leaf.shape[1]}")
        lines += self._programs
        lines += [f"{symbol} = {size}" for symbol, size in self.sizes]
        lines += [f"{symbol} = {numbers}" for symbol, numbers in self.values]
        lines += [f"{vector} = {numbers}" for vector, numbers in self.recipe.coordinates]
        lines += [f"|{vector}| = {number}" for vector, number in self.recipe.lengths]
        lines += [f"mean({vector}) = {number}" for vector, number in self.recipe.means]
        lines.append(f"noise: {self.recipe.noise}, {self.recipe.dtype}")
        lines.append(f"seed: {self.seed} {self.stream}")
        lines.append(f"controls: {self.controlled}")
        return "\n".join(lines)

    @property
    def digest(self) -> str:
        """Hash of :meth:`description`."""
        return hashlib.sha256(self.description().encode()).hexdigest()

    @property
    def width(self) -> int:
        """Number of values in a sample, controls not counted."""
        return len(self.expressions) * self.program.count

    def draws(self, number: int) -> Draws:
        """The leaves of sample ``number``."""
        seed = np.random.SeedSequence(self.seed, spawn_key=self.stream)
        return self.recipe.draws(sample_seed(seed, number))

    def sample(self, number: int) -> Array:
        """Sample ``number`` as one row: the values, then the controls if asked for."""
        draws = self.draws(number)
        if not self.controlled:
            return self.program.run(draws).reshape(-1)
        row: dict[Matrix, Array] = {}

        def load(leaf: Matrix) -> Array:
            array = draws(leaf)
            if isinstance(leaf, (Gaussian, Wigner)):
                row[leaf] = self._controls(leaf, array, draws)
            return array

        values = self.program.run(load).reshape(-1)
        return np.concatenate([values, *(row[leaf] for leaf in sorted(row, key=str))])

    def _controls(self, leaf: Matrix, array: Array, draws: Draws) -> Array:
        vectors = [v for v in self.recipe.leaves if isinstance(v, Vector)]

        def directions(size: Any, rows: int) -> Array:
            return controls.basis([draws(v) for v in vectors if v.size == size], rows)

        gaussian = self.recipe.noise.name == "gaussian"
        rows, columns = array.shape
        if isinstance(leaf, Wigner):
            return controls.of_wigner(array, directions(leaf.size, rows), gaussian)
        u = directions(leaf.shape[1], columns)
        v = directions(leaf.shape[0], rows)
        return controls.of_gaussian(array, u, v, gaussian)


def _by_name(given: Mapping[Any, Any] | None, known: Sequence[Any], kind: str) -> dict[Any, Any]:
    """Keys as the objects of the expression, whether given as such or by name."""
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"got {given!r} for {kind}; pass a mapping {{symbol: value}}")
    names = {str(item): item for item in known}
    result = {}
    for key, value in (given or {}).items():
        if str(key) not in names:
            raise InputError(
                f"got {kind} {key}, which the expression does not contain; "
                f"it has {', '.join(sorted(names)) or 'none'}"
            )
        result[names[str(key)]] = value
    return result


def _check_derivatives(expressions: Sequence[Matrix]) -> None:
    for node in (node for e in expressions for node in walk(e)):
        if isinstance(node, D) and node.variable not in _symbols(node.operand):
            raise InputError(
                f"got D in {node.variable}, which {node.operand} does not contain; a limit's "
                "derivative in a relative size is sensitivities(system, values), not a simulation"
            )


def _size(symbol: Any, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"got the size {symbol} = {value!r}; a size is a whole number")
    if value < 2:
        raise InputError(
            f"got the size {symbol} = {value}; take 2 at least (hundreds, to be useful)"
        )
    return int(value)


def _float(name: Any, value: Any) -> float:
    from fractions import Fraction

    try:
        number = float(Fraction(value)) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
        raise InputError(f"got {name} = {value!r}; pass a real number") from error
    if not np.isfinite(number):
        raise InputError(f"got {name} = {value!r}; pass a finite number")
    return number


def sampled_model(
    expression: Any,
    *,
    sizes: Mapping[Any, int],
    values: Mapping[Any, Any] | None = None,
    vectors: Mapping[Any, Any] | None = None,
    nonlinearities: Mapping[Any, Any] | None = None,
    noise: NoiseLaw = "gaussian",
    seed: int = 0,
    dtype: str = "float64",
    stream: tuple[int, ...] = (),
) -> tuple[Model, tuple[int, ...]]:
    """The :class:`Model` of the arguments of :func:`simulate`, and the shape of its results."""
    several = isinstance(expression, (tuple, list))
    expressions = tuple(expression) if several else (expression,)
    if not expressions:
        raise InputError("got no expression; pass a 1 x 1 expression or a tuple of them")
    for item in expressions:
        if not isinstance(item, Matrix) or item.shape != (1, 1):
            given = item.shape if isinstance(item, Matrix) else type(item).__name__
            raise InputError(
                f"got an expression of shape {given}; simulate takes 1 x 1 expressions "
                "(write y.T*Q*y/n, Trace(Q)/n, ...)"
            )
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"got the seed {seed!r}; pass a whole number >= 0")
    if dtype not in ("float64", "float32"):
        raise InputError(f"got dtype {dtype!r}; expected 'float64' or 'float32'")
    _check_derivatives(expressions)
    drawn = leaves(expressions)
    symbols = sorted({s for e in expressions for s in _symbols(e)}, key=str)
    size_symbols = [s for s in symbols if s.is_integer and s.is_positive]
    chosen_sizes = {s: _size(s, v) for s, v in _by_name(sizes, size_symbols, "the size").items()}
    missing = [str(s) for s in size_symbols if s not in chosen_sizes]
    if missing:
        raise InputError(f"got no size for {', '.join(missing)}; give it in sizes={{...}}")
    functions = _functions(expressions, nonlinearities)
    scalar_symbols = [s for s in symbols if s not in chosen_sizes]
    arrays = {
        s: np.asarray(v, dtype=object)
        for s, v in _by_name(values, scalar_symbols, "the value").items()
    }
    missing = [str(s) for s in scalar_symbols if s not in arrays]
    if missing:
        raise InputError(f"got no value for {', '.join(missing)}; give it in values={{...}}")
    try:
        shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError as error:
        raise InputError(f"got values that do not broadcast together: {error}") from error
    numbers = {}
    for symbol, array in arrays.items():
        flat = [_float(symbol, v) for v in np.broadcast_to(array, shape).reshape(-1)]
        if not flat:
            raise InputError(f"got no value in {symbol}; pass one number at least")
        if symbol.is_positive and min(flat) <= 0:
            raise InputError(f"got {symbol} = {min(flat):g}; {symbol} is declared positive")
        numbers[symbol] = (flat[0],) if len(set(flat)) == 1 and array.ndim == 0 else tuple(flat)
    recipe = _recipe(drawn, chosen_sizes, numbers, vectors, Noise.read(noise), dtype)
    model = Model(
        expressions,
        tuple(sorted(chosen_sizes.items(), key=str)),
        tuple(sorted(numbers.items(), key=str)),
        functions,
        recipe,
        int(seed),
        stream,
    )
    model.program  # noqa: B018 - compiled here: errors of the expression come before any sample
    return model, ((len(expressions),) if several else ()) + shape


def _symbols(expression: Matrix) -> set[Any]:
    found = set(free_symbols(expression))
    for part in walk(expression):
        if isinstance(part, Labels):
            found |= part.mean.free_symbols
        elif isinstance(part, Iid):
            found |= part.kurtosis.free_symbols
        elif isinstance(part, Indicator):
            found |= part.share.free_symbols | part.start.free_symbols
    return found


def _functions(
    expressions: tuple[Matrix, ...], given: Mapping[Any, Any] | None
) -> tuple[tuple[Any, Any], ...]:
    used = {p.f for e in expressions for p in walk(e) if isinstance(p, Entrywise)}
    symbols = [f for f in used if isinstance(f, sp.Basic)]
    chosen = _by_name(given, symbols, "the nonlinearity")
    missing = sorted(str(f) for f in symbols if f not in chosen)
    if missing:
        raise InputError(
            f"got no function for {', '.join(missing)}; give it in nonlinearities={{...}}"
        )
    for f in [*chosen.values(), *(f for f in used if not isinstance(f, sp.Basic))]:
        if not callable(f):
            raise InputError(f"got the nonlinearity {f!r}; pass a Nonlinearity or a callable")
    return tuple(sorted(chosen.items(), key=str))


def _recipe(
    drawn: tuple[Matrix, ...],
    sizes: dict[Any, int],
    numbers: dict[Any, tuple[float, ...]],
    vectors: Mapping[Any, Any] | None,
    noise: Noise,
    dtype: str,
) -> Recipe:
    given = (Labels, Ones, Indicator)
    plain = [v for v in drawn if isinstance(v, Vector) and not isinstance(v, given)]
    chosen = _by_name(vectors, plain, "the vector")
    first = {symbol: value[0] for symbol, value in numbers.items()}
    shapes = tuple(
        (int(leaf.shape[0].subs(sizes)), int(leaf.shape[1].subs(sizes))) for leaf in drawn
    )
    coordinates, lengths, means, shares = [], [], [], []
    for leaf in drawn:
        if isinstance(leaf, Labels):
            mean = _float(f"the mean of {leaf}", leaf.mean.subs(first))
            if not -1 < mean < 1:
                raise InputError(f"got labels of mean {mean:g}; it must lie between -1 and 1")
            means.append((leaf, mean))
        elif isinstance(leaf, Indicator):
            start, share = (float(x.subs(first)) for x in (leaf.start, leaf.share))
            shares.append((leaf, (start, start + share)))
        elif isinstance(leaf, Iid) and noise.kurtosis is not None:
            kurtosis = float(leaf.kurtosis.subs(first))
            if abs(kurtosis - noise.kurtosis) > 1e-9:
                raise InputError(
                    f"got {leaf} of kurtosis {kurtosis:g} and {noise} noise, of kurtosis "
                    f"{noise.kurtosis:g}; give a law of this kurtosis as noise"
                )
        elif leaf in chosen:
            row = np.atleast_1d(np.asarray(chosen[leaf], dtype=object)).reshape(-1)
            coordinates.append((leaf, tuple(_float(leaf, v) for v in row)))
        elif isinstance(leaf, Vector) and not isinstance(leaf, Ones):
            norm2 = None if leaf.norm2 is None else leaf.norm2.subs({**sizes, **first})
            if norm2 is None or not norm2.is_number:
                raise InputError(
                    f"got no coordinates for the vector {leaf}; give them in vectors={{...}} "
                    "in any orthonormal basis"
                )
            lengths.append((leaf, float(norm2) ** 0.5))
    for space in {v.shape[0] for v, _ in coordinates}:
        ranks = {str(v): len(c) for v, c in coordinates if v.shape[0] == space}
        if len(set(ranks.values())) > 1:
            raise InputError(
                f"got vectors of different lengths {ranks}; coordinates in one space "
                "have one length"
            )
        rank, size = max(ranks.values()), int(space.subs(sizes))
        if rank > size:
            raise InputError(f"got vectors of {rank} coordinates in a space of size {size}")
    return Recipe(
        drawn,
        shapes,
        tuple(coordinates),
        tuple(lengths),
        tuple(means),
        noise,
        dtype,
        tuple(shares),
    )


# -- workers


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def _blas(threads: int | None) -> Iterator[None]:
    if threads is None:
        yield
        return
    with _controller().limit(limits=threads, user_api="blas"):
        yield


@lru_cache(maxsize=4)
def _unpack(payload: bytes) -> Model:
    return cast(Model, pickle.loads(payload))


def _some(model: Model, numbers: Sequence[int]) -> list[tuple[int, Array]]:
    return [(number, model.sample(number)) for number in numbers]


def _remote(payload: bytes, numbers: Sequence[int], threads: int | None) -> list[tuple[int, Array]]:
    """Samples in a worker process."""
    with _blas(threads):
        return _some(_unpack(payload), numbers)


def _group(model: Model) -> int:
    """Samples a task: about 20 ms of work, to spare the executor."""
    largest = max((size for _, size in model.sizes), default=1)
    return max(1, min(16, int(6e7 / (4 * largest**3 + 1e7))))


def _pack(model: Model) -> bytes:
    try:
        return pickle.dumps(model)
    except Exception as error:
        try:
            import cloudpickle
        except ImportError:
            raise InputError(
                f"got a function that cannot be sent to another process ({error}); define it at "
                "the top of a module, or install cloudpickle"
            ) from error
        return cast(bytes, cloudpickle.dumps(model))


def _completed(
    model: Model, numbers: Sequence[int], executor: Executor | None, threads: int | None
) -> Iterator[list[tuple[int, Array]]]:
    """Finished samples as they come, in batches."""
    if executor is None:
        for number in numbers:
            yield [(number, model.sample(number))]
        return
    local = isinstance(executor, ThreadPoolExecutor)
    payload = b"" if local else _pack(model)

    def submit(group: Sequence[int]) -> Future[list[tuple[int, Array]]]:
        if local:
            return executor.submit(_some, model, group)
        return executor.submit(_remote, payload, group, threads)

    window = 4 * int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)
    size = _group(model)
    queue = iter([tuple(numbers[k : k + size]) for k in range(0, len(numbers), size)])
    pending: set[Future[list[tuple[int, Array]]]] = set()
    try:
        for group in itertools.islice(queue, window):
            pending.add(submit(group))
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            batch: list[tuple[int, Array]] = []
            failure = None
            for future in done:
                error = future.exception()
                if error is None:
                    batch.extend(future.result())
                else:
                    failure = error
            if batch:
                yield sorted(batch, key=lambda item: item[0])
            if failure is not None:
                raise failure
            for group in itertools.islice(queue, len(done)):
                pending.add(submit(group))
    finally:
        for future in pending:
            future.cancel()
        if local:
            wait(pending)


def _estimate(model: Model, done: Mapping[int, Array], shape: tuple[int, ...]) -> Estimate | None:
    if len(done) < 2:
        return None
    rows = np.array([done[number] for number in sorted(done)])
    return Estimate.from_samples(
        rows[:, : model.width].reshape(len(rows), *shape),
        controls=rows[:, model.width :],
        sizes={str(symbol): size for symbol, size in model.sizes},
        seed=model.seed,
        digest=model.digest,
    )


def simulate(
    expression: Any,
    *,
    sizes: Mapping[Any, int],
    values: Mapping[Any, Any] | None = None,
    vectors: Mapping[Any, Any] | None = None,
    nonlinearities: Mapping[Any, Any] | None = None,
    noise: NoiseLaw = "gaussian",
    repetitions: int = 20,
    seed: int = 0,
    executor: Executor | None = None,
    store: str | Path | None = None,
    progress: Progress | None = None,
    dtype: str = "float64",
    blas_threads: int | None = 1,
    stream: tuple[int, ...] = (),
) -> Estimate:
    """Mean of a 1 x 1 expression over samples of its random matrices, evaluated literally.

    expression : 1 x 1 expression, or a tuple of them evaluated on the same samples
    sizes : ``{n: 600, p: 400}``; keys here and below are symbols, vectors, or their names
    values : the scalars; arrays broadcast together, and share one factorisation where they can
    vectors : coordinates in any orthonormal basis, one length per space; realised in a random
        orthonormal frame. A vector with a known squared length may be left out.
    nonlinearities : a function for each symbol that stands in ``Entrywise``
    noise : gaussian, rademacher, laplace, student-t(DF), or a callable ``(rng, shape)``
    executor : anything with the interface of ``concurrent.futures.Executor``: thread and process
        pools, ``distributed.Client(...).get_executor()``, ``mpi4py.futures.MPIPoolExecutor()``
        (``mpiexec -n 8 python -m mpi4py.futures script.py``). None: this process
    store : one .nc or .zarr file that grows as samples finish; a rerun continues it
    progress : called with (finished, total)
    dtype : "float64" or "float32" (relative error of about 1e-6 times the condition number)
    blas_threads : threads of BLAS inside one sample; None leaves them alone. The last bits may
        depend on this number, and on nothing else.

    Raises InputError for input it cannot use, SimulationError where a run stops (its
    ``estimate`` and the store keep the finished samples), SimulationInterrupted on Ctrl-C.
    """
    model, shape = sampled_model(
        expression,
        sizes=sizes,
        values=values,
        vectors=vectors,
        nonlinearities=nonlinearities,
        noise=noise,
        seed=seed,
        dtype=dtype,
        stream=stream,
    )
    return run(
        model,
        shape,
        repetitions=repetitions,
        executor=executor,
        store=store,
        progress=progress,
        blas_threads=blas_threads,
    )


def run(
    model: Model,
    shape: tuple[int, ...],
    *,
    repetitions: int,
    first: int = 0,
    executor: Executor | None = None,
    store: str | Path | None = None,
    progress: Progress | None = None,
    blas_threads: int | None = 1,
) -> Estimate:
    """Samples ``first`` to ``first + repetitions - 1`` of a model."""
    if isinstance(repetitions, bool) or not isinstance(repetitions, (int, np.integer)):
        raise InputError(f"got repetitions = {repetitions!r}; pass a whole number")
    if repetitions < 2:
        raise InputError(f"got {repetitions} repetitions; an error bar takes 2 at least")
    if blas_threads is not None and (not isinstance(blas_threads, int) or blas_threads < 1):
        raise InputError(f"got blas_threads = {blas_threads!r}; pass a whole number >= 1 or None")
    if executor is not None and not hasattr(executor, "submit"):
        raise InputError(
            f"got the executor {executor!r}; pass an object with the interface of "
            "concurrent.futures.Executor"
        )
    book: Any = None
    done: dict[int, Array] = {}
    if store is not None:
        from rmtsym.store import SampleStore

        book = SampleStore.open(store, model, shape)
        done = {k: v for k, v in book.samples.items() if first <= k < first + repetitions}
    numbers = [k for k in range(first, first + repetitions) if k not in done]
    if progress is not None:
        progress(len(done), repetitions)
    try:
        with _blas(blas_threads):
            for batch in _completed(model, numbers, executor, blas_threads):
                done.update(batch)
                if book is not None:
                    book.append(batch)
                if progress is not None:
                    progress(len(done), repetitions)
    except KeyboardInterrupt as error:
        raise SimulationInterrupted(
            len(done), repetitions, _estimate(model, done, shape)
        ) from error
    except BrokenExecutor as error:
        raise SimulationError(
            f"a worker died after {len(done)} of {repetitions} samples ({error}); the finished "
            "ones are kept, and a rerun with the same store continues",
            _estimate(model, done, shape),
        ) from error
    except SimulationError as error:
        error.estimate = _estimate(model, done, shape)
        raise
    except RmtsymError:
        raise
    except Exception as error:
        raise SimulationError(
            f"a sample failed after {len(done)} of {repetitions}: {type(error).__name__}: {error}",
            _estimate(model, done, shape),
        ) from error
    estimate = _estimate(model, done, shape)
    assert estimate is not None
    return estimate
