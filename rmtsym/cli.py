"""The command line ``rmtsym``.

Human output by default, one JSON object on standard output with ``--json``. Bad input ends with one
line on standard error and exit code 2; ``verify`` exits with 1 when theory and simulation disagree.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from rmtsym.errors import InputError, RmtsymError

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


def _vector(name: str, text: str | None) -> list[Any]:
    from rmtsym.parsing import exact_number

    if text is None:
        return []
    try:
        return [exact_number(part) for part in text.split(",")]
    except InputError as error:
        raise InputError(f"got {name} {text!r}: {error}") from error


def _required(name: str, value: str | None) -> str:
    if value is None:
        raise InputError(f"got no {name}; pass {name} VALUE (a number, a fraction such as 2/3)")
    return value


def _number(value: Any, digits: int | None) -> Any:
    from rmtsym.digits import Digits

    return float(value) if digits is None else str(Digits.of(value, digits))


def _print_json(content: dict[str, Any]) -> None:
    typer.echo(json.dumps(content, allow_nan=False))


def _table(title: str, columns: list[str], rows: list[list[str]]) -> None:
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
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=None, rate="")

        def report(done: int, total: int) -> None:
            speed = bar.tasks[0].speed
            rate = "" if speed is None else f"{speed:.1f}/s"
            bar.update(task, completed=done, total=total, rate=rate)

        yield report


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
        _print_json(
            {
                "nonlinearity": chosen.name,
                "coefficients": [
                    {
                        "k": row["k"],
                        "exact": None if row["exact"] is None else str(row["exact"]),
                        "value": _number(row["value"], digits),
                    }
                    for row in rows
                ],
                "nu": {
                    "exact": None if exact_nu is None else str(exact_nu),
                    "value": _number(nu, digits),
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
                str(_number(row["value"], digits)),
                f"{100 * held / total:.4f} %" if total else "",
            ]
        )
    lines.append(["nu", "" if exact_nu is None else str(exact_nu), str(_number(nu, digits)), ""])
    _table(f"f = {chosen.name}", ["k", "closed form", "value", "share of nu"], lines)
    if output is not None:
        typer.echo(f"picture: {output}")


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

    c, ridge = exact_number(_required("--ratio", ratio)), exact_number(_required("--gamma", gamma))
    vectors = {
        "mu": _vector("--mu", mu),
        "w_k": _vector("--w-k", w_k),
        "w_q": _vector("--w-q", w_q),
    }
    chosen = read_nonlinearity(f)
    solution = attention_solution(chosen, ratio=c, gamma=ridge, **vectors, digits=digits)
    snr = sum((x * x for x in vectors["mu"]), exact_number(0))
    regression = regression_error(ratio=c, gamma=ridge, snr=snr, digits=digits)
    content = {
        "attention": _number(solution.value, digits),
        "regression": _number(regression, digits),
        "a1": _number(chosen.coefficient(1, digits=digits), digits),
        "nu": _number(chosen.nu(digits=digits), digits),
        "residual": float(solution.residual),
        "parameters": {
            "f": chosen.name,
            "ratio": str(c),
            "gamma": str(ridge),
            **{name: [str(x) for x in row] for name, row in vectors.items()},
        },
    }
    if json_output:
        _print_json(content)
        return
    rows = [[key, str(content[key])] for key in ("attention", "regression", "a1", "nu", "residual")]
    _table(f"f = {chosen.name}, c = {c}, gamma = {ridge}", ["", "value"], rows)


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

    parameters = {
        "ratio": _required("--ratio", ratio),
        "gamma": _required("--gamma", gamma),
        "mu": _vector("--mu", mu),
        "w_k": _vector("--w-k", w_k),
        "w_q": _vector("--w-q", w_q),
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
        _print_json(verdict.as_dict())
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
    size: Annotated[int, typer.Option("--size", help="tokens n of the simulation")] = 800,
    points: Annotated[int, typer.Option("--points", help="simulated points")] = 9,
    repetitions: Annotated[int, typer.Option("--repetitions", help="samples a point")] = 6,
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
            vary=Grid.read(_required("--vary", vary)),
            ratio=ratio,
            gamma=gamma,
            mu=_vector("--mu", mu),
            w_k=_vector("--w-k", w_k),
            w_q=_vector("--w-q", w_q),
            n=size,
            points=points,
            repetitions=repetitions,
            seed=seed,
            progress=report,
        )
    if output is not None:
        save(output, lambda axes: draw_comparison(curve, axes))
    if json_output:
        _print_json(
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
    _table(
        f"interpolation error, f = {f}",
        [curve.grid.variable, "attention", "regression", "attention simulated"],
        rows,
    )
    if output is not None:
        typer.echo(f"picture: {output}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _outcome(error: BaseException) -> tuple[int, str]:
    """Exit code and message of an error; what is no error of the user's is raised again."""
    if isinstance(error, typer.Exit):
        return error.exit_code, ""
    if isinstance(error, (typer.Abort, KeyboardInterrupt)):
        return 130, _one_line(error) or "interrupted"
    if isinstance(error, BrokenPipeError):
        return 141, ""
    if isinstance(error, (RmtsymError, OSError, MemoryError)):
        return 2, _one_line(error) or type(error).__name__
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "rmtsym"
        message = " ".join(error.format_message().split())
        return 2, f"{message} (see: {where} --help)"
    raise error


def _formula_or_option(arguments: list[str]) -> list[str]:
    """A formula that starts with a minus, ``-t``, in parentheses: it is no option."""
    before = ["", *arguments]
    return [
        f"({text})"
        if text.startswith("-") and not text.startswith(("--", "-o")) and before[k][:1] != "-"
        else text
        for k, text in enumerate(arguments)
    ]


def main(arguments: list[str] | None = None) -> None:
    """Entry point: runs a command, turns errors into one line and an exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code, message = (
            app(args=_formula_or_option(arguments) or ["--help"], standalone_mode=False),
            "",
        )
    except BaseException as error:
        code, message = _outcome(error)
    if message:
        typer.echo(f"rmtsym: {message}", err=True)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
