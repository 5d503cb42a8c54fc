"""What a user waits for, in seconds and as a multiple of one symmetric 400 x 400 eigenproblem.

    python benchmarks/times.py

The yardstick is timed before every row, in the same process. Set the threads of BLAS deliberately:
OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rmtsym import Nonlinearity, attention_error, quadrature
from rmtsym.models.general_attention import GeneralAttention
from rmtsym.nonlinearity import CATALOGUE

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def yardstick() -> float:
    matrix = np.random.default_rng(0).standard_normal((400, 400))
    return statistics.median(
        seconds(lambda: np.linalg.eigvalsh(matrix + matrix.T)) for _ in range(9)
    )


def row(name: str, call: Callable[[Any], Any], arguments: Any, limit: float) -> None:
    """The median over the arguments; the first one is a rehearsal."""
    first, *rest = arguments
    unit = yardstick()
    call(first)
    times = [seconds(lambda x=x: call(x)) for x in rest]
    median = statistics.median(times)
    print(f"{name:44} {median:9.4f} {max(times):9.4f} {median / unit:9.2f} {limit:9g}")


def fresh(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def orders(count: int) -> None:
    quadrature._attempt.cache_clear()
    for k in range(count):
        Nonlinearity("log(1 + exp(t/3))").coefficient(k, 30)


def closed_forms(name: str) -> None:
    f = CATALOGUE[name]
    _ = [f.exact_coefficient(k) for k in range(7)], f.exact_nu()


def attention(gamma: float) -> None:
    attention_error("tanh(t)", ratio=0.5, gamma=gamma, mu=[1.5, 0], w_k=[1, 1], w_q=[1, -1])


def trained(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mu = rng.standard_normal(768)
    W = rng.standard_normal((768, 768)) / np.sqrt(768)
    GeneralAttention(W, mu / np.linalg.norm(mu), "tanh(t)", 0.5).error(0.1)


def explorer_rows() -> None:
    import explorer

    place = {"gamma": 1.0, "p/n": 10**-0.6, "SNR": 1.0}

    def errors(f: Any, angle: float) -> None:
        mu, w_k, w_q = explorer.place(snr=1, w_k=1, w_q=1, angle_k=angle, angle_q=0, around=0)
        found = explorer.explore(f, gamma=1, ratio=place["p/n"], mu=mu, w_k=w_k, w_q=w_q)
        explorer.png(explorer.draw_errors(found, place))

    def formula(text: str) -> None:
        f, _ = explorer.read(text)
        errors(f, 0)
        explorer.png(explorer.draw_expansion(f))
        explorer.formulas(f)

    tanh, _ = explorer.read("tanh(t)")
    row("explorer, a slider", lambda angle: errors(tanh, angle), range(0, 100, 10), 0.3)
    texts = ["tanh(t)", *(f"{g}({k}*t)" for k in (2, 3, 4) for g in ("tanh", "sin", "atan"))]
    row("explorer, a formula", formula, texts, 0.3)


def main() -> None:
    print(f"{'':44} {'median s':>9} {'worst s':>9} {'multiple':>9} {'limit s':>9}")
    imports = ["import rmtsym"] * 6
    row("import", fresh, imports, 1)
    row("attention_error, one point", attention, np.linspace(0.1, 1, 20), 0.005)
    row("one coefficient, 30 digits", lambda _: orders(1), range(6), 1)
    row("sixteen coefficients, 30 digits", lambda _: orders(16), range(6), 1)
    row("closed forms of a catalogue entry", closed_forms, ["tanh", *CATALOGUE], 2)
    row("weights of 768 x 768, one point", trained, range(4), 60)
    explorer_rows()


if __name__ == "__main__":
    main()
