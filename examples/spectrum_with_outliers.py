"""Do the labels show in the spectrum of the attention kernel?

K = offdiag f(X^T X / sqrt(p)) / sqrt(p), no weights, p = n/2. The bulk does not see the signal; for
tanh one eigenvalue leaves it beyond a critical |mu|, and its eigenvector carries the labels. For
sign(t) - sqrt(2/pi) t, whose a_1 is 0, none does. Both are odd: a_2 != 0 adds two outliers that
have nothing to do with mu.
"""

import numpy as np
import sympy as sp
from workbench import dots, options, run

from rmtsym import (
    Entrywise,
    Gaussian,
    Labels,
    Nonlinearity,
    OffDiagonal,
    Vector,
    dimensions,
)
from rmtsym.spectrum import Spectrum, draw, eigenvalues, spectrum

n, p = dimensions("n p")
f = sp.Symbol("f")
Z, y = Gaussian("Z", p, n), Labels("y", n)
mu = Vector("mu", p)
X = Z + mu * y.T
K = OffDiagonal(Entrywise(f, X.T * X / sp.sqrt(p))) / sp.sqrt(p)

SIGNAL = 2.0
FUNCTIONS = {"tanh": "tanh(t)", "sign - linear": "sign(t) - sqrt(2/pi)*t"}


def limit(name: str, length: float) -> Spectrum:
    return spectrum(
        K,
        {n: 1, p: sp.Rational(1, 2)},
        vectors={mu: [length]},
        nonlinearities={f: Nonlinearity(FUNCTIONS[name])},
        signals=(y,),
    )


def main() -> None:
    chosen = options(__doc__, "spectrum_with_outliers.png")
    tokens = chosen.pick(200, 800, 3000)
    repetitions = chosen.pick(3, 8, 10)
    lengths = np.linspace(0, 2.4, chosen.pick(5, 25, 49))
    places = lengths[:: chosen.pick(2, 4, 4)]

    def sample(name: str, length: float, seed: int) -> np.ndarray:
        return eigenvalues(
            K,
            sizes={n: tokens, p: tokens // 2},
            vectors={mu: [length]},
            nonlinearities={f: Nonlinearity(FUNCTIONS[name])},
            seed=seed,
        )

    found = {name: limit(name, SIGNAL) for name in FUNCTIONS}
    samples = {name: sample(name, SIGNAL, chosen.seed) for name in found}
    for name, law in found.items():
        print(f"{name}, |mu| = {SIGNAL}, p/n = 1/2, n = {tokens}")
        print("  " + str(law).replace("\n", "\n  "))
        print(f"  sample: smallest {samples[name][0]:.4f}, largest {samples[name][-1]:.4f}")

    laws = [limit("tanh", length) for length in lengths]
    edge = laws[0].support[-1][1]
    tops = [[o for o in law.outliers if o.location > edge] for law in laws]
    location = np.array([max((o.location for o in top), default=edge) for top in tops])
    overlap = np.array([sum(o.overlaps["y"] for o in top) for top in tops])
    largest = np.array(
        [[sample("tanh", x, chosen.seed + k)[-1] for k in range(repetitions)] for x in places]
    )
    mean, error = largest.mean(1), largest.std(1, ddof=1) / np.sqrt(repetitions)
    theory = np.interp(places, lengths, location)
    print("|mu|   largest eigenvalue   simulated             overlap with the labels")
    for x, a, b, e in zip(places, theory, mean, error, strict=True):
        overlapping = np.interp(x, lengths, overlap)
        print(f"{x:4.2f} {a:20.4f}   {b:.4f} +- {e:.4f} {overlapping:25.3f}")
    outlier = found["tanh"].outliers[-1]
    critical = lengths[np.flatnonzero(overlap > 0)[0]]
    other = len(found["sign - linear"].outliers) or "none"
    print(
        f"The labels show from |mu| = {critical:.2f} on (in steps of {lengths[1]:.2f}). At |mu| = "
        f"{SIGNAL} tanh has an eigenvalue at {outlier.location:.3f}, off the bulk that ends at "
        f"{edge:.3f}; its eigenvector holds {outlier.overlaps['y']:.0%} of the labels. "
        f"With a_1 = 0: {other}."
    )

    def picture(axes: list) -> None:
        for axis, (name, law) in zip(axes, found.items(), strict=False):
            draw(law, samples[name], axis)
            axis.legend(frameon=False)
            axis.set_title(rf"{name}, $\|\mu\| = {SIGNAL}$, $n = {tokens}$, one sample")
        axes[2].plot(lengths, location, color="C0", label="largest eigenvalue")
        axes[2].axhline(edge, color="grey", linestyle=":", label="edge of the bulk")
        dots(axes[2], places, mean, error, "C0")
        axes[2].set(xlabel=r"$\|\mu\|$", ylabel="largest eigenvalue")
        axes[2].set_title(r"tanh; dots: simulation $\pm 2$ s.e.")
        axes[2].legend(frameon=False)

    chosen.save(picture, columns=3)


if __name__ == "__main__":
    run(main)
