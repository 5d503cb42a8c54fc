"""The solver against closed forms, an independent reference, and at the edges of its domain."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from attention_reference import attention_error as reference

from rmtsym.certification import certify
from rmtsym.dyson import derive
from rmtsym.errors import ConvergenceError, InputError
from rmtsym.matrices import Gaussian, Identity, Trace, dimensions
from rmtsym.models.attention import ATTENTION
from rmtsym.models.regression import regression_error
from rmtsym.models.targets import TARGET
from rmtsym.precision import refine
from rmtsym.solver import Solution, solve

MP = json.loads((Path(__file__).parent / "data" / "marchenko_pastur.json").read_text())
NAMES = {str(s): s for s in ATTENTION.system.parameters}

n, p = dimensions("n p")
c = sp.Symbol("c", positive=True)
z = sp.Symbol("z")
Z = Gaussian("Z", p, n)
COVARIANCE = derive(Trace((Z * Z.T / n - z * Identity(p)).inverse()) / p, {n: 1, p: c})


def point(ratio, gamma, a, nu, mu, w_k, w_q):
    vectors = {"mu": mu, "w_k": w_k, "w_q": w_q}
    found = {"c": ratio, "gamma": gamma, "a_1": a, "nu": nu}
    order = list(vectors)
    for i, one in enumerate(order):
        for other in order[i:]:
            found[f"{one}.{other}"] = sum(
                (exact(x) * exact(y) for x, y in zip(vectors[one], vectors[other], strict=True)),
                sp.Integer(0),
            )
    return {NAMES[k]: v for k, v in found.items()}


def exact(x):
    return sp.Rational(*float(x).as_integer_ratio())


def draw(rng):
    """A point of the whole domain; a_1 = 0, nu = a_1^2 and c = 1 exactly now and then."""
    ratio = 1.0 if rng.random() < 0.1 else 10 ** rng.uniform(-3, 3)
    gamma, nu = 10 ** rng.uniform(-12, 6), 10 ** rng.uniform(-1, 1)
    a = np.sqrt(nu) * rng.uniform(-0.999, 0.999)
    kind = rng.random()
    if kind < 0.15:
        a = 0.0
    elif kind < 0.3:
        a = round(np.sqrt(nu) * 2**10) / 2**10
        nu = a * a
    vectors = []
    for _ in range(3):
        v = rng.normal(size=3)
        v *= rng.choice([0.0, 1.0], p=[0.15, 0.85]) * 10 ** rng.uniform(-3, 3) / np.linalg.norm(v)
        vectors.append([float(np.float32(x)) for x in v])
    return float(ratio), float(gamma), float(a), float(nu), *vectors


def check(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        where = draw(rng)
        values = point(*where)
        found = solve(ATTENTION.system, {k: exact_or(v) for k, v in values.items()})
        expected = float(reference(*where))
        assert found.value == pytest.approx(expected, rel=1e-9), where


def exact_or(x):
    return exact(x) if isinstance(x, float) else x


def test_random_points_of_the_whole_domain_agree_with_sixty_digits():
    check(2024, 60)


@pytest.mark.slow
def test_two_thousand_random_points_of_the_whole_domain():
    check(99, 2000)


@pytest.mark.parametrize("case", MP, ids=[case["quantity"] for case in MP])
def test_marchenko_pastur(case):
    where = {c: case["c"], z: complex(*case["z"]) if case["z"][1] else case["z"][0]}
    found = solve(COVARIANCE, where).value
    value = case["value"]
    expected = complex(*map(float, value)) if isinstance(value, list) else float(value)
    assert abs(found - expected) < 1e-12 * abs(expected)


@pytest.mark.parametrize("place", [1e-3, 0.5, 1.0, 2.0, 5.5])
@pytest.mark.parametrize("height", [1e-3, 1e-6])
def test_marchenko_pastur_just_above_the_axis(place, height):
    ratio, at = 1.0, complex(place, height)
    found = solve(COVARIANCE, {c: ratio, z: at}).value
    # ratio z m^2 + (z + ratio - 1) m + 1 = 0, the root in the upper half plane
    roots = np.roots([ratio * at, at + ratio - 1, 1])
    assert abs(found - roots[np.argmax(roots.imag)]) < 1e-9 * abs(found)


def test_many_points_at_once_are_the_points_one_by_one():
    gammas, ratios = np.geomspace(1e-6, 1e2, 9), np.array([[0.1], [1.0], [7.0]])
    values = point(1, 1, 0.6, 0.4, [1.5, 0], [1, 1], [1, -1])
    grid = solve(ATTENTION.system, {**values, NAMES["c"]: ratios, NAMES["gamma"]: gammas})
    assert grid.value.shape == grid.residual.shape == grid.converged.shape == (3, 9)
    for i, ratio in enumerate(ratios[:, 0]):
        for j, gamma in enumerate(gammas):
            where = {**values, NAMES["c"]: ratio, NAMES["gamma"]: gamma}
            single = solve(ATTENTION.system, where)
            assert grid.value[i, j] == pytest.approx(single.value, rel=1e-10)
    assert np.all(np.diff(grid.value, axis=1) > 0)


def test_without_attention_signal_or_at_slope_zero():
    plain = point(1, "1/100", 0, 1, [0], [0], [0])
    found = solve(ATTENTION.system, plain)
    assert found.unknowns[0][0] == pytest.approx(20, rel=1e-12)
    other = point(1, "1/100", 0, 1, [900.0], [30.0], [-70.0])
    assert solve(ATTENTION.system, other).value == pytest.approx(found.value, rel=1e-10)


def test_smallest_gamma_at_the_threshold_states_its_lost_digits():
    values = point(1, sp.Rational(1, 10**12), 0.625, 0.5, [1.5, 0], [1, 1], [1, -1])
    found = solve(ATTENTION.system, values)
    expected = float(reference(1, 1e-12, 0.625, 0.5, [1.5, 0], [1, 1], [1, -1]))
    assert found.value == pytest.approx(expected, rel=1e-10)
    assert 5 < found.correct_digits < 14
    assert found.condition > 100


def test_points_out_of_reach_of_doubles_are_refined_and_say_so():
    rng = np.random.default_rng(1)
    for _ in range(115):
        where = draw(rng)
    values = point(0.399486248, 2.6288884e-12, 0.5537109375, 0.5537109375**2, *where[4:])
    found = solve(ATTENTION.system, values)
    assert found.refined and found.converged and found.correct_digits < 10


def test_a_bad_point_leaves_the_others_alone():
    values = point(1, 1, 0.6, 0.4, [0], [0], [0])
    gammas = np.array([0.1, -1e-3, 1.0])  # inside the spectrum of -K'X'XK/n
    found = solve(ATTENTION.system, {**values, NAMES["gamma"]: gammas}, strict=False)
    assert list(found.converged) == [True, False, True]
    assert np.isnan(found.value[1]) and not np.isfinite(found.residual[1])
    with pytest.raises(ConvergenceError, match=r"gamma = -0\.001") as caught:
        solve(ATTENTION.system, {**values, NAMES["gamma"]: gammas})
    assert isinstance(caught.value.solution, Solution)


@pytest.mark.parametrize("bad", [np.nan, np.inf, "one", sp.Symbol("s")])
def test_values_that_are_no_numbers(bad):
    with pytest.raises(InputError):
        solve(ATTENTION.system, {**point(1, 1, 0.6, 0.4, [0], [0], [0]), NAMES["gamma"]: bad})


@pytest.mark.parametrize("bad", [0, -1, [1, -2], 1j])
def test_relative_sizes_are_positive(bad):
    with pytest.raises(InputError, match="a relative size is positive"):
        solve(COVARIANCE, {c: bad, z: -1})
    with pytest.raises(InputError, match="sizes are positive"):
        derive(Trace((Z * Z.T / n + Identity(p)).inverse()) / p, {n: 1, p: -1})


def test_missing_values_are_named():
    with pytest.raises(InputError, match="gamma"):
        solve(ATTENTION.system, {NAMES["c"]: 1, NAMES["a_1"]: 0, NAMES["nu"]: 1})


def test_regression_closed_form_over_the_domain():
    from rmtsym.models.regression import REGRESSION

    rng = np.random.default_rng(5)
    ratio, gamma = 10 ** rng.uniform(-3, 3, 300), 10 ** rng.uniform(-12, 6, 300)
    snr = 10 ** rng.uniform(-6, 6, 300)
    names = {str(s): s for s in REGRESSION.system.parameters}
    where = {names["c"]: ratio, names["gamma"]: gamma, names["mu.mu"]: snr}
    found = solve(REGRESSION.system, where)
    assert np.allclose(
        found.value, regression_error(ratio=ratio, gamma=gamma, snr=snr), rtol=1e-9, atol=0
    )


def test_where_a_coefficient_is_not_real():
    """``sqrt(1 - r^2)`` at r = 2: refused by name at once, nan among other points."""
    system = TARGET.system
    values = {s: Fraction(1, 2) for s in system.parameters}
    values |= {s: 1 for s in system.parameters if str(s) in ("nu", "mu.mu", "w_k.w_k", "w_q.w_q")}
    r = next(s for s in system.parameters if str(s) == "r")
    with pytest.raises(InputError, match=r"got r = 2.0, where sqrt\(1 - r\*\*2\)"):
        solve(system, values | {r: 2})
    with pytest.raises(InputError, match=r"got r = 2.0*, where sqrt\(1 - r\*\*2\)"):
        refine(system, values | {r: 2}, digits=20)
    some = solve(system, values | {r: np.array([2.0, 0.5, 3.0])}, strict=False)
    assert some.converged.tolist() == [False, True, False]
    assert np.isnan(some.value).tolist() == [True, False, True]
    assert some.value[1] == pytest.approx(solve(system, values | {r: 0.5}).value, rel=1e-12)
    none = solve(system, values | {r: np.array([2.0, 3.0])}, strict=False)
    assert np.isnan(none.value).all() and not none.converged.any()


def test_parameters_by_name():
    system = derive(Trace((Z.T * Z / n + Identity(n)).inverse()) / n, {n: 1, p: c})
    expected = solve(system, {c: 0.5}).value
    assert solve(system, {"c": 0.5}).value == expected
    assert float(refine(system, {"c": "1/2"}, digits=20).value) == pytest.approx(expected)
    assert float(certify(system, {"c": "1/2"}).value) == pytest.approx(expected)
    assert solve(system, {"c": np.array([2.0, 0.5])}).value[1] == pytest.approx(expected)
