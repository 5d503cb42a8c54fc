"""``rmtsym hermite``: coefficients, closed forms, pictures."""

from __future__ import annotations

from typing import Annotated

import typer

from rmtsym.console import Count, Formula, Json, Picture, app, number, print_json, print_table
from rmtsym.errors import InputError


@app.command()
def hermite(
    f: Formula,
    order: Annotated[int, typer.Option("--order", help="last k shown")] = 8,
    digits: Count = None,
    json_output: Json = False,
    latex: Annotated[bool, typer.Option("--latex", help="print the formulas as LaTeX")] = False,
    output: Picture = None,
) -> None:
    """Hermite coefficients a_0..a_ORDER and nu = E f^2: closed forms and numbers."""
    import sympy as sp

    from rmtsym.nonlinearity import Nonlinearity
    from rmtsym.plot import draw_hermite, picture_format, save

    if not 0 <= order <= 1000:
        raise InputError(f"got --order {order}; pass a whole number from 0 to 1000")
    if output is not None:
        picture_format(output)
    chosen = Nonlinearity(f)
    nu = chosen.nu(digits=digits)
    rows = chosen.rows(order, digits)
    exact_nu = chosen.exact_nu()
    if output is not None:
        save(output, lambda axes: draw_hermite(chosen, axes, order), columns=2)
    if json_output:
        print_json(
            {
                "nonlinearity": chosen.name,
                "coefficients": [
                    {
                        "k": row["k"],
                        "exact": None if row["exact"] is None else str(row["exact"]),
                        "value": number(row["value"], digits),
                    }
                    for row in rows
                ],
                "nu": {
                    "exact": None if exact_nu is None else str(exact_nu),
                    "value": number(nu, digits),
                },
            }
        )
        return
    if latex:
        for row in rows:
            form = row["exact"] if row["exact"] is not None else sp.Float(str(row["value"]))
            typer.echo(f"a_{{{row['k']}}} = {sp.latex(form)}")
        form = exact_nu if exact_nu is not None else sp.Float(str(nu))
        typer.echo(rf"\nu = {sp.latex(form)}")
        return
    total = float(nu)
    held = 0.0
    lines = []
    for row in rows:
        held += float(row["value"]) ** 2
        lines.append(
            [
                str(row["k"]),
                "" if row["exact"] is None else str(row["exact"]),
                str(number(row["value"], digits)),
                f"{100 * held / total:.4f} %" if total else "",
            ]
        )
    lines.append(["nu", "" if exact_nu is None else str(exact_nu), str(number(nu, digits)), ""])
    print_table(f"f = {chosen.name}", ["k", "closed form", "value", "share of nu"], lines)
    if output is not None:
        typer.echo(f"picture: {output}")
