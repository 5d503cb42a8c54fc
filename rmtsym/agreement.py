r"""Does the theory agree with the simulation? A ladder of sizes, extrapolated, and a verdict.

At size N (the smallest of the sizes) the mean of an expression is

    E_N = E + c_1 N^-a + c_2 N^-2a + ...,      a = 1, or 1/2 where spikes of order N^-1/2 matter.

Samples at several sizes are regressed on control variates (:mod:`rmtsym.controls`), then ``E`` is
fitted with ``c_1`` free and ``c_k`` normal with standard deviation ``|c_1| N_0^(a(k-1))``, for each
``N_0`` of ``SCALES`` (or ``SLOW_SCALES``); each fit counts by its evidence. The standard error of
``E`` so includes what the sizes leave open about the bias.

The z-score is the normal deviate of the tail of that mixture of fits; the verdict rejects where it
exceeds ``threshold``. It looks after 1/32, 1/8, 1/4, 1/2 and all of the samples; the looks share
the probability ``false_alarms`` of rejecting a right theory. It stops as soon as it rejects, or
would find a relative error of ``detect`` with 95 % probability; otherwise ``power`` says what it
would have found.

>>> from rmtsym.matrices import Gaussian, Identity, Trace, dimensions
>>> n, p = dimensions("n p")
>>> Z = Gaussian("Z", p, n)
>>> m = Trace((Z.T * Z / n + Identity(n)).inverse()) / n
>>> right = verify(m, (17**0.5 - 1) / 4, ratios={n: 1, p: "1/2"}, seed=1)
>>> right.agrees, verify(m, 0.79, ratios={n: 1, p: "1/2"}, seed=1).agrees
(True, False)
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from rmtsym.errors import InputError
from rmtsym.matrices import Entrywise, RowSoftmax
from rmtsym.rewriting import walk
from rmtsym.sampling import Array
from rmtsym.simulation import Estimate, Model, run, sampled_model

__all__ = ["Extrapolation", "Rung", "Verdict", "extrapolate", "ladder", "ladder_sizes", "verify"]

SCALES = (10.0, 20.0, 40.0, 80.0)
"""``N_0``: size below which the bias is no longer dominated by its first term; weighed by how well
the means fit."""
SLOW_SCALES = (100.0, 200.0, 400.0)
"""The same where a nonlinearity has ``a_2 != 0``: its spikes (lengths of the tokens, mean scores)
die out slowly at finite size; the bias is a series in a large multiple of 1/N."""
ORDERS = 4
"""Terms of the bias that are fitted."""
FALSE_ALARMS = 0.01
DETECT = 0.01
LOOKS = ((1 / 32, 0.1), (1 / 8, 0.1), (1 / 4, 0.2), (1 / 2, 0.2), (1.0, 0.4))
"""Share of the samples at each look, and of the probability of a false alarm."""
WEAK = 0.25
"""A check that finds no smaller relative error than this says little when it does not reject."""
POWER = 1.645
"""Standard errors beyond the threshold that are exceeded with 95 % probability."""
BUDGET = 1.2e12
"""Operations of a verdict with default sizes at most (about 20 s on two cores)."""
OVERHEAD = 2.5e7
"""Operations that a sample of size zero would cost."""
SMALLEST = 24
"""No matrix of a default ladder has fewer rows or columns."""
RUNGS = (100, 200, 400, 800)
"""Default sizes, as geometric means of all sizes."""
SLOW_RUNGS = (*RUNGS, 1600)
"""The same where the bias is not of order 1/N: a wider ladder bounds it better at equal cost."""


@dataclass(frozen=True)
class Rung:
    """One size of the ladder. ``mean`` is corrected by the control variates."""

    sizes: dict[str, int]
    mean: float
    standard_error: float
    repetitions: int


@dataclass(frozen=True)
class Extrapolation:
    """The limit of infinite size: ``value``, ``standard_error`` including that of the bias.

    ``degrees``: degrees of freedom of the standard error; ``bias``: the fitted first coefficient;
    ``fits``: ``(N_0, weight, value, standard_error)`` of the fits that are mixed.
    """

    value: float
    standard_error: float
    degrees: float
    bias: float
    order: float | None
    fits: tuple[tuple[float, float, float, float], ...]
    rungs: tuple[Rung, ...]

    def log_tail(self, theory: float) -> float:
        """Logarithm of the two-sided tail probability of ``theory``."""
        _, weights, values, errors = np.array(self.fits).T
        t = -np.abs(theory - values) / errors
        if self.degrees > 2000:
            tails = special.log_ndtr(t)
        else:
            tails = np.log(np.maximum(special.stdtr(self.degrees, t), 1e-300))
        tails = tails + np.log(2 * np.maximum(weights, 1e-300))
        return min(0.0, float(np.logaddexp.reduce(tails)))

    def z_score(self, theory: float) -> float:
        """The normal deviate with the tail of ``theory``, signed as ``theory - value``."""
        z = -float(special.ndtri_exp(self.log_tail(theory) - math.log(2)))
        return math.copysign(max(z, 0.0), theory - self.value)

    def reach(self, log_level: float) -> float:
        """The distance from ``value`` at which the tail has this logarithm."""

        def excess(x: float) -> float:
            return max(self.log_tail(self.value - x), self.log_tail(self.value + x)) - log_level

        near, far = 0.0, self.standard_error
        while excess(far) > 0:
            far *= 2
        for _ in range(30):
            middle = (near + far) / 2
            near, far = (middle, far) if excess(middle) > 0 else (near, middle)
        return far

    def __str__(self) -> str:
        lines = [
            ", ".join(f"{k} = {v}" for k, v in rung.sizes.items())
            + f": {rung.mean:.6g} +- {rung.standard_error:.2g} ({rung.repetitions} samples)"
            for rung in self.rungs
        ]
        lines.append(f"extrapolated: {self.value:.6g} +- {self.standard_error:.2g}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Verdict:
    """Theory against the extrapolated simulation.

    ``agrees``: ``|z_score| <= threshold``. ``power``: relative error of a theory that this check
    would reject with 95 % probability (absolute where the theory is 0). ``false_alarms``: bound on
    the probability of rejecting a right theory, over all looks. ``looks``: how often it looked.
    """

    theory: float
    extrapolation: Extrapolation
    z_score: float
    threshold: float
    agrees: bool
    power: float
    false_alarms: float
    looks: int

    @property
    def rungs(self) -> tuple[Rung, ...]:
        return self.extrapolation.rungs

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "theory": self.theory,
            "sizes": [
                {
                    **rung.sizes,
                    "mean": rung.mean,
                    "standard_error": rung.standard_error,
                    "repetitions": rung.repetitions,
                }
                for rung in self.rungs
            ],
            "extrapolated": {
                "value": self.extrapolation.value,
                "standard_error": self.extrapolation.standard_error,
            },
            "z_score": self.z_score,
            "threshold": self.threshold,
            "agrees": self.agrees,
            "power": self.power,
            "false_alarms": self.false_alarms,
        }

    def __str__(self) -> str:
        word = "agrees" if self.agrees else "DISAGREES"
        if self.agrees and self.power > WEAK:
            word = "not rejected, but this check is too weak to tell"
        return (
            f"{self.extrapolation}\ntheory:       {self.theory:.6g}, z = {self.z_score:+.2f}: "
            f"{word} (threshold {self.threshold:.2f}; finds an error of {self.power:.2%} "
            "with 95 % probability)"
        )


# -- sizes


def _fraction(name: Any, value: Any) -> Fraction:
    try:
        result = Fraction(str(value)) if not isinstance(value, Fraction) else value
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(f"got the ratio {name} = {value!r}; pass a number > 0") from error
    if result <= 0:
        raise InputError(f"got the ratio {name} = {value}; pass a number > 0")
    return result


def ladder_sizes(
    ratios: Mapping[Any, Any], targets: Sequence[int] = RUNGS
) -> tuple[dict[Any, int], ...]:
    """Sizes in the given ratios whose geometric means are near ``targets``.

    Among even first sizes within 8 % of the target, the one whose ratios come out best. No size is
    below ``SMALLEST``: for extreme ratios the ladder starts higher.

    >>> ladder_sizes({"n": 1, "p": "2/3"}, [100, 200])
    ({'n': 120, 'p': 80}, {'n': 246, 'p': 164})
    """
    shares = {name: _fraction(name, value) for name, value in ratios.items()}
    if not shares:
        raise InputError("got no ratios; pass {n: 1, p: c}")
    first = next(iter(shares))
    mean = math.exp(sum(math.log(s) for s in shares.values()) / len(shares))
    least = SMALLEST * mean / float(min(shares.values()))
    means = np.asarray(targets, float)
    if means.min() < least:
        means = np.geomspace(least, max(means.max(), 3 * least), len(means))
    result = []
    for target in means:
        near = target * float(shares[first]) / mean
        best: tuple[float, dict[Any, int]] | None = None
        for half in range(max(1, int(near * 0.46)), int(near * 0.54) + 2):
            exact = {k: 2 * half * s / shares[first] for k, s in shares.items()}
            sizes = {k: max(2, round(x)) for k, x in exact.items()}
            miss = max(abs(float(sizes[k] / x) - 1) for k, x in exact.items())
            cost = miss + 1e-3 * abs(2 * half / near - 1)
            if best is None or cost < best[0]:
                best = (cost, sizes)
        assert best is not None
        result.append(best[1])
    return tuple(result)


def _cost(sizes: Mapping[Any, int]) -> float:
    """Operations of one sample, about."""
    numbers = sorted(sizes.values())
    return 4.0 * numbers[0] * numbers[-1] ** 2 + numbers[-1] ** 3 / 3 + OVERHEAD


def _allocation(sizes: Sequence[Mapping[Any, int]], budget: float) -> Array:
    """Repetitions that spend operations like the square of the size: large sizes bound the bias."""
    shares = np.array([min(s.values()) for s in sizes], float) ** 2
    costs = np.array([_cost(s) for s in sizes])
    return np.asarray(np.maximum(budget * shares / shares.sum() / costs, 24))


# -- extrapolation


def _solve(
    means: Array, covariance: Array, bases: Array, order: float | None, size: float, scale: float
) -> tuple[float, float, float, float]:
    """Value, standard error, first coefficient, log evidence.

    The coefficients beyond the free ones are normal; integrated out, they add to the covariance
    of the means, and the rest is generalised least squares.
    """
    step = 0.5 if order is None else order
    free = 2 if order is None else 1
    base = bases.min()
    powers = (base / bases)[:, None] ** (step * np.arange(ORDERS + 1))
    known, random = powers[:, : free + 1], powers[:, free + 1 :]
    k = np.arange(free + 1, ORDERS + 1)
    spreads = size * base ** (-step) * (scale / base) ** (step * (k - 1))
    total = covariance + (random * spreads**2) @ random.T
    lower = np.linalg.cholesky(total)
    design, response = np.linalg.solve(lower, known), np.linalg.solve(lower, means)
    q, r = np.linalg.qr(design)
    inverse = np.linalg.inv(r)
    fitted = inverse @ (q.T @ response)
    rest = response - design @ fitted
    error = float(np.linalg.norm(inverse[0]))
    evidence = -0.5 * float(rest @ rest) - float(
        np.log(np.diag(lower)).sum() + np.log(np.abs(np.diag(r))).sum()
    )
    return float(fitted[0]), error, float(fitted[1]) * base**step, evidence


def _controlled(estimates: Sequence[Estimate], bases: Array) -> tuple[Array, Array, float]:
    """Means corrected by a common regression on the controls, covariance, degrees of freedom."""
    counts = np.array([e.repetitions for e in estimates])
    total = int(counts.sum())
    given = [e.controls for e in estimates]
    width = min((c.shape[1] for c in given if c is not None), default=0)
    if any(c is None for c in given):
        width = 0
    width = min(width, total // 12, max(0, total - 4 * len(counts)))
    count = len(estimates)
    means = np.array([float(np.mean(e.samples)) for e in estimates])
    scale = np.sqrt(bases)
    residuals = [e.samples - m for e, m in zip(estimates, means, strict=True)]
    if width:
        centred, averages = [], []
        for c, s in zip(given, scale, strict=True):
            assert c is not None
            block = np.asarray(c[:, :width], float)
            averages.append(block.mean(0))
            centred.append((block - block.mean(0)) * s)
        stacked = np.concatenate(centred)
        response = np.concatenate([r * s for r, s in zip(residuals, scale, strict=True)])
        slope, *_ = np.linalg.lstsq(stacked, response, rcond=1e-10)
        shift = np.array(averages)
        means = means - shift @ slope
        rest = np.split(response - stacked @ slope, np.cumsum(counts)[:-1])
        residuals = [r / s for r, s in zip(rest, scale, strict=True)]
        pooled = sum(float(r @ r) for r in rest) / max(1, total - width - count)
        slope_covariance = pooled * np.linalg.pinv(stacked.T @ stacked, hermitian=True)
        extra = shift @ slope_covariance @ shift.T
    else:
        extra = np.zeros((count, count))
    # Variances of one rung from few samples are uncertain: shrink them towards variance ~ 1/N.
    lost = 1 + width * counts / total
    squares = np.array([float(r @ r) for r in residuals])
    freedom = np.maximum(counts - lost, 1.0)
    common = float((squares * bases).sum() / freedom.sum())
    prior = 10.0
    variances = (squares + prior * common / bases) / (freedom + prior)
    covariance = np.diag(variances / counts) + extra
    return means, covariance, float(max(1.0, total - width - count))


def extrapolate(
    estimates: Sequence[Estimate],
    *,
    order: float | None = 1.0,
    scales: Sequence[float] = SCALES,
) -> Extrapolation:
    """The limit of infinite size from estimates at two sizes or more.

    order : exponent of the bias, ``N^-order``: 1, 1/2, or None (both orders are fitted)
    scales : values of ``N_0`` to mix

    Raises InputError below two sizes (three where the order is to be estimated).
    """
    if order not in (None, 1, 0.5):
        raise InputError(f"got the order {order!r} of the bias; pass 1, 0.5, or None to fit both")
    for estimate in estimates:
        if np.ndim(estimate.samples) != 1:
            raise InputError("got an estimate of several values; extrapolate one at a time")
    bases = np.array([min(e.sizes.values()) for e in estimates], float)
    needed = 3 if order is None else 2
    if len(set(bases)) < needed:
        raise InputError(
            f"got {len(set(bases))} size(s); extrapolation takes {needed} different sizes at least"
        )
    means, covariance, degrees = _controlled(estimates, bases)
    noise = max(float(np.sqrt(np.diag(covariance).max())), 1e-12 * (1 + float(np.abs(means).max())))
    covariance = covariance + np.eye(len(means)) * (1e-4 * noise) ** 2
    step = 0.5 if order is None else order
    floor = 3 * abs(float(means[-1])) + noise * float(bases.min()) ** step
    fits = []
    for scale in scales:
        size = floor
        for _ in range(3):
            size = math.hypot(floor, _solve(means, covariance, bases, order, size, scale)[2])
        fits.append(_solve(means, covariance, bases, order, size, scale))
    evidence = np.array([fit[3] for fit in fits])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    values = np.array([fit[0] for fit in fits])
    errors = np.array([fit[1] for fit in fits])
    value = float(weights @ values)
    rungs = tuple(
        Rung(dict(e.sizes), float(m), float(np.sqrt(v)), e.repetitions)
        for e, m, v in zip(estimates, means, np.diag(covariance), strict=True)
    )
    return Extrapolation(
        value,
        math.sqrt(float(weights @ (errors**2 + (values - value) ** 2))),
        degrees,
        float(weights @ np.array([fit[2] for fit in fits])),
        order,
        tuple(
            (scale, float(w), fit[0], fit[1])
            for scale, w, fit in zip(scales, weights, fits, strict=True)
        ),
        rungs,
    )


# -- ladder and verdict


@contextmanager
def _workers(executor: Executor | None) -> Iterator[Executor]:
    if executor is not None:
        yield executor
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with ThreadPoolExecutor(cores or 1) as pool:
        yield pool


def _models(
    expression: Any, sizes: Sequence[Mapping[Any, int]], arguments: Mapping[str, Any]
) -> list[Model]:
    models = []
    for rung in sizes:
        stream = tuple(int(size) for _, size in sorted(rung.items(), key=lambda kv: str(kv[0])))
        model, shape = sampled_model(expression, sizes=rung, stream=stream, **arguments)
        if shape != ():
            raise InputError(
                f"got an expression with values of shape {shape}; a ladder takes one number at "
                "a time"
            )
        models.append(replace(model, controlled=True))
    return models


def ladder(
    expression: Any,
    *,
    sizes: Sequence[Mapping[Any, int]],
    repetitions: int | Sequence[int],
    executor: Executor | None = None,
    store: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    **arguments: Any,
) -> tuple[Estimate, ...]:
    """Estimates of one number at several sizes, with control variates.

    sizes : ``[{n: 300, p: 200}, {n: 600, p: 400}]``; repetitions : one count, or one per size;
    executor : None uses threads, one per core; ``store`` as for :func:`verify`; ``arguments`` as
    for :func:`~rmtsym.simulation.simulate`.
    """
    counts = _counts(repetitions, len(sizes))
    models = _models(expression, sizes, arguments)
    with _workers(executor) as pool:
        start = [0] * len(models)
        return tuple(_climb(models, start, counts, pool, progress, 0, sum(counts), store))


def _scales(model: Model) -> tuple[float, ...]:
    """``SLOW_SCALES`` where a nonlinearity has ``a_2 != 0``."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    functions = dict(model.functions)
    for part in (part for e in model.expressions for part in walk(e)):
        if isinstance(part, RowSoftmax):
            return SLOW_SCALES
        if isinstance(part, Entrywise):
            values = np.asarray(functions.get(part.f, part.f)(nodes.copy()), float)
            values = values - weights @ values
            second = abs(weights @ (values * (nodes**2 - 1))) / math.sqrt(2)
            if second > 0.02 * math.sqrt(weights @ values**2):
                return SLOW_SCALES
    return SCALES


