"""The main job: the interpolation error of attention, from its expression."""

import subprocess
import sys

import mpmath
import numpy as np
import pytest
import sympy as sp

from rmtsym import InputError, NonlinearityError, attention_error, refine, regression_error, solve
from rmtsym.dyson import derive
from rmtsym.errors import ConvergenceError, FailedPointsWarning
from rmtsym.matrices import Identity, Trace
from rmtsym.models import attention, regression
from rmtsym.models.base import gram

ALIGNED = {"mu": [1.5, 0, 0], "w_k": [1, 1, 0], "w_q": [1, 0, -1]}


@pytest.mark.parametrize(
    ("f", "parameters", "printed"),
    [
        ("tanh(t)", {"ratio": "2/3", "gamma": "0.2", **ALIGNED}, "0.21443"),
        ("sign(t)", {"ratio": 2, "gamma": 0.5, "mu": [1.5], "w_k": [1], "w_q": [1]}, "0.1475"),
        ("cos(t) - exp(-1/2)", {"ratio": "1/3", "gamma": 0.1, **ALIGNED}, "0.6927"),
        ("Min(exp(t), 5)", {"ratio": 0.25, "gamma": 1, "mu": [2], "w_k": [3], "w_q": [3]}, "0.155"),
    ],
)
def test_published_figures(f, parameters, printed):
    places = len(printed) - 2
    assert f"{attention_error(f, **parameters):.{places}f}" == printed


def test_regression_figure():
    assert f"{regression_error(ratio='1/3', gamma='0.1', snr=2.25):.5f}" == "0.20805"
    assert f"{regression_error(ratio='1/4', gamma=1, snr=4):.3f}" == "0.187"


@pytest.mark.parametrize("c", ["1/10", "1/2", "1", "2", "10"])
@pytest.mark.parametrize("gamma", ["1/1000", "1/10", "1", "100"])
def test_regression_closed_form_is_the_engine(c, gamma):
    values = {
        regression.c: sp.Rational(c),
        regression.gamma: sp.Rational(gamma),
        **gram({regression.mu: (sp.Rational(3, 2),)}),
    }
    derived = solve(regression.REGRESSION.system, values).value
    closed = regression_error(ratio=c, gamma=gamma, snr="9/4")
    assert derived == pytest.approx(closed, rel=1e-10)


def noise_trace():
    """The normalised trace of the resolvent, no signal."""
    Z, n, p = attention.Z, attention.n, attention.p
    kernel = attention.OffDiagonal(attention.Entrywise(attention.f, Z.T * Z / sp.sqrt(p)))
    gram_matrix = kernel.T * Z.T * Z * kernel / (n * p)
    resolvent = (gram_matrix + attention.gamma * Identity(n)).inverse()
    return derive(Trace(resolvent) / n, {n: 1, p: attention.c})


def test_trace_is_twenty_without_linear_part():
    system = noise_trace()
    a1, nu = sp.Symbol("a_1", real=True), sp.Symbol("nu", nonnegative=True)
    values = {attention.c: 1, attention.gamma: sp.Rational(1, 100), a1: 0, nu: 1}
    assert solve(system, values).value == pytest.approx(20, rel=1e-13)
    assert len(system.unknowns) <= 12


