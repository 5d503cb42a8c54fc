"""Every derivation runs, asserts its steps, and reads as HTML and LaTeX without a network."""

import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import derivations  # noqa: E402
from derivations.__main__ import main  # noqa: E402
from derivations.document import Document, Table, parse, read, run  # noqa: E402
from derivations.rendering import to_html, to_latex, to_markdown  # noqa: E402

SECTIONS = ("Statement", "Assumptions", "Limits of validity", "References")


@pytest.fixture(scope="module")
def executed():
    """Documents run so far; each runs once."""
    found: dict[str, Document] = {}

    def get(name):
        if name not in found:
            found[name] = run(name)
        return found[name]

    return get


@pytest.mark.parametrize("name", derivations.NAMES)
def test_derivation(name, executed, tmp_path):
    document = executed(name)
    assert all(cell.outputs or cell.kind == "markdown" for cell in document.cells[-3:-2])

    html = to_html(document)
    tree = ElementTree.fromstring(html.removeprefix("<!DOCTYPE html>"))
    assert "$" not in "".join(text for e in tree.iter("p") for text in e.itertext())
    for element in tree.iter():
        assert element.tag not in ("script", "link", "iframe")
        assert not element.get("src", "data:").startswith(("http", "//"))

    source, pictures = to_latex(document)
    assert source.isascii()
    assert set(re.findall(r"\\includegraphics\[.*?\]\{(.*?)\}", source)) == set(pictures)
    if shutil.which("pdflatex") is None:
        return
    (tmp_path / f"{name}.tex").write_text(source)
    for file, content in pictures.items():
        (tmp_path / file).write_bytes(content)
    result = subprocess.run(
        ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", f"{name}.tex"],
        cwd=tmp_path, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-2000:]


@pytest.mark.parametrize("name", derivations.NAMES)
def test_parts(name):
    document = read(name)
    text = "\n".join(cell.source for cell in document.cells if cell.kind == "markdown")
    code = [cell.source for cell in document.cells if cell.kind == "code"]
    for section in SECTIONS:
        assert f"**{section}" in text, f"{name} has no {section}"
    assert "Table(" in "\n".join(code), f"{name} has no table"
    assert "The package's own" in text and "assert" in code[-1]
    assert "Simulation" in text
    assert (ROOT / "derivations" / f"{name}.py").read_text(encoding="utf-8").isascii()


def test_every_file_is_listed():
    tools = {"__init__", "__main__", "document", "rendering"}
    files = {path.stem for path in (ROOT / "derivations").glob("*.py")}
    assert files - tools == set(derivations.NAMES)


def test_the_command_writes_pages_and_an_index(tmp_path, capsys):
    assert main(["hermite_expansion", "--output", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} >= {
        "hermite_expansion.html",
        "hermite_expansion.tex",
        "index.html",
    }
    with pytest.raises(SystemExit):
        main(["no_such_document"])
    assert "no_such_document" in capsys.readouterr().err


def test_a_failed_assertion_fails_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("derivations.document.FOLDER", tmp_path)
    (tmp_path / "wrong.py").write_text("# %%\nassert 1 + 1 == 3\n")
    with pytest.raises(AssertionError) as caught:
        run("wrong")
    assert caught.traceback[-1].lineno + 1 == 2


def test_cells_and_text():
    cells = parse('"""Doc."""\n# %% [markdown]\n# # T\n# a $x<1$ & *b*\n# %%\nx = 1\nx\n')
    assert [(cell.kind, cell.line) for cell in cells] == [("markdown", 2), ("code", 5)]
    document = Document("t", cells)
    assert document.title == "T"
    assert "&amp; <em>b</em>" in to_html(document)
    assert r"\& \emph{b}" in to_latex(document)[0]
    assert "a $x<1$ & *b*" in to_markdown(document)[0]
    assert str(Table(["a", "bb"], [(1, 0.25)])) == "a    bb\n1  0.25"
