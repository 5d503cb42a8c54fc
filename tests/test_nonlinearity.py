from __future__ import annotations

import math
import pickle

import mpmath
import numpy as np
import pytest
import sympy
from sympy import Rational, Symbol

from rmtsym import nonlinearity
from rmtsym.errors import ConvergenceError, InputError, NonlinearityError, PrecisionError
from rmtsym.nonlinearity import CATALOGUE, GELU, RELU, SOFTPLUS, TANH, Nonlinearity, t


def test_every_kind_of_input_is_one_value() -> None:
    x = Symbol("x")
    forms = ["tanh", "tanh(t)", "tanh(x)", sympy.tanh(x), sympy.tanh(t), TANH, Nonlinearity(TANH)]
    assert {Nonlinearity(f) for f in forms} == {TANH}
    assert Nonlinearity("0.1*t").expression == t / 10
    assert Nonlinearity(0.1 * x).expression == t / 10
    for f in (GELU, GELU.centred(), SOFTPLUS.centred()):
        assert pickle.loads(pickle.dumps(f)) == f
    with pytest.raises(AttributeError):
        TANH.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    "bad",
    ["", "t > 1", "t.x", sympy.I * t, sympy.Function("g")(t), t > 1, None, [1], 1j,
     sympy.Symbol("a") * sympy.Symbol("b"), sympy.zoo, int, "exp(I)*unknown(t)"],
)  # fmt: skip
def test_what_is_no_nonlinearity_is_refused(bad: object) -> None:
    with pytest.raises(InputError):
        Nonlinearity(bad)


def test_a_free_symbol_needs_a_value() -> None:
    f = Nonlinearity("tanh(beta*t)")
    for call in (lambda: f.coefficient(1), lambda: f.nu(30), lambda: f(0.0),
                 lambda: f.coefficient(1, 20, certified=True)):  # fmt: skip
        with pytest.raises(NonlinearityError, match="beta"):
            call()
    assert f.subs({"beta": 1}) == TANH
    assert f.subs({Symbol("beta"): "1/2"}) == TANH.scaled(0.5)
    with pytest.raises(NonlinearityError, match="gamma"):
        f.subs({"gamma": 1})


@pytest.mark.parametrize("f", ["1/t", "exp(t^2/4)", "log(t)", "1/sqrt(abs(t))"])
def test_inadmissible_functions_are_refused_by_every_number(f: str) -> None:
    g = Nonlinearity(f)
    for call in (lambda: g.coefficient(0), lambda: g.coefficient(1), lambda: g.nu(),
                 lambda: g.nu(20), lambda: g.exact_coefficient(1),
                 lambda: g.nu(15, certified=True)):  # fmt: skip
        with pytest.raises(NonlinearityError):
            call()


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_centred_has_no_mean_and_the_rest_unchanged(name: str) -> None:
    f, g = CATALOGUE[name], CATALOGUE[name].centred()
    assert g.is_centred
    assert g.coefficient(0) == 0
    assert g.coefficient(1) == pytest.approx(f.coefficient(1), rel=1e-14, abs=1e-300)
    assert g.nu() == pytest.approx(f.nu() - f.coefficient(0) ** 2, rel=1e-12)
    assert g.centred() == g
    x = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(g(x), f(x) - f.coefficient(0), rtol=1e-13, atol=1e-14)


def test_centring_keeps_digits_and_exactness() -> None:
    assert sympy.expand(RELU.centred().exact_nu()) == Rational(1, 2) - 1 / (2 * sympy.pi)
    with mpmath.workdps(50):
        nu = SOFTPLUS.nu(45) - SOFTPLUS.coefficient(0, 45) ** 2
        assert abs(SOFTPLUS.centred().nu(40) / nu - 1) < mpmath.mpf(10) ** -40
    ball = SOFTPLUS.centred().nu(30, certified=True)
    assert abs(float(ball.mid()) - float(nu)) < 1e-15


