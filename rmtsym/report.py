r"""A derivation as a document: ``report(model, f, format="markdown")``.

Every formula is printed from the values of the passes (expression, Gaussian equivalent, pencil,
Dyson equation, reduced system), so the document says what the numbers are computed from. It
compiles with amsmath and graphicx.

>>> from rmtsym.models import MODELS
>>> text = report(MODELS["marchenko-pastur"])
>>> text.splitlines()[0]
'# Resolvent of a sample covariance matrix'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from rmtsym.elimination import polynomial
from rmtsym.errors import InputError, RmtsymError, UnsupportedError
from rmtsym.linearization import linearize
from rmtsym.matrices import Gaussian, Labels, Matrix, Vector, Wigner
from rmtsym.models.base import Example, Model, gram
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.parsing import exact_number
from rmtsym.rewriting import walk
from rmtsym.simulation import simulate
from rmtsym.solver import solve
from rmtsym.system import BilinearOutput, FixedPointSystem, TraceOutput

__all__ = ["report"]


@dataclass(frozen=True)
class Text:
    """A paragraph; mathematics between dollars."""

    text: str


@dataclass(frozen=True)
class Formula:
    """Displayed equations, one below the other."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows under a head, cells as text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    parts: tuple[Text | Formula | Table, ...]


def latex(expression: Any) -> str:
    """LaTeX of a SymPy expression, ``mu.w`` as an inner product and ``g_1_2'`` as an index."""
    names = {}
    for symbol in getattr(expression, "free_symbols", ()):
        name = symbol.name
        if "." in name:
            one, other = name.split(".", 1)
            left, right = (sp.latex(sp.Symbol(x)) for x in (one, other))
            names[symbol] = rf"\langle {left}, {right} \rangle"
        elif match := re.fullmatch(r"([a-z]+)_(\d+)_(\d+)('*)", name):
            letter = rf"\{match[1]}" if len(match[1]) > 1 else match[1]
            primes = "^{" + r"\prime" * len(match[4]) + "}" if match[4] else ""
            names[symbol] = rf"{letter}_{{{match[2]},{match[3]}}}{primes}"
    return str(sp.latex(expression, symbol_names=names))


LONG = 6000
"""Characters from which a formula is counted instead of printed."""


def _line(text: str) -> str:
    if len(text) <= LONG:
        return text
    return rf"\text{{(a formula of {len(text)} characters, not printed)}}"


def report(
    model: Model,
    f: Any = None,
    *,
    format: str = "markdown",
    check: bool = True,
    budget: float = 20.0,
    seed: int = 0,
) -> str:
    """The derivation of a model as Markdown or LaTeX.

    Parameters
    ----------
    f : the nonlinearity whose coefficients are stated; by default that of the model's example.
    format : ``"markdown"`` or ``"latex"``.
    check : simulate the first example too, at two sizes.
    budget : seconds allowed for the closed polynomial of the special cases.

    Raises
    ------
    InputError
        for another format.
    """
    if format not in ("markdown", "latex"):
        raise InputError(f"got the format {format!r}; expected 'markdown' or 'latex'")
    sections = [
        _definitions(model),
        *_equivalent(model, f),
        _pencil(model.system),
        _dyson(model.system),
        _reduced(model.system),
        *_special_cases(model.system, budget),
        *_numbers(model, f, check, seed),
        Section("References", tuple(Text(line) for line in _references(model))),
    ]
    write = _markdown if format == "markdown" else _latex_document
    return write(model.title, sections)


def _definitions(model: Model) -> Section:
    leaves = sorted({x for x in walk(model.expression) if not x.children}, key=str)
    parts = []
    for leaf in leaves:
        rows, columns = (sp.latex(s) for s in leaf.shape)
        name = leaf._latex()
        if isinstance(leaf, Gaussian):
            parts.append(rf"${name}$: ${rows} \times {columns}$, independent entries of variance 1")
        elif isinstance(leaf, Wigner):
            parts.append(
                rf"${name}$: ${rows} \times {columns}$, symmetric, off-diagonal variance 1"
            )
        elif isinstance(leaf, Labels):
            parts.append(rf"${name}$: signs $\pm 1$, length ${rows}$")
        elif isinstance(leaf, Vector):
            parts.append(rf"${name}$: deterministic vector, length ${rows}$")
    sizes = r",\quad ".join(
        rf"{sp.latex(size)} / N \to {sp.latex(relative)}" for size, relative in model.sizes
    )
    return Section(
        "The expression",
        (
            Formula((model.expression._latex(),)),
            Text("; ".join(parts) + "."),
            Text(f"All sizes grow together: ${sizes}$."),
        ),
    )


