"""How often verdicts are wrong: right theories rejected, wrong ones passed.

    python benchmarks/verdict_rates.py --seeds 200 --power-seeds 100

Right theories: the limits that the package derives, over several nonlinearities, ratios and
penalties. Wrong ones: the same equations with a_1 off by 5 % (nu as it is, or raised to a_1^2),
where that moves the error by more than 2 %; elsewhere ``power`` says that the check is too weak.
Prints one line per verdict on standard error, then one per case and the totals; ``--record FILE``
also writes the z-scores as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from rmtsym.models import attention
from rmtsym.models.attention import attention_error, read_nonlinearity, verify_attention
from rmtsym.models.base import coordinates, gram
from rmtsym.parsing import exact_number
from rmtsym.solver import solve

FIRST = {"mu": ["1.5", 0, 0], "w_k": [1, 1, 0], "w_q": [1, 0, -1]}
ALIGNED = {"mu": ["1.5"], "w_k": [1], "w_q": [1]}
RIGHT = [
    ("tanh(t)", {"ratio": "2/3", "gamma": "0.2", **FIRST}),
    ("sign(t)", {"ratio": "2", "gamma": "0.5", **ALIGNED}),
    ("cos(t)", {"ratio": "1/3", "gamma": "0.1", **FIRST}),
    ("Max(t, 0)", {"ratio": "1/2", "gamma": "0.1", **FIRST}),
    ("Min(exp(t), 5)", {"ratio": "1", "gamma": "0.1", **FIRST}),
    ("tanh(t)", {"ratio": "2", "gamma": "0.01"}),
    ("Max(t, 0)", {"ratio": "1", "gamma": "0.01"}),
    ("erf(t)", {"ratio": "4", "gamma": "1", **ALIGNED}),
]
WRONG = [
    ("tanh(t)", {"ratio": "2/3", "gamma": "0.2", **FIRST}, "1.05"),
    ("tanh(t)", {"ratio": "2/3", "gamma": "0.2", **FIRST}, "0.95"),
    ("tanh(t)", {"ratio": "2", "gamma": "0.01"}, "1.05"),
    ("Min(exp(t), 5)", {"ratio": "1", "gamma": "0.1", **FIRST}, "1.05"),
]


def wrong_theory(f: str, at: dict, factor: str) -> float:
    """The limit of equations whose a_1 is off by a factor."""
    system = attention.ATTENTION.system
    chosen = read_nonlinearity(f)
    slope = chosen.coefficient(1) * float(factor)
    hermite = {s.moment: s.symbol for s in system.hermite_symbols}
    energy = next(s for moment, s in hermite.items() if moment != "slope")
    rows = coordinates({name: at.get(name) for name in ("mu", "w_k", "w_q")})
    products = gram({getattr(attention, name): row for name, row in rows.items()})
    values = {
        attention.c: exact_number(at["ratio"]),
        attention.gamma: exact_number(at["gamma"]),
        **products,
        hermite["slope"]: slope,
        energy: max(chosen.nu(), slope**2),
    }
    values = {s: exact_number(v) for s, v in values.items() if s in system.parameters}
    return float(solve(system, values).value)


def campaign(cases: list, first: int, seeds: int, detect: float | None) -> list[dict]:
    """One record per seed, from ``first`` on; the seeds go round the cases."""
    records = []
    options = {} if detect is None else {"detect": detect}
    for seed in range(first, first + seeds):
        f, at, *factor = cases[seed % len(cases)]
        theory = wrong_theory(f, at, factor[0]) if factor else None
        start = time.perf_counter()
        verdict = verify_attention(f, **at, theory=theory, seed=seed, **options)
        records.append(
            {
                "case": f"{f}, ratio {at['ratio']}, gamma {at['gamma']}"
                + (f", a_1 x {factor[0]}" if factor else ""),
                "seed": seed,
                "z": verdict.z_score,
                "agrees": verdict.agrees,
                "power": verdict.power,
                "looks": verdict.looks,
                "effect": abs(verdict.theory / attention_error(f, **at) - 1),
                "seconds": time.perf_counter() - start,
            }
        )
        last = records[-1]
        print(
            f"{last['case']:48s} z {last['z']:+6.2f} {'agrees' if last['agrees'] else 'rejected'}"
            f" after {last['looks']} looks, {last['seconds']:.1f} s, finds {last['power']:.2%}",
            file=sys.stderr,
            flush=True,
        )
    return records


def report(title: str, records: list[dict]) -> int:
    print(f"\n{title}")
    for case in dict.fromkeys(r["case"] for r in records):
        mine = [r for r in records if r["case"] == case]
        z = [r["z"] for r in mine]
        print(
            f"  {case:48s} {sum(not r['agrees'] for r in mine):4d} of {len(mine):4d} rejected; "
            f"rms z {(sum(x * x for x in z) / len(z)) ** 0.5:5.2f}; "
            f"finds {sum(r['power'] for r in mine) / len(mine):.2%}, "
            f"theory off by {mine[0]['effect']:.2%}; "
            f"{sum(r['seconds'] for r in mine) / len(mine):.1f} s a run, "
            f"{max(r['seconds'] for r in mine):.1f} s at most"
        )
    rejected = sum(not r["agrees"] for r in records)
    print(f"  rejected: {rejected} of {len(records)} = {rejected / len(records):.1%}")
    return rejected


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200, help="verdicts on right theories")
    parser.add_argument("--power-seeds", type=int, default=100, help="verdicts on wrong ones")
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--detect", type=float, default=None, help="as for verify")
    parser.add_argument("--record", type=Path, default=None)
    options = parser.parse_args()
    everything = {}
    if options.seeds:
        right = campaign(RIGHT, options.first_seed, options.seeds, options.detect)
        report("right theories", right)
        everything["right"] = right
    if options.power_seeds:
        wrong = campaign(WRONG, options.first_seed, options.power_seeds, options.detect)
        report("a_1 off by 5 %", wrong)
        everything["wrong"] = wrong
    if options.record:
        options.record.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    main()
