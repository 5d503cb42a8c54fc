"""Which nonlinearity interpolates best, and why?

tanh, truncated exp, cos, relu and the exact row softmax (beta = 1), each scaled to nu = 1 (which is
the penalty gamma nu), unit weights along mu, p = 4 n, gamma = 1. Then a_1^2 / nu decides alone; at
a_1 = 0 (cos) neither signal nor dimension helps.
"""

import math

import numpy as np
from workbench import ALIGNED, Curve, attention_errors, options, run, simulated

from rmtsym import MODELS, Nonlinearity, attention_error, regression_error, simulate

NAMES = ("tanh", "truncated_exp", "cos", "relu", "softmax")
SOFTMAX = "exp(t - 1/2) - 1"
"""Its Hermite coefficients for k >= 1 are those that the row softmax of beta = 1 acts by."""
RATIO = 4


def point(name: str, n: int, gamma: float, mu: float, repetitions: int, seed: int) -> tuple:
    """Simulated error of one nonlinearity, with its standard error."""
    if name != "softmax":
        found = simulated(
            name, n=n, p=RATIO * n, gamma=gamma, mu=mu, weights=ALIGNED,
            repetitions=repetitions, seed=seed,
        )  # fmt: skip
        return found.attention, found.attention_error
    estimate = simulate(
        MODELS["softmax"].expression,
        sizes={"n": n, "p": RATIO * n},
        values={"gamma": gamma, "beta": 1},
        vectors={"mu": [mu, 0, 0], "w_k": ALIGNED[0], "w_q": ALIGNED[1]},
        repetitions=repetitions,
        seed=seed,
    )
    return estimate.mean, estimate.standard_error


def main() -> None:
    chosen = options(__doc__, "nonlinearities.png")
    n, repetitions = chosen.pick(64, 256, 512), chosen.pick(4, 32, 32)
    snr = np.geomspace(0.03, 4, 41)
    places = snr[:: chosen.pick(20, 10, 8)]
    w_k, w_q = ALIGNED

    curves, dots = [], []
    print(f"p = {RATIO * n}, n = {n}, gamma = nu, |mu| = 1, weights along mu")
    print("f                 a_1       nu   a_1^2/nu   theory   simulation")
    for index, name in enumerate(NAMES):
        f = Nonlinearity(SOFTMAX if name == "softmax" else name).centred()
        a_1, nu = f.coefficient(1), f.nu()
        mu = np.sqrt(snr)[:, None] * [1, 0, 0]
        theory = attention_errors(f, ratio=RATIO, gamma=nu, mu=mu, w_k=w_k, w_q=w_q)
        found = [point(name, n, nu, x**0.5, repetitions // 2, chosen.seed + k)
                 for k, x in enumerate(places)]  # fmt: skip
        mean, error = np.array(found).T
        curves.append(Curve(name, f"C{index}", snr, theory, places, mean, error))
        limit = attention_error(f, ratio=RATIO, gamma=nu, mu=[1, 0, 0], w_k=w_k, w_q=w_q)
        mean, error = point(name, n, nu, 1, repetitions, chosen.seed)
        dots.append((a_1**2 / nu, mean, error))
        print(f"{name:14}{a_1:8.4f} {nu:8.4f} {a_1**2 / nu:10.4f} {limit:8.4f}"
              f"   {mean:.4f} +- {error:.4f}")  # fmt: skip
    regression = regression_error(ratio=RATIO, gamma=1, snr=snr)

    shares = np.linspace(0, 1, 41)
    family = [
        attention_error(
            Nonlinearity.from_coefficients([0, str(x**0.5), 0, str((1 - x) ** 0.5)]),
            ratio=RATIO, gamma=1, mu=[1, 0, 0], w_k=w_k, w_q=w_q,
        )
        for x in shares
    ]  # fmt: skip
    nu = Nonlinearity("cos").centred().nu()
    wide = [attention_error("cos", ratio=c, gamma=nu) for c in (2, 8)]
    plain = [regression_error(ratio=c, gamma=1, snr=1) for c in (2, 8)]
    cosine = curves[NAMES.index("cos")].theory
    print(
        f"The error falls from {family[0]:.3f} at a_1 = 0 to {family[-1]:.3f} at a_1^2 = nu. "
        f"cos: the signal changes it by {np.ptp(cosine):.0e}, p/n = 2 to 8 by "
        f"{wide[1] / wide[0] - 1:.0%} (linear regression: {plain[1] / plain[0] - 1:.0%})."
    )
    small, spread = point("softmax", n // 2, math.e - 1, 1, 2 * repetitions, chosen.seed)
    share, mean, error = dots[NAMES.index("softmax")]
    print(
        f"Finite size: softmax, like exp, has heavy tails and converges slowest: {small:.3f} +- "
        f"{spread:.3f} at n = {n // 2}, {mean:.3f} +- {error:.3f} at n = {n}, limit "
        f"{np.interp(share, shares, family):.3f}."
    )

    def draw(axes: list) -> None:
        for curve in curves:
            curve.draw(axes[0])
        axes[0].plot(snr, regression, "--", color="grey", label="linear regression")
        axes[0].set(xscale="log", xlabel=r"signal $\|\mu\|^2$", ylabel="interpolation error")
        axes[0].set_title(rf"$p = {RATIO * n}$, $n = {n}$, $\gamma = \nu$")
        axes[0].set_ylim(bottom=0)
        axes[0].legend(frameon=False, ncols=2, fontsize="small")
        axes[1].plot(shares, family, color="black", linewidth=1)
        for (share, mean, error), curve in zip(dots, curves, strict=True):
            axes[1].errorbar(share, mean, 2 * error, fmt="o", color=curve.color, capsize=2)
            place = {"truncated_exp": (-28, -32), "tanh": (8, -12)}.get(curve.name, (6, 4))
            axes[1].annotate(curve.name, (share, mean), place, textcoords="offset points")
        axes[1].set(xlabel=r"$a_1^2/\nu$", xlim=(-0.05, 1.1))
        axes[1].set_title(r"$\|\mu\| = 1$; dots: simulation $\pm 2$ s.e.")

    chosen.save(draw, columns=2)


if __name__ == "__main__":
    run(main)
