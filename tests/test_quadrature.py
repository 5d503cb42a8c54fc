from __future__ import annotations

import json
import time
from pathlib import Path

import flint
import mpmath
import pytest
from sympy import Symbol

from rmtsym import quadrature
from rmtsym.errors import NonlinearityError
from rmtsym.panes import split
from rmtsym.parsing import parse

t = Symbol("t", real=True)
REFERENCE = json.loads((Path(__file__).parent / "data" / "hermite_reference.json").read_text())


def compute(f: str, quantity: str, digits: int) -> mpmath.mpf:
    if quantity == "nu":
        return quadrature.energy(parse(f), t, digits)
    return quadrature.moment(parse(f), t, int(quantity[2:]), digits, lambda: parse("0"))


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


@pytest.mark.parametrize("f", ["exp(-1e6*(t - 2.7)^2)", "exp(-1e6*(t^2 - 2)^2)"])
def test_narrow_places_are_not_stepped_over(f: str) -> None:
    coarse, fine = compute(f, "nu", 12), compute(f, "nu", 40)
    assert coarse > 1e-6
    assert abs(coarse / fine - 1) < 1e-12


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


def test_sixteen_coefficients_cost_hardly_more_than_one() -> None:
    def seconds(orders: range) -> float:
        quadrature._table.cache_clear()
        start = time.perf_counter()
        for k in orders:
            compute("log(1 + exp(t/3))", f"a_{k}", 30)
        return time.perf_counter() - start

    seconds(range(1))
    assert seconds(range(16)) < 3 * seconds(range(1)) + 0.02


def test_precision_is_restored() -> None:
    before, dps = flint.ctx.prec, mpmath.mp.dps
    compute("tanh(t)", "a_1", 40)
    with pytest.raises(NonlinearityError):
        compute("1/t", "a_1", 40)
    assert (flint.ctx.prec, mpmath.mp.dps) == (before, dps)
