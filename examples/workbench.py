"""What these scripts share: their options, simulated errors on common tokens, dots with error bars.

Attention and linear regression are simulated on the same samples, so their ratio is known better
than either error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rmtsym import MODELS, InputError, Nonlinearity, RmtsymError, simulate, solve
from rmtsym.plot import picture_format, save

QUICK, DEFAULT, FULL = range(3)
ALIGNED = ([1, 0, 0], [1, 0, 0])
"""w_K = w_Q = e_1, the direction of mu."""
ORTHOGONAL = ([0, 1, 0], [0, 0, 1])
"""w_K, w_Q and mu orthogonal to each other."""
WEIGHTLESS = ([0, 0, 0], [0, 0, 0])
CASES = (
    ("tanh, weights along mu", "tanh", ALIGNED, "C0"),
    ("tanh, weights across mu", "tanh", ORTHOGONAL, "C2"),
    ("cos (a_1 = 0)", "cos", ALIGNED, "C3"),
)
"""The three attentions of the paper's figure: name, f, weights, colour."""


@dataclass(frozen=True)
class Options:
    """What the command line asked for."""

    output: Path
    size: int
    seed: int
    rest: argparse.Namespace

    def pick(self, quick: Any, default: Any, full: Any) -> Any:
        """The setting for ``--quick``, for no option, for ``--full``."""
        return (quick, default, full)[self.size]

    def save(self, draw: Callable[[Any], Any], columns: int = 1) -> None:
        """Draw, write the picture, say where it is."""
        save(self.output, draw, columns)
        print(f"picture: {self.output}")


def picture(text: str) -> Path:
    """A path of the command line where a picture can be written."""
    try:
        picture_format(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return Path(text)


def run(main: Callable[[], None]) -> None:
    """The script's main function; what was wrong with its input is said in one line."""
    try:
        main()
    except RmtsymError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def options(
    document: str | None,
    name: str,
    more: Callable[[argparse.ArgumentParser], Any] = lambda _: None,
) -> Options:
    """Options of a script; ``more`` adds its own to the parser."""
    parser = argparse.ArgumentParser(
        description=document, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=picture, default=name, help="the picture")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_const", const=FULL, dest="size", help="paper's sizes")
    size.add_argument("--quick", action="store_const", const=QUICK, dest="size", help="seconds")
    parser.add_argument("--seed", type=int, default=0, help="seed of the simulation")
    parser.set_defaults(size=DEFAULT)
    more(parser)
    given = parser.parse_args()
    return Options(given.output, given.size, given.seed, given)


def attention_errors(f: Any, *, ratio: Any, gamma: Any, mu: Any, w_k: Any, w_q: Any) -> Any:
    """``attention_error`` where the vectors are arrays too, coordinates along their last axis."""
    system = MODELS["attention"].system
    centred = Nonlinearity(f).centred()
    rows = {name: np.asarray(v, float) for name, v in (("mu", mu), ("w_k", w_k), ("w_q", w_q))}
    known: dict[str, Any] = {
        f"{u}.{v}": np.sum(rows[u] * rows[v], axis=-1) for u in rows for v in rows
    }
    known |= {"c": ratio, "gamma": gamma, "a_1": centred.coefficient(1), "nu": centred.nu()}
    return solve(system, {symbol: known[str(symbol)] for symbol in system.parameters}).value


@dataclass(frozen=True)
class Simulated:
    """Sample means with standard errors; ``ratio`` is attention / regression, sample by sample."""

    attention: Any
    attention_error: Any
    regression: Any
    regression_error: Any
    ratio: Any
    ratio_error: Any


def simulated(
    f: Any,
    *,
    n: int,
    p: int,
    gamma: Any,
    mu: float,
    weights: tuple[Sequence[float], Sequence[float]],
    repetitions: int,
    seed: int,
) -> Simulated:
    """Both errors at ``mu e_1`` on common tokens; arrays where ``gamma`` is one."""
    w_k, w_q = weights
    estimate = simulate(
        (MODELS["attention"].expression, MODELS["regression"].expression),
        sizes={"n": n, "p": p},
        values={"gamma": gamma},
        vectors={"mu": [mu, 0, 0], "w_k": w_k, "w_q": w_q},
        nonlinearities={"f": Nonlinearity(f).centred()},
        repetitions=repetitions,
        seed=seed,
    )
    ratio = estimate.mean[0] / estimate.mean[1]
    spread = estimate.samples[:, 0] - ratio * estimate.samples[:, 1]
    ratio_error = spread.std(0, ddof=1) / np.sqrt(repetitions) / estimate.mean[1]
    return Simulated(
        estimate.mean[0],
        estimate.standard_error[0],
        estimate.mean[1],
        estimate.standard_error[1],
        ratio,
        ratio_error,
    )


@dataclass(frozen=True, eq=False)
class Curve:
    """One theory curve on ``x`` and simulated points on ``places``, some of the ``x``."""

    name: str
    color: str
    x: Any
    theory: Any
    places: Any
    mean: Any
    error: Any

    @property
    def dashes(self) -> str:
        return "--" if self.name.startswith("linear regression") else "-"

    def at(self, x: float) -> float:
        """The theory at the grid point nearest to ``x``."""
        return float(self.theory[np.argmin(np.abs(np.asarray(self.x) - x))])

    def draw(self, axes: Any) -> None:
        """The curve, and dots with two standard errors."""
        axes.plot(self.x, self.theory, self.dashes, color=self.color, label=in_math(self.name))
        dots(axes, self.places, self.mean, self.error, self.color)


def in_math(text: str) -> str:
    """Symbols of a plain text set as mathematics."""
    for symbol in ("a_1", "w_K", "w_Q"):
        text = text.replace(symbol, f"${symbol}$")
    return text.replace("mu", r"$\mu$")


def dots(axes: Any, x: Any, mean: Any, error: Any, color: str, **style: Any) -> None:
    """Simulated points with two standard errors."""
    style = {"fmt": "o", "markersize": 4, "capsize": 2, "linestyle": "none", **style}
    axes.errorbar(x, mean, 2 * np.asarray(error), color=color, **style)


def table(curves: Sequence[Curve], variable: str, at: Sequence[float]) -> None:
    """Theory at some points; how far the simulated points lie from it, as a share of it."""
    width = max(len(curve.name) for curve in curves)
    head = "".join(f"{f'{variable} = {x:g}':>16}" for x in at)
    print(f"{'theory':{width}}{head}{'simulation / theory - 1':>28}")
    for curve in curves:
        theory = curve.theory[np.isin(curve.x, curve.places)]
        off, error = np.mean(curve.mean / theory - 1), np.mean(curve.error / theory)
        values = "".join(f"{curve.at(x):16.4g}" for x in at)
        print(f"{curve.name:{width}}{values}{f'{off:+.1%} (1 s.e. {error:.1%})':>28}")
