"""The report states what the passes derived, and is well-formed LaTeX."""

import re
import shutil
import subprocess

import pytest

from rmtsym.errors import InputError
from rmtsym.models import MODELS
from rmtsym.report import report


@pytest.fixture(scope="module")
def attention():
    return report(MODELS["attention"], "cos(t)", format="latex", check=False)


def test_the_coefficients_are_those_of_the_function_asked_for(attention):
    assert r"\cos" in attention
    assert r"\frac{" in attention and "a_2" in attention


def test_braces_and_environments_balance(attention):
    assert attention.count("{") == attention.count("}")
    for kind in set(re.findall(r"\\begin\{(\w+)\}", attention)):
        begin, end = rf"\begin{{{kind}}}", rf"\end{{{kind}}}"
        assert attention.count(begin) == attention.count(end)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no LaTeX on this machine")
@pytest.mark.parametrize("name", ["attention", "ridge-variance"])
def test_it_compiles(name, tmp_path):
    (tmp_path / "r.tex").write_text(report(MODELS[name], format="latex", check=False))
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "r.tex"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_markdown_has_every_section_and_the_simulation():
    text = report(MODELS["ridge-bias"])
    for title in ("The expression", "Linear pencil", "Dyson equation", "Numbers", "References"):
        assert f"## {title}" in text
    assert "standard error" in text
    assert text.count("$$") % 2 == 0


def test_closed_forms_are_stated():
    text = report(MODELS["marchenko-pastur"], check=False)
    assert "is a root of" in text


def test_another_format_is_refused():
    with pytest.raises(InputError, match="markdown"):
        report(MODELS["semicircle"], format="html")
