from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
from sympy import Rational, Symbol

from rmtsym.errors import InputError, NonlinearityError
from rmtsym.parsing import exact_number, parse

t = Symbol("t", real=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Max(t, 0.1*t)", sympy.Max(t, t / 10)),
        ("-t^2", -(t**2)),
        ("2**-t", 2 ** (-t)),
        ("2^3^2", sympy.Integer(512)),
        ("-t**2*3", -3 * t**2),
        ("1e-3*t + .5", t / 1000 + Rational(1, 2)),
        ("t/2/3", t / 6),
        ("abs(t) + ln(2)", sympy.Abs(t) + sympy.log(2)),
        ("Heaviside(t, nan)", sympy.Heaviside(t)),
        ("Piecewise((1, -1 < t < 1), (0, True))",
         sympy.Piecewise((1, (t > -1) & (t < 1)), (0, True))),
        ("Piecewise((1, (t > -1) & ~(t > 1)), (0, True))",
         sympy.Piecewise((1, (t > -1) & (t <= 1)), (0, True))),
    ],
)  # fmt: skip
def test_formulas_mean_what_they_say(text: str, expected: sympy.Expr) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("name", ["gamma", "beta", "lambda", "S", "N", "E", "I", "Q", "zeta"])
def test_names_are_symbols(name: str) -> None:
    assert parse(f"{name}*t") == Symbol(name, real=True) * t


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "t**2 > 1", "True", '__import__("os").system("true")', "t.diff()", "relu(t)",
        "lambda x: x", "(lambda: 1)()", "2**10**10", "9**999**9", "(((", "t t", "1..2", "exp",
        "f(t)", "t=1", "Piecewise(t, 1)", "1/0", "(1, 2)", "t[0]", "Max(t > 1, 2)", "t if t else 1",
        "(" * 200 + "t" + ")" * 200, "t" + "+t" * 5000, "1e99999*t", "t^(1e9)", "print(t)", "t;t",
        "sin(t, t)", "floor(exp(exp(exp(9))))*t", "-(t > 1)", "t & t",
    ],
)  # fmt: skip
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(NonlinearityError):
        parse(text)


def test_nothing_is_executed(tmp_path: object) -> None:
    with pytest.raises(NonlinearityError):
        parse(f"open('{tmp_path}/x', 'w')")
    assert not list(__import__("pathlib").Path(str(tmp_path)).iterdir())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1), (0.1, Rational(1, 10)), (np.float32(0.1), Rational(1, 10)), (np.int64(3), 3),
        (Fraction(2, 3), Rational(2, 3)), ("2/3", Rational(2, 3)), ("-1e-4", Rational(-1, 10**4)),
        (Decimal("0.25"), Rational(1, 4)), (mpmath.mpf("0.5"), Rational(1, 2)),
        (sympy.Float(0.1), Rational(1, 10)), (sympy.sqrt(2), sympy.sqrt(2)),
        (np.array(0.3), Rational(3, 10)), (1e-300, Rational(1, 10**300)),
    ],
)  # fmt: skip
def test_numbers_are_read_exactly(value: object, expected: object) -> None:
    assert exact_number(value) == expected


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 1j, "a", "nan", "1/0", "", None, True, sympy.I, sympy.oo,
     mpmath.inf, np.array([1, 2]), Symbol("x"), np.complex128(1), "1/2/3", [1]],
)  # fmt: skip
def test_what_is_no_real_number_is_refused(value: object) -> None:
    with pytest.raises(InputError):
        exact_number(value)
