"""Attention beside linear regression along one parameter: theory curves and simulated points.

>>> curve = compare("tanh(t)", vary=Grid("gamma", 0.1, 1, 3), ratio="1/2", mu=[1], points=0)
>>> curve.attention.shape, curve.simulated.shape
((3,), (0,))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rmtsym.errors import InputError
from rmtsym.matrices import Vector
from rmtsym.models import attention as model
from rmtsym.models.attention import attention_error, read_nonlinearity
from rmtsym.models.base import coordinates, positive
from rmtsym.models.regression import regression_error
from rmtsym.parsing import exact_number
from rmtsym.simulation import simulate

Array = npt.NDArray[np.float64]
VARIABLES = ("gamma", "ratio", "snr")


@dataclass(frozen=True)
class Grid:
    """``count`` values of one parameter from ``start`` to ``stop``, ``log`` or linear."""

    variable: str
    start: float
    stop: float
    count: int
    log: bool = False

    def __post_init__(self) -> None:
        if self.variable not in VARIABLES:
            raise InputError(
                f"got the variable {self.variable!r}; vary one of {', '.join(VARIABLES)}"
            )
        if not (np.isfinite(self.start) and np.isfinite(self.stop)):
            raise InputError(f"got the range {self.start} to {self.stop}; both ends must be finite")
        if not 2 <= self.count <= 100_000:
            raise InputError(f"got {self.count} values; take between 2 and 100000")
        if self.start == self.stop:
            raise InputError(f"got the range {self.start} to {self.stop}; its ends must differ")
        lowest = min(self.start, self.stop)
        if lowest < 0 or (lowest == 0 and (self.log or self.variable != "snr")):
            raise InputError(
                f"got {self.variable} down to {lowest}; it must be "
                + (">= 0 (> 0 on a log scale)" if self.variable == "snr" else "> 0")
            )

    @classmethod
    def read(cls, text: str) -> Grid:
        """``gamma=1e-4:1e1:41:log``: name, first, last, number of values, ``log`` or ``lin``."""
        name, _, rest = text.partition("=")
        parts = rest.split(":")
        if (
            not rest
            or len(parts) not in (3, 4)
            or (len(parts) == 4 and parts[3] not in ("log", "lin"))
        ):
            raise InputError(
                f"got --vary {text!r}; write NAME=FIRST:LAST:COUNT or NAME=FIRST:LAST:COUNT:log, "
                "for instance gamma=1e-4:1e1:41:log"
            )
        if not parts[2].strip().isdigit():
            raise InputError(f"got the count {parts[2]!r} in --vary; give a whole number")
        return cls(
            name.strip(),
            float(exact_number(parts[0])),
            float(exact_number(parts[1])),
            int(parts[2]),
            parts[-1] == "log",
        )

    @property
    def values(self) -> Array:
        if self.log:
            return np.geomspace(self.start, self.stop, self.count)
        return np.linspace(self.start, self.stop, self.count)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Theory curves on ``values``; simulated attention at ``places`` with standard errors."""

    grid: Grid
    values: Array
    attention: Array
    regression: Array
    places: Array
    simulated: Array
    standard_errors: Array
    sizes: tuple[tuple[int, int], ...]
    repetitions: int


def compare(
    f: Any,
    *,
    vary: Grid,
    ratio: Any = None,
    gamma: Any = None,
    mu: Any = None,
    w_k: Any = None,
    w_q: Any = None,
    n: int = 1500,
    points: int = 9,
    repetitions: int = 8,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Errors of attention and regression along ``vary``; all other parameters as in
    :func:`~rmtsym.models.attention.attention_error`.

    ``snr`` varies |mu|^2 along the direction of ``mu``. The kernel is simulated at ``points`` of
    the values with ``n`` tokens (sizes fall where p = n ratio would be large).
    """
    chosen = read_nonlinearity(f)
    given = {"ratio": ratio, "gamma": gamma}
    for name, value in given.items():
        if name == vary.variable and value is not None:
            raise InputError(f"got both {name} and --vary {name}=...; give one of them")
        if name != vary.variable and value is None:
            raise InputError(f"got no {name}; give a value, or vary it")
    rows = coordinates({"mu": mu, "w_k": w_k, "w_q": w_q})
    direction = np.array([float(x) for x in rows["mu"]])
    length = float(np.linalg.norm(direction))
    if vary.variable == "snr" and length == 0:
        if mu is not None and len(mu):
            raise InputError("got mu = 0 with --vary snr=...; give mu a direction")
        direction, length = np.eye(len(direction))[0], 1.0
    values = vary.values
    fixed = {
        name: float(positive(name, value, meaning))
        for name, value, meaning in (
            ("ratio", ratio, "p/n"),
            ("gamma", gamma, "the ridge penalty"),
        )
        if name != vary.variable
    }

    def parameters(value: Any) -> dict[str, Any]:
        chosen_values: dict[str, Any] = dict(fixed)
        chosen_values["mu"] = direction
        if vary.variable == "snr":
            chosen_values["mu"] = direction / length * np.sqrt(value)
        else:
            chosen_values[vary.variable] = value
        return chosen_values

    weights: dict[str, Any] = {"w_k": rows["w_k"], "w_q": rows["w_q"]}
    if vary.variable == "snr":
        attention = np.array(
            [attention_error(chosen, **parameters(value), **weights) for value in values]
        )
        regression = regression_error(ratio=fixed["ratio"], gamma=fixed["gamma"], snr=values)
    else:
        attention = attention_error(chosen, **parameters(values), **weights)
        at = parameters(values)
        regression = regression_error(ratio=at["ratio"], gamma=at["gamma"], snr=length**2)

    places = values[_spread(len(values), points)]
    vectors = {Vector(name, model.p): [float(x) for x in row] for name, row in weights.items()}
    rungs = [places] if vary.variable == "gamma" else [np.array([place]) for place in places]
    means, errors, sizes = [], [], []
    total = repetitions * len(rungs)
    for number, rung in enumerate(rungs if points else []):
        at = parameters(rung if vary.variable == "gamma" else float(rung[0]))
        tokens, dimension = _sizes(n, float(at["ratio"]))

        def report(done: int, _: int, base: int = number * repetitions) -> None:
            if progress is not None:
                progress(base + done, total)

        estimate = simulate(
            model.ERROR,
            sizes={model.n: tokens, model.p: dimension},
            values={model.gamma: at["gamma"]},
            vectors={model.mu: list(at["mu"]), **vectors},
            nonlinearities={model.f: chosen},
            repetitions=repetitions,
            seed=seed,
            stream=(number,),
            progress=report,
        )
        means.append(np.atleast_1d(estimate.mean))
        errors.append(np.atleast_1d(estimate.standard_error))
        sizes.append((tokens, dimension))
    return Comparison(
        vary,
        values,
        np.asarray(attention),
        np.asarray(regression),
        places,
        np.concatenate(means) if means else np.zeros(0),
        np.concatenate(errors) if errors else np.zeros(0),
        tuple(sizes),
        repetitions,
    )


def _spread(count: int, points: int) -> npt.NDArray[np.int_]:
    return np.unique(np.linspace(0, count - 1, min(points, count)).round().astype(int))


def _sizes(n: int, ratio: float) -> tuple[int, int]:
    """Sizes with p / n = ratio whose larger one is at most 1.5 n (rounded to whole numbers)."""
    tokens = n if ratio <= 1.5 else max(2, round(1.5 * n / ratio))
    tokens += tokens % 2
    return tokens, max(2, round(ratio * tokens))
