"""Does attention interpolate worse than linear regression? Random tokens, and tokens with a signal.

tanh attention with unit weights along mu, for mu = 0 and |mu| = 1, more dimensions than tokens and
fewer. Random tokens: attention is generally above. With a signal the gap closes, and reverses for
p < n at larger penalties.
"""

import numpy as np
from workbench import ALIGNED, Curve, options, run, simulated, table

from rmtsym import attention_error, regression_error

CASES = (("random", 0, "C7", "C3"), ("with a signal", 1, "C1", "C0"))


def main() -> None:
    chosen = options(__doc__, "random_and_structured.png")
    tokens = chosen.pick(64, 256, 512)
    gamma = np.geomspace(1e-3, 1e2, 51)
    places = gamma[:: chosen.pick(25, 5, 5)]
    w_k, w_q = ALIGNED
    panels = []
    for ratio, n in ((4, tokens), (0.25, 4 * tokens)):
        curves = []
        for kind, mu, plain, colour in CASES:
            found = simulated(
                "tanh", n=n, p=round(ratio * n), gamma=places, mu=mu, weights=ALIGNED,
                repetitions=chosen.pick(4, 8, 16), seed=chosen.seed,
            )  # fmt: skip
            regression = regression_error(ratio=ratio, gamma=gamma, snr=mu**2)
            theory = attention_error(
                "tanh", ratio=ratio, gamma=gamma, mu=[mu, 0, 0], w_k=w_k, w_q=w_q
            )
            curves += [
                Curve(f"attention, {kind}", colour, gamma, theory, places,
                      found.attention, found.attention_error),
                Curve(f"linear regression, {kind}", plain, gamma, regression, places,
                      found.regression, found.regression_error),
            ]  # fmt: skip
        panels.append((round(ratio * n), n, curves))
        print(f"p = {round(ratio * n)}, n = {n}")
        table(curves, "gamma", (0.01, 1, 10))
        for k, (kind, *_) in enumerate(CASES):
            quotient = curves[2 * k].theory / curves[2 * k + 1].theory
            below = gamma[quotient < 1]
            where = f"below it from gamma = {below.min():.2g}" if len(below) else "nowhere below it"
            print(
                f"  {kind}: attention / linear regression from {quotient.min():.2f} to "
                f"{quotient.max():.3g}; {where}"
            )
    small = simulated(
        "truncated_exp", n=800, p=200, gamma=1, mu=2, weights=([3, 0, 0], [3, 0, 0]),
        repetitions=chosen.pick(2, 8, 16), seed=chosen.seed,
    )  # fmt: skip
    point = {"ratio": "1/4", "gamma": 1}
    strong = attention_error("truncated_exp", **point, mu=[2], w_k=[3], w_q=[3])
    print(
        "Random tokens: above linear regression for p > n at every penalty, for p < n only at "
        "small ones. Strong signal and weights, p/n = 1/4, gamma = 1, |mu|^2 = 4, min(e^t, 5), "
        f"w_K = w_Q = 3 mu/|mu|: attention {strong:.3f}, linear regression "
        f"{regression_error(**point, snr=4):.3f}, in the limit; spikes this strong converge like "
        f"1/sqrt(p): {small.attention:.3f} +- {small.attention_error:.3f} and "
        f"{small.regression:.3f} +- {small.regression_error:.3f} in simulation at p = 200."
    )

    def draw(axes: list) -> None:
        for axis, (p, n, curves) in zip(axes, panels, strict=True):
            for curve in curves:
                curve.draw(axis)
            axis.set(xscale="log", xlabel=r"ridge penalty $\gamma$", ylim=(0, 1.02))
            axis.set_title(rf"$p = {p}$, $n = {n}$")
        axes[0].set_ylabel("interpolation error")
        axes[1].set_title(axes[1].get_title() + r"; dots: simulation $\pm 2$ s.e.")
        axes[0].legend(frameon=False)

    chosen.save(draw, columns=2)


if __name__ == "__main__":
    run(main)
