"""Verdicts: error rates on samples of known law, extrapolation, and real models."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import sympy as sp

import rmtsym.agreement as ag
from rmtsym.agreement import extrapolate, judge, ladder, ladder_sizes, verify
from rmtsym.errors import InputError
from rmtsym.matrices import D, Gaussian, Identity, Labels, Trace, Vector, dimensions
from rmtsym.simulation import Estimate

n, p = dimensions("n p")
gamma = sp.Symbol("gamma", positive=True)
Z, y, mu = Gaussian("Z", p, n), Labels("y", n), Vector("mu", p)
X = Z + mu * y.T
Q = (X.T * X / n + gamma * Identity(n)).inverse()
ERROR = -(gamma**2) * D(y.T * Q * y / n, gamma)
TRACE = Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n
REGRESSION = 0.20805  # ratio 1/3, gamma 0.1, |mu|^2 = 2.25, five digits
AT = {"ratios": {n: 1, p: "1/3"}, "values": {gamma: 0.1}, "vectors": {mu: [1.5]}}


def synthetic(limit, biases, sizes, counts, rng, spread=1.6, order=1.0, controls=3):
    """Samples of mean ``limit (1 + sum b_k N^-k order)`` and relative deviation spread/sqrt(N)."""
    estimates = []
    for size, count in zip(sizes, counts, strict=True):
        mean = limit * (1 + sum(b * size ** (-order * (k + 1)) for k, b in enumerate(biases)))
        known = rng.standard_normal((count, controls)) / np.sqrt(size)
        rest = rng.standard_normal(count) * spread / 2 / np.sqrt(size)
        samples = mean + limit * (known.sum(1) * spread / 2 + rest)
        estimates.append(Estimate.from_samples(samples, controls=known, sizes={"n": size}))
    return estimates


LAWS = [(0.0,), (-10.0, 100.0), (-22.0, 450.0, -4000.0), (15.0, 300.0), (-5.0, -150.0)]


@pytest.mark.parametrize("biases", LAWS)
@pytest.mark.parametrize("counts", [(40, 400, 200), (500, 4000, 2000), (8, 8, 8)])
def test_right_theories_are_rarely_rejected(biases, counts):
    """One look that may reject 1 % of them; 11 of 200 would have a probability of 1e-5."""
    rng = np.random.default_rng(5)
    rejected = 0
    for _ in range(200):
        found = synthetic(0.2, biases, (120, 270, 590), counts, rng)
        rejected += not judge(0.2, extrapolate(found), false_alarms=0.01).agrees
    assert rejected <= 10


@pytest.mark.parametrize("counts", [(40, 400, 200), (500, 4000, 2000)])
def test_power_is_what_it_says(counts):
    """A theory off by ``power`` is rejected with probability of about 95 %."""
    rng = np.random.default_rng(6)
    rejected = 0
    for _ in range(200):
        found = extrapolate(synthetic(0.2, (-10.0, 100.0), (120, 270, 590), counts, rng))
        power = judge(0.2, found).power
        rejected += not judge(0.2 * (1 + power * rng.choice([-1, 1])), found).agrees
    assert 0.91 * 200 <= rejected


def test_sequential_verdicts_keep_their_rates(monkeypatch):
    """The whole rule, five looks: at most 2 % of right theories, 95 % of those off by detect."""
    rng = np.random.default_rng(7)
    current = {}

    def climb(models, starts, counts, *rest):
        return synthetic(0.2, current["biases"], (120, 270, 590), counts, rng)

    monkeypatch.setattr(ag, "_climb", climb)
    monkeypatch.setattr(ag, "_allocation", lambda *a: np.array([200.0, 2000.0, 1000.0]))
    arguments = {
        "sizes": [{n: s, p: s} for s in (120, 270, 590)],
        "values": {gamma: 1},
        "detect": 0.03,
    }
    rejected = caught = 0
    looks = []
    for k in range(100):
        current["biases"] = LAWS[k % len(LAWS)]
        right = verify(TRACE, 0.2, **arguments)
        rejected += not right.agrees
        looks.append(right.looks)
        caught += not verify(TRACE, 0.2 * 1.03, **arguments).agrees
    assert rejected <= 2
    assert caught >= 91
    assert np.mean(looks) < 4.5  # it stops before the last look when enough is known


def test_a_slow_bias_gets_a_wider_ladder():
    arguments = {"ratios": {n: 1, p: 1}, "values": {gamma: 1}, "detect": 0.9}
    assert len(verify(TRACE, (5**0.5 - 1) / 2, order=0.5, **arguments).rungs) == 5
    assert len(verify(TRACE, (5**0.5 - 1) / 2, **arguments).rungs) == 4


def test_order_one_half_is_estimated():
    rng = np.random.default_rng(8)
    miss = {1.0: 0, 0.5: 0, None: 0}
    for _ in range(40):
        found = synthetic(0.2, (1.0, 3.0), (100, 200, 400, 800), (4000,) * 4, rng, order=0.5)
        for order in miss:
            miss[order] += abs(judge(0.2, extrapolate(found, order=order)).z_score) > 3
    assert miss[1.0] > 30  # the wrong order is no small matter
    assert miss[0.5] <= 1
    assert miss[None] <= 1


def test_regression_agrees_and_a_wrong_number_does_not():
    verdict = verify(ERROR, REGRESSION, seed=3, detect=0.04, **AT)
    assert verdict.agrees, str(verdict)
    assert verdict.power < 0.04
    wrong = verify(ERROR, REGRESSION * 1.06, seed=3, detect=0.04, **AT)
    assert not wrong.agrees
    assert wrong.looks <= verdict.looks
    content = verdict.as_dict()
    assert set(content["sizes"][0]) == {"n", "p", "mean", "standard_error", "repetitions"}
    assert set(content["extrapolated"]) == {"value", "standard_error"}
    assert "agrees" in str(verdict)


def test_verdicts_do_not_depend_on_the_workers():
    from concurrent.futures import ProcessPoolExecutor

    arguments = {**AT, "sizes": [{n: 60, p: 20}, {n: 120, p: 40}], "repetitions": 12, "seed": 1}
    arguments.pop("ratios")
    threads = verify(ERROR, REGRESSION, **arguments)
    with ProcessPoolExecutor(2) as pool:
        assert verify(ERROR, REGRESSION, executor=pool, **arguments) == threads


def test_a_verdict_continues_its_store(tmp_path):
    pytest.importorskip("xarray")
    arguments = {
        "sizes": [{n: 30, p: 10}, {n: 60, p: 20}],
        "values": {gamma: 1},
        "seed": 1,
        "store": tmp_path / "run.nc",
    }
    first = verify(TRACE, 0.7, repetitions=6, **arguments)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["run.n=30.p=10.nc", "run.n=60.p=20.nc"]
    seen = []
    again = verify(
        TRACE, 0.7, repetitions=6, progress=lambda done, total: seen.append(done), **arguments
    )
    assert seen == [6, 12]
    assert again == first


def test_ladders_meet_their_ratios():
    for ratio in ("2/3", "1/7", "5", "0.37", "10", "1/10"):
        for sizes in ladder_sizes({n: 1, p: ratio}):
            assert sizes[n] % 2 == 0
            assert abs(sizes[p] / sizes[n] / float(sp.Rational(ratio)) - 1) < 2e-3
    found = ladder(TRACE, sizes=[{n: 40, p: 20}, {n: 80, p: 40}], repetitions=5, values={gamma: 1})
    assert [e.sizes for e in found] == [{"n": 40, "p": 20}, {"n": 80, "p": 40}]
    assert not np.allclose(found[0].samples, found[1].samples)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"theory": float("nan")}, "finite"),
        ({"theory": "x"}, "one number"),
        ({"ratios": None}, "either ratios"),
        ({"ratios": {n: 1, p: -1}}, "> 0"),
        ({"ratios": None, "sizes": [{n: 60, p: 20}]}, "2 at least"),
        ({"repetitions": 1}, "2 at least"),
        ({"repetitions": [5, 5]}, "one per size"),
        ({"order": 2}, "order"),
        ({"false_alarms": 0}, "false_alarms"),
        ({"detect": "x"}, "detect"),
        ({"theory": "1/0"}, "one number"),
        ({"ratios": {n: 1, p: "1/0"}}, "> 0"),
        ({"ratios": 3}, "mapping"),
        ({"ratios": None, "sizes": 3}, "pass a list"),
        ({"samples": 3}, "samples, which verify does not know"),
        ({"stream": (1,)}, "stream, which verify does not know"),
        ({"values": {gamma: [0.1, 0.2]}}, "one number at"),
    ],
)
def test_refusals(changes, message):
    arguments = {"theory": 0.2, **AT, "repetitions": 2} | changes
    with pytest.raises(InputError, match=message):
        verify(ERROR, arguments.pop("theory"), **arguments)


@pytest.mark.parametrize("ratio", ["1/1000", "1/100", 1, 60, 100, 1000])
def test_default_ladders_have_rungs_apart(ratio):
    rungs = ladder_sizes({n: 1, p: ratio})
    smallest = [min(rung.values()) for rung in rungs]
    assert len(rungs) == 4 and smallest[0] >= 24
    assert all(b > 1.2 * a for a, b in pairwise(smallest))


@pytest.mark.parametrize("sizes", [[{n: 50, p: 50}] * 3, [50, 100, 200]])
def test_ladders_of_no_use_are_refused_before_any_work(sizes):
    with pytest.raises(InputError, match="sizes"):
        verify(TRACE, 0.6, sizes=sizes, values={gamma: 1})
