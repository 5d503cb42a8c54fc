"""Laws of the solver over its whole domain."""

import numpy as np
import pytest
import sympy as sp
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from rmtsym.balls import precision
from rmtsym.certification import certify
from rmtsym.models.attention import ATTENTION
from rmtsym.precision import refine
from rmtsym.solver import solve

NAMES = {str(s): s for s in ATTENTION.system.parameters}
SYSTEM = ATTENTION.system
relaxed = settings(deadline=None, max_examples=25)
few = settings(deadline=None, max_examples=8)

powers = {
    "c": st.floats(-3, 3) | st.just(0.0),
    "gamma": st.floats(-12, 6),
    "nu": st.floats(-1, 1),
    "mu": st.floats(-3, 3),
    "w": st.floats(-3, 3),
}
shares = st.sampled_from([0.0, 1.0]) | st.floats(-0.999, 0.999)
cosines = st.tuples(*[st.floats(-1, 1)] * 3)


def decimal(power):
    """10^power as a short exact number."""
    return sp.Rational(f"{10.0**power:.6e}")


@st.composite
def points(draw):
    """Exact parameters; a_1^2 <= nu, equality and a_1 = 0 included; vectors in three dimensions."""
    a = sp.Rational(f"{float(draw(shares)):.4f}") * sp.Rational(
        f"{10 ** (draw(powers['nu']) / 2):.4f}"
    )
    share = draw(st.sampled_from([0, 1, 2, 3]))
    nu = a**2 if share == 0 and a != 0 else a**2 + decimal(draw(powers["nu"]))
    rows = []
    for name in ("mu", "w", "w"):
        length = 0 if draw(st.integers(0, 6)) == 0 else decimal(draw(powers[name]))
        rows.append([length * sp.Rational(f"{x:.3f}") for x in draw(cosines)])
    found = {
        "c": decimal(draw(powers["c"])),
        "gamma": decimal(draw(powers["gamma"])),
        "a_1": a,
        "nu": nu,
    }
    labels = ("mu", "w_k", "w_q")
    for i, one in enumerate(labels):
        for j, other in enumerate(labels[i:], start=i):
            found[f"{one}.{other}"] = sum(x * y for x, y in zip(rows[i], rows[j], strict=True))
    return {NAMES[k]: sp.sympify(v) for k, v in found.items()}


def error(values, **changes):
    return solve(SYSTEM, {**values, **{NAMES[k]: v for k, v in changes.items()}}).value


@relaxed
@given(points())
def test_between_zero_and_one_and_increasing_in_gamma(values):
    one = error(values)
    assert 0 <= one <= 1 + 1e-12
    assert error(values, gamma=2 * values[NAMES["gamma"]]) >= one * (1 - 1e-9)


@relaxed
@given(points(), st.sampled_from([sp.Rational(1, 4), sp.Integer(4)]))
def test_scaling_f_is_scaling_gamma(values, factor):
    a, nu, gamma = (values[NAMES[k]] for k in ("a_1", "nu", "gamma"))
    other = error(values, a_1=a * factor, nu=nu * factor**2, gamma=gamma * factor**2)
    assert other == pytest.approx(error(values), rel=1e-9)


@relaxed
@given(points(), st.sampled_from([sp.Rational(1, 8), sp.Integer(8)]))
def test_sign_of_f_and_balance_of_the_weights_do_not_matter(values, s):
    one = error(values)
    assert error(values, a_1=-values[NAMES["a_1"]]) == pytest.approx(one, rel=1e-9)
    moved = {
        "mu.w_k": s * values[NAMES["mu.w_k"]],
        "mu.w_q": values[NAMES["mu.w_q"]] / s,
        "w_k.w_k": s**2 * values[NAMES["w_k.w_k"]],
        "w_q.w_q": values[NAMES["w_q.w_q"]] / s**2,
    }
    assert error(values, **moved) == pytest.approx(one, rel=1e-9)


@relaxed
@given(points())
def test_slope_zero_means_no_dependence_on_signal_and_weights(values):
    plain = {k: 0 for k in NAMES if "." in k}
    one, other = error(values, a_1=0), error(values, a_1=0, **plain)
    assert one == pytest.approx(other, rel=1e-9)


@few
@given(points())
def test_double_is_the_fifty_digit_value_and_lies_in_the_ball(values):
    found = solve(SYSTEM, values)
    more = refine(SYSTEM, values, digits=50).value
    assert found.value == pytest.approx(float(more), rel=1e-10)
    proven = certify(SYSTEM, values, digits=20)
    with precision(600):
        hundred = arb(str(refine(SYSTEM, values, digits=100).value))
        assert proven.enclosure.overlaps(hundred * (1 + arb(0, arb(10) ** -99)))


@few
@given(st.lists(points(), min_size=2, max_size=6))
def test_many_points_at_once(several):
    stacked = {s: np.array([float(v[s]) for v in several]) for s in several[0]}
    found = solve(SYSTEM, stacked, strict=False)
    assert np.all(found.converged)
    for k, values in enumerate(several):
        exact = {s: sp.Rational(*float(v).as_integer_ratio()) for s, v in values.items()}
        assert found.value[k] == pytest.approx(solve(SYSTEM, exact).value, rel=1e-9)
