from __future__ import annotations

import json
from pathlib import Path

import flint
import pytest
from flint import arb
from sympy import Symbol

from rmtsym.balls import constant_ball, good_bits, precision
from rmtsym.enclosure import enclose
from rmtsym.nonlinearity import CATALOGUE, Nonlinearity
from rmtsym.parsing import exact_number, parse

t = Symbol("t", real=True)
REFERENCE = json.loads((Path(__file__).parent / "data" / "hermite_reference.json").read_text())
HARD = [
    "Piecewise((1, Abs(t) < 1/2), (0, True))", "Piecewise((1, (t>1)&(t<2)), (0, True))",
    "Piecewise((exp(-1/(1-t^2)), Abs(t) < 1), (0, True))", "sign(sin(t))", "sign(sin(3*t))",
    "Heaviside(t - 6)", "log(abs(t))", "abs(t)^(-1/4)", "Mod(t, 1)", "log(abs(t^2 - 2))",
    "sin(t)/t", "tanh(t)/t",
    "abs(sin(t))", "sqrt(abs(t))", "exp(-abs(t))", "1/(1 + t^2)", "Abs(tanh(t) - t/2)", "frac(2*t)",
    "sign(t^5 - t - 1)", "exp(-1/t^2)", "Max(sin(3*t), cos(2*t))", "t*exp(-t^2)", "abs(t)^1.5",
    "exp(-1000*(t - 2.7)^2)", "log(1 + exp(5*t))", "atan(exp(t))", "cos(100*t)", "asinh(t)",
]  # fmt: skip


@pytest.mark.parametrize(
    "case", [c for c in REFERENCE if c["id"].startswith("H-")], ids=lambda c: c["id"]
)
def test_balls_contain_the_reference_values(case: dict[str, str]) -> None:
    k = None if case["quantity"] == "nu" else int(case["quantity"][2:])
    ball = enclose(parse(case["f"]), t, k, 30)
    with precision(160):
        expected = constant_ball(exact_number(case["value"]))
        assert ball.overlaps(expected + arb(0, 1) * (abs(expected) * arb(10) ** -39))
    assert good_bits(ball) >= 30 * 3.32 or ball.is_zero()


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_the_whole_catalogue_is_covered(name: str) -> None:
    f = CATALOGUE[name]
    for k in (0, 1, 2, 3, None):
        ball = f.nu(20, certified=True) if k is None else f.coefficient(k, 20, certified=True)
        value = f.nu(20) if k is None else f.coefficient(k, 20)
        assert ball.is_zero() or good_bits(ball) >= 66
        with precision(200):
            error = abs(ball - constant_ball(exact_number(value)))
            assert error.upper() <= abs(ball).upper() * arb(10) ** -20


@pytest.mark.parametrize("text", HARD)
def test_balls_contain_the_numeric_values(text: str) -> None:
    f = Nonlinearity(text)
    for k in (0, 1, 4, None):
        ball = f.nu(20, certified=True) if k is None else f.coefficient(k, 20, certified=True)
        value = f.nu(20) if k is None else f.coefficient(k, 20)
        with precision(9000):
            error = abs(ball - constant_ball(exact_number(value)))
            assert error.upper() <= abs(ball).upper() * arb(10) ** -20, (k, ball, value)


def test_precision_is_restored() -> None:
    before = flint.ctx.prec
    enclose(parse("log(1 + exp(t))"), t, 1, 60)
    assert flint.ctx.prec == before


def test_more_digits_lie_inside() -> None:
    wide = enclose(parse("tanh(t)"), t, 1, 20)
    narrow = enclose(parse("tanh(t)"), t, 1, 60)
    assert wide.overlaps(narrow)
    assert narrow.rad() < wide.rad()
