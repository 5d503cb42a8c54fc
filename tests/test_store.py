"""Stores: continued after any death of the process, refused for another model, whole or absent."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

from rmtsym.errors import InputError, SimulationError
from rmtsym.matrices import Entrywise, Gaussian, Identity, OffDiagonal, Trace, dimensions
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.simulation import SimulationInterrupted, simulate
from rmtsym.store import read_dataset

xarray = pytest.importorskip("xarray")

n, p = dimensions("n p")
Z = Gaussian("Z", p, n)
TRACE = Trace((Z.T * Z / n + Identity(n)).inverse()) / n

PROGRAM = """
import sys
sys.path.insert(0, {here!r})
from test_store import TRACE, n, p
from rmtsym.simulation import simulate
simulate(TRACE, sizes={{n: 300, p: 200}}, repetitions=40, seed=3, store={path!r})
"""


def small(path, **changes):
    arguments = {"sizes": {n: 30, p: 20}, "repetitions": 6, "seed": 3, "store": path}
    return simulate(TRACE, **(arguments | changes))


def endings():
    yield "nc"
    try:
        import zarr  # noqa: F401
    except ImportError:
        return
    yield "zarr"


@pytest.mark.parametrize("ending", list(endings()))
def test_kill_and_rerun_gives_the_same_file(tmp_path, ending):
    path, whole = tmp_path / f"killed.{ending}", tmp_path / f"whole.{ending}"
    program = PROGRAM.format(here=str(Path(__file__).parent), path=str(path))
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", program])
        before = len(read_dataset(path)["sample"]) if path.exists() else 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if path.exists() and path.stat().st_mtime_ns:
                try:
                    if len(read_dataset(path)["sample"]) >= before + 3:
                        break
                except (OSError, ValueError, KeyError):
                    pass  # a .zarr directory between its two renames
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    kept = len(read_dataset(path)["sample"]) if path.exists() else 0
    resumed = simulate(TRACE, sizes={n: 300, p: 200}, repetitions=40, seed=3, store=path)
    direct = simulate(TRACE, sizes={n: 300, p: 200}, repetitions=40, seed=3, store=whole)
    assert np.array_equal(resumed.samples, direct.samples)
    assert read_dataset(path).identical(read_dataset(whole))
    if ending == "nc":
        assert path.read_bytes() == whole.read_bytes()
        assert 3 <= kept <= 40
    assert {f.name for f in tmp_path.iterdir()} == {path.name, whole.name}


def test_a_finished_store_is_not_computed_again(tmp_path):
    path = tmp_path / "a.nc"
    first = small(path)
    seen = []
    again = small(path, progress=lambda d, t: seen.append(d))
    assert seen == [6]
    assert np.array_equal(first.samples, again.samples)
    assert small(path, repetitions=9).repetitions == 9
    assert small(path, repetitions=4).repetitions == 4
    assert len(read_dataset(path)["sample"]) == 9


@pytest.mark.parametrize("changes", [{"sizes": {n: 32, p: 20}}, {"seed": 4}, {"dtype": "float32"}])
def test_another_model_is_refused(tmp_path, changes):
    path = tmp_path / "a.nc"
    small(path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="of another model"):
        small(path, **changes)
    assert path.read_bytes() == before


def test_what_is_no_store_is_refused(tmp_path):
    path = tmp_path / "a.nc"
    path.write_text("hello")
    with pytest.raises(InputError, match="not a store"):
        small(path)
    assert path.read_text() == "hello"
    with pytest.raises(InputError, match="must end in"):
        small(tmp_path / "a.txt")
    with pytest.raises(InputError, match="directory does not exist"):
        small(tmp_path / "none" / "a.nc")


def test_interruption_leaves_the_finished_samples(tmp_path):
    path = tmp_path / "a.nc"

    def progress(done, total):
        if done == 4:
            raise KeyboardInterrupt

    with pytest.raises(SimulationInterrupted):
        small(path, progress=progress)
    assert len(read_dataset(path)["sample"]) == 4


def test_a_full_disk_keeps_what_was_written(tmp_path):
    """Files limited to 4 kB stand in for the disk."""
    path = tmp_path / "a.nc"
    kept = small(path)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 40, limit[1]))
    try:
        with pytest.raises(SimulationError, match=r"cannot write .*a\.nc") as caught:
            small(path, repetitions=400)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert caught.value.estimate.repetitions >= 7
    assert os.listdir(tmp_path) == ["a.nc"]
    rows = read_dataset(path)["values"].values[:, 0]
    assert np.array_equal(rows[:6], kept.samples)


def scaled(k):
    def f(t):
        return np.tanh(k * t)

    return f


def law(k):
    def draw(rng, shape):
        return rng.standard_normal(shape) if k else rng.choice([-1.0, 1.0], shape)

    return draw


class Steep:
    def __init__(self, k):
        self.k = k

    def __repr__(self):
        return "Steep"

    def __call__(self, t):
        return np.tanh(self.k * t)


KERNEL = Entrywise(sp.Symbol("f"), Z.T * Z / sp.sqrt(p))
GIVEN = {
    "closures": lambda k: {"nonlinearities": {"f": scaled(k)}},
    "closures under one name": lambda k: {"nonlinearities": {"f": Nonlinearity(scaled(k))}},
    "objects": lambda k: {"nonlinearities": {"f": Steep(k)}},
    "formulas under one name": lambda k: {
        "nonlinearities": {"f": Nonlinearity(f"tanh({k}*t)", "h")}
    },
    "laws": lambda k: {"nonlinearities": {"f": np.tanh}, "noise": law(k)},
}


@pytest.mark.parametrize("kind", GIVEN)
def test_a_function_is_known_by_what_it_does(tmp_path, kind):
    """Not by its name or address: another one is refused, the same one made anew continues."""
    path = tmp_path / "a.nc"
    expression = Trace(OffDiagonal(KERNEL) * OffDiagonal(KERNEL).T) / n**2

    def samples(k, repetitions):
        return simulate(
            expression, sizes={n: 20, p: 15}, repetitions=repetitions, store=path, **GIVEN[kind](k)
        ).samples

    first = samples(0, 3)
    assert np.array_equal(samples(0, 5)[:3], first)
    with pytest.raises(InputError, match="of another model"):
        samples(1, 5)


def test_functions_inside_the_expression_are_known_too(tmp_path):
    path = tmp_path / "a.nc"
    for k, refused in ((1, False), (1, False), (2, True)):
        kernel = OffDiagonal(Entrywise(scaled(k), Z.T * Z / sp.sqrt(p)))
        expression = Trace(kernel * kernel.T) / n**2
        if refused:
            with pytest.raises(InputError, match="of another model"):
                simulate(expression, sizes={n: 20, p: 15}, repetitions=3, store=path)
        else:
            simulate(expression, sizes={n: 20, p: 15}, repetitions=3, store=path)


def test_a_plain_function_has_one_digest_in_every_process(tmp_path):
    code = (
        "import numpy as np, sympy as sp\n"
        "from rmtsym import *\n"
        "def f(t):\n    return np.tanh(3 * t)\n"
        "n, p = dimensions('n p'); Z = Gaussian('Z', p, n)\n"
        "e = Trace(Entrywise(sp.Symbol('f'), Z.T * Z / sp.sqrt(p))) / n\n"
        "print(simulate(e, sizes={n: 9, p: 8}, nonlinearities={'f': f}, repetitions=2).digest)\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(found) == 1
