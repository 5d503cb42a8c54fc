"""simulate against the bare BLAS and LAPACK calls, and many gammas against one.

    python benchmarks/simulation.py [--size 2000] [--rounds 5]

Times alternate within one run and the smallest of the rounds counts, so a busy machine disturbs
both sides alike. Bare cost of one attention sample, n = p: X'X (syrk), X K (gemm), its Gram (syrk),
one Cholesky, one pass of f; drawing Z is part of simulate only.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy.linalg import blas, lapack
from threadpoolctl import threadpool_limits

from rmtsym.models import attention as at
from rmtsym.simulation import sampled_model


def bare(x: np.ndarray, k: np.ndarray, f) -> None:
    """The calls that no evaluation of the expression can do without."""
    s = blas.dsyrk(1.0, x, trans=1, lower=1)
    for start in range(0, len(s), 32):
        block = s[:, start : start + 32]
        block[...] = f(block)
    product = blas.dgemm(1.0, x, k)
    gram = blas.dsyrk(1.0, product, trans=1, lower=1)
    gram[np.diag_indices_from(gram)] += len(gram)
    lapack.dpotrf(gram, lower=1, overwrite_a=1, clean=0)


def seconds(call, *arguments) -> float:
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="BLAS threads, as simulate")
    options = parser.parse_args()
    n = options.size

    def model(gamma):
        return sampled_model(
            at.ERROR,
            sizes={at.n: n, at.p: n},
            values={at.gamma: gamma},
            vectors={at.mu: [1.5, 0, 0], at.w_k: [1, 1, 0], at.w_q: [1, 0, -1]},
            nonlinearities={at.f: np.tanh},
        )[0]

    one, many = model(0.2), model(np.geomspace(0.01, 10, 40))
    rng = np.random.default_rng(0)
    x = np.asfortranarray(rng.standard_normal((n, n)))
    k = np.asfortranarray(rng.standard_normal((n, n)))
    times: dict[str, list[float]] = {"bare": [], "one gamma": [], "40 gammas": [], "drawing Z": []}
    with threadpool_limits(limits=options.threads, user_api="blas"):
        for _ in range(options.rounds):
            times["bare"].append(seconds(bare, x, k, np.tanh))
            times["one gamma"].append(seconds(one.sample, 0))
            times["40 gammas"].append(seconds(many.sample, 0))
            times["drawing Z"].append(seconds(rng.standard_normal, (n, n)))
    best = {name: min(values) for name, values in times.items()}
    for name, value in best.items():
        print(f"{name:10s} {value:8.3f} s   (n = p = {n}, best of {options.rounds})")
    print(f"simulate / bare BLAS:   {best['one gamma'] / best['bare']:.2f}   (at most 1.3)")
    print(f"40 gammas / one gamma:  {best['40 gammas'] / best['one gamma']:.2f}   (at most 3)")


if __name__ == "__main__":
    main()
