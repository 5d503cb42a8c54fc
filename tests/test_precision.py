"""Digits on demand, proven digits, and no trace of the precision used."""

import flint
import mpmath
import pytest
import sympy as sp
from attention_reference import attention_error as reference
from flint import arb
from test_solver import NAMES, point

from rmtsym.balls import precision
from rmtsym.certification import certify
from rmtsym.errors import InputError
from rmtsym.models.attention import ATTENTION
from rmtsym.models.attention import f as function
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.precision import exact_values, refine
from rmtsym.solver import solve

HERE = (sp.Rational(2, 3), "1/5", "3/5", "2/5", [1.5, 0, 0], [1, 1, 0], [1, 0, -1])
SYSTEM = ATTENTION.system


def expected(digits):
    with precision(4 * digits + 200):
        return reference(
            arb(2) / 3, arb(1) / 5, arb(3) / 5, arb(2) / 5, *HERE[4:], digits=digits
        ).str(digits, radius=False)


@pytest.mark.parametrize("digits", [15, 30, 60])
def test_ladder_of_precisions(digits):
    found = refine(SYSTEM, point(*HERE), digits=digits)
    assert abs(
        sp.Float(str(found.value), digits + 5) / sp.Float(expected(digits), digits + 5) - 1
    ) < sp.Float(10) ** (1 - digits)
    assert found.digits == digits and found.residual < 10.0 ** (-digits)
    assert len(str(found.value).lstrip("0.")) == digits


def test_refined_digits_lie_in_the_proven_ball():
    found = certify(SYSTEM, point(*HERE), digits=110)
    with precision(600):
        value = arb(str(refine(SYSTEM, point(*HERE), digits=100).value))
        assert abs(value - found.enclosure) < arb(10) ** -99


def test_thousand_digits_agree_with_more():
    one = str(refine(SYSTEM, point(*HERE), digits=1000).value)
    other = str(refine(SYSTEM, point(*HERE), digits=1050).value)
    assert other.startswith(one[:-1])


def test_coefficients_keep_their_digits():
    values = {k: v for k, v in point(*HERE).items() if k not in (NAMES["a_1"], NAMES["nu"])}
    found = refine(SYSTEM, values, nonlinearities={function: Nonlinearity("tanh")}, digits=40)
    with precision(400):
        a = Nonlinearity("tanh").coefficient(1, digits=70)
        nu = Nonlinearity("tanh").nu(digits=70)
        read = [arb(mpmath.nstr(x, 70)) for x in (a, nu)]
        truth = reference(arb(2) / 3, arb(1) / 5, *(x.mid() for x in read), *HERE[4:], digits=50)
        assert abs(arb(str(found.value)) / truth - 1) < arb(10) ** -39


def test_floats_are_read_as_decimals_and_reported():
    found = refine(SYSTEM, {**point(*HERE), NAMES["gamma"]: 0.2}, digits=30)
    assert found.value == refine(SYSTEM, point(*HERE), digits=30).value
    assert found.notes == ("gamma = 0.2 was read as 1/5",)
    assert exact_values({"c": 2.0})[1] == ()


def test_precision_of_the_caller_is_left_alone():
    before = mpmath.mp.dps, flint.ctx.prec
    refine(SYSTEM, point(*HERE), digits=60)
    certify(SYSTEM, point(*HERE), digits=20)
    with pytest.raises(InputError):
        refine(SYSTEM, {**point(*HERE), NAMES["gamma"]: float("nan")}, digits=60)
    assert (mpmath.mp.dps, flint.ctx.prec) == before


@pytest.mark.parametrize("digits", [0, -3, 2.5, True])
def test_digits_are_a_whole_number(digits):
    for door in (refine, certify):
        with pytest.raises(InputError, match="whole number"):
            door(SYSTEM, point(*HERE), digits=digits)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"c": 1, "gamma": "1e-12"},
        {"a_1": 0},
        {"a_1": "1/2", "nu": "1/4"},
        {"gamma": 1000},
        {"c": "1/1000"},
    ],
)
def test_the_ball_contains_the_hundred_digits(change):
    values = {**point(*HERE), **{NAMES[k]: sp.Rational(v) for k, v in change.items()}}
    found = certify(SYSTEM, values, digits=50)
    more = refine(SYSTEM, values, digits=100)
    with precision(600):
        value = arb(str(more.value))
        assert found.enclosure.contains(value)
        assert found.enclosure.rad() < abs(value) * arb(10) ** -50
    assert float(found.value) == pytest.approx(solve(SYSTEM, values).value, rel=1e-10)


def test_certified_from_a_nonlinearity():
    values = {k: v for k, v in point(*HERE).items() if k not in (NAMES["a_1"], NAMES["nu"])}
    given = {function: Nonlinearity("relu").centred()}
    found = certify(SYSTEM, values, nonlinearities=given, digits=25)
    with precision(400):
        assert found.enclosure.contains(
            arb(str(refine(SYSTEM, values, nonlinearities=given, digits=80).value))
        )
