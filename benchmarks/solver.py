"""Ten thousand points at once against damped iteration of the matrix equation, point by point.

The iteration is the one of the theory, ``g <- (g + (A - Sigma(g))^{-1}) / 2`` from the solution
without randomness, stopped when the error is below 1e-10 of the value; it is timed on a sample of
the points, since it needs minutes for all. Run with one thread: OPENBLAS_NUM_THREADS=1.

    python benchmarks/solver.py [points] [sample]
"""

import sys
import time

import numpy as np

from rmtsym.models.attention import ATTENTION
from rmtsym.solver import solve

ACCURACY = 1e-10


def draw(count, rng):
    """gamma 1e-6..1e2, c 0.05..20, snr 0..100, tanh."""
    names = {str(s): s for s in ATTENTION.system.parameters}
    values = {
        "c": 10 ** rng.uniform(np.log10(0.05), np.log10(20), count),
        "gamma": 10 ** rng.uniform(-6, 2, count),
        "a_1": 0.6057055096021591,
        "nu": 0.39429449039784176,
        "mu.mu": rng.uniform(0, 100, count),
    }
    values |= {"mu.w_k": np.sqrt(values["mu.mu"]), "mu.w_q": np.sqrt(values["mu.mu"])}
    values |= {"w_k.w_k": 2.0, "w_k.w_q": 1.0, "w_q.w_q": 2.0}
    return {names[k]: v for k, v in values.items()}, names


def damped(c, gamma, a, b2, goal, patience):
    """Seconds and sweeps until ``g_11`` is within the accuracy of its known value."""
    root = 1 / np.sqrt(c)
    A = np.array([[gamma, -a, 0], [a, 0, 1], [0, 1, 0]])
    C = np.array([[0, a * root, 0], [-a * root, 0, 0], [0, 0, -1]])
    D = np.array([[-root, 0, 0], [0, -root, 0], [0, 0, -1]])
    B = np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 0]])
    eye = np.eye(3)
    start = time.perf_counter()
    g = np.linalg.inv(A)
    for sweep in range(patience):
        g_p = np.linalg.inv(eye - D @ g @ C)
        new = np.linalg.inv(A - (b2 / c) * B @ g @ B - c * C @ g_p @ D)
        g = (g + new) / 2
        if abs(g[0, 0] - goal) < ACCURACY * abs(goal):
            return time.perf_counter() - start, sweep + 1, True
    return time.perf_counter() - start, patience, False


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    sample = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    values, names = draw(count, np.random.default_rng(0))
    solve(ATTENTION.system, values)
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        found = solve(ATTENTION.system, values)
        best = min(best, time.process_time() - start)
    assert np.all(found.converged)
    print(f"at once: {count} points in {best:.3f} s, {count / best:,.0f} points per second")
    print(
        f"  fewest correct digits in double precision {found.correct_digits.min():.1f}, "
        f"{int(np.sum(found.refined))} points refined"
    )
    seconds, failed, sweeps = 0.0, 0, 0
    a, nu = values[names["a_1"]], values[names["nu"]]
    for k in range(sample):
        spent, turns, good = damped(
            values[names["c"]][k],
            values[names["gamma"]][k],
            a,
            nu - a * a,
            found.unknowns[0][k, 0],
            200_000,
        )
        seconds, sweeps, failed = seconds + spent, sweeps + turns, failed + (not good)
    each = seconds / sample
    print(
        f"damped iteration: {1e3 * each:.1f} ms and {sweeps / sample:,.0f} sweeps a point "
        f"({sample} points; {failed} had not arrived after 200,000 sweeps)"
    )
    print(f"ratio: {each * count / best:,.0f}")


if __name__ == "__main__":
    main()