def _equivalent(model: Model, f: Any) -> list[Section]:
    equivalent = linearize(model.expression)
    if not equivalent.symbols:
        return []
    lines = [equivalent.expression._latex()]
    for one, other, value in equivalent.covariance:
        kind = "Var" if one == other else "Cov"
        names = one._latex() if one == other else f"{one._latex()}, {other._latex()}"
        lines.append(rf"\operatorname{{{kind}}}({names}) = {latex(value)}")
    parts: list[Text | Formula | Table] = [
        Text(
            "Every entry-wise function becomes its linear part plus independent Gaussian noise, "
            "with the coefficients $a_1 = E\\,\\xi f(\\xi)$, $\\nu = E f(\\xi)^2$ of the centred "
            "function."
        ),
        Formula(tuple(lines)),
    ]
    for function in _functions(model, f):
        rows = []
        for k in range(1, 5):
            exact = function.exact_coefficient(k)
            rows.append((f"$a_{k}$", _closed(exact), f"{float(function.coefficient(k)):.12g}"))
        rows.append((r"$\nu$", _closed(function.exact_nu()), f"{float(function.nu()):.12g}"))
        formula = sp.latex(function.expression) if function.expression is not None else ""
        parts.append(Text(f"For $f(t) = {formula}$:"))
        parts.append(Table(("coefficient", "closed form", "value"), tuple(rows)))
    return [Section("Gaussian equivalent", tuple(parts))]


def _closed(exact: Any) -> str:
    return f"${sp.latex(exact)}$" if exact is not None else "none found"


def _functions(model: Model, f: Any) -> list[Nonlinearity]:
    if f is not None:
        return [(f if isinstance(f, Nonlinearity) else Nonlinearity(f)).centred()]
    given = model.examples[0].nonlinearities if model.examples else ()
    return [Nonlinearity(function).centred() for _, function in given]


def _pencil(system: FixedPointSystem) -> Section:
    parts: list[Text | Formula | Table] = [
        Text(
            "Applied to a vector, the expression is a straight-line program: a pencil, linear in "
            "every random matrix. Sizes are those of the unknowns $x_k$."
        )
    ]
    for symbol, pencil in zip(
        system.linearization.symbols, system.linearization.pencils, strict=True
    ):
        rows = []
        for row, size in enumerate(pencil.sizes):
            terms = " + ".join(
                _times(e.coefficient)
                + (e.factor._latex() if e.factor is not None else "")
                + "".join(d._latex() for d in e.word)
                + rf"\,x_{{{e.column + 1}}}"
                for e in pencil.entries
                if e.row == row
            )
            right = " + ".join(
                _times(s.coefficient) + "".join(d._latex() for d in s.word) + _source(s.source)
                for s in pencil.sources
                if s.row == row
            )
            rows.append(rf"{terms} = {right or '0'} \qquad (x_{{{row + 1}}}: {sp.latex(size)})")
        terms = " + ".join(
            _times(e.coefficient) + rf"x_{{{e.column + 1}}}" for e in pencil.readout.terms
        )
        if pencil.readout.trace is not None:
            terms = rf"{sp.latex(pencil.readout.trace)} \operatorname{{tr}}\left[{terms}\right]"
        if pencil.readout.constant != 0:
            terms = f"{latex(pencil.readout.constant)} + {terms}"
        parts += [Formula((f"{latex(symbol)} = {terms}", *rows))]
    return Section("Linear pencil", tuple(parts))


def _times(coefficient: sp.Expr) -> str:
    if coefficient == 1:
        return ""
    text = latex(coefficient)
    return rf"\left({text}\right)" if coefficient.is_Add else text + r"\,"


def _source(source: Matrix) -> str:
    return (
        getattr(source, "_latex", lambda: str(source))()
        .replace("(", r"\langle ")
        .replace(")", r"\rangle ")
    )


