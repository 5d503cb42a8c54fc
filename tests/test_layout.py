"""The house: layers, no cycles, nothing said that belongs to a workplace."""

import ast
import re
from pathlib import Path

import rmtsym

PACKAGE = Path(rmtsym.__file__).parent
LAYERS = [
    ["errors", "files"],
    ["digits", "parsing", "scalars", "laws", "algebra", "matrices"],
    ["rewriting"],
]


def is_module(name):
    place = PACKAGE.joinpath(*name.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def imports(path):
    """Modules of the package that a file imports at its top level."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rmtsym"):
            base = node.module.removeprefix("rmtsym").removeprefix(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".removeprefix(".")
                found.add(inner if is_module(inner) else base)
        elif isinstance(node, ast.Import):
            found |= {
                alias.name.removeprefix("rmtsym.")
                for alias in node.names
                if alias.name.startswith("rmtsym.")
            }
    return found


def modules():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name.removesuffix(".__init__") if name != "__init__" else ""] = path
    return found


def test_no_import_cycles():
    graph = {name: imports(path) for name, path in modules().items()}
    done, active = set(), []

    def visit(name):
        if name in done or name not in graph:
            return
        assert name not in active, f"import cycle: {' -> '.join([*active, name])}"
        active.append(name)
        for other in sorted(graph[name]):
            visit(other)
        active.pop()
        done.add(name)

    for name in graph:
        visit(name)
    assert done >= set(graph) - {""}


def test_the_lowest_layers_import_nothing_above():
    graph = {name: imports(path) for name, path in modules().items()}
    allowed = set()
    for layer in LAYERS:
        allowed |= set(layer)
        for name in layer:
            assert graph[name] <= allowed, f"{name} imports {sorted(graph[name] - allowed)}"


def test_every_model_file_is_listed():
    from rmtsym.models import MODELS

    helpers = {"__init__", "base"}
    for path in (PACKAGE / "models").glob("*.py"):
        if path.stem in helpers:
            continue
        text = path.read_text(encoding="utf-8")
        names = re.findall(r"^\s*name=\"(\w+)\"", text, flags=re.MULTILINE)
        for name in names:
            assert name in MODELS, f"{path.name} defines {name}, which MODELS does not list"


def test_public_names_exist_and_are_documented():
    for name in rmtsym.__all__:
        value = getattr(rmtsym, name)
        if callable(value):
            assert value.__doc__, f"{name} has no docstring"
