"""Attention: theory and simulation agree, and a wrong theory is rejected."""

import pytest

from rmtsym import Nonlinearity, solve, verify_attention
from rmtsym.matrices import inner
from rmtsym.models import attention

FUNCTIONS = ["tanh(t)", "sign(t)", "cos(t)", "relu", "Min(exp(t), 5)"]
POINTS = [
    {"ratio": "2/3", "gamma": "0.2", "mu": [1, 0], "w_k": [1, 1], "w_q": [1, 0]},
    {"ratio": "2", "gamma": "0.5", "mu": [1.5], "w_k": [0.5], "w_q": [0.5]},
    {"ratio": "1/2", "gamma": "0.1"},
]


SLOW = pytest.mark.slow


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize(
    "point", [POINTS[0], pytest.param(POINTS[1], marks=SLOW), pytest.param(POINTS[2], marks=SLOW)]
)
def test_agrees(f, point):
    verdict = verify_attention(f, **point, seed=1, detect=0.04)
    assert verdict.agrees, str(verdict)


def wrong_theory(f, point, factor=1.1):
    """The limit of a theory whose a_1 is off by 10 %."""
    f = Nonlinearity(f).centred()
    a1, nu = f.coefficient(1) * factor, f.nu()
    (slope,) = [s.symbol for s in attention.ATTENTION.system.hermite_symbols if s.moment == "slope"]
    (energy,) = [s.symbol for s in attention.ATTENTION.system.hermite_symbols if s.symbol != slope]
    zero = {
        inner(u, v): 0
        for u in (attention.mu, attention.w_k, attention.w_q)
        for v in (attention.mu, attention.w_k, attention.w_q)
    }
    from rmtsym.models.base import coordinates, gram

    rows = coordinates({name: point.get(name) for name in ("mu", "w_k", "w_q")})
    products = gram({getattr(attention, name): row for name, row in rows.items()})
    values = {
        attention.c: point["ratio"],
        attention.gamma: point["gamma"],
        slope: a1,
        energy: max(nu, a1**2),
        **zero,
        **products,
    }
    from rmtsym.parsing import exact_number

    return solve(attention.ATTENTION.system, {k: exact_number(v) for k, v in values.items()}).value


@pytest.mark.parametrize("f", ["tanh(t)", "relu"])
@pytest.mark.parametrize("point", [POINTS[0], pytest.param(POINTS[1], marks=SLOW)])
def test_a_wrong_slope_is_rejected(f, point):
    verdict = verify_attention(f, **point, theory=wrong_theory(f, point), seed=2, detect=0.02)
    assert not verdict.agrees, str(verdict)
