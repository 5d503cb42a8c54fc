r"""A function over a grid of named parameters, as a labelled array.

``sweep`` calls the function at every point of the grid, on any executor, and returns an
``xarray.Dataset``: one dimension per parameter, units, and where the numbers come from.
``write_sweep`` saves it as .nc, .zarr, .csv or .png.

>>> from rmtsym.models.regression import regression_error
>>> table = sweep(regression_error, {"ratio": ["1/3", 1], "gamma": [0.1, 1.0]}, fixed={"snr": 2})
>>> dict(table.sizes)
{'ratio': 2, 'gamma': 2}
>>> round(float(table["regression_error"].sel(ratio=1, gamma=0.1)), 5)
0.05331
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from rmtsym.errors import InputError, RmtsymError, SimulationError
from rmtsym.simulation import Estimate
from rmtsym.store import check_path, require_xarray, version, write_dataset

__all__ = ["sweep", "write_sweep"]

ENDINGS = (".nc", ".zarr", ".csv", ".png")


def _axis(name: str, values: Any) -> list[Any]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"got {name} = {values!r}; pass the list of its values")
    listed = [v.item() if isinstance(v, np.generic) else v for v in values]
    if not listed:
        raise InputError(f"got no value for {name}; pass one at least")
    return listed


def _coordinate(values: list[Any]) -> Any:
    """Numbers where all values are numbers, else their texts."""
    try:
        return np.array([float(Fraction(v)) if isinstance(v, str) else float(v) for v in values])
    except (TypeError, ValueError):
        return np.array([str(v) for v in values])


def _parts(result: Any, name: str, shape: tuple[int, ...]) -> dict[str, Any]:
    if isinstance(result, Mapping):
        parts = (_parts(value, str(key), shape) for key, value in result.items())
        return {key: value for part in parts for key, value in part.items()}
    if isinstance(result, Estimate):
        return _parts(
            {name: result.mean, f"{name}_standard_error": result.standard_error}, name, shape
        )
    if np.shape(result) != shape or isinstance(result, (str, bytes)):
        numbers = f"arrays of shape {shape}" if shape else "one number"
        raise InputError(
            f"got {type(result).__name__} of shape {np.shape(result)} from {name}; a sweep takes "
            f"functions that return {numbers}, an Estimate, or a mapping of these by name"
        )
    return {name: np.asarray(result, float)}


def _call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    return function(**arguments)


def _check_names(function: Callable[..., Any], names: Iterable[str]) -> None:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return
    if any(q.kind is q.VAR_KEYWORD for q in parameters.values()):
        return
    for name in names:
        if name not in parameters:
            raise InputError(
                f"got the parameter {name}; {getattr(function, '__name__', function)} takes "
                f"{', '.join(parameters)}"
            )


def sweep(
    function: Callable[..., Any],
    over: Mapping[str, Any],
    *,
    fixed: Mapping[str, Any] | None = None,
    along: str | None = None,
    name: str | None = None,
    units: Mapping[str, str] | None = None,
    equations: Any = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """``function(**point, **fixed)`` on the product grid of ``over``, as an xarray.Dataset.

    function : returns a number, an Estimate, or a mapping of these by name
    over : the values of each varied parameter, by its name
    along : a varied parameter that the function takes as an array, all values in one call; its
        results are arrays of the same length (theory solves them together, a simulation over
        gamma factorises once per sample)
    units : unit by parameter or variable ("1", dimensionless, where left out)
    equations : what the numbers solve (an expression, a system); its text is hashed into the
        attributes, beside version, function, fixed parameters and seed

    Raises InputError for an unknown parameter, SimulationError (naming the point) where the
    function fails or a worker dies.
    """
    xarray = require_xarray()
    axes = {key: _axis(key, values) for key, values in over.items()}
    if not axes:
        raise InputError("got nothing to vary; pass {name: values}")
    fixed = dict(fixed or {})
    doubled = sorted(set(axes) & set(fixed))
    if doubled:
        raise InputError(f"got {', '.join(doubled)} both varied and fixed; give it once")
    _check_names(function, [*axes, *fixed])
    label = str(name or getattr(function, "__name__", "value"))
    if along is not None and along not in axes:
        raise InputError(f"got along = {along!r}; pass one of the varied {', '.join(axes)}")
    outer = {key: values for key, values in axes.items() if key != along}
    inner = {} if along is None else {along: _coordinate(axes[along])}
    inner_shape = tuple(len(values) for values in inner.values())
    points = [
        dict(zip(outer, values, strict=True)) | inner
        for values in itertools.product(*outer.values())
    ]
    results: dict[int, dict[str, Any]] = {}
    for number, result in _results(function, points, fixed, executor):
        results[number] = _parts(result, label, inner_shape)
        if progress is not None:
            size = math.prod(inner_shape)
            progress(len(results) * size, len(points) * size)
    order = [*outer, *inner]
    shape = tuple(len(axes[key]) for key in order)
    units = dict(units or {})
    variables = {}
    for variable in results[0]:
        missing = np.full(inner_shape, np.nan)
        column = [results[k].get(variable, missing) for k in range(len(points))]
        variables[variable] = (
            order,
            np.array(column).reshape(shape),
            {"units": units.get(variable, "1")},
        )
    attributes = {
        "function": f"{getattr(function, '__module__', '?')}.{label}",
        "version": version(),
        "fixed": "; ".join(f"{k} = {v}" for k, v in sorted(fixed.items())),
        "seed": str(fixed.get("seed", "none")),
    }
    if equations is not None:
        attributes["equations_hash"] = hashlib.sha256(str(equations).encode()).hexdigest()
    coordinates = {
        key: (key, _coordinate(values), {"units": units.get(key, "1")})
        for key, values in axes.items()
    }
    return xarray.Dataset(variables, coords=coordinates, attrs=attributes).transpose(*axes)


def _results(
    function: Callable[..., Any],
    points: list[dict[str, Any]],
    fixed: Mapping[str, Any],
    executor: Executor | None,
) -> Any:
    if executor is None:
        for number, point in enumerate(points):
            try:
                result = function(**point, **fixed)
            except RmtsymError:
                raise
            except Exception as error:
                raise _failed(point, error) from error
            yield number, result
        return
    window = 4 * int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)
    queue = iter(enumerate(points))
    pending: dict[Future[Any], int] = {}
    try:
        for number, point in itertools.islice(queue, window):
            pending[executor.submit(_call, function, {**point, **fixed})] = number
        while pending:
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                number = pending.pop(future)
                failure = future.exception()
                if isinstance(failure, RmtsymError):
                    raise failure
                if failure is not None:
                    raise _failed(points[number], failure) from failure
                yield number, future.result()
            for number, point in itertools.islice(queue, len(done)):
                pending[executor.submit(_call, function, {**point, **fixed})] = number
    finally:
        for future in pending:
            future.cancel()


def _failed(point: Mapping[str, Any], error: BaseException) -> SimulationError:
    where = ", ".join(f"{key} = {value}" for key, value in point.items())
    cause = (
        "a worker died" if isinstance(error, BrokenExecutor) else f"{type(error).__name__}: {error}"
    )
    return SimulationError(f"the sweep stopped at {where}: {cause}")


def write_sweep(dataset: Any, path: str | Path) -> Path:
    """Save as .nc, .zarr, .csv or .png, by the ending of the name; whole or not at all.

    A picture shows one varied parameter, or two (the second as one curve for each value up to
    eight, else as a map). Raises InputError for other endings or more dimensions in a picture.
    """
    chosen = check_path(path, ENDINGS)
    if chosen.suffix in (".nc", ".zarr"):
        write_dataset(dataset, chosen)
        return chosen
    fresh = chosen.with_name(f".{chosen.stem}.{os.getpid()}.partial{chosen.suffix}")
    try:
        if chosen.suffix == ".csv":
            header = "".join(f"# {key}: {value}\n" for key, value in dataset.attrs.items())
            fresh.write_text(header + dataset.to_dataframe().to_csv())
        else:
            _picture(dataset, fresh)
        os.replace(fresh, chosen)
    except OSError as error:
        raise SimulationError(f"cannot write {chosen}: {error.strerror or error}") from error
    finally:
        fresh.unlink(missing_ok=True)
    return chosen


def _picture(dataset: Any, path: Path) -> None:
    from matplotlib.figure import Figure

    dimensions = list(dataset.sizes)
    if len(dimensions) > 2:
        raise InputError(
            f"got {len(dimensions)} varied parameters ({', '.join(dimensions)}); a picture shows "
            "two at most: write .nc or .csv, or fix some"
        )
    names = [v for v in dataset.data_vars if not str(v).endswith("_standard_error")]
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    x = dimensions[0]
    if len(dimensions) == 2 and dataset.sizes[dimensions[1]] > 8:
        panes = figure.subplots(1, len(names), squeeze=False)[0]
        for axes, name in zip(panes, names, strict=True):
            second = dimensions[1]
            grid = dataset[name].transpose(second, x)
            mesh = axes.pcolormesh(dataset[x], dataset[second], grid, shading="nearest")
            figure.colorbar(mesh, ax=axes, label=name)
            axes.set(xlabel=x, ylabel=second)
            _scale(axes, "x", dataset[x].values)
            _scale(axes, "y", dataset[second].values)
    else:
        axes = figure.subplots()
        for name in names:
            error = dataset.get(f"{name}_standard_error")
            rows: list[tuple[str, dict[str, Any]]] = [("", {})]
            if len(dimensions) == 2:
                second = dimensions[1]
                rows = [(f", {second} = {v}", {second: v}) for v in dataset[second].values]
            for text, chosen in rows:
                values = dataset[name].sel(chosen)
                if error is None:
                    axes.plot(dataset[x], values, label=f"{name}{text}")
                else:
                    bars = 2 * error.sel(chosen)
                    axes.errorbar(dataset[x], values, bars, fmt="o", ms=3, label=f"{name}{text}")
        axes.set(xlabel=x)
        axes.legend()
        _scale(axes, "x", dataset[x].values)
    figure.savefig(path, dpi=150)


def _scale(axes: Any, which: str, values: Any) -> None:
    """A logarithmic axis for positive values evenly spaced in their logarithm."""
    if values.dtype.kind == "f" and len(values) > 2 and (values > 0).all():
        steps = np.diff(np.log(values))
        if np.allclose(steps, steps[0]) and not np.allclose(np.diff(values), np.diff(values)[0]):
            (axes.set_xscale if which == "x" else axes.set_yscale)("log")
