"""Pictures. Every function draws on axes it is given and returns them; none opens a window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmtsym.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rmtsym.comparison import Comparison
    from rmtsym.models.phase import PhaseDiagram
    from rmtsym.nonlinearity import Nonlinearity

LABELS = {
    "gamma": r"ridge penalty $\gamma$",
    "ratio": r"aspect ratio $c = p/n$",
    "alignment": r"alignment of the weights with $\mu$ (cosine)",
    "strength": r"length of the weights",
    "linearity": r"linearity $a_1^2/\nu$",
    "snr": r"signal $\|\mu\|^2$",
}


def draw_comparison(curve: Comparison, axes: Axes) -> Axes:
    """Attention and regression as curves, simulated attention as dots with two standard errors."""
    axes.plot(curve.values, curve.attention, color="C0", label="attention, theory")
    axes.plot(curve.values, curve.regression, "--", color="C1", label="linear regression, theory")
    if len(curve.places):
        axes.errorbar(
            curve.places,
            curve.simulated,
            2 * curve.standard_errors,
            fmt="o",
            markersize=4,
            color="C0",
            capsize=2,
            label=r"attention, simulation ($\pm 2$ s.e.)",
        )
    if curve.grid.log:
        axes.set_xscale("log")
    axes.set_xlabel(LABELS[curve.grid.variable])
    axes.set_ylabel("interpolation error")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return axes


def draw_hermite(f: Nonlinearity, axes: Any, order: int) -> Any:
    """f with Hermite partial sums on ``axes[0]``, the coefficients on ``axes[1]``."""
    x = np.linspace(-4, 4, 801)
    axes[0].plot(x, f(x), color="black", linewidth=1.5, label="f")
    for count in sorted({2, max(2, order // 2 + 1), order + 1}):
        axes[0].plot(x, f.partial_sum(x, count), linewidth=1, label=f"k < {count}")
    low, high = np.nanmin(f(x)), np.nanmax(f(x))
    margin = 0.2 * (high - low) + 1e-3
    axes[0].set_ylim(low - margin, high + margin)
    axes[0].set_xlabel("t")
    axes[0].legend(frameon=False)
    coefficients = np.array([float(a) for a in f.coefficients(order + 1)])
    axes[1].stem(range(order + 1), coefficients, basefmt="grey")
    axes[1].set_xlabel("k")
    axes[1].set_ylabel(r"$a_k$")
    return axes


def draw_phase(diagram: PhaseDiagram, axes: Axes, logs: tuple[bool, ...] = (False, False)) -> Axes:
    """Regression's error minus attention's as a map, its zero set as lines."""
    largest = float(np.nanmax(np.abs(diagram.advantage))) or 1.0
    picture = axes.pcolormesh(
        diagram.xs,
        diagram.ys,
        diagram.advantage,
        cmap="RdBu",
        vmin=-largest,
        vmax=largest,
        shading="nearest",
    )
    for number, curve in enumerate(diagram.boundary):
        label = "equal errors" if number == 0 else None
        axes.plot(curve[:, 0], curve[:, 1], color="black", label=label)
    axes.figure.colorbar(
        picture, ax=axes, label=f"{diagram.error} error: regression minus attention"
    )
    axes.set_xlabel(LABELS.get(diagram.x, diagram.x))
    axes.set_ylabel(LABELS.get(diagram.y, diagram.y))
    if logs[0]:
        axes.set_xscale("log")
    if logs[1]:
        axes.set_yscale("log")
    if diagram.boundary:
        axes.legend()
    return axes


def picture_format(path: str | Path) -> str:
    """The picture format named by the ending of a path; refused before any work is done."""
    ending = Path(path).suffix.lower().lstrip(".")
    if ending not in ("png", "pdf", "svg"):
        raise InputError(f"got the picture {str(path)!r}; its name must end in .png, .pdf or .svg")
    parent = Path(path).resolve().parent
    if not parent.is_dir():
        raise InputError(f"got the picture {str(path)!r}; the folder {parent} does not exist")
    if Path(path).is_dir():
        raise InputError(f"got the picture {str(path)!r}; that is a folder")
    return ending


def save(path: str | Path, draw: Callable[[Any], Any], columns: int = 1) -> None:
    """Draw on new axes and write the picture; the file appears whole or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from rmtsym.files import write_whole

    kind = picture_format(path)
    figure = Figure(figsize=(6.4 * columns, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, columns)
    draw(axes)
    with write_whole(path) as stream:
        figure.savefig(stream, format=kind, dpi=150)