def test_the_catalogue() -> None:
    for f in CATALOGUE.values():
        values = [f.coefficient(k, 20) for k in range(7)]
        exact = [f.exact_coefficient(k) for k in range(7)]
        f.nu(20), f.exact_nu()
        assert all(isinstance(v, mpmath.mpf) for v in values)
        assert not any(e is not None and e.has(sympy.Integral) for e in exact)


def test_bessel_and_parseval() -> None:
    for f in (RELU, TANH, GELU, CATALOGUE["sign"], CATALOGUE["floor"]):
        assert sum(a * a for a in f.coefficients(16)) <= f.nu() * (1 + 1e-14)
    assert CATALOGUE["exp"].share(24) == pytest.approx(1, abs=1e-14)
    assert CATALOGUE["cube"].order_for_share(1) == 4
    assert TANH.order_for_share(0.9) == 2
    with pytest.raises(ConvergenceError):
        nonlinearity.SIGN.order_for_share(0.9999)


def test_product_moment_is_the_sum_over_orders() -> None:
    value = GELU.product_moment("tanh")
    terms = zip(GELU.coefficients(60), TANH.coefficients(60), strict=True)
    assert value == pytest.approx(sum(a * b for a, b in terms), rel=1e-8)
    with mpmath.workdps(40):
        assert GELU.product_moment(GELU, 30) == GELU.nu(30)
    assert GELU.product_moment(np.tanh) == pytest.approx(value, rel=1e-13)


def test_prescribed_coefficients_come_back() -> None:
    f = Nonlinearity.from_coefficients([0, "1/2", 0.25, 1])
    assert [f.exact_coefficient(k) for k in range(5)] == [
        0, Rational(1, 2), Rational(1, 4), 1, 0,
    ]  # fmt: skip
    x = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(f.partial_sum(x, 4), f(x), rtol=1e-13, atol=1e-14)


def test_rows() -> None:
    rows = RELU.rows(3, digits=20)
    assert [row["k"] for row in rows] == [0, 1, 2, 3]
    assert rows[1]["exact"] == Rational(1, 2)
    assert TANH.rows(1)[1]["exact"] is None


def test_a_numpy_function_is_numeric_only() -> None:
    f = Nonlinearity(np.tanh)
    assert f.expression is None
    np.testing.assert_allclose(f.coefficients(4), TANH.coefficients(4), atol=1e-14)
    assert Nonlinearity(np.sign).nu() == pytest.approx(1, abs=1e-14)
    assert f.centred().coefficient(0) == pytest.approx(0, abs=1e-15)
    with pytest.raises(PrecisionError, match="NumPy"):
        f.coefficient(1, 20)
    with pytest.raises(PrecisionError):
        f.nu(certified=True)


# evaluation


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        ("softplus", 800.0, 800.0), ("softplus", -40.0, 4.248354255291588986e-18),
        ("gelu", -10.0, -7.619853024160526e-23), ("silu", -700.0, -6.901773580631839e-302),
        ("sigmoid", 800.0, 1.0), ("sigmoid", -800.0, 0.0), ("t*exp(t)/(1+exp(t))", 800.0, 800.0),
        ("sinh(t)/cosh(t)", 900.0, 1.0), ("exp(t) - 1", 1e-12, 1.0000000000005e-12),
        ("truncated_exp", 1e4, 5.0), ("elu", -1e4, -1.0), ("mish", -50.0, -9.64374923981959e-21),
        ("exp(t)/(exp(t) + exp(-t))", 800.0, 1.0), ("log(1 + t^2)", 1e-9, 1e-18),
    ],
)  # fmt: skip
def test_evaluation_is_careful(f: str, x: float, expected: float) -> None:
    value = Nonlinearity(f)(x)
    assert value == pytest.approx(expected, rel=1e-13, abs=0)
    assert isinstance(value, np.float64)


def test_evaluation_keeps_shape_and_type() -> None:
    x32 = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
    for f in [*CATALOGUE.values(), Nonlinearity("2"), Nonlinearity("Mod(t, 1)")]:
        assert f(x32).dtype == np.float32
        assert f(x32).shape == (3, 4)
        assert f(np.arange(3)).dtype == np.float64
        out = np.empty((3, 4))
        assert f(x32.astype(float), out=out) is out
        np.testing.assert_array_equal(out, f(x32.astype(float)))
    assert np.isnan(CATALOGUE["elu"](np.nan))
    with pytest.raises(InputError):
        TANH(np.array([1j]))


