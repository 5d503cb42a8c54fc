"""How sensitive is the error to the ratio p/n?

Attention with unit weights along mu against linear regression, p < n, |mu| = 1, gamma = 1: errors,
and the size of their slopes in c = p/n.
"""

import numpy as np
from workbench import ALIGNED, Curve, options, run, simulated, table

from rmtsym import MODELS, Nonlinearity, attention_error, regression_error
from rmtsym.sensitivity import sensitivities

FUNCTIONS = (("tanh", "C0"), ("truncated_exp", "C2"))


def slope(f: str, c: float) -> float:
    """The derivative of the error in p/n, exact; gamma and all inner products are 1."""
    known = {"c": c}
    if f == "linear regression":
        system = MODELS["regression"].system
    else:
        system, centred = MODELS["attention"].system, Nonlinearity(f).centred()
        known |= {"a_1": centred.coefficient(1), "nu": centred.nu()}
    values = {symbol: known.get(str(symbol), 1) for symbol in system.parameters}
    return {str(s): x for s, x in sensitivities(system, values).items()}["c"]


def main() -> None:
    chosen = options(__doc__, "sensitivity_to_ratio.png")
    n = chosen.pick(80, 400, 1600)
    ratio = np.linspace(0.05, 1, 39)
    places = ratio[[4, 38]] if chosen.size == 0 else ratio[[2, 8, 14, 20, 26, 32, 38]]
    w_k, w_q = ALIGNED

    def theory(f: str, c: np.ndarray) -> np.ndarray:
        if f == "linear regression":
            return regression_error(ratio=c, gamma=1, snr=1)
        return attention_error(f, ratio=c, gamma=1, mu=[1, 0, 0], w_k=w_k, w_q=w_q)

    curves, found = [], []
    for f, colour in FUNCTIONS:
        found = [
            simulated(
                f, n=n, p=round(c * n), gamma=1, mu=1, weights=ALIGNED,
                repetitions=chosen.pick(4, 16, 16), seed=chosen.seed + k,
            )
            for k, c in enumerate(places)
        ]  # fmt: skip
        mean, error = np.array([(x.attention, x.attention_error) for x in found]).T
        curves.append(Curve(f, colour, ratio, theory(f, ratio), places, mean, error))
    mean, error = np.array([(x.regression, x.regression_error) for x in found]).T
    name = "linear regression"
    curves.append(Curve(name, "C1", ratio, theory(name, ratio), places, mean, error))
    slopes = {curve.name: np.array([slope(curve.name, c) for c in ratio]) for curve in curves}
    print(f"n = {n}, gamma = 1, |mu| = 1, unit weights along mu")
    table(curves, "p/n", (0.1, 0.5, 1))
    for f, _ in FUNCTIONS:
        share = slopes[f] / slopes[name]
        steeper = ratio[np.abs(share) > 1]
        print(
            f"{f}: slope / slope of linear regression {share[18]:.2f} at p/n = {ratio[18]:.3g}, "
            f"{share[-1]:.2f} at 1; steeper below p/n = {steeper.max(initial=0):.2g}"
        )
    fall = [curve.at(0.25) - curve.at(1) for curve in curves]
    print(
        f"From p/n = 1/4 to 1 the error of aligned attention falls by {fall[0]:.3f} (tanh) and "
        f"{fall[1]:.3f} (truncated exp), that of linear regression by {fall[2]:.3f}."
    )

    def draw(axes: list) -> None:
        for curve in curves:
            curve.draw(axes[0])
            axes[1].plot(ratio, -slopes[curve.name], curve.dashes, color=curve.color)
        axes[0].set(xlabel="$p/n$", ylabel="interpolation error")
        axes[0].set_title(rf"$n = {n}$, $\gamma = 1$; dots: simulation $\pm 2$ s.e.")
        axes[1].set(xlabel="$p/n$", ylabel=r"$-\partial E / \partial (p/n)$", yscale="log")
        axes[0].set_ylim(bottom=0)
        axes[0].legend(frameon=False)

    chosen.save(draw, columns=2)


if __name__ == "__main__":
    run(main)
