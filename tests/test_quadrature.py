from __future__ import annotations

import json
from pathlib import Path

import flint
import mpmath
import pytest
from sympy import Symbol

from rmtsym import quadrature
from rmtsym.balls import compile_ball, precision, to_mpf
from rmtsym.enclosure import enclose
from rmtsym.errors import ConvergenceError, NonlinearityError, RmtsymError, UnsupportedError
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.panes import split
from rmtsym.parsing import parse
from rmtsym.quadrature import Chart, Piece, _Envelope, _legendre, gauss_nodes

t = Symbol("t", real=True)
REFERENCE = json.loads((Path(__file__).parent / "data" / "hermite_reference.json").read_text())


def compute(f: str, quantity: str, digits: int) -> mpmath.mpf:
    if quantity == "nu":
        return quadrature.energy(parse(f), t, digits)
    return quadrature.moment(parse(f), t, int(quantity[2:]), digits, lambda: parse("0"))


@pytest.mark.parametrize(
    ("f", "message"),
    [("exp(700*t)", "exceeds double precision"), ("exp(300*t)*tanh(t)", "grows too fast")],
)
def test_what_grows_too_fast_is_refused(f: str, message: str) -> None:
    with pytest.raises(RmtsymError, match=message):
        Nonlinearity(f).coefficient(1)


@pytest.mark.parametrize(
    "case", [c for c in REFERENCE if c["id"].startswith("H-")], ids=lambda c: c["id"]
)
def test_reference_values_to_38_digits(case: dict[str, str]) -> None:
    with mpmath.workdps(50):
        expected, value = mpmath.mpf(case["value"]), compute(case["f"], case["quantity"], 38)
        assert abs(value - expected) <= mpmath.mpf(10) ** -38 * abs(expected)


@pytest.mark.parametrize("digits", [15, 30, 60, 120])
@pytest.mark.parametrize("f", ["tanh(t)", "Min(exp(t), 5)", "log(abs(t))", "t/(1 + abs(t))"])
def test_precision_ladder(f: str, digits: int) -> None:
    with mpmath.workdps(digits + 60):
        for quantity in ("a_1", "a_2", "nu"):
            better, value = compute(f, quantity, digits + 25), compute(f, quantity, digits)
            assert abs(value - better) <= abs(better) * mpmath.mpf(10) ** -digits


def test_relative_accuracy_of_small_coefficients() -> None:
    with mpmath.workdps(40):
        value = compute("cos(10*t)", "a_0", 25)
        assert abs(value / mpmath.exp(-50) - 1) < mpmath.mpf(10) ** -25
        far = quadrature.moment(parse("Heaviside(t - 20)"), t, 0, 25)
        assert abs(far / mpmath.ncdf(-20) - 1) < mpmath.mpf(10) ** -25


@pytest.mark.parametrize(
    "f",
    ["exp(-1e6*(t - 2.7)^2)", "exp(-1e6*(t^2 - 2)^2)", "t + 1e3/cosh(1e7*(t^3 - 0.3))",
     "1/(1 + exp(-1e6*(t - 1/7)))", "exp(-1e20*(t - 1/7)^2)", "1/(1 + 1e12*(t - 1)^2)",
     "log(1 + exp(1e6*t))/1e6", "t*tanh(log(1 + exp(1000*t)))", "sin(50*t^2)"],
)  # fmt: skip
def test_narrow_places_are_not_stepped_over(f: str) -> None:
    """Against the proven balls, which know nothing of this module's nodes."""
    expression = parse(f)
    for k in (0, 1, 4, None):
        ball = to_mpf(enclose(expression, t, k, 25), 96)
        with mpmath.workdps(30):
            value = compute(f, "nu" if k is None else f"a_{k}", 20)
            assert abs(value - ball) <= mpmath.mpf("1e-20") * abs(ball)


def test_a_narrow_step_between_exact_kinks() -> None:
    f = "Piecewise((5, Abs(t - 1/3) < 1e-9), (t, True))"
    width, density = mpmath.mpf("2e-9"), mpmath.npdf(mpmath.mpf(1) / 3)
    expected = width * density * (5 - mpmath.mpf(1) / 3)
    assert abs(compute(f, "a_0", 20) / expected - 1) < 1e-8