@pytest.mark.parametrize("c", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("nu", [0.4, 2.0])
def test_no_linear_part_closed_form(c, nu):
    """``gamma m = z m0(z)`` with ``z = c / (nu m)``."""
    system = noise_trace()
    a1, symbol = sp.Symbol("a_1", real=True), sp.Symbol("nu", nonnegative=True)
    gamma = 0.07
    m = solve(system, {attention.c: c, attention.gamma: gamma, a1: 0, symbol: nu}).value
    z = c / (nu * m)
    b = z - 1 + c
    m0 = 2 / (b + np.sqrt(b * b + 4 * z)) if b > 0 else (np.sqrt(b * b + 4 * z) - b) / (2 * z)
    assert gamma * m == pytest.approx(z * m0, rel=1e-12)


@pytest.mark.parametrize("c", [0.5, 2.0])
def test_linear_kernel_is_an_integral_over_marchenko_pastur(c):
    """f = t, no signal: ``E = int gamma^2 / (gamma + c l (l - 1)^2)^2 dMP(l)``."""
    gamma = 0.3
    low, high = (1 - np.sqrt(1 / c)) ** 2, (1 + np.sqrt(1 / c)) ** 2

    # Z^T Z / p on the n side: with ratio n/p = 1/c, its continuous part has density
    # c sqrt((high - l)(l - low)) / (2 pi l).
    def integrand(theta):
        l = (high + low) / 2 + (high - low) / 2 * mpmath.cos(theta)
        root = (high - low) / 2 * mpmath.sin(theta)
        density = c * root / (2 * mpmath.pi * l)
        return density * root * gamma**2 / (gamma + c * l * (l - 1) ** 2) ** 2

    expected = float(mpmath.quad(integrand, [0, mpmath.pi])) + max(0.0, 1 - c)
    assert attention_error("t", ratio=c, gamma=gamma) == pytest.approx(expected, rel=1e-10)


def test_large_penalty_series():
    """``E = 1 - 2 tau / gamma + O(1 / gamma^2)``, ``tau = a_1^2 (1 + 1/c) + b^2``."""
    c, a1, nu = 0.7, 0.6057055096021589, 0.3942944903978412
    tau = a1**2 * (1 + 1 / c) + nu - a1**2
    gamma = 1e7
    error = attention_error("tanh(t)", ratio=c, gamma=gamma)
    assert (1 - error) * gamma / 2 == pytest.approx(tau, rel=1e-5)


def test_digits_agree_with_double_precision():
    exact = attention_error("erf(t)", ratio="2/3", gamma="1/5", **ALIGNED, digits=30)
    again = attention_error("erf(t)", ratio="2/3", gamma="1/5", **ALIGNED, digits=45)
    assert mpmath.almosteq(exact, again, rel_eps=mpmath.mpf(10) ** -14)
    assert str(again).startswith(str(exact)[:-1])
    double = attention_error("erf(t)", ratio="2/3", gamma="1/5", **ALIGNED)
    assert double == pytest.approx(float(exact), rel=1e-13)


def test_thirty_digits_of_the_first_case():
    """Against quadrature of a_1 and nu at 60 digits, entered as numbers."""
    mpmath.mp.dps, before = 60, mpmath.mp.dps
    try:
        panes = mpmath.linspace(-20, 20, 41)
        a1 = mpmath.quad(lambda t: t * mpmath.tanh(t) * mpmath.npdf(t), panes)
        nu = mpmath.quad(lambda t: mpmath.tanh(t) ** 2 * mpmath.npdf(t), panes)
        numbers = {
            "slope": sp.Rational(mpmath.nstr(a1, 50)),
            "product": sp.Rational(mpmath.nstr(nu, 50)),
        }
    finally:
        mpmath.mp.dps = before
    system = attention.ATTENTION.system
    rows = {"mu": ("3/2", 0, 0), "w_k": (1, 1, 0), "w_q": (1, 0, -1)}
    values = {
        attention.c: sp.Rational(2, 3),
        attention.gamma: sp.Rational(1, 5),
        **gram({getattr(attention, k): tuple(map(sp.Rational, v)) for k, v in rows.items()}),
        **{h.symbol: numbers[h.moment] for h in system.hermite_symbols},
    }
    found = attention_error("tanh(t)", ratio="2/3", gamma="1/5", **rows, digits=30)
    assert str(found) == str(refine(system, values, digits=30).value)
    assert str(found) == "0.214433180301815761580800439147"


def test_a_float_is_read_as_its_shortest_decimal_and_the_result_says_so():
    one = attention_error("tanh(t)", ratio=0.1, gamma=0.2, digits=25)
    other = attention_error("tanh(t)", ratio="1/10", gamma="1/5", digits=25)
    assert str(one) == str(other)
    assert any("0.1" in note for note in one.notes)
    assert other.notes == ()


def test_no_coordinates_are_a_zero_vector():
    point = {"ratio": 1, "gamma": 1, "mu": [1.5, 0], "w_q": [1, 2]}
    plain = attention_error("tanh(t)", **point)
    assert attention_error("tanh(t)", **point, w_k=[]) == plain
    assert attention_error("tanh(t)", **point, w_k=[0, 0], label_mean=0) == plain


def test_broadcast():
    ratio = np.array([[0.5], [2.0]])
    gamma = np.array([0.1, 1.0, 10.0])
    errors = attention_error("relu", ratio=ratio, gamma=gamma, **ALIGNED)
    assert errors.shape == (2, 3)
    for i in range(2):
        for j in range(3):
            single = attention_error(
                "relu", ratio=float(ratio[i, 0]), gamma=float(gamma[j]), **ALIGNED
            )
            assert errors[i, j] == pytest.approx(single, rel=1e-11)
    assert regression_error(ratio=ratio, gamma=gamma, snr=1).shape == (2, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"gamma": 0},
        {"gamma": -1},
        {"gamma": float("nan")},
        {"gamma": float("inf")},
        {"gamma": "x"},
        {"gamma": [1.0, -1.0]},
        {"ratio": 0},
        {"ratio": -2},
        {"ratio": None},
        {"mu": [1, 2]},
        {"mu": ["a", 0, 0]},
        {"mu": 1.5},
        {"mu": [float("inf"), 0, 0]},
    ],
)
def test_bad_parameters(wrong):
    with pytest.raises(InputError):
        attention_error("tanh(t)", **{"ratio": 1, "gamma": 1, **ALIGNED, **wrong})


