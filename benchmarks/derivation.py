"""Time from an expression to its solved number, each model in a fresh process.

    python benchmarks/derivation.py

Prints the import, the derivation with the first solution, and a solution after that.
"""

from __future__ import annotations

import subprocess
import sys

LIMITS = {
    "marchenko-pastur": 1,
    "attention": 3,
    "random-features-training": 4,
    "random-features-test": 4,
    "ridge-bias": 5,
    "ridge-variance": 5,
}

CODE = """
import time
start = time.perf_counter()
import rmtsym
from rmtsym.models import MODELS
from rmtsym.models.base import gram
from rmtsym.parsing import exact_number
loaded = time.perf_counter()
model = MODELS[{name!r}]
example = model.examples[0]
values = {{s: exact_number(v) for s, v in example.values}}
values |= gram({{v: tuple(map(exact_number, row)) for v, row in example.vectors}})
functions = {{f: rmtsym.Nonlinearity(x).centred() for f, x in example.nonlinearities}}
rmtsym.solve(model.system, values, nonlinearities=functions)
first = time.perf_counter()
rmtsym.solve(model.system, values, nonlinearities=functions)
again = time.perf_counter()
print(loaded - start, first - loaded, again - first)
"""


def main() -> None:
    print(f"{'model':26} {'import s':>9} {'derived s':>10} {'again ms':>9} {'limit s':>8}")
    for name, limit in LIMITS.items():
        done = subprocess.run(
            [sys.executable, "-c", CODE.format(name=name)],
            capture_output=True,
            text=True,
            check=True,
        )
        loaded, first, again = map(float, done.stdout.split())
        print(f"{name:26} {loaded:9.2f} {first:10.2f} {1e3 * again:9.2f} {limit:8}")


if __name__ == "__main__":
    main()
