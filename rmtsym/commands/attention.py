"""``rmtsym error``, ``verify`` and ``compare``: attention beside linear regression."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rmtsym.console import (
    WK,
    WQ,
    Count,
    Formula,
    Gamma,
    Json,
    Mu,
    Picture,
    Ratio,
    Seed,
    app,
    number,
    print_json,
    print_table,
    progress,
    required,
    vector,
)
from rmtsym.errors import InputError


@app.command()
def error(
    f: Formula,
    ratio: Ratio = None,
    gamma: Gamma = None,
    mu: Mu = None,
    w_k: WK = None,
    w_q: WQ = None,
    digits: Count = None,
    json_output: Json = False,
) -> None:
    """Limiting interpolation error of attention, beside linear regression on the same tokens."""
    from rmtsym.models.attention import attention_solution, read_nonlinearity
    from rmtsym.models.regression import regression_error
    from rmtsym.parsing import exact_number

    c, ridge = exact_number(required("--ratio", ratio)), exact_number(required("--gamma", gamma))
    vectors: dict[str, Any] = {
        "mu": vector("--mu", mu),
        "w_k": vector("--w-k", w_k),
        "w_q": vector("--w-q", w_q),
    }
    chosen = read_nonlinearity(f)
    solution = attention_solution(chosen, ratio=c, gamma=ridge, **vectors, digits=digits)
    snr = sum((x * x for x in vectors["mu"]), exact_number(0))
    regression = regression_error(ratio=c, gamma=ridge, snr=snr, digits=digits)
    content = {
        "attention": number(solution.value, digits),
        "regression": number(regression, digits),
        "a1": number(chosen.coefficient(1, digits=digits), digits),
        "nu": number(chosen.nu(digits=digits), digits),
        "residual": float(solution.residual),
        "parameters": {
            "f": chosen.name,
            "ratio": str(c),
            "gamma": str(ridge),
            **{name: [str(x) for x in row] for name, row in vectors.items()},
        },
    }
    if json_output:
        print_json(content)
        return
    rows = [[key, str(content[key])] for key in ("attention", "regression", "a1", "nu", "residual")]
    print_table(f"f = {chosen.name}, c = {c}, gamma = {ridge}", ["", "value"], rows)


@app.command()
def verify(
    f: Formula,
    ratio: Ratio = None,
    gamma: Gamma = None,
    mu: Mu = None,
    w_k: WK = None,
    w_q: WQ = None,
    sizes: Annotated[str | None, typer.Option("--sizes", help="values of n: n1,n2,...")] = None,
    repetitions: Annotated[int | None, typer.Option("--repetitions", help="samples a size")] = None,
    seed: Seed = 0,
    json_output: Json = False,
) -> None:
    """Check the theory against simulation on a ladder of sizes; exit code 1 if they differ."""
    from rmtsym.models.attention import verify_attention

    parameters: dict[str, Any] = {
        "ratio": required("--ratio", ratio),
        "gamma": required("--gamma", gamma),
        "mu": vector("--mu", mu),
        "w_k": vector("--w-k", w_k),
        "w_q": vector("--w-q", w_q),
    }
    ladder = None
    if sizes is not None:
        parts = [part.strip() for part in sizes.split(",")]
        if not all(part.isdigit() for part in parts):
            raise InputError(f"got --sizes {sizes!r}; pass whole numbers, for instance 400,800")
        ladder = [int(part) for part in parts]
    with progress("simulating") as report:
        verdict = verify_attention(
            f, **parameters, sizes=ladder, repetitions=repetitions, seed=seed, progress=report
        )
    if json_output:
        print_json(verdict.as_dict())
    else:
        typer.echo(str(verdict))
    if not verdict.agrees:
        raise typer.Exit(1)


@app.command()
def compare(
    f: Formula,
    vary: Annotated[
        str | None,
        typer.Option("--vary", help="NAME=FIRST:LAST:COUNT[:log], NAME one of gamma, ratio, snr"),
    ] = None,
    ratio: Ratio = None,
    gamma: Gamma = None,
    mu: Mu = None,
    w_k: WK = None,
    w_q: WQ = None,
    output: Picture = None,
    size: Annotated[int, typer.Option("--size", help="tokens n of the simulation")] = 1500,
    points: Annotated[int, typer.Option("--points", help="simulated points")] = 9,
    repetitions: Annotated[int, typer.Option("--repetitions", help="samples a point")] = 8,
    seed: Seed = 0,
    json_output: Json = False,
) -> None:
    """Attention against linear regression along one parameter: table, curves, simulated dots."""
    import numpy as np

    from rmtsym.comparison import Grid, compare
    from rmtsym.plot import draw_comparison, picture_format, save

    if output is not None:
        picture_format(output)
    if not 0 <= points <= 1000 or not 2 <= repetitions <= 10_000 or not 20 <= size <= 20_000:
        raise InputError(
            f"got --points {points} --repetitions {repetitions} --size {size}; "
            "expected points 0..1000, repetitions 2..10000, size 20..20000"
        )
    with progress("simulating") as report:
        curve = compare(
            f,
            vary=Grid.read(required("--vary", vary)),
            ratio=ratio,
            gamma=gamma,
            mu=vector("--mu", mu),
            w_k=vector("--w-k", w_k),
            w_q=vector("--w-q", w_q),
            n=size,
            points=points,
            repetitions=repetitions,
            seed=seed,
            progress=report,
        )
    if output is not None:
        save(output, lambda axes: draw_comparison(curve, axes))
    if json_output:
        print_json(
            {
                "variable": curve.grid.variable,
                "values": curve.values.tolist(),
                "attention": curve.attention.tolist(),
                "regression": curve.regression.tolist(),
                "simulated": [
                    {"value": x, "mean": m, "standard_error": s}
                    for x, m, s in zip(
                        curve.places.tolist(),
                        curve.simulated.tolist(),
                        curve.standard_errors.tolist(),
                        strict=True,
                    )
                ],
            }
        )
        return
    rows = []
    for x, attention, regression in zip(
        curve.values, curve.attention, curve.regression, strict=True
    ):
        (found,) = np.nonzero(curve.places == x)
        dot = (
            f"{curve.simulated[found[0]]:.4f} +- {curve.standard_errors[found[0]]:.4f}"
            if len(found) and len(curve.simulated)
            else ""
        )
        rows.append([f"{x:.4g}", f"{attention:.6f}", f"{regression:.6f}", dot])
    print_table(
        f"interpolation error, f = {f}",
        [curve.grid.variable, "attention", "regression", "attention simulated"],
        rows,
    )
    if output is not None:
        typer.echo(f"picture: {output}")
