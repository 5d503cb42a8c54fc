"""rmtsym.testing: strategies give usable draws, assertions pass and fail where they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings

import rmtsym.testing as rt
from rmtsym.dyson import derive
from rmtsym.errors import InputError
from rmtsym.matrices import Gaussian, Identity, Trace, dimensions
from rmtsym.models.attention import attention_error
from rmtsym.rewriting import free_symbols
from rmtsym.simulation import simulate
from rmtsym.solver import solve

n, p = dimensions("n p")
gamma = sp.Symbol("gamma", positive=True)
Z = Gaussian("Z", p, n)
TRACE = Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n
AT = {"ratios": {n: 1, p: "1/2"}, "values": {gamma: 1}}
VALUE = (17**0.5 - 1) / 4


@rt.deterministic
@given(f=rt.nonlinearities(), at=rt.attention_parameters())
def test_attention_draws_are_solvable(f, at):
    assert 0 <= attention_error(f, **at) <= 1


@rt.deterministic
@given(f=rt.nonlinearities(smooth=True))
def test_smooth_draws_have_finite_energy(f):
    assert 0 <= f.coefficient(1) ** 2 <= f.nu() * (1 + 1e-12)


@settings(rt.deterministic, max_examples=12)
@given(expression=rt.rational_expressions())
def test_expressions_are_solved_and_simulated(expression):
    assert {n, p} <= set(free_symbols(expression))
    theory = float(solve(derive(expression, {n: 1, p: sp.Rational(2, 3)}), {}).value)
    estimate = simulate(expression, sizes={n: 240, p: 160}, repetitions=6, seed=1)
    assert abs(estimate.mean / theory - 1) < 0.05


@given(ratio=rt.aspect_ratios("1/3", 2), penalty=rt.ridge_penalties("0.1", 1), seed=rt.seeds())
def test_draws_stay_in_their_range(ratio, penalty, seed):
    assert sp.Rational(1, 3) <= ratio <= 2
    assert sp.Rational(1, 10) <= penalty <= 1
    assert 0 <= seed < 2**32


def test_agreement_and_rejection():
    rt.assert_agrees(TRACE, **AT)
    rt.assert_agrees(TRACE, VALUE, **AT)
    rt.assert_rejects(TRACE, VALUE * 1.05, **AT)
    with pytest.raises(AssertionError, match="DISAGREES"):
        rt.assert_agrees(TRACE, VALUE * 1.05, **AT)
    with pytest.raises(AssertionError, match="not rejected"):
        rt.assert_rejects(TRACE, VALUE, **AT)
    with pytest.raises(InputError, match="pass an expression"):
        rt.assert_agrees(3)
    with pytest.raises(InputError, match="no ratios"):
        rt.assert_agrees(TRACE, sizes=[{n: 20, p: 10}])


def test_models_are_subjects():
    from rmtsym.models import MODELS

    rt.assert_agrees(MODELS["regression"], detect=0.05)


def test_invariance():
    rt.assert_invariant(lambda x: x * x, 2, -2)
    with pytest.raises(AssertionError, match="but"):
        rt.assert_invariant(lambda x: x, 1, 2)
    with pytest.raises(AssertionError):
        rt.assert_invariant(np.ones, 1, 2)
    with pytest.raises(InputError):
        rt.assert_invariant(abs, 1)


def test_the_worked_example_runs():
    place = Path(__file__).parent.parent / "examples" / "verify_in_your_ci"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(place)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=place, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