@pytest.mark.parametrize("f", ["", "s*t", "sqrt(t)", "exp(t**2/2)", "1/t", "t.x", "lambda: t"])
def test_bad_nonlinearities(f):
    with pytest.raises(NonlinearityError):
        attention_error(f, ratio=1, gamma=1)


def test_a_fresh_process_derives():
    code = "from rmtsym.models.attention import attention_system as s; print(len(s().unknowns))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "12"


def test_certified_ball_holds_the_value():
    ball = attention_error(
        "tanh(t)", ratio="2/3", gamma="1/5", **ALIGNED, digits=25, certified=True
    )
    value = attention_error("tanh(t)", ratio="2/3", gamma="1/5", **ALIGNED, digits=40)
    from flint import arb

    from rmtsym.balls import precision

    with precision(200):
        assert ball.overlaps(arb(mpmath.nstr(value, 40)) + arb(0, "1e-38"))
        assert ball.rad() < 1e-25


def test_arrays_that_do_not_broadcast_are_named():
    with pytest.raises(InputError, match="broadcast"):
        attention_error("tanh(t)", ratio=[0.5, 1.0], gamma=[1.0, 2.0, 3.0])


def test_regression_at_extreme_penalties():
    assert regression_error(ratio=1e-3, gamma=1e-300, snr=1) == pytest.approx(0.4995, rel=1e-12)
    assert regression_error(ratio=1e3, gamma=1e300, snr=1) == pytest.approx(1, rel=1e-12)
    double = regression_error(ratio=1, gamma=1e-12, snr=1)
    exact = regression_error(ratio=1, gamma="1e-12", snr=1, digits=20)
    assert double == pytest.approx(float(exact), rel=1e-14)


def test_one_bad_point_leaves_the_others():
    with pytest.warns(FailedPointsWarning, match="1 of 3 points"):
        found = attention_error("tanh(t)", ratio=1, gamma=[1.0, 1e-300, 0.1])
    assert np.isnan(found[1])
    assert found[0] == pytest.approx(attention_error("tanh(t)", ratio=1, gamma=1), rel=1e-9)
    with pytest.raises(ConvergenceError, match="2 of 2 points"):
        attention_error("tanh(t)", ratio=1, gamma=[1e-300, 1e-301])
    with pytest.raises(ConvergenceError, match="no solution"):
        attention_error("tanh(t)", ratio=1, gamma="1e-300")


@pytest.mark.parametrize("gamma", [[], [True, True]])
def test_no_numbers_are_refused(gamma):
    with pytest.raises(InputError, match="numbers > 0"):
        attention_error("tanh(t)", ratio=1, gamma=gamma)


@pytest.mark.parametrize(
    "f, given, expected",
    [
        (
            "1+t",
            {
                "gamma": "1e-10",
                "mu": ["-2", "1", "-2", "1e3", "1e3"],
                "w_k": ["-2", "1e-4", "1", "0", "1/3"],
                "w_q": ["-2", "1", "100", "-2", "1e3"],
                "label_mean": "0",
                "kurtosis": "10",
                "alpha": "1e-3",
            },
            2.51785861621354545e-07,
        ),
        (
            "gelu",
            {
                "gamma": "1",
                "mu": ["1e3", "100"],
                "w_k": ["1e-4", "0"],
                "w_q": ["1/3", "1e-4"],
                "label_mean": "-9/10",
                "kurtosis": "9/5",
                "alpha": "-1",
            },
            7.67604448354158999e-07,
        ),
    ],
)
def test_coefficients_reach_extended_precision_unrounded(f, given, expected):
    found = attention_error(f, ratio="1/2", uncentred=True, **given)
    assert float(found) == pytest.approx(expected, rel=1e-11)