def _counts(repetitions: int | Sequence[int], rungs: int) -> list[int]:
    counts = [repetitions] * rungs if isinstance(repetitions, int) else list(repetitions)
    if len(counts) != rungs:
        raise InputError(f"got {len(counts)} repetitions for {rungs} sizes; give one per size")
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or count < 2:
            raise InputError(f"got {count} repetitions; an error bar takes 2 at least")
    return counts


def _climb(
    models: Sequence[Model],
    starts: Sequence[int],
    counts: Sequence[int],
    pool: Executor,
    progress: Callable[[int, int], None] | None,
    done: int,
    total: int,
    store: str | Path | None = None,
) -> list[Estimate]:
    estimates = []
    for model, start, count in zip(models, starts, counts, strict=True):

        def report(finished: int, _: int, before: int = done) -> None:
            if progress is not None:
                progress(before + finished, total)

        estimates.append(
            run(
                model,
                (),
                first=start,
                repetitions=count,
                executor=pool,
                progress=report,
                store=None if store is None else _file(store, model),
            )
        )
        done += count
    return estimates


def _file(store: str | Path, model: Model) -> Path:
    """The file of one size: ``run.nc`` becomes ``run.n=400.p=300.nc``."""
    path = Path(store)
    sizes = ".".join(f"{symbol}={size}" for symbol, size in model.sizes)
    return path.with_name(f"{path.stem}.{sizes}{path.suffix}")