def _dyson(system: FixedPointSystem) -> Section:
    parts: list[Text | Formula | Table] = [
        Text(
            "$g_{k,l}$ is the normalised trace of block (unknown $k$, row $l$) of the inverse of "
            "the pencil. Block by block of one size, $g = (A - \\Sigma(g))^{-1}$:"
        )
    ]
    for reading in system.readings:
        lines = []
        for block in reading.component.core.blocks:
            matrix = reading.component.core.matrix(block, reading.symbols)
            inverse = f"{latex(matrix)}^{{-1}}"
            if block.law is not None:
                lines.append(rf"g_{{{sp.latex(block.size)}}} = E_{{\lambda}} {inverse}")
            else:
                lines.append(f"{latex(reading.core(block))} = {inverse}")
        parts.append(Formula(tuple(lines)))
    return Section("Dyson equation", tuple(parts))


def _reduced(system: FixedPointSystem) -> Section:
    unknowns = ", ".join(latex(u) for u in system.unknowns)
    parts: list[Text | Formula | Table] = [
        Text(
            f"Zero and equal entries removed (by reachability, parity and transposition), "
            f"{len(system.unknowns)} unknowns are left: ${unknowns}$."
        )
    ]
    try:
        if len(system.unknowns) > 30:
            raise UnsupportedError(f"{len(system.unknowns)} unknowns are too many to read")
        parts.append(Formula(tuple(f"{latex(e)} = 0" for e in system.equations)))
        lines = [
            f"{latex(symbol)} = {latex(value)}"
            for symbol, value in zip(system.linearization.symbols, system.outputs, strict=True)
        ]
        lines += [f"{latex(e)} = 0" for e in system.spike_equations]
    except RmtsymError as error:
        parts.append(Text(f"Not written out: {error}."))
        lines = []
    for symbol, k, variable in system.derivatives:
        limit = system.linearization.symbols[k]
        lines.append(rf"{sp.latex(symbol)} = \frac{{d {latex(limit)}}}{{d {latex(variable)}}}")
    kinds = {type(limit) for limit in system.limits}
    if BilinearOutput in kinds:
        parts.append(Text("The $\\sigma$ carry the low-rank terms; their equations are linear:"))
    elif TraceOutput in kinds:
        parts.append(Text("The limits:"))
    parts.append(Formula((*lines, rf"\text{{value}} = {sp.latex(system.formula)}")))
    return Section("Reduced system and output", tuple(parts))


def _special_cases(system: FixedPointSystem, budget: float) -> list[Section]:
    parts: list[Text | Formula | Table] = []
    m = sp.Symbol("m")
    target: Any = "value" if not system.derivatives else system.unknowns[0]
    slopes = [h.symbol for h in system.hermite_symbols if h.moment == "slope"]
    cases: list[tuple[str, dict[Any, Any]]] = [("in general", {})]
    cases += [(rf"at ${latex(slope)} = 0$", {slope: 0}) for slope in slopes[:1]]
    for label, values in cases:
        if label == "in general" and len(system.unknowns) > 6:
            continue
        try:
            found = polynomial(system, target, m, values=values, budget=budget)
        except RmtsymError:
            continue
        name = "the value" if target == "value" else f"${latex(target)}$"
        parts.append(Text(f"Elimination, {label}: $m$ = {name} is a root of"))
        parts.append(Formula((f"{latex(found)} = 0",)))
    return [Section("Closed forms", tuple(parts))] if parts else []


def _point(
    example: Example, model: Model, f: Any
) -> tuple[dict[Any, Any], dict[Any, Nonlinearity]]:
    values = {symbol: exact_number(value) for symbol, value in example.values}
    values |= gram({v: tuple(map(exact_number, row)) for v, row in example.vectors})
    functions = {
        symbol: (Nonlinearity(given) if f is None else _functions(model, f)[0]).centred()
        for symbol, given in example.nonlinearities
    }
    return values, functions


def _numbers(model: Model, f: Any, check: bool, seed: int) -> list[Section]:
    if not model.examples:
        return []
    rows = []
    for example in model.examples:
        values, functions = _point(example, model, f)
        try:
            value = f"{float(solve(model.system, values, nonlinearities=functions).value):.12g}"
        except RmtsymError as error:
            value = type(error).__name__
        given = ", ".join(f"${sp.latex(s)} = {v}$" for s, v in example.values)
        given += "".join(f", ${v._latex()} = {tuple(map(str, row))}$" for v, row in example.vectors)
        published = str(example.published) if example.published and f is None else "-"
        rows.append((given.replace("'", ""), value, published))
    parts: list[Text | Formula | Table] = [Table(("parameters", "limit", "published"), tuple(rows))]
    if check:
        try:
            parts.append(_simulation(model, f, seed))
        except RmtsymError as error:
            parts.append(Text(f"No simulation: {error}"))
    return [Section("Numbers", tuple(parts))]


