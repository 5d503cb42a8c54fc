"""``rmtsym derive``: the derivation of a model as a document."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rmtsym.commands.spectrum import chosen_model
from rmtsym.console import Seed, app
from rmtsym.errors import InputError


@app.command()
def derive(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="a model: rmtsym models lists them")],
    f: Annotated[str | None, typer.Argument(metavar="[F]", help="nonlinearity in t")] = None,
    form: Annotated[str, typer.Option("--format", help="markdown or latex")] = "markdown",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="file to write")] = None,
    check: Annotated[bool, typer.Option(help="simulate the example too")] = True,
    seed: Seed = 0,
) -> None:
    """Definitions, Gaussian equivalent, pencil, Dyson equation, numbers and check of a model."""
    from rmtsym.files import write_whole
    from rmtsym.nonlinearity import Nonlinearity
    from rmtsym.report import report

    model = chosen_model(name)
    if form not in ("markdown", "latex"):
        raise InputError(f"got --format {form!r}; expected markdown or latex")
    if output is not None and not output.resolve().parent.is_dir():
        raise InputError(f"got -o {str(output)!r}; the folder does not exist")
    endings = {"markdown": (".md", ".markdown", ".txt"), "latex": (".tex",)}[form]
    if output is not None and output.suffix not in endings:
        raise InputError(
            f"got -o {str(output)!r} for --format {form}; its name must end in {', '.join(endings)}"
        )
    chosen = None if f is None else Nonlinearity(f)
    text = report(model, chosen, format=form, check=check, seed=seed)
    if output is None:
        typer.echo(text)
        return
    with write_whole(output, "w") as stream:
        stream.write(text)
    typer.echo(f"written: {output}")
