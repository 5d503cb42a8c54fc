"""``rmtsym phase``: where attention beats linear regression, over two parameters."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rmtsym.console import Json, Picture, app, print_json
from rmtsym.errors import InputError


def _axis(option: str, text: str | None) -> tuple[str, Any]:
    """``NAME=FIRST:LAST:COUNT[:log]`` as a name and its values."""
    import numpy as np

    from rmtsym.parsing import exact_number

    if text is None:
        raise InputError(f"got no {option}; pass {option} NAME=FIRST:LAST:COUNT[:log]")
    name, _, rest = text.partition("=")
    parts = rest.split(":")
    if (
        len(parts) not in (3, 4)
        or not parts[2].isdigit()
        or parts[3:] not in ([], ["log"], ["lin"])
    ):
        raise InputError(
            f"got {option} {text!r}; write NAME=FIRST:LAST:COUNT or NAME=FIRST:LAST:COUNT:log, "
            "for instance ratio=0.1:10:40:log"
        )
    first, last, count = float(exact_number(parts[0])), float(exact_number(parts[1])), int(parts[2])
    if not 2 <= count <= 1000 or first >= last or (parts[-1] == "log" and first <= 0):
        raise InputError(
            f"got {option} {text!r}; expected FIRST < LAST (FIRST > 0 for log) and 2 to 1000 values"
        )
    space = np.geomspace if parts[-1] == "log" else np.linspace
    return name.strip(), space(first, last, count)


@app.command()
def phase(
    f: Annotated[
        str | None,
        typer.Argument(metavar="[F]", help="nonlinearity in t; leave out to set its linearity"),
    ] = None,
    x: Annotated[
        str | None, typer.Option("--x", help="NAME=FIRST:LAST:COUNT[:log] on the first axis")
    ] = None,
    y: Annotated[
        str | None, typer.Option("--y", help="NAME=FIRST:LAST:COUNT[:log] on the second axis")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE of another parameter; repeat")
    ] = None,
    error: Annotated[str, typer.Option("--error", help="training or test")] = "training",
    json_output: Json = False,
    output: Picture = None,
) -> None:
    """Phase diagram: parameters ratio, gamma, snr, alignment, strength, linearity.

    W = I + w_K w_Q^T with w_K = w_Q of length strength, at an angle of cosine alignment to mu.
    """
    from rmtsym.models.phase import phase_diagram
    from rmtsym.parsing import exact_number
    from rmtsym.plot import draw_phase, picture_format, save

    if output is not None:
        picture_format(output)
    fixed: dict[str, Any] = {}
    for text in settings or []:
        name, _, value = text.partition("=")
        fixed[name.strip()] = exact_number(value)
    first, second = _axis("--x", x), _axis("--y", y)
    for name in (first[0], second[0]):
        if name in fixed:
            raise InputError(f"got {name} both on an axis and in --set; give it once")
    diagram = phase_diagram(f, x=first, y=second, error=error, **fixed)
    boundary = diagram.boundary
    if output is not None:
        save(
            output,
            lambda axes: draw_phase(
                diagram, axes, logs=tuple(text.endswith(":log") for text in (x or "", y or ""))
            ),
        )
    wins = float((diagram.advantage > 0).mean())
    if json_output:
        print_json(
            {
                "x": {"name": diagram.x, "values": diagram.xs.tolist()},
                "y": {"name": diagram.y, "values": diagram.ys.tolist()},
                "error": diagram.error,
                "attention": diagram.attention.tolist(),
                "regression": diagram.regression.tolist(),
                "boundary": [[[float(a), float(b)] for a, b in curve] for curve in boundary],
                "attention_wins": wins,
            }
        )
        return
    typer.echo(f"attention beats regression on {100 * wins:.1f} % of the grid ({error} error)")
    for number, curve in enumerate(boundary, 1):
        typer.echo(f"boundary {number}: {diagram.x}, {diagram.y}")
        step = max(1, len(curve) // 12)
        for a, b in curve[::step]:
            typer.echo(f"  {a:.6g}  {b:.6g}")
    if output is not None:
        typer.echo(f"picture: {output}")
