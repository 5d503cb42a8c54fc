"""Every example in its small version: the picture, and the number it prints."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
ELSEWHERE = {"explorer", "real_weights", "workbench"}
"""The explorer has tests of its own; real_weights needs a checkpoint; workbench is no question."""

ANSWERS = {
    "alignment": ("0.546779, without weights 0.546779", "lower the error by 21%"),
    "bring_your_own_nonlinearity": ("0.36261700084492149689", "sqrt(3)/9", "simulation agrees"),
    "error_against_dimension": ("differ by 1.1%", "keeps 1.5e-03"),
    "error_against_gamma": ("61 of the 61 penalties: 9.0 times at gamma = 1",),
    "error_against_snr": ("at most 0.28% above", "by 13% at SNR 3"),
    "nonlinearities": ("from 0.472 at a_1 = 0 to 0.311", "changes it by", "softmax"),
    "phase_diagram": ("Weights along mu: attention is better on", "contradicts it at 0"),
    "random_and_structured": ("attention 0.155, linear regression 0.187",),
    "sensitivity_to_ratio": ("falls by 0.017 (tanh)", "that of linear regression by 0.198"),
    "spectrum_with_outliers": ("eigenvalue at 6.218", "77% of the labels", "a_1 = 0: none"),
}


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} - ELSEWHERE == set(ANSWERS)


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_answer_and_picture(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from matplotlib.image import imread

    script, picture = EXAMPLES / f"{name}.py", tmp_path / "picture.png"
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [str(script), "--quick", "-o", str(picture)])
    runpy.run_path(str(script), run_name="__main__")
    printed = " ".join(capsys.readouterr().out.split())
    for answer in ANSWERS[name]:
        assert answer in printed
    pixels = imread(picture)
    assert min(pixels.shape[:2]) > 400
    assert np.mean(pixels[..., :3].min(axis=2) < 0.9) > 0.005, "the picture is empty"


def test_vectors_as_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples' sweeps over vectors give what attention_error gives point by point."""
    from rmtsym import attention_error

    monkeypatch.syspath_prepend(str(EXAMPLES))
    from workbench import attention_errors

    mu = np.array([[0.5, 0], [1, 1]])
    setting = {"ratio": 0.5, "gamma": 0.1, "w_k": [1, 2], "w_q": [0, 1]}
    found = attention_errors("relu", mu=mu, **setting)
    expected = [attention_error("relu", mu=list(row), **setting) for row in mu]
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["error_against_gamma.py", "-o", "missing/x.png"], "does not exist"),
        (["real_weights.py", "-o", "x.gif"], "must end in .png"),
        (["real_weights.py", "/dev/null"], "/dev/null"),
        (["bring_your_own_nonlinearity.py", "--f", "import os"], "import os"),
        (["bring_your_own_nonlinearity.py", "--ratio", "-1"], "-1"),
    ],
)
def test_bad_input_is_said_without_a_traceback(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / arguments[0]), *arguments[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_as_a_script(tmp_path: Path) -> None:
    """Run from another folder, the picture lands there."""
    script = EXAMPLES / "error_against_gamma.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), "--quick", "--seed", "3"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "error_against_gamma.png").stat().st_size > 10_000
