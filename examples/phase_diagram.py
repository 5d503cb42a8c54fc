"""Where does attention interpolate better than linear regression?

tanh attention over linear regression on the plane of c = p/n and signal |mu|^2, unit weights along
mu and across it, gamma = 1. Triangles: simulation, pointing down where attention is lower by more
than two standard errors, up where it is higher, a dot where the simulation does not tell.
"""

import numpy as np
from workbench import ALIGNED, ORTHOGONAL, attention_errors, options, run, simulated

from rmtsym import regression_error


def main() -> None:
    chosen = options(__doc__, "phase_diagram.png")
    tokens = chosen.pick(64, 256, 1024)
    count = chosen.pick(20, 60, 120)
    ratio, snr = np.geomspace(0.1, 4, count), np.geomspace(0.03, 10, count)
    c, s = np.meshgrid(ratio, snr)
    places = [(x, y) for x in (0.2, 0.8, 1.5, 3) for y in (0.1, 0.5, 2)]
    if chosen.size == 0:
        places = places[::6]
    regression = regression_error(ratio=c, gamma=1, snr=s)

    panels = []
    for name, weights in (("along", ALIGNED), ("across", ORTHOGONAL)):
        mu = np.sqrt(s)[..., None] * [1, 0, 0]
        attention = attention_errors(
            "tanh", ratio=c, gamma=1, mu=mu, w_k=weights[0], w_q=weights[1]
        )
        dots = []
        for k, (x, y) in enumerate(places):
            n = 2 * round(tokens / max(x, 1) / 2)
            found = simulated(
                "tanh", n=n, p=round(x * n), gamma=1, mu=y**0.5, weights=weights,
                repetitions=chosen.pick(4, 16, 16), seed=chosen.seed + k,
            )  # fmt: skip
            mark = 0 if abs(found.ratio - 1) < 2 * found.ratio_error else np.sign(found.ratio - 1)
            near = np.unravel_index(np.argmin(np.log(c / x) ** 2 + np.log(s / y) ** 2), c.shape)
            theory = (attention / regression)[near]
            dots.append((x, y, mark, found.ratio, found.ratio_error, theory))
        panels.append((name, attention / regression, dots))

    print("attention / linear regression, simulated (theory), weights along mu")
    for x, y, _, mean, error, theory in panels[0][2]:
        print(f"  p/n = {x:<5} |mu|^2 = {y:<4} {mean:6.3f} +- {error:.3f}  ({theory:.3f})")
    for name, quotient, dots in panels:
        right = sum(mark * (theory - 1) > 0 for *_, mark, _, _, theory in dots)
        wrong = sum(mark * (theory - 1) < 0 for *_, mark, _, _, theory in dots)
        print(
            f"Weights {name} mu: attention is better on {np.mean(quotient < 1):.0%} of the plane, "
            f"by {1 - quotient.min():.0%} at best, worse by up to {quotient.max() - 1:.0%}; "
            f"simulation confirms the side at {right} of {len(dots)} points, contradicts it at "
            f"{wrong}."
        )

    def draw(axes: list) -> None:
        for axis, (name, quotient, dots) in zip(axes, panels, strict=True):
            image = axis.pcolormesh(
                c, s, np.log2(quotient), cmap="RdBu_r", vmin=-1, vmax=1, shading="gouraud"
            )
            axis.contour(c, s, quotient, [1], colors="black", linewidths=1.5)
            for x, y, mark, *_ in dots:
                style = {-1: "v", 0: "o", 1: "^"}[int(mark)]
                axis.plot(x, y, style, color="white", markeredgecolor="black", markersize=7)
            axis.set(xscale="log", yscale="log", xlabel="$p/n$")
            axis.set_xticks([0.1, 0.3, 1, 3], ["0.1", "0.3", "1", "3"])
            axis.set_xticks([], minor=True)
            axis.set_title(rf"weights {name} $\mu$; black: equal")
        axes[0].set_ylabel(r"signal $\|\mu\|^2$")
        bar = axes[0].figure.colorbar(image, ax=list(axes), ticks=[-1, -0.5, 0, 0.5, 1])
        bar.ax.set_yticklabels(["1/2 or less", "0.71", "1", "1.41", "2 or more"])
        bar.set_label("attention / linear regression")

    chosen.save(draw, columns=2)


if __name__ == "__main__":
    run(main)
