"""simulate: against plain NumPy, laws of reproducibility, speed of memory, refusals."""

from __future__ import annotations

import os
import tracemalloc
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
import sympy as sp

from rmtsym.errors import InputError, SimulationError
from rmtsym.evaluation import compile_program
from rmtsym.matrices import (
    D,
    Deterministic,
    Entrywise,
    Gaussian,
    Identity,
    Labels,
    OffDiagonal,
    Ones,
    SpectralLaw,
    Trace,
    Vector,
    Wigner,
    dimensions,
)
from rmtsym.rewriting import free_symbols, walk
from rmtsym.sampling import Noise
from rmtsym.simulation import Estimate, SimulationInterrupted, sampled_model, simulate

n, p = dimensions("n p")
gamma = sp.Symbol("gamma", positive=True)
f = sp.Symbol("f")
Z, S = Gaussian("Z", p, n), Wigner("S", n)
y, mu, w_k, w_q = Labels("y", n), Vector("mu", p), Vector("w_k", p), Vector("w_q", p)
X = Z + mu * y.T
W = Identity(p) + w_k * w_q.T
K = OffDiagonal(Entrywise(f, X.T * W * X / sp.sqrt(p))) / sp.sqrt(p)
Q = (K.T * X.T * X * K / n + gamma * Identity(n)).inverse()
ERROR = -(gamma**2) * D(y.T * Q * y / n, gamma)
SIZES = {n: 60, p: 40}
VECTORS = {mu: [1.5, 0, 0], w_k: [1, 1, 0], w_q: [1, 0, -1]}


def attention(**changes):
    arguments = {
        "sizes": SIZES,
        "values": {gamma: 0.2},
        "vectors": VECTORS,
        "nonlinearities": {f: np.tanh},
        "repetitions": 3,
        "seed": 5,
    }
    return simulate(ERROR, **(arguments | changes))


def arrays(expression, number=0, **arguments):
    """One sample's leaves by name, as full arrays."""
    model, _ = sampled_model(expression, **arguments)
    draws = model.draws(number)
    found = {}
    for leaf in model.recipe.leaves:
        array = draws(leaf)
        found[str(leaf)] = np.diag(array) if isinstance(leaf, Deterministic) else array.copy()
    return found


def test_attention_is_the_formula():
    found = arrays(
        ERROR,
        sizes=SIZES,
        values={gamma: 0.2},
        vectors=VECTORS,
        nonlinearities={f: np.tanh},
        seed=5,
    )
    x = found["Z"] + found["mu"] @ found["y"].T
    weights = np.eye(40) + found["w_k"] @ found["w_q"].T
    kernel = np.tanh(x.T @ weights @ x / np.sqrt(40)) / np.sqrt(40)
    np.fill_diagonal(kernel, 0)
    q = np.linalg.inv(kernel.T @ x.T @ x @ kernel / 60 + 0.2 * np.eye(60))
    value = 0.2**2 / 60 * (found["y"].T @ q @ q @ found["y"])[0, 0]
    assert abs(attention().samples[0] - value) < 1e-13
    assert abs(found["mu"].T @ found["w_k"] - 1.5) < 1e-12
    assert found["y"].sum() == 0


