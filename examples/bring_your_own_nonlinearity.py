"""What does my nonlinearity do in attention?

Type it with --f, a formula in t. Its Hermite coefficients (closed forms where there are any), its
errors with fifty digits, the verdict of the simulation, and a picture.

    python examples/bring_your_own_nonlinearity.py --f "t*exp(-t^2)" --ratio 1/2 --gamma 1/10
"""

import argparse
from fractions import Fraction

import numpy as np
import sympy
from workbench import ALIGNED, Curve, options, run, simulated, table

from rmtsym import Nonlinearity, attention_error, regression_error, verify_attention
from rmtsym.plot import draw_hermite

MU = 1


def more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--f", default="t*exp(-t^2)", help="the nonlinearity, a formula in t")
    parser.add_argument("--ratio", default="1/2", help="p/n")
    parser.add_argument("--gamma", default="1/10", help="ridge penalty")


def main() -> None:
    chosen = options(__doc__, "bring_your_own_nonlinearity.png", more)
    f = Nonlinearity(chosen.rest.f)
    w_k, w_q = ALIGNED
    point = {"ratio": chosen.rest.ratio, "gamma": chosen.rest.gamma}
    vectors = {"mu": [MU, 0, 0], "w_k": w_k, "w_q": w_q}

    print(f"f(t) = {f}")
    for row in f.rows(6):
        exact = f" = {row['exact']}" if row["exact"] is not None else ""
        print(f"  a_{row['k']} = {row['value']:+.6f}{exact}")
    print(f"  nu  = {f.nu():+.6f}" + (f" = {f.exact_nu()}" if f.exact_nu() is not None else ""))
    digits = attention_error(f, **point, **vectors, digits=chosen.pick(20, 50, 50))
    print(f"attention, p/n = {point['ratio']}, gamma = {point['gamma']}: {digits}")
    print(f"linear regression: {regression_error(**point, snr=MU**2):.6f}")
    sizes = chosen.pick([60, 120], None, None)
    effort = {"sizes": sizes, "repetitions": sizes and 20, "detect": chosen.pick(1, 0.05, 0.01)}
    verdict = verify_attention(f, **point, **vectors, **effort, seed=chosen.seed)
    print(verdict)
    print(f"Its error is {float(digits):.4f}, and simulation "
          f"{'agrees' if verdict.agrees else 'DISAGREES'}.")  # fmt: skip

    gamma = np.geomspace(1e-3, 1e1, 41)
    places = gamma[:: chosen.pick(20, 5, 5)]
    ratio = float(Fraction(point["ratio"]))
    n = 2 * round(chosen.pick(60, 400, 1000) / max(1, ratio) / 2)
    found = simulated(
        f, n=n, p=round(n * ratio), gamma=places, mu=MU, weights=ALIGNED,
        repetitions=chosen.pick(4, 16, 32), seed=chosen.seed,
    )  # fmt: skip
    attention = attention_error(f, ratio=point["ratio"], gamma=gamma, **vectors)
    regression = regression_error(ratio=point["ratio"], gamma=gamma, snr=MU**2)

    curves = (
        Curve("attention", "C0", gamma, attention, places,
              found.attention, found.attention_error),
        Curve("linear regression", "C1", gamma, regression, places,
              found.regression, found.regression_error),
    )  # fmt: skip
    table(curves, "gamma", (0.001, 0.1, 10))

    def draw(axes: list) -> None:
        draw_hermite(f, axes, 6)
        axes[0].legend(fontsize="small")
        for curve in curves:
            curve.draw(axes[2])
        axes[0].set_title(rf"$f(t) = {sympy.latex(f.expression)}$")
        axes[2].set(xscale="log", xlabel=r"ridge penalty $\gamma$", ylabel="interpolation error")
        axes[2].set_title(rf"$n = {n}$; dots: simulation $\pm 2$ s.e.")
        axes[2].legend(frameon=False)

    chosen.save(draw, columns=3)


if __name__ == "__main__":
    run(main)
