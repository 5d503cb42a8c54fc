"""What the commands share: the application, their options, tables, progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from rmtsym.errors import InputError

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Random matrix theory of machine learning: equations, digits, simulation, verdicts.",
)

Formula = Annotated[
    str,
    typer.Argument(
        metavar="F", help="nonlinearity in t: a formula such as 'tanh(t)', or a catalogue name"
    ),
]
Ratio = Annotated[str | None, typer.Option("--ratio", help="c = p/n")]
Gamma = Annotated[str | None, typer.Option("--gamma", help="ridge penalty")]
Mu = Annotated[str | None, typer.Option("--mu", help="signal mu: coordinates a,b,...")]
WK = Annotated[str | None, typer.Option("--w-k", help="weight w_K: coordinates a,b,...")]
WQ = Annotated[str | None, typer.Option("--w-q", help="weight w_Q: coordinates a,b,...")]
Count = Annotated[int | None, typer.Option("--digits", help="correct digits wanted")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object")]
Picture = Annotated[Path | None, typer.Option("-o", "--output", help="picture (.png .pdf .svg)")]
Seed = Annotated[int, typer.Option("--seed", help="seed of the random numbers")]


def vector(name: str, text: str | None) -> list[Any]:
    from rmtsym.parsing import exact_number

    if text is None:
        return []
    try:
        return [exact_number(part) for part in text.split(",")]
    except InputError as error:
        raise InputError(f"got {name} {text!r}: {error}") from error


def required(name: str, value: str | None) -> str:
    if value is None:
        raise InputError(f"got no {name}; pass {name} VALUE (a number, a fraction such as 2/3)")
    return value


def number(value: Any, digits: int | None) -> Any:
    from rmtsym.digits import Digits

    return float(value) if digits is None else str(Digits.of(value, digits))


def print_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, allow_nan=False))


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error with throughput and time left."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console)
    task = bar.add_task(title, total=None, rate="")

    def report(done: int, total: int) -> None:
        bar.start()  # at the first report: an error in the input comes without a bar
        speed = bar.tasks[0].speed
        rate = "" if speed is None else f"{speed:.1f}/s"
        bar.update(task, completed=done, total=total, rate=rate)

    try:
        yield report
    finally:
        bar.stop()