@pytest.mark.parametrize("f", ["cos(100*t^3)", "sin(1e5*t^2)"])
def test_what_is_too_fast_is_refused(f: str) -> None:
    with pytest.raises((ConvergenceError, UnsupportedError), match=r"too fast|oscillates"):
        compute(f, "nu", 15)


def node_counts(f: str, low: float, high: float, goal: int) -> tuple[int | None, Piece]:
    envelope = _Envelope((0,))
    piece = Piece(compile_ball(parse(f), t), Chart(), flint.arb(low), flint.arb(high))
    return gauss_nodes(envelope, piece, goal, 400), piece


@pytest.mark.parametrize("goal", [20, 50, 90])
@pytest.mark.parametrize("f", ["tanh(t)", "1/(1 + t^2)", "exp(3*t)", "cos(7*t)", "atan(4*t)"])
def test_the_number_of_nodes_is_enough(f: str, goal: int) -> None:
    n, piece = node_counts(f, 0.3, 1.7, goal)
    assert n is not None
    with precision(goal + 60):

        def integrand(x: flint.acb, analytic: bool) -> flint.acb:
            return piece.f(x, analytic) * (-x * x / 2).exp() / (2 * flint.arb.pi()).sqrt()

        exact = flint.acb.integral(integrand, piece.low, piece.high).real
        middle, half = (piece.low + piece.high) / 2, (piece.high - piece.low) / 2
        rule = sum(
            half * weight * (integrand(flint.acb(middle + side * half * x), False)).real
            for x, weight in _legendre(256, n) for side in (1, -1)
        )  # fmt: skip
        assert abs(rule - exact) < flint.arb(2) ** -goal


def test_a_pole_across_the_piece_needs_halving() -> None:
    assert node_counts("1/(1 + 1e8*t^2)", -1.0, 1.0, 60)[0] is None


@pytest.mark.parametrize(
    ("f", "place"),
    [("1/t", "t = 0"), ("1/(t - 2)", "t = 2"), ("1/sqrt(abs(t))", "t = 0"), ("tan(t)", "pi/2"),
     ("exp(t^2/4)", "oo"), ("exp(t^2/2)", "oo"), ("exp(-t^3)", "-oo"), ("exp(1/t)", "t = 0"),
     ("exp(exp(t))", "-> oo")],
)  # fmt: skip
def test_infinite_nu_is_refused_with_its_place(f: str, place: str) -> None:
    with pytest.raises(NonlinearityError, match="nu") as info:
        compute(f, "a_0", 15)
    assert place in str(info.value)


@pytest.mark.parametrize(
    "f", ["log(abs(t))", "abs(t)^(-1/4)", "exp(t^2/8)", "exp(-1/t^2)", "1/(1+exp(-sinh(t)))"]
)
def test_finite_nu_is_accepted(f: str) -> None:
    assert compute(f, "nu", 15) > 0


@pytest.mark.parametrize(
    ("f", "what"),
    [("log(t)", "complex"), ("sqrt(t)", "complex"), ("asin(t)", "complex"), ("t**(1/3)", "complex"),
     ("Piecewise((1, t > 0))", "no value")],
)  # fmt: skip
def test_complex_and_undefined_branches_are_refused(f: str, what: str) -> None:
    with pytest.raises(NonlinearityError, match=what):
        compute(f, "a_0", 15)


def test_kinks_hide_in_arguments() -> None:
    assert len(split(parse("sign(t^2 - 1)"), t).panes) == 3
    assert len(split(parse("Abs(Max(t, 0) - 1)"), t).panes) == 3
    assert len(split(parse("Abs(tanh(t) - t/2)"), t).panes) == 4
    assert not split(parse("sign(sin(t))"), t).complete


def test_sixteen_coefficients_share_integrations() -> None:
    """Two where a small coefficient asks for more digits."""
    quadrature._attempt.cache_clear()
    for k in range(16):
        compute("log(1 + exp(t/3))", f"a_{k}", 30)
    assert quadrature._attempt.cache_info().misses <= 2


def test_precision_is_restored() -> None:
    before, dps = flint.ctx.prec, mpmath.mp.dps
    compute("tanh(t)", "a_1", 40)
    with pytest.raises(NonlinearityError):
        compute("1/t", "a_1", 40)
    assert (flint.ctx.prec, mpmath.mp.dps) == (before, dps)
