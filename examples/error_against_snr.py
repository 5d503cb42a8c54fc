"""How does the interpolation error depend on the signal-to-noise ratio |mu|^2?

Attention against linear regression, p = 512, n = 2048, gamma = 1e-5 (Liao et al., arXiv
2506.18656, first figure), and gamma = 1 beside it. Unit weights w_K, w_Q along mu, or across it;
cos has a_1 = 0. Strong spikes converge slowly: the largest signal is simulated at two sizes.
"""

import numpy as np
from workbench import CASES, Curve, attention_errors, options, run, simulated, table

from rmtsym import regression_error

GAMMA = (1e-5, 1.0)


def main() -> None:
    chosen = options(__doc__, "error_against_snr.png")
    n = chosen.pick(128, 512, 2048)
    snr = np.geomspace(0.03, 3, 41)
    places = snr[:: chosen.pick(20, 8, 5)]
    samples = chosen.pick(4, 16, 16)

    panels = [[], []]
    for name, f, (w_k, w_q), color in CASES:
        found = [
            simulated(
                f, n=n, p=n // 4, gamma=GAMMA, mu=x**0.5, weights=(w_k, w_q),
                repetitions=samples, seed=chosen.seed + index,
            )
            for index, x in enumerate(places)
        ]  # fmt: skip
        for k, gamma in enumerate(GAMMA):
            mu = np.sqrt(snr)[:, None] * [1, 0, 0]
            theory = attention_errors(f, ratio=0.25, gamma=gamma, mu=mu, w_k=w_k, w_q=w_q)
            mean = np.array([x.attention[k] for x in found])
            error = np.array([x.attention_error[k] for x in found])
            panels[k].append(Curve(name, color, snr, theory, places, mean, error))
            if name == CASES[-1][0]:
                regression = regression_error(ratio=0.25, gamma=gamma, snr=snr)
                mean = np.array([x.regression[k] for x in found])
                error = np.array([x.regression_error[k] for x in found])
                panels[k].append(
                    Curve("linear regression", "C1", snr, regression, places, mean, error)
                )
    print(f"p = {n // 4}, n = {n}")
    for gamma, curves in zip(GAMMA, panels, strict=True):
        print(f"gamma = {gamma:g}")
        table(curves, "SNR", (0.03, 0.3, 3))

    (along, across, cosine, regression), (strong, *_, ridge) = panels
    gap = along.theory / regression.theory
    print(
        f"Weights along the signal close the gap: at gamma = 1e-5 at most {gap.max() - 1:.2%} "
        f"above linear regression ({np.max(across.theory / regression.theory) - 1:.2%} across); at "
        f"gamma = 1 attention is below it, by {1 - strong.at(3) / ridge.at(3):.0%} at SNR 3. "
        f"cos gains nothing: {cosine.at(0.03):.4f} at SNR 0.03, {cosine.at(3):.4f} at 3."
    )
    small = simulated(
        "tanh", n=n // 4, p=n // 16, gamma=GAMMA[0], mu=snr[-1] ** 0.5, weights=CASES[0][2],
        repetitions=4 * samples, seed=chosen.seed,
    )  # fmt: skip
    print(
        f"Finite size: at SNR 3 (along, gamma = 1e-5) the simulation is "
        f"{small.attention:.3f} +- {small.attention_error:.3f} at p = {n // 16}, "
        f"{along.mean[-1]:.3f} +- {along.error[-1]:.3f} at p = {n // 4}, the limit "
        f"{along.theory[-1]:.3f}."
    )

    def draw(axes: list) -> None:
        for axis, curves in zip(axes, panels, strict=True):
            for curve in curves:
                curve.draw(axis)
            axis.set(xscale="log", xlabel=r"signal-to-noise ratio $\|\mu\|^2$", ylim=(0, 1))
        axes[0].set_ylabel("interpolation error")
        axes[0].set_title(rf"$p = {n // 4}$, $n = {n}$, $\gamma = 10^{{-5}}$")
        axes[1].set_title(r"$\gamma = 1$; dots: simulation $\pm 2$ s.e.")
        axes[0].legend(frameon=False)

    chosen.save(draw, columns=2)


if __name__ == "__main__":
    run(main)
