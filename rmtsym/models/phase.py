r"""Where attention beats linear regression, and how to design it.

With ``w_K = w_Q = s (a mu/|mu| + sqrt(1 - a^2) v)``, v a unit vector orthogonal to mu, the errors
depend on c = p/n (``ratio``), ``gamma``, |mu|^2 (``snr``), a (``alignment``), s (``strength``) and
a_1^2/nu of the centred f (``linearity``, at nu = 1). A phase diagram varies two of them; its data
are arrays, its boundary is where both errors are equal.

>>> phases = phase_diagram("tanh(t)", x=("ratio", [0.25, 1, 4]), y=("snr", [0.5, 4]), gamma=1,
...                        alignment=1, strength=3)
>>> phases.advantage.shape
(2, 3)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy as sp

from rmtsym.errors import InputError
from rmtsym.matrices import Vector, inner
from rmtsym.models.attention import ATTENTION, attention_case, read_nonlinearity
from rmtsym.models.attention import f as f_symbol
from rmtsym.models.base import Model
from rmtsym.models.generalization import ATTENTION_TEST, REGRESSION_TEST
from rmtsym.models.regression import regression_error
from rmtsym.models.tokens import c, mu, weights
from rmtsym.models.tokens import gamma as gamma_symbol
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.parsing import exact_number
from rmtsym.sensitivity import zero_set
from rmtsym.solver import solve

Array = npt.NDArray[np.float64]
AXES = ("ratio", "gamma", "snr", "alignment", "strength", "linearity")
SLOPE, ENERGY = sp.Symbol("a_1", real=True), sp.Symbol("nu", nonnegative=True)


def _model(error: str) -> Model:
    models = {"training": ATTENTION, "test": ATTENTION_TEST}
    if error not in models:
        raise InputError(f"got error = {error!r}; pass 'training' or 'test'")
    return models[error]


@dataclass(frozen=True, eq=False)
class PhaseDiagram:
    """Errors on a grid: ``attention`` and ``regression`` of shape (len(ys), len(xs)).

    ``boundary`` holds the curves of equal errors, (points, 2) each, exact where they cross the
    lines of the grid.
    """

    x: str
    y: str
    xs: Array
    ys: Array
    attention: Array
    regression: Array
    error: str
    boundary: tuple[Array, ...] = ()

    @property
    def advantage(self) -> Array:
        """Regression's error minus attention's: positive where attention wins."""
        return self.regression - self.attention


def errors(function: Any, parameters: Mapping[str, Any], error: str = "training") -> Any:
    """Errors of attention and regression where all of ``AXES`` but linearity (or f) are given."""
    value = {name: np.asarray(_float(name, x)) for name, x in parameters.items()}
    snr, s, a = value["snr"], value["strength"], value["alignment"]
    _, ((w_k, w_q),) = weights(1)
    along = np.sqrt(snr) * s * a
    system = _model(error).system
    values: dict[Any, Any] = {
        c: value["ratio"],
        gamma_symbol: value["gamma"],
        **_inner({(mu, mu): snr, (mu, w_k): along, (mu, w_q): along}),
        **_inner({(w_k, w_k): s**2, (w_k, w_q): s**2, (w_q, w_q): s**2}),
    }
    functions: dict[Any, Any] = {}
    if "linearity" in value:
        values[SLOPE], values[ENERGY] = np.sqrt(value["linearity"]), np.ones(())
    else:
        functions[f_symbol] = read_nonlinearity(function)
    known = {symbol: values[symbol] for symbol in system.parameters if symbol in values}
    attention = solve(system, known, nonlinearities=functions).value
    if error == "training":
        regression = regression_error(ratio=value["ratio"], gamma=value["gamma"], snr=snr)
    else:
        used = {s: values[s] for s in REGRESSION_TEST.system.parameters}
        regression = solve(REGRESSION_TEST.system, used).value
    return np.asarray(attention), np.asarray(regression)


def _inner(given: Mapping[tuple[Vector, Vector], Any]) -> dict[sp.Symbol, Any]:
    return {inner(u, v): value for (u, v), value in given.items()}


DOMAINS = {
    "ratio": (0, np.inf, "p/n > 0"),
    "gamma": (0, np.inf, "a ridge penalty > 0"),
    "snr": (0, np.inf, "|mu|^2 >= 0"),
    "alignment": (-1, 1, "a cosine in [-1, 1]"),
    "strength": (0, np.inf, "a length >= 0"),
    "linearity": (0, 1, "a_1^2/nu in [0, 1]"),
}


def _float(name: str, value: Any) -> Any:
    if name not in DOMAINS:
        raise InputError(f"got the parameter {name!r}; expected one of {', '.join(AXES)}")
    low, high, meaning = DOMAINS[name]
    array = np.asarray(
        [float(exact_number(x)) for x in value] if np.ndim(value) else float(exact_number(value))
    )
    strict = name in ("ratio", "gamma")
    if not np.all((array > low) if strict else (array >= low)) or not np.all(array <= high):
        raise InputError(f"got {name} = {value}; it is {meaning}")
    return array


def phase_diagram(
    f: Any = None,
    *,
    x: tuple[str, Any],
    y: tuple[str, Any],
    error: str = "training",
    **fixed: Any,
) -> PhaseDiagram:
    """Attention against linear regression over two parameters.

    Parameters
    ----------
    f : nonlinearity, centred here; None where ``linearity`` is given
    x, y : a name of ``AXES`` and its values
    error : "training" or "test"
    fixed : the other parameters; ``alignment`` and ``strength`` are 1 unless given, ``snr`` too

    >>> phases = phase_diagram(x=("linearity", [0, 0.5, 1]), y=("ratio", [0.5, 2]), gamma=0.1)
    >>> bool(np.ptp(phases.regression[0]) == 0)
    True
    """
    given = {"alignment": 1, "strength": 1, "snr": 1, **fixed}
    for name, values in (x, y):
        if name not in AXES or np.ndim(values) != 1 or len(values) < 1:
            raise InputError(
                f"got the axis {name!r} with values of shape {np.shape(values)}; pass "
                f"(name, [values]) with a name of {', '.join(AXES)}"
            )
    for name, value in fixed.items():
        _float(name, value)
    xs, ys = _float(*x), _float(*y)
    if x[0] == y[0]:
        raise InputError(f"got {x[0]!r} on both axes; pass two different names")
    given.update({x[0]: xs[0], y[0]: ys[0]})
    _require(given, f)

    def both(a: Array, b: Array) -> tuple[Array, Array]:
        found = errors(f, {**given, x[0]: np.ravel(a), y[0]: np.ravel(b)}, error)
        one, other = (np.broadcast_to(v, np.size(a)).reshape(np.shape(a)) for v in found)
        return one, other

    def advantage(a: Array, b: Array) -> Array:
        attention, regression = both(a, b)
        return regression - attention

    attention, regression = both(*np.meshgrid(xs, ys))
    curves: tuple[Array, ...] = ()
    if min(len(xs), len(ys)) > 1 and all(np.all(np.diff(v) > 0) for v in (xs, ys)):
        curves = zero_set(advantage, xs, ys).boundary
    return PhaseDiagram(x[0], y[0], xs, ys, attention, regression, error, curves)


def _require(given: Mapping[str, Any], f: Any) -> None:
    missing = [name for name in AXES[:-1] if name not in given]
    if missing:
        raise InputError(f"got no {', '.join(missing)}; give a value, or put it on an axis")
    if (f is None) == ("linearity" not in given):
        raise InputError("pass either a nonlinearity f or its linearity a_1^2/nu")


def critical_alignment(
    f: Any = None, *, error: str = "training", count: int = 65, **fixed: Any
) -> float:
    """The least alignment in [0, 1] from which attention's error is below regression's.

    ``fixed``: ratio, gamma, snr, strength (1 unless given), and linearity where f is None. 0 where
    attention already wins with orthogonal weights, nan where it never does.

    >>> round(critical_alignment("tanh(t)", ratio=0.5, gamma=1, snr=4, strength=3), 4)
    0.9918
    """
    from scipy.optimize import brentq

    given = {"strength": 1, **fixed}

    def gap(a: Any) -> Any:
        attention, regression = errors(f, {**given, "alignment": a}, error)
        return attention - regression

    _require({**given, "alignment": 0}, f)
    grid = np.linspace(0, 1, count)
    gaps = gap(grid)
    if gaps[0] < 0:
        return 0.0
    falls = np.flatnonzero((gaps[:-1] >= 0) & (gaps[1:] < 0))
    if not len(falls):
        return float("nan")
    k = falls[0]
    return float(brentq(lambda a: float(gap(a)), grid[k], grid[k + 1], xtol=1e-12))


@dataclass(frozen=True)
class Design:
    """The best ``linearity`` a_1^2/nu, the error there, and a nonlinearity that has it."""

    linearity: float
    error: float
    nonlinearity: Nonlinearity


def best_nonlinearity(
    *,
    ratio: Any,
    gamma: Any,
    mu: Any = None,
    w_k: Any = None,
    w_q: Any = None,
    error: str = "training",
) -> Design:
    """The a_1^2/nu in [0, 1] of least error at nu = 1, and a nonlinearity that has it.

    Parameters as for :func:`~rmtsym.models.attention.attention_error`; ``error`` is "training" or
    "test". The error of a centred f depends on a_1 and nu only (balanced labels), and scaling f is
    scaling gamma. The nonlinearity given is ``a_1 he_1 + a_3 he_3``: odd, unbalanced labels do not
    see it.

    >>> design = best_nonlinearity(ratio=0.25, gamma=1, mu=[2], w_k=[3], w_q=[3])
    >>> round(design.linearity, 3), round(design.error, 4)
    (0.184, 0.1553)
    >>> round(design.nonlinearity.coefficient(1) ** 2, 3), design.nonlinearity.exact_nu()
    (0.184, 1)
    """
    system = _model(error).system
    case = attention_case("t", ratio=ratio, gamma=gamma, mu=mu, w_k=w_k, w_q=w_q)
    if len(case.vectors) != 3 or any(not isinstance(v, sp.Basic) for v in case.values.values()):
        raise InputError("got arrays; pass one ratio, one gamma, and weights of rank one")
    known = case.parameters

    def curve(share: Any) -> Any:
        return solve(system, {**known, SLOPE: np.sqrt(share), ENERGY: np.ones(())}).value

    linearity, least = _minimum(curve)
    # a_1 = cos(angle), a_3 = sin(angle), both rational: t = tan(angle / 2).
    slope = np.sqrt(linearity)
    t = sp.Rational(Fraction(float(np.sqrt((1 - slope) / (1 + slope)))).limit_denominator(10**6))
    a_1, a_3 = (1 - t**2) / (1 + t**2), 2 * t / (1 + t**2)
    return Design(linearity, least, Nonlinearity.from_coefficients([0, a_1, 0, a_3]))


def _minimum(curve: Callable[[Any], Any]) -> tuple[float, float]:
    from scipy.optimize import minimize_scalar

    grid = np.linspace(0, 1, 65)
    values = np.asarray(curve(grid))
    k = int(np.argmin(values))
    found = minimize_scalar(
        lambda share: float(np.asarray(curve(share))),
        bounds=(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]),
        method="bounded",
        options={"xatol": 1e-9},
    )
    if found.fun < values[k]:
        return float(found.x), float(found.fun)
    return float(grid[k]), float(values[k])
