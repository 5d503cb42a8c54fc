r"""Finished samples in one .nc or .zarr file, written again whole after each batch.

The new file is written beside the old one and takes its place in one rename, so a process killed
at any time leaves a complete file. Names of dimensions: ``sample``, ``column`` (expressions times
values, in C order), ``control``. The file holds no time stamp: equal runs leave equal files.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmtsym.errors import InputError, SimulationError
from rmtsym.sampling import Array

if TYPE_CHECKING:
    from rmtsym.simulation import Model


def require_xarray() -> Any:
    """The module xarray, an optional dependency."""
    try:
        import xarray
    except ImportError as error:
        raise InputError(
            "stores and sweeps take xarray, which is not installed; pip install 'rmtsym[sweep]'"
        ) from error
    return xarray


def version() -> str:
    """The version of this package."""
    from importlib import metadata

    try:
        return metadata.version("rmtsym")
    except metadata.PackageNotFoundError:  # pragma: no cover - a bare source tree
        return "unknown"


def write_dataset(dataset: Any, path: Path) -> None:
    """Write to .nc or .zarr so that ``path`` holds the old or the new content, nothing between.

    Raises SimulationError where the disk refuses; no partial file is left.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.partial")
    old = _aside(path)
    try:
        _remove(fresh)
        if path.suffix == ".zarr":
            dataset.to_zarr(fresh, mode="w", zarr_format=2, consolidated=True)
            if path.exists():
                _remove(old)
                os.replace(path, old)
            os.replace(fresh, path)
            _remove(old)
        else:
            dataset.to_netcdf(fresh, engine="scipy", format="NETCDF3_64BIT")
            with open(fresh, "rb") as file:
                os.fsync(file.fileno())
            os.replace(fresh, path)
    except OSError as error:
        raise SimulationError(
            f"cannot write {path}: {error.strerror or error}; the samples written before are "
            "kept; free some space or name another file, and run again"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            _remove(fresh)


def read_dataset(path: Path) -> Any:
    """The content of a .nc or .zarr file, in memory; the file is left closed."""
    xarray = require_xarray()
    if path.suffix == ".zarr":
        return xarray.open_zarr(path, consolidated=True).load()
    with xarray.open_dataset(io.BytesIO(path.read_bytes()), engine="scipy") as opened:
        return opened.load()


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_path(path: str | Path, endings: tuple[str, ...]) -> Path:
    """The path, with one of the endings and in a directory that exists."""
    if not isinstance(path, (str, Path)):
        raise InputError(f"got the file {path!r}; pass its name as text or as a Path")
    chosen = Path(path)
    if len(os.fsencode(chosen.name)) > 200:
        raise InputError(f"got a file name of {len(chosen.name)} characters; take a shorter one")
    if chosen.suffix not in endings:
        raise InputError(f"got the file {str(path)!r}; its name must end in {', '.join(endings)}")
    if not chosen.parent.is_dir():
        raise InputError(f"got the file {str(path)!r}; its directory does not exist")
    if chosen.suffix == ".zarr":
        try:
            import zarr  # noqa: F401
        except ImportError as error:
            raise InputError(
                ".zarr takes the package zarr, which is not installed; pip install zarr, or name "
                "a .nc file"
            ) from error
    return chosen


class SampleStore:
    """The samples of one model in one file."""

    def __init__(self, path: Path, model: Model, shape: tuple[int, ...]) -> None:
        self.path, self.model, self.shape = path, model, shape
        self.samples: dict[int, Array] = {}

    @classmethod
    def open(cls, path: str | Path, model: Model, shape: tuple[int, ...]) -> SampleStore:
        """The store at ``path``, new or continued.

        Raises InputError if it holds samples of another model, or is no store.
        """
        require_xarray()
        book = cls(check_path(path, (".nc", ".zarr")), model, shape)
        for leftover in book.path.parent.glob(f".{book.path.name}.*.partial"):
            _remove(leftover)
        if not book.path.exists() and _aside(book.path).exists():
            os.replace(_aside(book.path), book.path)
        if not book.path.exists():
            return book
        try:
            dataset = read_dataset(book.path)
            numbers = [int(k) for k in dataset["sample"].values]
            rows = dataset["values"].values
            if "controls" in dataset:
                rows = np.concatenate([rows, dataset["controls"].values], axis=1)
            digest, description = dataset.attrs["digest"], dataset.attrs["description"]
        except Exception as error:
            raise InputError(
                f"got the store {str(path)!r}, which is not a store of samples "
                f"({type(error).__name__}); name another file"
            ) from error
        if digest != model.digest:
            mine = model.description().splitlines()
            theirs = description.splitlines()
            other = [line for line in theirs if line not in mine]
            here = [line for line in mine if line not in theirs]
            raise InputError(
                f"got the store {str(path)!r} of another model: it has "
                f"{'; '.join(other) or 'fewer lines'}, here {'; '.join(here) or 'fewer lines'}; "
                "name another file"
            )
        book.samples = dict(zip(numbers, rows, strict=True))
        return book

    def append(self, batch: list[tuple[int, Array]]) -> None:
        """Add finished samples and write the file."""
        self.samples.update(batch)
        write_dataset(self.dataset(), self.path)

    def dataset(self) -> Any:
        """All samples, in order of their number."""
        xarray = require_xarray()
        numbers = sorted(self.samples)
        rows = np.array([self.samples[k] for k in numbers]).reshape(len(numbers), -1)
        width = self.model.width
        variables = {"values": (("sample", "column"), rows[:, :width])}
        if rows.shape[1] > width:  # NetCDF 3 knows no dimension of length 0
            variables["controls"] = (("sample", "control"), rows[:, width:])
        return xarray.Dataset(
            variables,
            coords={"sample": np.array(numbers, np.int32)},
            attrs={
                "description": self.model.description(),
                "digest": self.model.digest,
                "seed": str(self.model.seed),
                "shape": str(self.shape),
                "version": version(),
            },
        )
