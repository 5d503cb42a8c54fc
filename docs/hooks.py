"""Hooks of the site: pages made from the package, mathematics as MathML (no script, no network).

Model pages come from ``MODELS``, derivations from ``derivations/``, the reference from the modules.
"""

from __future__ import annotations

import html
import importlib
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from derivations import NAMES  # noqa: E402
from derivations.document import read, run  # noqa: E402
from derivations.rendering import mathml, to_markdown  # noqa: E402


def modules() -> list[str]:
    """The modules of the package, subpackages last; those whose extras are missing are left out."""
    import rmtsym

    package = Path(rmtsym.__file__).parent
    paths = sorted(package.rglob("*.py"), key=lambda path: (len(path.parts), str(path)))
    found = []
    for path in paths:
        parts = path.relative_to(package.parent).with_suffix("").parts
        if parts[-1] != "__init__":
            found.append(".".join(parts))
    return found


def model_pages() -> dict[str, str]:
    """One page per file of ``rmtsym/models`` that defines models."""
    from rmtsym import MODELS

    owners: dict[str, list[Any]] = {}
    for module in modules():
        if module.startswith("rmtsym.models."):
            values = vars(importlib.import_module(module)).items()
            own = [m for k, m in values if k.isupper() and m in MODELS.values()]
            if own and not any(own[0] in models for models in owners.values()):
                owners[module] = own
    pages, rows = {}, []
    for module, models in owners.items():
        name = module.rsplit(".", 1)[1]
        parts = [f"# {models[0].title}\n"]
        for model in models:
            if model is not models[0]:
                parts.append(f"## {model.title}\n")
            sizes = ", ".join(f"${size} = {share}$" for size, share in model.sizes)
            parts.append(f'`MODELS["{model.name}"]`: the limit of\n')
            parts.append(f"$$\n{model.expression._latex()}\n$$\n")
            parts.append(f"Relative sizes {sizes}. Source: {model.reference}.\n")
            rows.append(f"| [{model.title}]({name}.md) | `{model.name}` | {model.reference} |")
        parts.append(f"## Definitions\n\n::: {module}\n")
        pages[f"models/{name}.md"] = "\n".join(parts)
    head = "# Models\n\n| model | name | source |\n| :-- | :-- | :-- |\n"
    pages["models/index.md"] = head + "\n".join(rows) + "\n"
    return pages


def derivation_pages(execute: bool) -> dict[str, str | bytes]:
    """The derivations, run, with their pictures."""
    pages: dict[str, str | bytes] = {}
    rows = []
    for name in NAMES:
        text, pictures = to_markdown(run(name) if execute else read(name))
        pages[f"derivations/{name}.md"] = text
        for file, content in pictures.items():
            pages[f"derivations/{file}"] = content
        rows.append(f"- [{read(name).title}]({name}.md)")
    pages["derivations/index.md"] = (
        "# Derivations\n\nEach page is a file of `derivations/`, run as it stands: every step is "
        "asserted, and the last cell asserts that the formula is the package's own.\n\n"
        + "\n".join(rows)
        + "\n"
    )
    return pages


def reference_pages() -> dict[str, str]:
    """One page per module."""
    pages, rows = {}, []
    for module in modules():
        short = module.removeprefix("rmtsym.")
        if short.startswith("models.") and f"models/{short.split('.')[1]}.md" in model_pages():
            rows.append(f"- [`{module}`](../models/{short.split('.')[1]}.md)")
            continue
        pages[f"api/{short}.md"] = f"# {module}\n\n::: {module}\n"
        rows.append(f"- [`{module}`]({short}.md)")
    pages["api/index.md"] = (
        "# API reference\n\n::: rmtsym\n    options:\n      members: false\n\n"
        "## Modules\n\n" + "\n".join(rows) + "\n"
    )
    return pages


def on_files(files: Any, config: Any) -> Any:
    pages = {
        **model_pages(),
        **derivation_pages(bool(config.extra["execute"])),
        **reference_pages(),
    }
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    hooks = files.get_file_from_path("hooks.py")
    if hooks is not None:
        files.remove(hooks)
    return files


FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
ROLE = re.compile(r":(?:func|class|mod|meth|data|attr):<code>~?([\w.]+)</code>")


def on_page_content(content: str, **_: Any) -> str:
    """Formulas to MathML; the roles of docstrings to plain names."""

    def formula(match: re.Match[str]) -> str:
        source = html.unescape(match[2]).strip()
        return mathml(source[2:-2].strip(), display=match[1] == "div")

    def role(match: re.Match[str]) -> str:
        name = match[1] if match[0].split("<code>")[1][0] != "~" else match[1].rsplit(".", 1)[1]
        return f"<code>{name}</code>"

    return ROLE.sub(role, FORMULA.sub(formula, content))