def _simulation(model: Model, f: Any, seed: int) -> Table:
    example = model.examples[0]
    values, functions = _point(example, model, f)
    vectors = {v: [float(exact_number(x)) for x in row] for v, row in example.vectors}
    used = {s for node in walk(model.expression) for size in node.shape for s in size.free_symbols}
    scalars = {
        s: v
        for s, v in values.items()
        if any(
            s in getattr(node, "coefficient", sp.Integer(0)).free_symbols
            for node in walk(model.expression)
        )
    }
    rows = []
    for scale in (150, 300):
        sizes = {
            size: max(2, round(scale * float(sp.sympify(relative).subs(values))))
            for size, relative in model.sizes
            if size in used
        }
        estimate = simulate(
            model.expression,
            sizes=sizes,
            values=scalars,
            vectors=vectors,
            nonlinearities=functions,
            repetitions=8,
            seed=seed,
        )
        shown = ", ".join(f"${sp.latex(size)} = {value}$" for size, value in sizes.items())
        rows.append((shown, f"{estimate.mean:.6g}", f"{estimate.standard_error:.2g}"))
    return Table(("simulated sizes", "mean", "standard error"), tuple(rows))


def _references(model: Model) -> list[str]:
    found = [model.reference + "."]
    if linearize(model.expression).symbols:
        found.append(
            "Gaussian equivalent: X. Cheng and A. Singer, Random Matrices: Theory Appl. 2 (2013); "
            "J. Pennington and P. Worah, NeurIPS 2017."
        )
    found.append("Linearization: J. W. Helton, T. Mai and R. Speicher, J. Funct. Anal. 274 (2018).")
    found.append(
        "Matrix Dyson equation: J. W. Helton, R. Rashidi Far and R. Speicher, IMRN (2007)."
    )
    if any(isinstance(x, Vector) for x in walk(model.expression)):
        found.append("Low rank: F. Benaych-Georges and R. R. Nadakuditi, Adv. Math. 227 (2011).")
    return found


def _markdown(title: str, sections: Sequence[Section]) -> str:
    lines = [f"# {title}", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        for part in section.parts:
            match part:
                case Text():
                    lines += [part.text, ""]
                case Formula():
                    body = " \\\\\n".join(f"&{_line(line)}" for line in part.lines)
                    lines += ["$$", r"\begin{aligned}", body, r"\end{aligned}", "$$", ""]
                case Table():
                    lines.append("| " + " | ".join(part.head) + " |")
                    lines.append("|" + " --- |" * len(part.head))
                    lines += ["| " + " | ".join(row) + " |" for row in part.rows]
                    lines.append("")
    return "\n".join(lines)


FIT = r"""\newcommand{\fit}[1]{\par\smallskip\noindent\sbox0{$\displaystyle #1$}%
\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi\par\smallskip}"""


def _latex_document(title: str, sections: Sequence[Section]) -> str:
    lines = [
        r"\documentclass{article}",
        r"\usepackage{amsmath}",
        r"\usepackage{graphicx}",
        r"\setlength{\parindent}{0pt}",
        FIT,
        rf"\title{{{_escape(title)}}}",
        r"\date{}",
        r"\begin{document}",
        r"\maketitle",
    ]
    for section in sections:
        lines.append(rf"\section{{{_escape(section.title)}}}")
        for part in section.parts:
            match part:
                case Text():
                    lines += [_escape(part.text), ""]
                case Formula():
                    lines += [rf"\fit{{{_line(line)}}}" for line in part.lines]
                case Table():
                    lines.append(rf"\begin{{tabular}}{{{'l' * len(part.head)}}}")
                    lines.append(" & ".join(map(_escape, part.head)) + r" \\ \hline")
                    lines += [" & ".join(map(_escape, row)) + r" \\" for row in part.rows]
                    lines += [r"\end{tabular}", ""]
    lines.append(r"\end{document}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """Text for LaTeX; mathematics between dollars stays."""
    pieces = text.split("$")
    for index in range(0, len(pieces), 2):
        pieces[index] = re.sub(r"([#%&_{}])", r"\\\1", pieces[index])
    return "$".join(pieces)
