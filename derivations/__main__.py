"""``python -m derivations [NAMES] [--output FOLDER]``: run the documents, write HTML and LaTeX."""

from __future__ import annotations

import argparse
import html
import importlib.util
import sys
import traceback
from pathlib import Path

from derivations import NAMES
from derivations.document import read, run
from derivations.rendering import page, to_html, to_latex


def main(arguments: list[str] | None = None) -> int:
    """The number of documents that failed."""
    parser = argparse.ArgumentParser(prog="python -m derivations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(NAMES)}")
    parser.add_argument("--output", default="build/derivations", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"got {', '.join(unknown)}; the documents are {', '.join(NAMES)}")
    if importlib.util.find_spec("latex2mathml") is None:
        parser.error("HTML needs latex2mathml: python -m pip install latex2mathml")
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"cannot write {options.output}: {error.strerror}")
    failed, total = [], 0.0
    for name in options.names or NAMES:
        try:
            document = run(name)
        except Exception:
            traceback.print_exc()
            print(f"{name}: FAILED", flush=True)
            failed.append(name)
            continue
        (options.output / f"{name}.html").write_text(to_html(document), encoding="utf-8")
        source, pictures = to_latex(document)
        (options.output / f"{name}.tex").write_text(source, encoding="utf-8")
        for file, content in pictures.items():
            (options.output / file).write_bytes(content)
        total += document.seconds
        print(f"{name}: {document.seconds:.1f} s", flush=True)
    items = "".join(
        f'<li><a href="{name}.html">{html.escape(read(name).title)}</a></li>'
        for name in NAMES
        if (options.output / f"{name}.html").exists()
    )
    index = page("Derivations", f"<h1>Derivations</h1>\n<ul>{items}</ul>")
    (options.output / "index.html").write_text(index, encoding="utf-8")
    print(f"{total:.1f} s in all; {options.output / 'index.html'}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