LAW = SpectralLaw.from_atoms([1, 3])
R = Deterministic("R", p, LAW)
B = Gaussian("B", p, p)
RESOLVENT = (Z.T * Z / n + gamma * Identity(n)).inverse()
EXPRESSIONS = {
    "trace": (Trace(RESOLVENT) / n, lambda a: np.trace(a["G"]) / 60),
    "trace of a power": (Trace(RESOLVENT**3), lambda a: np.trace(a["G"] @ a["G"] @ a["G"])),
    "derivative of a trace": (D(Trace(RESOLVENT), gamma), lambda a: -np.trace(a["G"] @ a["G"])),
    "second derivative": (
        D(D(y.T * RESOLVENT * y, gamma), gamma),
        lambda a: 2 * (a["y"].T @ a["G"] @ a["G"] @ a["G"] @ a["y"]).item(),
    ),
    "two sides": (
        mu.T * Z * RESOLVENT * y,
        lambda a: (a["mu"].T @ a["Z"] @ a["G"] @ a["y"]).item(),
    ),
    "not symmetric": (
        mu.T * (Identity(p) * 20 + B).inverse().T * w_k,
        lambda a: (a["mu"].T @ np.linalg.inv(20 * np.eye(40) + a["B"]).T @ a["w_k"]).item(),
    ),
    "indefinite": (
        y.T * (S / sp.sqrt(n) - 4 * Identity(n)).inverse() * Ones(n),
        lambda a: (
            a["y"].T @ np.linalg.inv(a["S"] / np.sqrt(60) - 4 * np.eye(60)) @ np.ones((60, 1))
        ).item(),
    ),
    "deterministic": (
        y.T * (Z.T * R * Z / n + gamma * Identity(n)).inverse() * y / n,
        lambda a: (
            a["y"].T
            @ np.linalg.inv(a["Z"].T @ a["R"] @ a["Z"] / 60 + 0.3 * np.eye(60))
            @ a["y"]
            / 60
        ).item(),
    ),
    "nested": (
        Trace((Z * RESOLVENT * Z.T / n + Identity(p)).inverse()),
        lambda a: np.trace(np.linalg.inv(a["Z"] @ a["G"] @ a["Z"].T / 60 + np.eye(40))),
    ),
    "low rank inside": (
        w_k.T * W.T * Z * Z.T * W * w_q / n,
        lambda a: (
            a["w_k"].T
            @ (np.eye(40) + a["w_q"] @ a["w_k"].T)
            @ a["Z"]
            @ a["Z"].T
            @ (np.eye(40) + a["w_k"] @ a["w_q"].T)
            @ a["w_q"]
            / 60
        ).item(),
    ),
    "scalars divide": (
        (y.T * RESOLVENT * y) / (y.T * y),
        lambda a: (a["y"].T @ a["G"] @ a["y"]).item() / 60,
    ),
    "trace of a map": (
        Trace(Entrywise(f, Z.T * Z / p) * RESOLVENT * S),
        lambda a: np.trace(np.tanh(a["Z"].T @ a["Z"] / 40) @ a["G"] @ a["S"]),
    ),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("count", [1, 3, 12])
def test_any_expression_is_its_formula(name, count):
    expression, formula = EXPRESSIONS[name]
    used = free_symbols(expression)
    arguments = {"sizes": {k: v for k, v in SIZES.items() if k in used}, "seed": 2}
    if gamma in used:
        arguments["values"] = {gamma: 0.3 if count == 1 else np.linspace(0.3, 2, count)}
    vectors = {v for v in walk(expression) if v in VECTORS}
    arguments["vectors"] = {v: VECTORS[v] for v in vectors}
    if any(isinstance(v, Entrywise) for v in walk(expression)):
        arguments["nonlinearities"] = {f: np.tanh}
    result = simulate(expression, repetitions=2, **arguments)
    found = arrays(expression, number=1, **arguments)
    if "Z" in found:
        found["G"] = np.linalg.inv(found["Z"].T @ found["Z"] / 60 + 0.3 * np.eye(60))
    value = np.ravel(result.samples[1])[0]
    assert abs(value - formula(found)) < 1e-10 * max(1, abs(value))


def test_many_values_share_one_tridiagonal_form():
    values = np.geomspace(0.01, 10, 12)
    many = attention(values={gamma: values})
    for k in (0, 5, 11):
        assert np.allclose(many.samples[:, k], attention(values={gamma: values[k]}).samples)
    program = sampled_model(
        ERROR,
        sizes=SIZES,
        values={gamma: values},
        vectors=VECTORS,
        nonlinearities={f: np.tanh},
    )[0].program
    assert program.shared
    assert "tridiagonal" in str(program)


def test_several_expressions_see_the_same_samples():
    both = simulate(
        (Trace(RESOLVENT) / n, y.T * RESOLVENT * y / n),
        sizes=SIZES,
        values={gamma: [0.2, 0.4]},
        repetitions=4,
    )
    assert both.mean.shape == (2, 2)
    assert both.samples.shape == (4, 2, 2)


def test_the_plan_of_attention():
    program = compile_program((ERROR,), {n: 600, p: 400}, {gamma: (0.2,)}, {f: np.tanh})
    text = str(program)
    assert text.count("triangle of") == 2  # X'X and (XK)'XK
    assert "cholesky" in text
    assert "lu" not in text
    assert len([s for s in text.splitlines() if "\\" in s]) == 1  # one solve


def test_memory_of_attention_is_four_arrays():
    tracemalloc.start()
    attention(sizes={n: 400, p: 400}, repetitions=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4.5 * 400**2 * 8


def test_single_precision_is_as_good_as_stated():
    single, double = attention(dtype="float32", noise="rademacher"), attention(noise="rademacher")
    assert np.abs(single.samples / double.samples - 1).max() < 1e-4


def test_bits_do_not_depend_on_the_workers():
    serial = attention(repetitions=6).samples
    with ThreadPoolExecutor(3) as pool:
        assert np.array_equal(attention(repetitions=6, executor=pool).samples, serial)
    with ProcessPoolExecutor(2) as pool:
        assert np.array_equal(attention(repetitions=6, executor=pool).samples, serial)
    assert np.array_equal(attention(repetitions=9).samples[:6], serial)
    assert not np.array_equal(attention(repetitions=6, seed=6).samples, serial)


def test_noise_laws_have_variance_one_and_their_kurtosis():
    rng = np.random.default_rng(0)
    for law in ("gaussian", "rademacher", "laplace", "student-t(12)"):
        noise = Noise.read(law)
        draws = noise.draw(rng, (1000, 1000))
        assert abs(draws.mean()) < 0.005
        assert abs(draws.var() - 1) < 0.01
        assert abs((draws**4).mean() / noise.kurtosis - 1) < 0.03
    assert attention(noise=lambda rng, shape: rng.uniform(-(3**0.5), 3**0.5, shape)).mean > 0
    for bad in ("student-t(4)", "student-t(2)", "cauchy", lambda rng, shape: rng.random(shape)):
        with pytest.raises(InputError):
            Noise.read(bad)


def test_wigner_and_unbalanced_labels():
    trace = simulate(Trace(S * S) / n**2, sizes={n: 300}, repetitions=4)
    assert abs(trace.mean - 301 / 300) < 0.02
    diagonal = arrays(Trace(S), sizes={n: 2000})["S"]
    assert np.array_equal(diagonal, diagonal.T)
    assert abs(np.diag(diagonal).var() - 2) < 0.3
    skewed = Labels("y", n, mean=sp.Rational(9, 10))
    mean = simulate(skewed.T * Ones(n) / n, sizes={n: 300}, repetitions=200)
    assert abs(mean.mean - 0.9) < 4 * mean.standard_error + 1e-12
    with pytest.raises(InputError, match="two different"):
        simulate(skewed.T * Z.T * Z * y, sizes=SIZES)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": {n: 1, p: 40}}, "2 at least"),
        ({"sizes": {n: 0, p: 40}}, "2 at least"),
        ({"sizes": {n: 60}}, "no size for p"),
        ({"sizes": {n: 60.5, p: 40}}, "whole number"),
        ({"repetitions": 1}, "2 at least"),
        ({"values": {}}, "no value for gamma"),
        ({"values": {gamma: -1}}, "declared positive"),
        ({"values": {gamma: float("nan")}}, "finite"),
        ({"values": {gamma: 1, "delta": 2}}, "does not contain"),
        ({"vectors": {mu: [1.5], w_k: [1, 1], w_q: [1, 0]}}, "different lengths"),
        ({"vectors": {mu: [1.5]}}, "no coordinates"),
        ({"nonlinearities": {}}, "no function"),
        ({"nonlinearities": {f: 3}}, "callable"),
        ({"seed": -1}, "seed"),
        ({"dtype": "float16"}, "float32"),
        ({"blas_threads": 0}, "blas_threads"),
        ({"values": {gamma: "1/0"}}, "real number"),
        ({"executor": 3}, "interface of"),
        ({"noise": lambda rng: rng}, "noise law that fails"),
        ({"noise": lambda rng, shape: 1 / 0}, "noise law that fails"),
        ({"store": 3}, "as text or as a Path"),
        ({"store": "x" * 300 + ".nc"}, "shorter"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(InputError, match=message):
        attention(**changes)


def test_only_one_by_one_expressions():
    with pytest.raises(InputError, match="1 x 1"):
        simulate(RESOLVENT, sizes=SIZES, values={gamma: 1})


def test_singular_matrix_is_an_error():
    with pytest.raises(SimulationError, match="singular"):
        simulate(y.T * (y * y.T + 0 * S).inverse() * y, sizes={n: 60}, repetitions=2)


def die(x):
    os._exit(1)


def test_a_dying_worker_is_a_clear_error():
    with ProcessPoolExecutor(1) as pool, pytest.raises(SimulationError, match="a worker died"):
        attention(nonlinearities={f: die}, executor=pool)


def test_a_failing_function_is_a_clear_error():
    def broken(x):
        raise ZeroDivisionError("no")

    with pytest.raises(SimulationError, match="ZeroDivisionError: no"):
        attention(nonlinearities={f: broken})


def test_interruption_keeps_the_finished_samples():
    def progress(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(SimulationInterrupted) as caught:
        attention(repetitions=8, progress=progress)
    assert caught.value.estimate.repetitions == 3
    assert np.array_equal(caught.value.estimate.samples, attention(repetitions=3).samples)


def test_progress_counts_every_sample():
    seen = []
    with ThreadPoolExecutor(2) as pool:
        attention(repetitions=40, executor=pool, progress=lambda d, t: seen.append((d, t)))
    assert seen[0] == (0, 40)
    assert seen[-1] == (40, 40)
    assert seen == sorted(seen)


def test_estimate_of_samples():
    estimate = Estimate.from_samples([1.0, 2.0, 3.0])
    assert estimate.mean == 2
    assert abs(estimate.standard_error - 3**-0.5) < 1e-15
    assert str(estimate) == "2 +- 0.58 (3 samples)"
    with pytest.raises(InputError):
        Estimate.from_samples([1.0])


def test_a_derivative_in_what_is_not_there_is_refused():
    with pytest.raises(InputError, match="does not contain"):
        simulate(D(Trace(S) / n, sp.Symbol("c")), sizes={n: 10}, repetitions=2)


def test_sizes_are_a_mapping():
    with pytest.raises(InputError, match="pass a mapping"):
        simulate(Trace(Z * Z.T) / n, sizes=[{n: 10}], repetitions=2)
