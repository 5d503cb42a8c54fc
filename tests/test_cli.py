"""The command line as a user meets it."""

import json
import subprocess
import sys

import pytest

from rmtsym.cli import main

TANH = ["--ratio", "2/3", "--gamma", "0.2", "--mu", "1.5,0,0", "--w-k", "1,1,0", "--w-q", "1,0,-1"]


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    captured = capsys.readouterr()
    return stop.value.code, captured.out, captured.err


def test_hermite_json(capsys):
    code, out, _ = run(capsys, "hermite", "relu", "--order", "3", "--json")
    content = json.loads(out)
    assert code == 0
    assert [row["k"] for row in content["coefficients"]] == [0, 1, 2, 3]
    assert content["coefficients"][1] == {"k": 1, "exact": "1/2", "value": 0.5}
    assert content["nu"] == {"exact": "1/2", "value": 0.5}


def test_hermite_digits_are_strings(capsys):
    _, out, _ = run(capsys, "hermite", "tanh(t)", "--order", "1", "--digits", "30", "--json")
    row = json.loads(out)["coefficients"][1]
    assert row["exact"] is None
    assert row["value"] == "0.605705509602158825583540227556"


def test_hermite_table_latex_and_picture(capsys, tmp_path):
    code, out, _ = run(capsys, "hermite", "relu", "-o", str(tmp_path / "relu.png"))
    assert code == 0 and "closed form" in out
    assert (tmp_path / "relu.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = run(capsys, "hermite", "relu", "--latex", "--order", "1")
    assert code == 0 and r"\frac{1}{2}" in out


def test_error_json(capsys):
    code, out, err = run(capsys, "error", "tanh(t)", *TANH, "--json")
    content = json.loads(out)
    assert (code, err) == (0, "")
    assert round(content["attention"], 5) == 0.21443
    assert content["residual"] < 1e-12
    assert set(content) == {"attention", "regression", "a1", "nu", "residual", "parameters"}


def test_error_centres_f(capsys):
    """a1 and nu are those of the centred function."""
    _, out, _ = run(capsys, "error", "relu", "--ratio", "1", "--gamma", "1", "--json")
    content = json.loads(out)
    assert content["a1"] == 0.5
    assert content["nu"] == pytest.approx(0.5 - 1 / (2 * 3.141592653589793))


def test_error_with_digits_prints_decimal_strings(capsys):
    _, out, _ = run(capsys, "error", "erf(t)", *TANH, "--digits", "25", "--json")
    content = json.loads(out)
    assert len(content["attention"].lstrip("0.")) == 25
    assert isinstance(content["a1"], str)


@pytest.mark.parametrize(
    "arguments",
    [
        ["hermite", ""],
        ["hermite", "exp(t**2/2)"],
        ["hermite", "1/t"],
        ["hermite", "q*t"],
        ["hermite", "sqrt(t)"],
        ["hermite", '__import__("os").system("echo unsafe")'],
        ["hermite", "(lambda: 1)()"],
        ["hermite", "t.is_real"],
        ["hermite", "foo(t)"],
        ["hermite", "gleu"],
        ["error", "t**1000", "--ratio", "1", "--gamma", "1"],
        ["hermite", "t", "--order", "-1"],
        ["hermite", "t", "--order", "many"],
        ["hermite", "t", "--digits", "0"],
        ["hermite", "t", "-o", "picture.doc"],
        ["hermite", "t", "-o", "missing-folder/picture.png"],
        ["error", "tanh(t)"],
        ["error", "tanh(t)", "--ratio", "1", "--gamma", "0"],
        ["error", "tanh(t)", "--ratio", "1", "--gamma", "-1"],
        ["error", "tanh(t)", "--ratio", "1", "--gamma", "nan"],
        ["error", "tanh(t)", "--ratio", "1", "--gamma", "inf"],
        ["error", "tanh(t)", "--ratio", "0", "--gamma", "1"],
        ["error", "tanh(t)", "--ratio", "1", "--gamma", "1", "--mu", "1,2", "--w-k", "1"],
        ["error", "tanh(t)", "--ratio", "1", "--gamma", "1", "--mu", "1,,2"],
        ["verify", "tanh(t)", "--ratio", "1", "--gamma", "1", "--sizes", "1,2"],
        ["verify", "tanh(t)", "--ratio", "1", "--gamma", "1", "--sizes", "a"],
        ["verify", "tanh(t)", "--ratio", "1", "--gamma", "1", "--repetitions", "1"],
        ["compare", "tanh(t)", "--ratio", "1"],
        ["compare", "tanh(t)", "--ratio", "1", "--vary", "gamma"],
        ["compare", "tanh(t)", "--ratio", "1", "--vary", "gamma=0:1:5"],
        ["compare", "tanh(t)", "--ratio", "1", "--vary", "gamma=1:1:5"],
        ["compare", "tanh(t)", "--ratio", "1", "--vary", "gamma=1:2:x"],
        ["compare", "tanh(t)", "--ratio", "1", "--gamma", "1", "--vary", "gamma=1:2:3"],
        ["compare", "tanh(t)", "--vary", "gamma=1:2:3"],
        ["nonsense"],
        ["spectrum", "unknown-model"],
        ["spectrum", "marchenko-pastur", "--set", "x=1"],
        ["spectrum", "marchenko-pastur", "relu"],
        ["spectrum", "marchenko-pastur", "--set", "c=0"],
        ["spectrum", "marchenko-pastur", "--set", "c=1e400"],
        ["spectrum", "marchenko-pastur", "--set", "c=1", "--set", "c=2"],
        ["spectrum", "attention", "--vector", "mu=1,2,3", "--vector", "mu=1,2,3"],
        ["spectrum", "marchenko-pastur", "--set", "c"],
        ["spectrum", "attention", "--vector", "mu=1"],
        ["spectrum", "marchenko-pastur", "--size", "3"],
        ["derive", "unknown-model"],
        ["derive", "attention", "--format", "html"],
        ["derive", "attention", "-o", "missing-folder/a.md"],
        ["derive", "attention", "-o", "a.zzz"],
        ["derive", "attention", "--format", "latex", "-o", "a.md"],
        ["phase"],
        ["phase", "tanh(t)", "--x", "ratio=1:2:3", "--y", "ratio=1:2:3", "--set", "gamma=1"],
        ["phase", "tanh(t)", "--x", "ratio=1:2:3", "--y", "colour=1:2:3", "--set", "gamma=1"],
        ["phase", "tanh(t)", "--x", "ratio=1:2:3", "--y", "snr=1:2:3"],
        ["sweep", "tanh(t)"],
        ["sweep", "tanh(t)", "--vary", "gamma=1:2:3", "--ratio", "1"],
        ["weights", "missing.npz", "--layer", "0"],
        ["weights", "missing.npz", "--layer", "0", "--head", "1", "--all-heads"],
        ["error", "tanh(t)", "--unknown"],
    ],
)
def test_bad_input_is_one_line_and_code_2(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    lines = [line for line in err.splitlines() if line.startswith("rmtsym:")]
    assert code == 2
    assert len(lines) == 1 and lines[0] != "rmtsym: "
    assert "Traceback" not in err and "unsafe" not in out


def test_a_formula_may_start_with_a_minus(capsys):
    code, out, _ = run(capsys, "hermite", "-t", "--order", "1", "--json")
    assert code == 0
    assert json.loads(out)["coefficients"][1]["value"] == -1.0


def test_compare_writes_table_and_picture(capsys, tmp_path):
    picture = tmp_path / "out.png"
    code, out, _ = run(
        capsys,
        "compare",
        "tanh(t)",
        "--ratio",
        "1/2",
        "--mu",
        "1",
        "--vary",
        "gamma=1e-2:1e1:5:log",
        "--size",
        "100",
        "--points",
        "2",
        "--repetitions",
        "2",
        "-o",
        str(picture),
    )
    assert code == 0
    assert "attention simulated" in out and out.count("+-") == 2
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [picture]


@pytest.mark.parametrize("vary", ["ratio=0.5:2:3", "snr=0:4:3"])
def test_compare_varies_ratio_and_snr(capsys, vary):
    fixed = ["--gamma", "1"] + ([] if vary.startswith("ratio") else ["--ratio", "1"])
    code, out, _ = run(
        capsys,
        "compare",
        "erf(t)",
        *fixed,
        "--mu",
        "1,0",
        "--w-k",
        "1,1",
        "--w-q",
        "1,0",
        "--vary",
        vary,
        "--size",
        "60",
        "--points",
        "2",
        "--repetitions",
        "2",
        "--json",
    )
    content = json.loads(out)
    assert code == 0
    assert len(content["attention"]) == 3 and len(content["simulated"]) == 2


def test_spectrum_draws_and_prints(capsys, tmp_path):
    picture = tmp_path / "mp.png"
    code, out, _ = run(
        capsys,
        "spectrum",
        "marchenko-pastur",
        "--set",
        "c=2",
        "--size",
        "100",
        "-o",
        str(picture),
        "--json",
    )
    content = json.loads(out)
    assert code == 0 and picture.is_file()
    assert content["atoms"] == [{"location": 0.0, "mass": pytest.approx(0.5)}]
    assert content["support"][0] == pytest.approx([3 - 8**0.5, 3 + 8**0.5], rel=1e-9)


def test_derive_writes_the_document(capsys, tmp_path):
    target = tmp_path / "mp.md"
    code, _, _ = run(capsys, "derive", "marchenko-pastur", "--no-check", "-o", str(target))
    assert code == 0
    assert target.read_text().startswith("# Resolvent of a sample covariance matrix")


def test_phase_returns_the_boundary(capsys, tmp_path):
    picture = tmp_path / "phase.png"
    code, out, _ = run(
        capsys,
        "phase",
        "tanh(t)",
        "--x",
        "ratio=0.1:10:9:log",
        "--y",
        "snr=1:10:5",
        "--set",
        "gamma=1",
        "--set",
        "strength=3",
        "-o",
        str(picture),
        "--json",
    )
    content = json.loads(out)
    assert code == 0 and picture.is_file()
    assert len(content["boundary"]) >= 1
    assert 0 < content["attention_wins"] < 1


def test_sweep_writes_csv(capsys, tmp_path):
    target = tmp_path / "grid.csv"
    code, _, _ = run(
        capsys,
        "sweep",
        "tanh(t)",
        "--vary",
        "gamma=0.1:1:3",
        "--vary",
        "ratio=0.5:2:2",
        "-o",
        str(target),
    )
    assert code == 0
    lines = [line for line in target.read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == 1 + 6


def test_weights_reads_an_archive(capsys, tmp_path):
    import numpy as np

    source = tmp_path / "weights.npz"
    w_q, w_k = np.random.default_rng(0).standard_normal((2, 4, 8, 32))
    np.savez(source, w_q=w_q, w_k=w_k)
    code, out, err = run(
        capsys,
        "weights",
        str(source),
        "--layer",
        "0",
        "--gamma",
        "0.1",
        "--repetitions",
        "4",
        "--json",
    )
    assert code == 0, err
    content = json.loads(out)
    assert content["p"] == 32
    assert sum(content["decomposition"][k] for k in ("identity", "low_rank", "rest")) == (
        pytest.approx(1)
    )


def test_models_are_listed(capsys):
    code, out, _ = run(capsys, "models")
    assert code == 0 and "marchenko-pastur" in out


def test_help_of_every_command(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in (
        "hermite",
        "error",
        "verify",
        "compare",
        "phase",
        "spectrum",
        "derive",
        "sweep",
        "weights",
    ):
        assert command in out
        assert run(capsys, command, "--help")[0] == 0


def test_as_a_process():
    result = subprocess.run(
        [sys.executable, "-m", "rmtsym.cli", "error", "tanh(t)", "--ratio", "x", "--gamma", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1


def test_sweep_refuses_its_file_before_the_work(capsys, tmp_path):
    file = str(tmp_path / "no" / "a.csv")
    arguments = ["sweep", "tanh(t)", "--ratio", "1", "--vary", "gamma=1:2:3", "-o", file]
    code, _, err = run(capsys, *arguments)
    assert code == 2 and "directory does not exist" in err
