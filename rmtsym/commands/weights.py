"""``rmtsym weights``: the attention weights of a checkpoint, taken apart and predicted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rmtsym.console import Json, Picture, Seed, app, print_json
from rmtsym.errors import InputError


def _positive(name: str, text: str) -> float:
    from rmtsym.parsing import exact_number

    value = float(exact_number(text))
    if not value > 0:
        raise InputError(f"got {name} {text}; pass a number > 0")
    return value


@app.command()
def weights(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=".safetensors, index.json or .npz")],
    layer: Annotated[int | None, typer.Option("--layer", help="layer number, from 0")] = None,
    head: Annotated[int | None, typer.Option("--head", help="one head, from 0")] = None,
    all_heads: Annotated[bool, typer.Option("--all-heads", help="sum of heads (default)")] = False,
    n_head: Annotated[int | None, typer.Option("--n-head", help="number of heads")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", help="prefix of the names")] = None,
    fold: Annotated[bool, typer.Option("--fold-layer-norm", help="fold the gain into W")] = False,
    f: Annotated[str, typer.Option("--f", help="nonlinearity in t")] = "tanh(t)",
    gamma: Annotated[str, typer.Option("--gamma", help="ridges a,b,...")] = "0.01,0.1,1,10",
    ratio: Annotated[str, typer.Option("--ratio", help="c = p/n")] = "0.5",
    signal: Annotated[str, typer.Option("--signal", help="|mu|, in a random direction")] = "1.5",
    rank: Annotated[int, typer.Option("--rank", help="of the low-rank part")] = 1,
    repetitions: Annotated[int, typer.Option("--repetitions", help="samples")] = 10,
    copies: Annotated[int, typer.Option("--copies", help="enlarge W to I_k (x) W")] = 1,
    tokens: Annotated[str, typer.Option("--tokens", help="gaussian or rademacher")] = "gaussian",
    seed: Seed = 0,
    json_output: Json = False,
    output: Picture = None,
) -> None:
    """Decompose W = W_K^T W_Q of a layer; theory for this W, for I + rank one, and simulation."""
    import numpy as np

    from rmtsym.files import write_whole
    from rmtsym.plot import picture_format
    from rmtsym.weights import weights_report

    if head is not None and all_heads:
        raise InputError("got both --head and --all-heads; pass one of them")
    if not file.exists():
        raise InputError(f"got the file {str(file)!r}, which does not exist")
    if layer is None:
        raise InputError("got no layer; pass --layer N, counted from 0")
    kind = picture_format(output) if output is not None else "png"
    report = weights_report(
        file,
        layer=layer,
        head=head,
        n_head=n_head,
        prefix=prefix,
        fold_layer_norm=fold,
        f=f,
        gamma=[_positive("--gamma", part) for part in gamma.split(",")],
        ratio=_positive("--ratio", ratio),
        signal=_positive("--signal", signal),
        rank=rank,
        repetitions=repetitions,
        copies=copies,
        tokens=tokens,
        seed=seed,
    )
    if output is not None:
        with write_whole(output) as stream:
            report.figure().savefig(stream, format=kind, dpi=150)
    if json_output:
        found = report.decomposition
        print_json(
            {
                "layout": report.weights.layout,
                "layer": report.weights.layer,
                "heads": list(report.weights.heads),
                "p": report.weights.p,
                "decomposition": {
                    "alpha": float(found.alpha),
                    **dict(zip(("identity", "low_rank", "rest"), found.shares, strict=True)),
                    "kappa": float(found.kappa),
                    "cosines": np.ravel(found.cosines).tolist(),
                    "localisation": np.ravel(found.localisation).tolist(),
                },
                "gamma": report.gamma.tolist(),
                "general": report.general.tolist(),
                "low_rank": report.low_rank.tolist(),
                "linear_regression": report.linear_regression.tolist(),
                "simulation": [
                    {"mean": float(rung.mean), "standard_error": float(rung.standard_error)}
                    for rung in report.simulation
                ],
            }
        )
        return
    typer.echo(str(report))
    if output is not None:
        typer.echo(f"picture: {output}")
