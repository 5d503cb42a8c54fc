"""sweep: labels, provenance, executors, files."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from rmtsym import MODELS, simulate
from rmtsym.errors import InputError, SimulationError
from rmtsym.models.attention import ERROR, attention_error
from rmtsym.simulation import Estimate
from rmtsym.store import read_dataset
from rmtsym.sweep import sweep, write_sweep

xarray = pytest.importorskip("xarray")


def product(a, b, c=1.0):
    return a * b * c


def with_error(a):
    return {"double": 2 * a, "drawn": Estimate.from_samples([a, a + 1.0, a + 2.0])}


def fail(a):
    if a == 2:
        raise ValueError("two")
    return a


def test_grid_units_and_provenance():
    table = sweep(product, {"a": [1, 2, 3], "b": [0.5, 4]}, fixed={"c": 10}, units={"a": "m"})
    assert table["product"].dims == ("a", "b")
    assert float(table["product"].sel(a=3, b=0.5)) == 15
    assert table["a"].attrs["units"] == "m"
    assert table["product"].attrs["units"] == "1"
    assert table.attrs["fixed"] == "c = 10"
    assert "version" in table.attrs


def test_processes_give_the_same_table():
    grid = {"gamma": [0.1, 1.0], "f": ["tanh(t)", "sign(t)"]}
    fixed = {"ratio": "2/3", "mu": [1.5]}
    serial = sweep(attention_error, grid, fixed=fixed, equations=ERROR)
    with ProcessPoolExecutor(2) as pool:
        parallel = sweep(attention_error, grid, fixed=fixed, equations=ERROR, executor=pool)
    assert serial.identical(parallel)
    assert len(serial.attrs["equations_hash"]) == 64
    assert list(serial["f"].values) == ["tanh(t)", "sign(t)"]


def test_all_values_along_one_parameter_in_one_call():
    over = {"ratio": ["1/3", 2], "gamma": [0.1, 0.3, 1.0], "f": ["tanh", "sign"]}
    fixed = {"mu": [1.5]}
    table = sweep(attention_error, over, fixed=fixed, along="gamma")
    assert table["attention_error"].dims == ("ratio", "gamma", "f")
    one_by_one = sweep(attention_error, over, fixed=fixed)
    np.testing.assert_allclose(table["attention_error"], one_by_one["attention_error"], rtol=1e-12)
    with pytest.raises(InputError, match="one of the varied ratio, gamma, f"):
        sweep(attention_error, over, fixed=fixed, along="alpha")
    with pytest.raises(InputError, match=r"arrays of shape \(2,\)"):
        sweep(lambda a: np.sum(a), {"a": [1, 2]}, along="a")


def test_a_simulation_over_many_ridges():
    def drawn(gamma, seed):
        system = MODELS["regression"]
        return simulate(
            system.expression,
            sizes={"n": 30, "p": 20},
            values={"gamma": gamma},
            vectors={"mu": [1.0]},
            repetitions=4,
            seed=seed,
        )

    over = {"gamma": [0.1, 1.0], "seed": [1, 2]}
    together = sweep(drawn, over, along="gamma", name="regression")
    apart = sweep(drawn, over, name="regression")
    for name in ("regression", "regression_standard_error"):
        np.testing.assert_allclose(together[name], apart[name], rtol=1e-9)


@pytest.mark.parametrize("ending", ["nc", "zarr"])
def test_files_return_what_was_written(tmp_path, ending):
    if ending == "zarr":
        pytest.importorskip("zarr")
    table = sweep(with_error, {"a": np.linspace(0, 1, 4)})
    assert set(table.data_vars) == {"double", "drawn", "drawn_standard_error"}
    path = write_sweep(table, tmp_path / f"table.{ending}")
    read = read_dataset(path)
    xarray.testing.assert_allclose(read, table)
    assert read.attrs == table.attrs
    assert [f.name for f in tmp_path.iterdir()] == [path.name]


def test_csv_and_pictures(tmp_path):
    line = sweep(with_error, {"a": np.geomspace(1, 8, 4)})
    text = write_sweep(line, tmp_path / "a.csv").read_text()
    assert text.startswith("# function: ")
    assert "a,double,drawn,drawn_standard_error" in text
    few = sweep(product, {"a": [1, 2, 3], "b": [1, 2]})
    many = sweep(product, {"a": [1, 2, 3], "b": list(range(12))})
    for number, table in enumerate((line, few, many)):
        assert write_sweep(table, tmp_path / f"{number}.png").stat().st_size > 5000
    cube = sweep(product, {"a": [1, 2], "b": [1, 2], "c": [1, 2]})
    with pytest.raises(InputError, match="two at most"):
        write_sweep(cube, tmp_path / "cube.png")
    assert not list(tmp_path.glob(".*"))


def test_refusals(tmp_path):
    with pytest.raises(InputError, match="takes a, b, c"):
        sweep(product, {"d": [1]})
    with pytest.raises(InputError, match="both varied and fixed"):
        sweep(product, {"a": [1]}, fixed={"a": 1, "b": 2})
    with pytest.raises(InputError, match="list of its values"):
        sweep(product, {"a": "1,2"})
    with pytest.raises(InputError, match="nothing to vary"):
        sweep(product, {})
    with pytest.raises(SimulationError, match="a = 2: ValueError: two"):
        sweep(fail, {"a": [1, 2]})
    table = sweep(product, {"a": [1], "b": [1]})
    with pytest.raises(InputError, match="must end in"):
        write_sweep(table, tmp_path / "a.txt")
    with pytest.raises(InputError, match="directory"):
        write_sweep(table, tmp_path / "none" / "a.nc")
