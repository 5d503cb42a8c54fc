"""README, docs and CONTRIBUTING: every code block runs, shown output is real, the site builds."""

import importlib.util
import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import rmtsym

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SETUP = ("python3 -m venv", "python -m pip", "python -m pytest", "python -m mkdocs", "git clone")


def blocks(path):
    """(language, content, line) of the code blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return [(m[1], m[2], text[: m.start()].count("\n") + 1) for m in BLOCK.finditer(text)]


def commands(content):
    """The commands of a shell block, continuation lines joined."""
    return [line.strip() for line in content.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_code_blocks(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "page"}
    printed = None
    for language, content, line in blocks(path):
        if language == "python":
            stream = io.StringIO()
            with redirect_stdout(stream):
                code = compile("\n" * line + content, str(path), "exec")
                exec(code, namespace)
            assert printed in (None, ""), f"{path.name}: output before line {line} is not shown"
            printed = stream.getvalue()
        elif language == "text":
            if printed is not None:
                assert content == printed, f"{path.name}, line {line}"
            printed = None
        elif language == "bash":
            for command in commands(content):
                run(command)
        else:
            assert language in ("bibtex", "yaml", "console", "toml"), f"{path.name}, line {line}"
    assert printed in (None, "")


def run(command):
    """A shell command of a page: those of rmtsym run in this environment, made small."""
    if command.startswith(SETUP):
        return
    assert command.startswith("rmtsym "), command
    small = " --size 60 --repetitions 2 --points 2" if command.startswith("rmtsym compare") else ""
    result = subprocess.run(
        command.replace("rmtsym", f"{sys.executable} -m rmtsym.cli", 1) + small,
        shell=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
    )
    assert result.returncode == 0, result.stderr


def test_contributing_names_every_module():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    picture = blocks(ROOT / "CONTRIBUTING.md")[0][1]
    listed = re.findall(r"^\s+(\w+)\.py ", picture, flags=re.MULTILINE)
    package = Path(rmtsym.__file__).parent
    files = [path.stem for path in package.rglob("*.py") if path.stem != "__init__"]
    assert sorted(listed) == sorted(files), "the picture in CONTRIBUTING.md is not the house"
    assert "MODELS" in text


def test_contributing_goes_from_low_to_high():
    sys.path.insert(0, str(ROOT / "tests"))
    from test_layout import imports, modules

    picture = blocks(ROOT / "CONTRIBUTING.md")[0][1]
    folder, place = "", {}
    for number, line in enumerate(picture.splitlines()):
        name = line.split()[0]
        if name.endswith("/"):
            folder = name.replace("/", ".") if line.startswith("  ") else ""
        elif name.endswith(".py"):
            inside = folder if line.startswith("    ") else ""
            place[inside + name.removesuffix(".py")] = number
    for module, path in modules().items():
        for other in imports(path):
            if module in place and other in place and other != module:
                assert place[other] < place[module], f"{module} imports {other}, listed below it"


def test_citation_is_complete():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {rmtsym.__version__}" in text
    for key in ("cff-version", "title", "authors", "license", "message"):
        assert re.search(rf"^{key}:", text, flags=re.MULTILINE)


def test_links_between_files():
    for path in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if target.startswith(("http", "mailto")):
                continue
            if path.parent.name == "docs" and target.split("/")[0] in (
                "models",
                "derivations",
                "api",
            ):
                continue  # made when the site is built, checked there
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("mkdocs", "mkdocstrings", "material")),
    reason="the site needs the docs extra: pip install 'rmtsym[docs]'",
)
def test_the_site_builds(tmp_path):
    """Strict: no warning, no broken link. Derivations are not run: they have their own tests."""
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "EXECUTE_DERIVATIONS": "false"},
    )
    assert result.returncode == 0, result.stderr[-4000:]
    page = (tmp_path / "derivations" / "marchenko_pastur.html").read_text(encoding="utf-8")
    assert "<math" in page and "arithmatex" not in page
    for name in ("index", "tour", "models/attention", "api/pencil"):
        text = (tmp_path / f"{name}.html").read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="https?://', text)
