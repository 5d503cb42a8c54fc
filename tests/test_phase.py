"""Phase diagrams, critical alignment, and the best nonlinearity."""

import numpy as np
import pytest

from rmtsym import InputError, attention_error, regression_error
from rmtsym.models.generalization import attention_test_error, regression_test_error
from rmtsym.models.phase import best_nonlinearity, critical_alignment, errors, phase_diagram


def test_errors_are_those_of_the_models():
    point = {"ratio": 0.5, "gamma": 0.3, "snr": 4, "alignment": 0.6, "strength": 2}
    weights = {"mu": [2, 0], "w_k": [1.2, 1.6], "w_q": [1.2, 1.6]}
    attention, regression = errors("relu", point)
    assert attention == pytest.approx(attention_error("relu", ratio=0.5, gamma=0.3, **weights))
    assert regression == pytest.approx(regression_error(ratio=0.5, gamma=0.3, snr=4))
    attention, regression = errors("relu", point, "test")
    assert attention == pytest.approx(attention_test_error("relu", ratio=0.5, gamma=0.3, **weights))
    assert regression == pytest.approx(regression_test_error(ratio=0.5, gamma=0.3, snr=4))


@pytest.mark.parametrize("error", ["training", "test"])
@pytest.mark.parametrize(
    ("x", "y", "fixed"),
    [
        (("ratio", [0.2, 0.4, 0.8]), ("snr", [1, 4]), {"gamma": 1, "strength": 3}),
        (("gamma", [0.1, 1, 10]), ("alignment", [0, 1]), {"ratio": 0.3, "snr": 4}),
    ],
)
def test_planes_of_a_nonlinearity(x, y, fixed, error):
    phases = phase_diagram("tanh(t)", x=x, y=y, error=error, **fixed)
    assert phases.attention.shape == phases.regression.shape == (len(y[1]), len(x[1]))
    point = {"alignment": 1, "strength": 1, **fixed, x[0]: x[1][1], y[0]: y[1][0]}
    attention, regression = errors("tanh(t)", point, error)
    assert phases.attention[0, 1] == pytest.approx(float(attention), rel=1e-9)
    assert phases.regression[0, 1] == pytest.approx(float(regression), rel=1e-9)


def test_plane_of_the_linear_part():
    phases = phase_diagram(
        x=("linearity", np.linspace(0, 1, 5)), y=("ratio", [0.25, 1]), gamma=1, snr=4, strength=3
    )
    assert np.argmin(phases.attention[0]) == 1
    found, _ = errors("t", {"ratio": 1, "gamma": 1, "snr": 4, "strength": 3, "alignment": 1})
    assert phases.attention[1, -1] == pytest.approx(float(found), rel=1e-9)


def test_the_boundary_separates():
    ratio = np.linspace(0.2, 1, 17)
    phases = phase_diagram("tanh(t)", x=("ratio", ratio), y=("snr", [2.25, 4]), gamma=1, strength=3)
    assert len(phases.boundary) >= 1
    for c, snr in np.concatenate(phases.boundary):
        for factor, sign in ((0.9, 1), (1.1, -1)):
            point = {"ratio": factor * c, "gamma": 1, "snr": snr, "strength": 3, "alignment": 1}
            attention, regression = errors("tanh(t)", point)
            assert sign * (regression - attention) > 0


def test_critical_alignment():
    point = {"ratio": 0.5, "gamma": 1, "snr": 4, "strength": 3}
    critical = critical_alignment("tanh(t)", **point)
    assert 0.9 < critical < 1
    at, regression = errors("tanh(t)", {**point, "alignment": critical})
    assert at == pytest.approx(regression, rel=1e-9)
    assert critical_alignment("tanh(t)", **{**point, "ratio": 0.1}) == 0
    assert np.isnan(critical_alignment("tanh(t)", **{**point, "ratio": 2}))
    assert critical_alignment("tanh(t)", error="test", **point) == 0


@pytest.mark.parametrize("error", ["training", "test"])
@pytest.mark.parametrize("ratio", [0.25, 1])
def test_the_best_nonlinearity_is_best(ratio, error):
    point = {"ratio": ratio, "gamma": 1, "mu": [2, 0], "w_k": [1, 1], "w_q": [1, 0]}
    design = best_nonlinearity(error=error, **point)
    limit = {"training": attention_error, "test": attention_test_error}[error]
    f = design.nonlinearity
    assert f.exact_nu() == 1
    assert f.coefficient(1) ** 2 == pytest.approx(design.linearity, abs=1e-5)
    assert limit(f, **point) == pytest.approx(design.error, rel=1e-7)
    for other in ("tanh(t)", "sign(t)", "relu", "cos(t)", "t"):
        from rmtsym import Nonlinearity

        g = Nonlinearity(other).centred()
        scaled = {**point, "gamma": g.nu()}  # f / sqrt(nu) at gamma is f at gamma nu
        assert limit(g, **scaled) >= design.error * (1 - 1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"gamma": 0},
        {"alignment": 2},
        {"strength": -1},
        {"snr": -1},
        {"error": "validation"},
        {"x": ("p", [1])},
        {"x": ("snr", 3)},
        {"x": ("ratio", [1, 2])},
        {"f": None},
        {"linearity": 0.5},
        {"colour": 1},
    ],
)
def test_bad_input(wrong):
    arguments = {"f": "tanh(t)", "x": ("snr", [1]), "y": ("ratio", [1, 2]), "gamma": 1}
    with pytest.raises(InputError):
        phase_diagram(**{**arguments, **wrong})


def test_missing_parameters_are_named():
    with pytest.raises(InputError, match="gamma"):
        phase_diagram("tanh(t)", x=("snr", [1]), y=("ratio", [1]))
    with pytest.raises(InputError, match="ratio"):
        critical_alignment("tanh(t)", gamma=1, snr=1)
    with pytest.raises(InputError, match="arrays"):
        best_nonlinearity(ratio=[1, 2], gamma=1)
