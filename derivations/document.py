"""A derivation as a value: its cells, what they printed and showed.

>>> [cell.kind for cell in parse("# %% [markdown]\\n# A line.\\n# %%\\n1 + 1\\n")]
['markdown', 'code']
"""

from __future__ import annotations

import ast
import io
import time
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Table:
    """Rows of text or numbers under headings; floats are shown to ``digits`` significant digits."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    digits: int = 6

    def __init__(self, columns: Any, rows: Any, digits: int = 6) -> None:
        object.__setattr__(self, "columns", tuple(columns))
        object.__setattr__(self, "rows", tuple(map(tuple, rows)))
        object.__setattr__(self, "digits", digits)

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """The rows as text."""
        return tuple(tuple(self._text(value) for value in row) for row in self.rows)

    def _text(self, value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.{self.digits}g}"
        return str(value)

    def __str__(self) -> str:
        table = [self.columns, *self.cells]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return "\n".join(
            "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
            for row in table
        )

    __repr__ = __str__


@dataclass(frozen=True)
class Output:
    """What a cell gave: ``kind`` is text, math, table or picture (a matplotlib Figure)."""

    kind: str
    content: Any


@dataclass(frozen=True)
class Cell:
    """Text or code; ``line`` is where it starts in the file."""

    kind: str
    source: str
    line: int
    outputs: tuple[Output, ...] = ()


@dataclass(frozen=True)
class Document:
    """The cells of one derivation, with their outputs once :func:`run`."""

    name: str
    cells: tuple[Cell, ...]
    seconds: float = 0.0

    @property
    def title(self) -> str:
        """The first heading."""
        for cell in self.cells:
            if cell.kind == "markdown":
                for line in cell.source.splitlines():
                    if line.startswith("# "):
                        return line[2:].strip()
        return self.name


def parse(text: str) -> tuple[Cell, ...]:
    """The cells of a file; what stands before the first marker belongs to none."""
    cells: list[Cell] = []
    kind, start, lines = "", 0, []

    def close() -> None:
        source = "\n".join(lines).strip("\n")
        if kind and source.strip():
            cells.append(Cell(kind, source, start))

    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("# %%"):
            close()
            kind = "markdown" if "[markdown]" in line else "code"
            start, lines = number, []
        elif kind == "markdown":
            lines.append(line.removeprefix("#").removeprefix(" "))
        else:
            lines.append(line)
    close()
    return tuple(cells)


def read(name: str) -> Document:
    """The document of this name, not run."""
    return Document(name, parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")))


def run(name: str) -> Document:
    """The document of this name, run from top to bottom in one namespace.

    What a step raises comes through, with its place in the file.
    """
    document = read(name)
    path = str(FOLDER / f"{name}.py")
    namespace: dict[str, Any] = {"__name__": f"derivations.{name}", "__file__": path}
    started = time.perf_counter()
    cells = tuple(
        cell if cell.kind == "markdown" else replace(cell, outputs=_execute(cell, path, namespace))
        for cell in document.cells
    )
    return Document(name, cells, time.perf_counter() - started)


def _execute(cell: Cell, path: str, namespace: dict[str, Any]) -> tuple[Output, ...]:
    # Blank lines in front keep the line numbers of the file.
    tree = ast.parse("\n" * cell.line + cell.source, path)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, shown = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, path, "exec"), namespace)
        if last is not None:
            shown = eval(compile(ast.Expression(last.value), path, "eval"), namespace)
    outputs = []
    if printed.getvalue().strip():
        outputs.append(Output("text", printed.getvalue().rstrip()))
    if shown is not None:
        outputs.append(_output(shown))
    return tuple(outputs)


def _output(value: Any) -> Output:
    if isinstance(value, Table):
        return Output("table", value)
    if hasattr(value, "savefig"):
        return Output("picture", value)
    latex = value._repr_latex_() if hasattr(value, "_repr_latex_") else None
    if latex:
        return Output("math", latex.strip().strip("$").removeprefix(r"\displaystyle").strip())
    return Output("text", str(value))