def test_in_place_and_large_arrays() -> None:
    x = np.random.default_rng(1).standard_normal((400, 400))
    for f in (TANH, GELU, RELU, SOFTPLUS):
        y = x.copy()
        f(y, out=y)
        np.testing.assert_allclose(y[:2], f(x[:2]), rtol=1e-14)
        np.testing.assert_allclose(f(x.T)[:2], f(x.T[:2]), rtol=1e-14)


def test_high_orders_keep_their_relative_accuracy() -> None:
    with mpmath.workdps(30):
        a = GELU.coefficient(1000, 15)
        b = nonlinearity.quadrature.moment(GELU.expression, t, 300, 15)
        assert abs(GELU.coefficient(300, 15) / b - 1) < 1e-15
        assert 0 < abs(a) < 1e-80
        exact = mpmath.exp(0.5) / mpmath.sqrt(mpmath.factorial(1000))
        assert abs(CATALOGUE["exp"].coefficient(1000, 15) / exact - 1) < 1e-15


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gleu", "did you mean gelu"),
        ("2*gleu", "unknown name gleu"),
        ("foo", "unknown name foo"),
        ("relu^2", r"write relu\(t\)"),
        ("heavyside(t)", "did you mean heaviside"),
        ("tanhh", "did you mean tanh"),
    ],
)
def test_a_name_misspelt_is_no_variable(text, said):
    with pytest.raises(NonlinearityError, match=said):
        Nonlinearity(text)


@pytest.mark.parametrize(
    ("text", "a0", "a1", "nu"),
    [("sin(3000*t)", 0, 0, 0.5), ("cos(200*t) + t", 0, 1, 1.5), ("cos(100000*t)", 0, 0, 0.5)],
)
def test_fast_oscillations_are_not_aliased(text, a0, a1, nu):
    f = Nonlinearity(text)
    assert f.coefficient(0) == pytest.approx(a0, abs=1e-300)
    assert f.coefficient(1) == pytest.approx(a1, abs=1e-300)
    assert f.nu() == pytest.approx(nu, rel=1e-15)


def test_catalogue_functions_inside_formulas():
    assert Nonlinearity("t*relu(2*t)").exact_nu() == 6
    assert Nonlinearity("gelu(t)") == CATALOGUE["gelu"]
    assert Nonlinearity(sympy.tanh) == CATALOGUE["tanh"]
    u = sympy.Symbol("u")
    assert Nonlinearity(sympy.Lambda(u, sympy.erf(u))) == CATALOGUE["erf"]


@pytest.mark.parametrize("f", [math.tanh, lambda x: "no", lambda x: np.asarray(x) + 1j])
def test_functions_that_take_no_arrays(f):
    with pytest.raises(NonlinearityError, match="NumPy array"):
        Nonlinearity(f).coefficient(1)


def test_numbers_beyond_doubles_are_said():
    f = Nonlinearity("exp(1e5)*t")
    with pytest.raises(NonlinearityError, match="exceeds double precision"):
        f.coefficient(1)
    with pytest.raises(NonlinearityError, match="below double precision"):
        Nonlinearity("1e-300*tanh(t)").nu()
    with mpmath.workdps(40):
        assert abs(f.nu(digits=30) / mpmath.exp(2 * mpmath.mpf(10) ** 5) - 1) < 1e-30


def test_the_pole_nearest_the_origin_is_named():
    with pytest.raises(NonlinearityError, match=r"at t = -?pi/2"):
        Nonlinearity("tan(t)").nu()


@pytest.mark.parametrize(("f", "slope"), [("floor(30*t)", 30), ("Mod(t, 1/30) - t", -1)])
def test_many_kinks(f, slope):
    assert Nonlinearity(f).coefficient(1) == pytest.approx(slope, rel=1e-14)


