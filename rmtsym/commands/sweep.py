"""``rmtsym sweep``: a grid of parameters into one labelled file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rmtsym.console import WK, WQ, Formula, Mu, app, progress, vector
from rmtsym.errors import InputError


def errors(f: str, *, ratio: Any, gamma: Any, snr: Any = None, **vectors: Any) -> dict[str, Any]:
    """Errors of attention and of regression; ``snr`` rescales mu to |mu|^2 = snr."""
    import math

    from rmtsym.models.attention import attention_error
    from rmtsym.models.regression import regression_error

    mu = [float(x) for x in vectors.get("mu") or []] or [0.0]
    if snr is not None:
        length = math.sqrt(sum(x * x for x in mu))
        mu = [x / length * math.sqrt(snr) for x in mu]
    weights: dict[str, Any] = {name: vectors.get(name) or None for name in ("w_k", "w_q")}
    return {
        "attention": attention_error(f, ratio=ratio, gamma=gamma, mu=mu, **weights),
        "regression": regression_error(ratio=ratio, gamma=gamma, snr=sum(x * x for x in mu)),
    }


@app.command()
def sweep(
    f: Formula,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", help="NAME=FIRST:LAST:COUNT[:log]; repeat for more dimensions"),
    ] = None,
    ratio: Annotated[str | None, typer.Option("--ratio", help="c = p/n")] = None,
    gamma: Annotated[str | None, typer.Option("--gamma", help="ridge penalty")] = None,
    mu: Mu = None,
    w_k: WK = None,
    w_q: WQ = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="file (.nc .zarr .csv .png)")
    ] = None,
) -> None:
    """Errors of attention and regression on a grid, written as .nc, .zarr, .csv or .png."""
    from rmtsym.comparison import Grid
    from rmtsym.models.attention import ERROR
    from rmtsym.parsing import exact_number
    from rmtsym.store import check_path
    from rmtsym.sweep import ENDINGS, write_sweep
    from rmtsym.sweep import sweep as run

    if not vary:
        raise InputError("got nothing to vary; pass --vary NAME=FIRST:LAST:COUNT[:log]")
    if output is None:
        raise InputError("got no file; pass -o NAME.nc, .zarr, .csv or .png")
    check_path(output, ENDINGS)
    grids = [Grid.read(text) for text in vary]
    names = [grid.variable for grid in grids]
    if len(set(names)) < len(names):
        raise InputError(f"got {', '.join(names)} varied; vary each parameter once")
    fixed: dict[str, Any] = {"f": f}
    for name, text in (("ratio", ratio), ("gamma", gamma)):
        if (text is None) == (name not in names):
            raise InputError(f"give {name} once: --{name} VALUE, or --vary {name}=...")
        if text is not None:
            fixed[name] = float(exact_number(text))
    for name, text in (("mu", mu), ("w_k", w_k), ("w_q", w_q)):
        fixed[name] = tuple(float(x) for x in vector(f"--{name.replace('_', '-')}", text))
    if "snr" in names and not any(fixed["mu"]):
        raise InputError("got --vary snr=... without a direction; pass --mu (not zero)")
    with progress("sweeping") as report:
        dataset = run(
            errors,
            {grid.variable: grid.values for grid in grids},
            fixed=fixed,
            along=next((name for name in ("gamma", "ratio") if name in names), None),
            equations=ERROR,
            progress=report,
        )
    typer.echo(f"written: {write_sweep(dataset, output)}")