def _joined(one: Estimate, two: Estimate) -> Estimate:
    assert one.controls is not None and two.controls is not None
    return Estimate.from_samples(
        np.concatenate([one.samples, two.samples]),
        controls=np.concatenate([one.controls, two.controls]),
        sizes=one.sizes,
        seed=one.seed,
        digest=one.digest,
    )


def judge(
    theory: float,
    extrapolation: Extrapolation,
    *,
    false_alarms: float = FALSE_ALARMS,
    spent: float = 1.0,
    looks: int = 1,
) -> Verdict:
    """The verdict of one look that may spend the share ``spent`` of ``false_alarms``."""
    level = false_alarms * spent
    z = extrapolation.z_score(theory)
    threshold = -float(special.ndtri(level / 2))
    reach = extrapolation.reach(math.log(level)) + POWER * extrapolation.standard_error
    power = reach / abs(theory) if theory != 0 else reach
    return Verdict(
        theory, extrapolation, z, threshold, abs(z) <= threshold, power, false_alarms, looks
    )


def verify(
    expression: Any,
    theory: Any,
    *,
    ratios: Mapping[Any, Any] | None = None,
    sizes: Sequence[Mapping[Any, int]] | None = None,
    repetitions: int | Sequence[int] | None = None,
    order: float | None = 1.0,
    detect: float = DETECT,
    false_alarms: float = FALSE_ALARMS,
    executor: Executor | None = None,
    store: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    **arguments: Any,
) -> Verdict:
    """Simulate the expression on a ladder of sizes and judge the number a theory gives.

    theory : the claimed limit
    ratios : sizes relative to each other, ``{n: 1, p: "2/3"}``, for default sizes; or
    sizes : the ladder itself, ``[{n: 300, p: 200}, {n: 600, p: 400}]``
    repetitions : samples per size, all in one look; None: as many as needed, in five looks
    order : exponent of the finite-size bias: 1, 1/2 (spikes of order N^-1/2), None (fit both)
    detect : stop when a relative error of this size is found with 95 % probability
    false_alarms : bound on the probability of rejecting a right theory
    executor : None uses threads, one per core
    store : ``run.nc`` or ``run.zarr``: each size keeps its samples in ``run.n=400.p=300.nc``, and
        a rerun continues where it stopped
    arguments : values, vectors, nonlinearities, noise, seed, dtype as for
        :func:`~rmtsym.simulation.simulate`

    Raises InputError for input it cannot use, SimulationError where a sample fails.
    """
    try:
        number = float(Fraction(theory)) if isinstance(theory, str) else float(theory)
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise InputError(f"got the theory {theory!r}; pass one number") from error
    if not math.isfinite(number):
        raise InputError(f"got the theory {theory!r}; pass a finite number")
    if (ratios is None) == (sizes is None):
        raise InputError("pass either ratios={n: 1, p: c} or sizes=[{n: 300, p: 200}, ...]")
    numbers = all(isinstance(x, (int, float)) for x in (false_alarms, detect))
    if not numbers or not 0 < false_alarms < 1 or not detect > 0:
        raise InputError(
            f"got false_alarms = {false_alarms!r}, detect = {detect!r}; expected numbers in (0, 1)"
        )
    if ratios is not None and not isinstance(ratios, Mapping):
        raise InputError(f"got the ratios {ratios!r}; pass a mapping {{n: 1, p: c}}")
    if sizes is not None and (isinstance(sizes, (str, Mapping)) or not isinstance(sizes, Sequence)):
        raise InputError(f"got the sizes {sizes!r}; pass a list, [{{n: 300, p: 200}}, ...]")
    known = set(signature(sampled_model).parameters) - {"stream"}
    unknown = sorted(set(arguments) - known)
    if unknown:
        raise InputError(f"got {', '.join(unknown)}, which verify does not know")
    targets = RUNGS if order == 1 else SLOW_RUNGS
    rungs = list(sizes) if sizes is not None else list(ladder_sizes(ratios or {}, targets))
    needed = 3 if order is None else 2
    if len(rungs) < needed:
        raise InputError(f"got {len(rungs)} size(s); a ladder takes {needed} at least")
    for rung in rungs:
        if not isinstance(rung, Mapping):
            raise InputError(f"got {rung!r} among the sizes; give each as {{n: 400, p: 200}}")
    if len({tuple(sorted((str(k), v) for k, v in rung.items())) for rung in rungs}) < len(rungs):
        raise InputError(f"got the sizes {rungs}; a ladder takes different ones")
    models = _models(expression, rungs, arguments)
    scales = _scales(models[0])
    with _workers(executor) as pool:
        if repetitions is not None:
            counts = _counts(repetitions, len(rungs))
            found = _climb(models, [0] * len(rungs), counts, pool, progress, 0, sum(counts), store)
            return judge(
                number, extrapolate(found, order=order, scales=scales), false_alarms=false_alarms
            )
        full = _allocation([dict(m.sizes) for m in models], BUDGET)
        total = int(sum(np.ceil(full)))
        estimates: list[Estimate] = []
        for look, (share, spent) in enumerate(LOOKS, 1):
            counts = [max(8, int(np.ceil(share * count))) for count in full]
            starts = [e.repetitions for e in estimates] or [0] * len(models)
            more = [max(2, c - s) for c, s in zip(counts, starts, strict=True)]
            fresh = _climb(models, starts, more, pool, progress, sum(starts), total, store)
            estimates = (
                [_joined(a, b) for a, b in zip(estimates, fresh, strict=True)]
                if estimates
                else fresh
            )
            verdict = judge(
                number,
                extrapolate(estimates, order=order, scales=scales),
                false_alarms=false_alarms,
                spent=spent,
                looks=look,
            )
            if not verdict.agrees or verdict.power <= detect:
                break
        if progress is not None:
            progress(total, total)
    return verdict