def test_a_step_far_out_has_its_energy():
    f = Nonlinearity("Heaviside(t - 30)")
    assert f.nu() == pytest.approx(f.coefficient(0), rel=1e-12)
    assert f.nu() > 0


# functions known by their values


def normal_above(a: float) -> float:
    return math.erfc(a / math.sqrt(2)) / 2


def normal(a: float) -> float:
    return math.exp(-a * a / 2) / math.sqrt(2 * math.pi)


def abs_moment(p: float) -> float:
    return 2 ** (p / 2) * math.gamma((p + 1) / 2) / math.sqrt(math.pi)


def bump_mean(middle: float, variance: float) -> float:
    return math.sqrt(variance / (1 + variance)) * math.exp(-(middle**2) / (2 + 2 * variance))


ROOT20 = math.sqrt(math.factorial(20))
VALUES = [  # f, order or None for nu, value, size of the integrand
    (lambda t: t**20, 0, math.prod(range(1, 20, 2)), 0),
    (lambda t: t**20, 20, ROOT20, 0),
    (lambda t: t**20, None, math.prod(range(1, 40, 2)), 0),
    (lambda t: np.exp(3 * t), 2, 9 * math.exp(4.5) / math.sqrt(2), 0),
    (lambda t: np.exp(3 * t), 20, 3**20 * math.exp(4.5) / ROOT20, 0),
    (lambda t: np.exp(-3 * t), None, math.exp(18), 0),
    (lambda t: np.exp(15 * t), None, math.exp(450), 0),
    (lambda t: np.exp(0.22 * t * t), None, (1 - 4 * 0.22) ** -0.5, 0),
    (lambda t: np.exp(0.24 * t * t), None, (1 - 4 * 0.24) ** -0.5, 0),
    (lambda t: np.exp(0.249 * t * t), 0, (1 - 2 * 0.249) ** -0.5, 0),
    (lambda t: 1e6 * t, 1, 1e6, 0),
    (lambda t: 1e6 * t, None, 1e12, 0),
    (lambda t: 1e150 * np.abs(t), None, 1e300, 0),
    (lambda t: 1e300 * np.sign(t), 1, 1e300 * math.sqrt(2 / math.pi), 0),
    (lambda t: 1e-200 * np.maximum(t, 0), 1, 0.5e-200, 0),
    (
        lambda t: 1e-8 * np.floor(t + 0.1), 1,
        1e-8 * sum(normal(n - 0.1) for n in range(-12, 13)), 0,
    ),
    (np.floor, 0, -0.5, 0),
    (np.sign, 5, 6 * normal(0) / math.sqrt(120), 0),
    (lambda t: np.tanh(1e4 * (t - 0.7)), 0, normal_above(0.7) * 2 - 1, 1e6),
    (
        lambda t: np.tanh(1e4 * (t - 0.7)), None,
        1 - 2e-4 * normal(0.7) * (1 + (0.7**2 - 1) * 1e-8 * math.pi**2 / 24), 0,
    ),
    (lambda t: np.tanh(1e8 * (t - 0.7)), None, 1 - 2e-8 * normal(0.7), 0),
    (lambda t: np.sign(np.sin(50 * t)), 1, 0, 1),
    (lambda t: np.sign(np.sin(50 * t)), None, 1, 0),
    (lambda t: np.mod(t, 0.01), 0, 0.005, 0),
    (lambda t: np.mod(t, 0.01), 1, 0, 0.005),
    (lambda t: np.mod(t, 0.01), None, 1e-4 / 3, 0),
    (lambda t: np.cos(300 * t), 0, 0, 1),
    (lambda t: np.cos(300 * t), None, 0.5, 0),
    (lambda t: np.exp(-((t - 1.234) ** 2) / 2e-6), 0, bump_mean(1.234, 1e-6), 0),
    (lambda t: np.exp(-((t - 1.234) ** 2) / 2e-6), None, bump_mean(1.234, 5e-7), 0),
    (lambda t: np.exp(-((t + 7.9003) ** 2) / 2e-6), 0, bump_mean(7.9003, 1e-6), 0),
    (lambda t: np.log(np.abs(t)), 2, 1 / math.sqrt(2), 0),
    (lambda t: np.abs(t) ** -0.3, 0, abs_moment(-0.3), 0),
    (lambda t: np.abs(t) ** -0.3, None, abs_moment(-0.6), 0),
    (lambda t: np.abs(t) ** -0.45, None, abs_moment(-0.9), 0),
    (lambda t: t > 1 + 1e-9, 1, normal(1 + 1e-9), 0),
    (lambda t: np.maximum(t - 0.50002, 0), 1, normal_above(0.50002), 0),
    (lambda t: t > 20, 0, normal_above(20), 0),
    (lambda t: 0 * t, None, 0, 0),
    (np.vectorize(lambda t: 1 / math.cosh(t * t)), 1, 0, 1),
    (lambda t: np.maximum(t, 0, out=t), 1, 0.5, 0),
]  # fmt: skip


