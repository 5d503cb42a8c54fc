"""``rmtsym spectrum``: the spectrum of a model's matrix, beside a simulated one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rmtsym.console import Json, Picture, Seed, app, print_json, vector
from rmtsym.errors import InputError

Set = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE of a parameter; repeat as needed")
]
Vectors = Annotated[
    list[str] | None, typer.Option("--vector", help="NAME=a,b,...: coordinates; repeat as needed")
]


def chosen_model(name: str) -> Any:
    """A model by name; the error lists the names."""
    from rmtsym.models import MODELS

    plain = name.replace("_", "-")
    for known, model in MODELS.items():
        if known.replace("_", "-") == plain:
            return model
    raise InputError(f"got the model {name!r}; the models are {', '.join(MODELS)}")


def assignments(option: str, texts: list[str] | None) -> list[tuple[str, str]]:
    """(NAME, VALUE) of every NAME=VALUE; each name once."""
    pairs: list[tuple[str, str]] = []
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"got {option} {text!r}; write {option} NAME=VALUE")
        if name in dict(pairs):
            raise InputError(f"got {option} {name} twice; give it once")
        pairs.append((name, value))
    return pairs


def point(
    model: Any, f: str | None, settings: list[str] | None, vectors: list[str] | None
) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
    """Values, vectors and nonlinearities: the model's first example, changed as asked."""
    from rmtsym.matrices import Entrywise, Vector
    from rmtsym.nonlinearity import Nonlinearity
    from rmtsym.parsing import exact_number
    from rmtsym.rewriting import walk

    example = model.examples[0]
    values = {symbol: exact_number(value) for symbol, value in example.values}
    rows = {v: [exact_number(x) for x in row] for v, row in example.vectors}
    functions = {s: Nonlinearity(text).centred() for s, text in example.nonlinearities}
    symbols = {str(symbol): symbol for symbol in values}
    for name, value in assignments("--set", settings):
        if name not in symbols:
            raise InputError(
                f"got --set {name}; {model.name} has the parameters {', '.join(symbols)}"
            )
        values[symbols[name]] = exact_number(value)
    known = {str(v): v for v in walk(model.expression) if isinstance(v, Vector) and v in rows}
    for name, value in assignments("--vector", vectors):
        if name not in known:
            raise InputError(
                f"got --vector {name}; {model.name} has the vectors {', '.join(known) or 'none'}"
            )
        rows[known[name]] = vector(f"--vector {name}", value)
    if len({len(row) for row in rows.values()}) > 1:
        listed = ", ".join(f"{v}: {len(row)}" for v, row in rows.items())
        raise InputError(f"got vectors of different lengths ({listed}); give all of them alike")
    if f is not None:
        used = {node.f for node in walk(model.expression) if isinstance(node, Entrywise)}
        if not used:
            raise InputError(f"got the nonlinearity {f!r}; {model.name} has none")
        functions = {symbol: Nonlinearity(f).centred() for symbol in used}
    return values, rows, functions


@app.command()
def spectrum(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="a model: rmtsym models lists them")],
    f: Annotated[str | None, typer.Argument(metavar="[F]", help="nonlinearity in t")] = None,
    settings: Set = None,
    vectors: Vectors = None,
    size: Annotated[int, typer.Option("--size", help="largest size of the sample")] = 1000,
    seed: Seed = 0,
    json_output: Json = False,
    output: Picture = None,
) -> None:
    """Density, edges, atoms and outliers of a model's matrix; -o draws them over a histogram."""
    from rmtsym.matrices import Iid, Vector
    from rmtsym.plot import picture_format, save
    from rmtsym.rewriting import free_symbols, walk
    from rmtsym.spectrum import draw, eigenvalues, resolvent_matrix
    from rmtsym.spectrum import spectrum as spectrum_of

    if output is not None:
        picture_format(output)
    if not 50 <= size <= 10_000:
        raise InputError(f"got --size {size}; pass a whole number from 50 to 10000")
    model = chosen_model(name)
    values, rows, functions = point(model, f, settings, vectors)
    H = resolvent_matrix(model.expression)
    sizes = dict(model.sizes)
    used = free_symbols(H) | {
        s for x in walk(H) if isinstance(x, Iid) for s in x.kurtosis.free_symbols
    }
    own = {s: v for s, v in values.items() if s in used}
    relative = {s: v.subs(values) if hasattr(v, "subs") else v for s, v in sizes.items()}
    signals = [v for v in rows if isinstance(v, Vector) and v.size == H.shape[0]]
    found = spectrum_of(H, relative, own, vectors=rows, nonlinearities=functions, signals=signals)
    if output is not None:
        largest = max(float(v) for v in relative.values())
        whole = {s: max(2, round(size * float(v) / largest)) for s, v in relative.items()}
        sample = eigenvalues(
            H, sizes=whole, values=own, vectors=rows, nonlinearities=functions, seed=seed
        )
        save(output, lambda axes: draw(found, sample, axes))
    if json_output:
        print_json(
            {
                "model": model.name,
                "matrix": str(H),
                "atoms": [{"location": x, "mass": w} for x, w in found.atoms],
                "support": [[float(a), float(b)] for a, b in found.support],
                "outliers": [
                    {
                        "location": float(o.location),
                        "multiplicity": o.multiplicity,
                        "overlaps": o.overlaps,
                    }
                    for o in found.outliers
                ],
                "grid": [float(x) for x in found.grid],
                "density": [float(x) for x in found.density],
            }
        )
        return
    typer.echo(f"H = {H}")
    shown = [f"{symbol} = {value}" for symbol, value in values.items() if str(symbol) != "gamma"]
    shown += [f"{v} = ({', '.join(map(str, row))})" for v, row in rows.items()]
    shown += [f"{symbol} = {g.name}" for symbol, g in functions.items()]
    if shown:
        typer.echo("at " + "; ".join(shown))
    typer.echo(str(found))
    if output is not None:
        typer.echo(f"picture: {output}")


@app.command()
def models() -> None:
    """The models by name, with their source."""
    from rmtsym.console import print_table
    from rmtsym.models import MODELS

    print_table(
        "models", ["name", "", "source"], [[m.name, m.title, m.reference] for m in MODELS.values()]
    )
