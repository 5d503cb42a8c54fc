r"""For test suites: Hypothesis strategies and assertions. Needs ``pip install 'rmtsym[testing]'``.

    from hypothesis import given
    from rmtsym.testing import assert_agrees, attention_parameters, deterministic, nonlinearities

    @deterministic
    @given(f=nonlinearities(), at=attention_parameters())
    def test_error_lies_between_0_and_1(f, at):
        assert 0 <= my_attention_error(f, **at) <= 1

Draws are plain keyword arguments of the public functions. The assertions draw no seed of their own:
with the default ``seed=0`` a test gives the same answer on every run, and ``deterministic`` makes
Hypothesis do so too.

>>> from rmtsym.models.attention import attention_error
>>> assert_invariant(lambda x: attention_error("tanh(t)", ratio=1, gamma=1, mu=x), [2], [-2])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, cast

import numpy as np
import sympy as sp

try:
    from hypothesis import HealthCheck, settings
    from hypothesis import strategies as st
except ImportError as error:  # pragma: no cover - told to whoever lacks it
    raise ImportError(
        "rmtsym.testing takes hypothesis, which is not installed; pip install 'rmtsym[testing]'"
    ) from error

from rmtsym.agreement import Verdict, verify
from rmtsym.errors import InputError
from rmtsym.matrices import Gaussian, Identity, Matrix, Trace, Vector, Wigner, dimensions
from rmtsym.models.base import Model, gram
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.rewriting import free_symbols

__all__ = [
    "aspect_ratios",
    "assert_agrees",
    "assert_invariant",
    "assert_rejects",
    "attention_parameters",
    "coordinates",
    "deterministic",
    "nonlinearities",
    "rational_expressions",
    "ridge_penalties",
    "seeds",
]

deterministic = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
"""Settings for CI: the same examples on every run, no deadline (the first call compiles)."""

FORMULAS = (
    "tanh(t)",
    "sign(t)",
    "cos(t)",
    "sin(t)",
    "erf(t)",
    "Max(t, 0)",
    "Abs(t)",
    "Min(exp(t), 5)",
    "t*exp(-t**2)",
    "exp(-t**2/2)",
    "atan(t)",
    "t**2",
    "t",
)


def _rationals(low: Fraction, high: Fraction, denominator: int) -> st.SearchStrategy[Fraction]:
    return st.fractions(low, high, max_denominator=denominator)


def seeds() -> st.SearchStrategy[int]:
    """Seeds for ``simulate``, ``verify`` and ``numpy.random.SeedSequence``."""
    return st.integers(0, 2**32 - 1)


def aspect_ratios(smallest: Any = Fraction(1, 8), largest: Any = 8) -> st.SearchStrategy[Fraction]:
    """Ratios p/n as fractions of small denominator, so that sizes can meet them exactly."""
    low, high = Fraction(smallest), Fraction(largest)
    if not 0 < low <= high:
        raise InputError(f"got ratios from {smallest} to {largest}; expected 0 < smallest")
    return _rationals(low, high, 8)


def ridge_penalties(smallest: Any = Fraction(1, 100), largest: Any = 10) -> st.SearchStrategy[Any]:
    """Penalties gamma > 0, even in their logarithm, as fractions of three digits or so."""
    low, high = float(smallest), float(largest)
    if not 0 < low <= high:
        raise InputError(f"got penalties from {smallest} to {largest}; expected 0 < smallest")
    exponents = st.floats(np.log(low), np.log(high))
    return exponents.map(
        lambda x: min(max(Fraction(f"{np.exp(x):.3g}"), Fraction(smallest)), Fraction(largest))
    )


@st.composite
def nonlinearities(draw: st.DrawFn, *, smooth: bool = False) -> Nonlinearity:
    """Admissible nonlinearities: known ones, and polynomials of degree 1 to 3.

    ``smooth``: infinitely differentiable ones only.
    """
    known = [f for f in FORMULAS if not smooth or not any(k in f for k in ("sign", "M", "Abs"))]
    if draw(st.integers(0, 3)):
        return Nonlinearity(draw(st.sampled_from(known)))
    degree = draw(st.integers(1, 3))
    coefficients = [draw(st.integers(-3, 3)) for _ in range(degree)]
    coefficients.append(draw(st.sampled_from([-2, -1, 1, 2])))
    t = sp.Symbol("t", real=True)
    return Nonlinearity(sum((c * t**k / 2 for k, c in enumerate(coefficients)), sp.Integer(0)))


def coordinates(length: int, *, largest: int = 2) -> st.SearchStrategy[list[Fraction]]:
    """Coordinates of a vector in an orthonormal basis."""
    return st.lists(
        _rationals(Fraction(-largest), Fraction(largest), 4), min_size=length, max_size=length
    )


@st.composite
def attention_parameters(draw: st.DrawFn, *, signal: bool = True) -> dict[str, Any]:
    """Keyword arguments of ``attention_error``: ratio, gamma, mu, w_k, w_q (without f).

    ``signal=False`` leaves the three vectors zero.
    """
    length = draw(st.integers(1, 3))
    zero = [Fraction(0)] * length
    vectors = {
        name: draw(coordinates(length)) if signal else list(zero) for name in ("mu", "w_k", "w_q")
    }
    return {"ratio": draw(aspect_ratios()), "gamma": draw(ridge_penalties()), **vectors}


@st.composite
def rational_expressions(draw: st.DrawFn, *, depth: int = 2) -> Matrix:
    """1 x 1 rational expressions of order one in Gaussian and GOE matrices of sizes n and p.

    Traces of positive definite resolvents, up to ``depth`` of them nested; no free scalars. The
    sizes are the symbols of ``dimensions("n p")``; every expression has both.
    """
    n, p = dimensions("n p")
    size, other = (n, p) if draw(st.booleans()) else (p, n)
    names = st.sampled_from("ABC")

    def gaussian(rows: Any, columns: Any) -> Any:
        name = draw(names)
        if rows == columns:
            return Gaussian(f"{name}_{rows}", rows, columns) / sp.sqrt(n)
        straight = Gaussian(name, p, n)
        return (straight if rows == p else straight.T) / sp.sqrt(n)

    def factor(rows: Any, level: int) -> Any:
        """A matrix with ``rows`` columns whose Gram matrix stands in the resolvent."""
        kind = draw(st.integers(0, 3 if level > 0 else 2))
        if kind == 0:
            return gaussian(other if rows == size else size, rows)
        if kind == 1:
            return gaussian(rows, rows) + Wigner(f"S_{rows}", rows) / sp.sqrt(n)
        if kind == 2:
            middle = other if rows == size else size
            return gaussian(rows, middle) * gaussian(middle, rows)
        return resolvent(rows, level - 1) * gaussian(rows, rows)

    def resolvent(rows: Any, level: int) -> Any:
        inside = factor(rows, level)
        shift = draw(st.integers(1, 4))
        return (inside.T * inside + sp.Rational(shift, 2) * Identity(rows)).inverse()

    whole = resolvent(size, depth - 1)
    if other not in free_symbols(whole):
        tall = Gaussian("D", other, size) / sp.sqrt(n)
        whole = whole * (tall.T * tall + Identity(size)).inverse()
    return cast(Matrix, Trace(whole) / size)


# -- assertions


def _verdict(subject: Any, theory: Any, options: dict[str, Any]) -> list[Verdict]:
    if isinstance(subject, Matrix):
        if theory is None:
            theory = _limit(subject, options)
        return [verify(subject, theory, **options)]
    if isinstance(subject, Model):
        if not subject.examples:
            raise InputError(f"got the model {subject.name}, which has no example; pass a case")
        return [_example(subject, example, theory, options) for example in subject.examples]
    if hasattr(subject, "verify"):
        return [subject.verify(**options, **({} if theory is None else {"theory": theory}))]
    raise InputError(
        f"got {type(subject).__name__}; pass an expression, a model, or a model at a point"
    )


def _limit(expression: Matrix, options: Mapping[str, Any]) -> float:
    from rmtsym.dyson import derive
    from rmtsym.solver import solve

    if options.get("ratios") is None:
        raise InputError("got no theory and no ratios; pass ratios={n: 1, p: c}")
    ratios = {k: sp.Rational(str(v)) for k, v in options["ratios"].items()}
    system = derive(expression, ratios)
    exact = {
        vector: [sp.nsimplify(x, rational=True) for x in row]
        for vector, row in (options.get("vectors") or {}).items()
        if isinstance(vector, Vector)
    }
    known = {**(options.get("values") or {}), **gram(exact)}
    values = {s: v for s, v in known.items() if s in system.parameters}
    functions = options.get("nonlinearities") or {}
    return float(solve(system, values, nonlinearities=functions).value)


def _example(model: Model, example: Any, theory: Any, options: Mapping[str, Any]) -> Verdict:
    from rmtsym.parsing import exact_number
    from rmtsym.simulation import _symbols
    from rmtsym.solver import solve

    values = {s: exact_number(v) for s, v in example.values}
    vectors = {v: [exact_number(x) for x in row] for v, row in example.vectors}
    functions = {s: Nonlinearity(f).centred() for s, f in example.nonlinearities}
    if theory is None:
        known = {**values, **gram(vectors)}
        known = {s: v for s, v in known.items() if s in model.system.parameters}
        theory = float(solve(model.system, known, nonlinearities=functions).value)
    used = _symbols(model.expression)
    arguments: dict[str, Any] = {
        "ratios": {s: str(sp.sympify(share).subs(values)) for s, share in model.sizes},
        "values": {s: float(v) for s, v in values.items() if s in used},
        "vectors": {v: [float(x) for x in row] for v, row in vectors.items()},
        "nonlinearities": functions,
    }
    return verify(model.expression, theory, **(arguments | dict(options)))


def assert_agrees(
    subject: Any, theory: float | None = None, *, detect: float = 0.03, **options: Any
) -> None:
    """Assert that a theory agrees with direct simulation on a ladder of sizes.

    subject : a 1 x 1 expression, a model of ``rmtsym.models.MODELS`` (at each of its examples), or
        a model at a point (a ``Case``)
    theory : the claimed limit; None: the limit that rmtsym derives
    detect : relative error in ``theory`` that must be found with 95 % probability; smaller takes
        longer, as its square. Raises AssertionError too where the check ends short of it.
    options : of :func:`rmtsym.agreement.verify`: ratios, values, vectors, nonlinearities, seed, ...

    >>> from rmtsym.matrices import *
    >>> n, p = dimensions("n p")
    >>> Z = Gaussian("Z", p, n)
    >>> m = Trace((Z.T * Z / n + Identity(n)).inverse()) / n
    >>> assert_agrees(m, (17**0.5 - 1) / 4, ratios={n: 1, p: "1/2"})
    """
    for verdict in _verdict(subject, theory, {"detect": detect, **options}):
        assert verdict.agrees, str(verdict)
        assert verdict.power <= max(detect, 0.25), f"too few samples to tell:\n{verdict}"


def assert_rejects(subject: Any, theory: float, *, detect: float = 0.03, **options: Any) -> None:
    """Assert that the simulation contradicts ``theory``: a check that cannot fail is no check."""
    for verdict in _verdict(subject, theory, {"detect": detect, **options}):
        assert not verdict.agrees, f"a wrong theory was not rejected:\n{verdict}"


def assert_invariant(
    function: Callable[..., Any], *arguments: Any, relative: float = 1e-8, absolute: float = 1e-12
) -> None:
    """Assert that ``function`` has one value at all ``arguments``.

    Each argument is a value, or a mapping of keyword arguments.

    >>> assert_invariant(abs, 3, -3)
    """
    if len(arguments) < 2:
        raise InputError(f"got {len(arguments)} argument(s); an invariance compares 2 at least")

    def at(argument: Any) -> Any:
        result = function(**argument) if isinstance(argument, Mapping) else function(argument)
        return np.asarray(result, float)

    first = at(arguments[0])
    for argument in arguments[1:]:
        other = at(argument)
        same = other.shape == first.shape
        assert same and np.allclose(other, first, rtol=relative, atol=absolute), (
            f"{other} at {argument}, but {first} at {arguments[0]}"
        )