@pytest.mark.parametrize(("f", "k", "value", "size"), VALUES)
def test_a_numpy_function_is_followed_to_full_precision(f, k, value, size):
    found = Nonlinearity(f).nu() if k is None else Nonlinearity(f).coefficient(k)
    assert abs(found - value) <= 1e-13 * (size or abs(value))


@pytest.mark.parametrize(
    ("f", "k", "said"),
    [
        (lambda t: np.exp(0.249 * t * t), None, "still counts"),
        (lambda t: np.exp(0.25 * t * t), 1, "infinite"),
        (lambda t: np.exp(0.26 * t * t), 0, "infinite.*overflows"),
        (lambda t: np.exp(t**4), None, "infinite.*overflows"),
        (lambda t: np.exp(18 * t), None, "overflows"),
        (lambda t: 1e-200 * np.tanh(t), None, "below double precision"),
        (lambda t: 1e300 * np.tanh(t), None, "exceeds double precision"),
        (lambda t: 1 / t, 0, "infinite"),
        (lambda t: np.abs(t) ** -0.6, 0, "infinite"),
        (lambda t: np.abs(t - 0.3) ** -0.6, 1, "infinite"),
        (lambda t: np.mod(1 / t, 1), None, "too rough"),
        (lambda t: np.tanh(t.astype(np.float32)), 1, "less than double"),
        (lambda t: np.sqrt(1 - t * t), 0, "nan at"),
        (lambda t: np.where(np.abs(t) > 1, np.inf, 0), None, "overflows at"),
        (lambda t: np.where(np.abs(t - 1.0002) < 5e-4, np.nan, t), 1, "near t = (0.99|1)"),
        (lambda t: 1.0, 0, "shape"),
        (np.vectorize(lambda t: 1 / 0), 0, "division by zero"),
    ],
)
def test_a_numpy_function_that_cannot_be_followed_is_refused(f, k, said):
    with pytest.raises(NonlinearityError, match=said):
        Nonlinearity(f).nu() if k is None else Nonlinearity(f).coefficient(k)


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1e300])
def test_a_numpy_function_may_have_any_scale(scale):
    def f(t):
        return np.tanh(t) + (t > 0.3)

    found = Nonlinearity(lambda t: scale * f(t)).coefficients(6)
    np.testing.assert_allclose(np.array(found) / scale, Nonlinearity(f).coefficients(6), rtol=1e-13)


def test_jumps_are_seen_wherever_they_lie():
    for place in np.random.default_rng(7).uniform(-3, 3, 200):
        f = Nonlinearity(lambda t, place=place: t > place)
        assert f.coefficient(0) == pytest.approx(normal_above(place), rel=1e-13)


def test_products_of_numpy_functions():
    f, g = Nonlinearity(lambda t: t > 0.3), Nonlinearity(lambda t: np.exp(0.3 * t * t))
    assert f.product_moment(np.sign) == pytest.approx(normal_above(0.3), rel=1e-14)
    assert g.product_moment("exp(-t^2)") == pytest.approx((1 + 1.4) ** -0.5, rel=1e-14)
