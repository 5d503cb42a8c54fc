"""What does the direction of the weights do?

tanh attention, |mu| = |w_K| = |w_Q| = 1, p = 4 n, gamma = 1. Both weights turn away from mu
together, or one of them while the other stays along mu.
"""

import numpy as np
from workbench import Curve, attention_errors, options, run, simulated, table

from rmtsym import attention_error, regression_error

TURNS = (
    ("w_K and w_Q turn", True, True, "C0"),
    ("w_K turns", True, False, "C2"),
    ("w_Q turns", False, True, "C4"),
)


def main() -> None:
    chosen = options(__doc__, "alignment.png")
    n = chosen.pick(64, 256, 512)
    setting = {"ratio": 4, "gamma": 1, "mu": [1, 0, 0]}
    degrees = np.linspace(0, 180, 61)
    radians = np.deg2rad(degrees)
    turned = np.stack([np.cos(radians), np.sin(radians), 0 * radians], axis=-1)
    still = np.tile([1.0, 0, 0], (len(degrees), 1))
    step = chosen.pick(30, 10, 10)

    curves = []
    for name, key, query, colour in TURNS:
        w_k, w_q = (turned if key else still), (turned if query else still)
        found = [
            simulated(
                "tanh", n=n, p=4 * n, gamma=1, mu=1, weights=(w_k[k], w_q[k]),
                repetitions=chosen.pick(4, 16, 32), seed=chosen.seed + k,
            )
            for k in range(0, len(degrees), step)
        ]  # fmt: skip
        mean, error = np.array([(x.attention, x.attention_error) for x in found]).T
        theory = attention_errors("tanh", **setting, w_k=w_k, w_q=w_q)
        curves.append(Curve(name, colour, degrees, theory, degrees[::step], mean, error))
    print(f"p = {4 * n}, n = {n}, gamma = 1, |mu| = 1")
    table(curves, "angle", (0, 60, 90, 180))
    without = attention_error("tanh", **setting)
    regression = regression_error(ratio=4, gamma=1, snr=1)
    both = curves[0]
    print(
        f"Orthogonal weights do not help: {both.at(90):.6f}, without weights {without:.6f}. "
        f"Along the signal they lower the error by {1 - both.at(0) / without:.0%}, to "
        f"{both.at(0):.4f}; linear regression has {regression:.4f}."
    )

    def draw(axes: object) -> None:
        for curve in curves:
            curve.draw(axes)
        axes.axhline(without, color="grey", linestyle=":", label="no weights")
        axes.axhline(regression, color="C1", linestyle="--", label="linear regression")
        axes.set(xlabel=r"angle to $\mu$ (degrees)", ylabel="interpolation error")
        axes.set_title(rf"$p = {4 * n}$, $n = {n}$, $\gamma = 1$; dots: simulation $\pm 2$ s.e.")
        axes.set_ylim(bottom=0)
        axes.set_xticks(range(0, 181, 30))
        axes.legend(frameon=False, ncols=2, loc="center", bbox_to_anchor=(0.5, 0.3))

    chosen.save(draw)


if __name__ == "__main__":
    run(main)
