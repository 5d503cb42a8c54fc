"""How does the interpolation error depend on the ridge penalty?

Attention against linear regression on the same tokens, p = 2048, n = 512, |mu| = 1 (Liao et al.,
arXiv 2506.18656, first figure). Unit weights w_K, w_Q along mu, or across it; cos has a_1 = 0.
"""

import numpy as np
from workbench import CASES, Curve, options, run, simulated, table

from rmtsym import attention_error, regression_error


def main() -> None:
    chosen = options(__doc__, "error_against_gamma.png")
    n = chosen.pick(64, 256, 512)
    p, mu = 4 * n, 1
    gamma = np.geomspace(1e-4, 1e2, 61)
    places = gamma[:: chosen.pick(20, 5, 5)]

    curves = []
    for name, f, (w_k, w_q), color in CASES:
        theory = attention_error(f, ratio=4, gamma=gamma, mu=[mu, 0, 0], w_k=w_k, w_q=w_q)
        found = simulated(
            f, n=n, p=p, gamma=places, mu=mu, weights=(w_k, w_q),
            repetitions=chosen.pick(4, 16, 32), seed=chosen.seed,
        )  # fmt: skip
        curves.append(
            Curve(name, color, gamma, theory, places, found.attention, found.attention_error)
        )
    regression = Curve(
        "linear regression", "C1", gamma, regression_error(ratio=4, gamma=gamma, snr=mu**2),
        places, found.regression, found.regression_error,
    )  # fmt: skip
    print(f"p = {p}, n = {n}, |mu| = {mu}")
    table([regression, *curves], "gamma", (0.01, 1, 100))
    above = curves[0].theory > regression.theory
    print(
        f"Attention with aligned weights lies above linear regression at {above.sum()} of the "
        f"{len(gamma)} penalties: {curves[0].at(1) / regression.at(1):.1f} times at gamma = 1, "
        f"{curves[0].at(100) / regression.at(100):.2f} times at gamma = 100."
    )

    def draw(axes: object) -> None:
        for curve in (regression, *curves):
            curve.draw(axes)
        axes.set(xscale="log", xlabel=r"ridge penalty $\gamma$", ylabel="interpolation error")
        axes.set_title(rf"$p = {p}$, $n = {n}$, $\|\mu\| = {mu}$; dots: simulation $\pm 2$ s.e.")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)

    chosen.save(draw)


if __name__ == "__main__":
    run(main)
