"""How does the interpolation error depend on the dimension p at a fixed number n of tokens?

Attention against linear regression, n = 4096, gamma = 1e-5, |mu| = 1 (Liao et al., arXiv
2506.18656, first figure). Unit weights w_K, w_Q along mu, or across it; cos has a_1 = 0.
"""

import numpy as np
from workbench import CASES, Curve, options, run, simulated, table

from rmtsym import attention_error, regression_error


def main() -> None:
    chosen = options(__doc__, "error_against_dimension.png")
    n, gamma, mu = chosen.pick(64, 512, 4096), 1e-5, 1
    p = np.unique(np.concatenate([np.linspace(n // 16, 2 * n, 63).astype(int), [n]]))
    places = n * np.array(chosen.pick([1, 4], [1, 2, 3, 4, 6, 8], [1, 2, 3, 4, 6, 8])) // 4
    p = np.unique(np.concatenate([p, places]))

    curves, found = [], {}
    for name, f, (w_k, w_q), color in CASES:
        theory = attention_error(f, ratio=p / n, gamma=gamma, mu=[mu, 0, 0], w_k=w_k, w_q=w_q)
        found = [
            simulated(
                f, n=n, p=int(dimension), gamma=gamma, mu=mu, weights=(w_k, w_q),
                repetitions=chosen.pick(4, 12, 4), seed=chosen.seed + index,
            )
            for index, dimension in enumerate(places)
        ]  # fmt: skip
        mean, error = ([getattr(x, key) for x in found] for key in ("attention", "attention_error"))
        curves.append(Curve(name, color, p, theory, places, np.array(mean), np.array(error)))
    mean, error = ([getattr(x, key) for x in found] for key in ("regression", "regression_error"))
    regression = Curve(
        "linear regression", "C1", p, regression_error(ratio=p / n, gamma=gamma, snr=mu**2),
        places, np.array(mean), np.array(error),
    )  # fmt: skip
    print(f"n = {n}, gamma = {gamma}, |mu| = {mu}")
    table([regression, *curves], "p", (n // 4, n // 2, n, 2 * n))
    print(
        f"For p = n/2 aligned attention and linear regression differ by "
        f"{curves[0].at(n // 2) / regression.at(n // 2) - 1:.1%}; for p = 2n attention keeps "
        f"{curves[0].at(2 * n):.1e} where linear regression interpolates "
        f"({regression.at(2 * n):.0e})."
    )

    def draw(axes: list) -> None:
        for axis, scale in zip(axes, ("linear", "log"), strict=True):
            for curve in (regression, *curves):
                curve.draw(axis)
            axis.set(xlabel=r"dimension $p$", ylabel="interpolation error", yscale=scale)
            axis.axvline(n, color="grey", linewidth=0.8, linestyle=":")
        axes[0].set_ylim(bottom=0)
        axes[0].set_title(rf"$n = {n}$ (dotted: $p = n$), $\gamma = 10^{{-5}}$, $\|\mu\| = {mu}$")
        axes[1].set_title(r"the same, logarithmic; dots: simulation $\pm 2$ s.e.")
        axes[0].legend(frameon=False)

    chosen.save(draw, columns=2)


if __name__ == "__main__":
    run(main)
