r"""What the theory says about one attention layer of a checkpoint, beside direct simulation.

The weights are scaled to ``|W|_F^2 = p`` (scores of variance 1). Four errors against the ridge:

general           the theory for this W (:mod:`rmtsym.models.general_attention`)
simulation        the model itself with this W, f applied entry by entry
identity + low    the theory for ``I + w_K w_Q^T``, with the low-rank part of the joint fit
  rank            ``alpha I + w_K w_Q^T``. Nearly all of a trained W is in neither part, so this
                  curve need not come near the simulation: it shows what the assumption leaves out
linear            ridge regression on the tokens themselves
  regression
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rmtsym.decomposition import Decomposition, decompose, plot_spectrum
from rmtsym.elliptic import LowRankWeights
from rmtsym.errors import InputError
from rmtsym.models.general_attention import GeneralAttention, Rung
from rmtsym.models.regression import regression_error
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.pretrained import AttentionWeights, load_attention

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["WeightsReport", "weights_report"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WeightsReport:
    """Everything :func:`weights_report` found; ``str`` is the table, ``figure`` the picture."""

    weights: AttentionWeights
    decomposition: Decomposition
    f: Nonlinearity
    ratio: float
    signal: float
    gamma: Array
    general: Array
    low_rank: Array
    linear_regression: Array
    simulation: tuple[Rung, ...]

    @property
    def deviation(self) -> Array:
        """``simulation / general - 1``, (k,)."""
        return np.array([rung.mean for rung in self.simulation]) / self.general - 1

    def __str__(self) -> str:
        weights, rank = self.weights, len(self.decomposition.s)
        heads = (
            f"all {weights.n_head} heads"
            if len(weights.heads) == weights.n_head
            else "head " + ", ".join(map(str, weights.heads))
        )
        lines = [f"{weights.layout} layer {weights.layer}, {heads}, p = {weights.p}"]
        if weights.query_bias is not None or weights.key_bias is not None:
            lines.append("note: the biases of queries and keys are not part of W")
        if weights.norm is not None and not weights.norm_folded:
            lines.append(f"note: the gain of {weights.norm} is not folded into W")
        lines += [f"note: {note}" for note in weights.notes]
        lines += ["", str(self.decomposition), ""]
        size = self.simulation[0]
        lines.append(
            f"interpolation error: f = {self.f}, p/n = {self.ratio:.4g}, |mu| = {self.signal:.4g}, "
            f"|W|_F^2 = p; simulation at p = {size.p}, n = {size.n}, {size.repetitions} draws"
        )
        low = f"I + rank {rank}"
        lines.append(f"{'gamma':>10}{'general':>10}{'simulation':>20}{low:>12}{'linear':>10}")
        for gamma, general, rung, low_rank, linear in zip(
            self.gamma, self.general, self.simulation, self.low_rank, self.linear_regression,
            strict=True,
        ):  # fmt: skip
            seen = f"{rung.mean:.4f} +- {rung.standard_error:.4f}"
            lines.append(
                f"{gamma:>10.3g}{general:>10.4f}{seen:>20}{low_rank:>12.4f}{linear:>10.4f}"
            )
        return "\n".join(lines)

    def plot(self, ax: Axes) -> Axes:
        """Error against gamma."""
        rank = len(self.decomposition.s)
        ax.errorbar(
            self.gamma,
            [rung.mean for rung in self.simulation],
            yerr=[2 * rung.standard_error for rung in self.simulation],
            fmt="o", markersize=4, color="k", label="simulation, this W",
        )  # fmt: skip
        ax.plot(self.gamma, self.general, "-", label="theory, this W")
        ax.plot(self.gamma, self.low_rank, "--", label=f"theory, I + rank {rank}")
        ax.plot(self.gamma, self.linear_regression, ":", label="linear regression")
        ax.set(xscale="log", xlabel="gamma", ylabel="interpolation error", ylim=(0, 1))
        ax.legend(frameon=False)
        return ax

    def figure(self) -> Figure:
        """Error against gamma, and the spectrum against a random null."""
        import matplotlib.pyplot as plt

        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
        self.plot(left)
        plot_spectrum(self.decomposition, right)
        shares = self.decomposition.shares
        left.set_title(f"{self.weights.layout} layer {self.weights.layer}")
        right.set_title(
            f"identity {shares[0]:.1%}, rank {len(self.decomposition.s)} {shares[1]:.1%}, "
            f"rest {shares[2]:.1%}"
        )
        return figure


def weights_report(
    source: str | Path | Mapping[str, ArrayLike] | AttentionWeights,
    *,
    layer: int | None = None,
    head: int | None = None,
    heads: Sequence[int] | None = None,
    n_head: int | None = None,
    prefix: str | None = None,
    fold_layer_norm: bool = False,
    f: Any = "tanh(t)",
    gamma: ArrayLike = (0.01, 0.1, 1.0, 10.0),
    ratio: float = 0.5,
    signal: float = 1.5,
    mu: ArrayLike | None = None,
    rank: int = 1,
    repetitions: int = 10,
    copies: int = 1,
    tokens: str = "gaussian",
    seed: int = 0,
) -> WeightsReport:
    r"""Load one layer, take W apart, predict, and simulate.

    source, layer, head, heads, n_head, prefix, fold_layer_norm : see :func:`load_attention`
    f : nonlinearity
    gamma : (k,) ridges; ratio : p/n
    signal : ``|mu|``, in a random direction of ``seed``, unless ``mu`` (p,) is given
    rank : of the low-rank part
    repetitions, copies, tokens, seed : see :meth:`GeneralAttention.simulate`

    Raises what these raise.

    >>> import numpy as np
    >>> w_q, w_k = np.random.default_rng(0).standard_normal((2, 4, 8, 32))
    >>> report = weights_report({"w_q": w_q, "w_k": w_k}, layer=0, gamma=[0.1], repetitions=40)
    >>> bool(abs(report.deviation[0]) < 0.1)
    True
    """
    if isinstance(source, AttentionWeights):
        weights = source
    elif layer is None:
        raise InputError("pass layer, counted from 0")
    else:
        weights = load_attention(
            source, layer=layer, head=head, heads=heads, n_head=n_head, prefix=prefix,
            fold_layer_norm=fold_layer_norm,
        )  # fmt: skip
    W, p = weights.W, weights.p
    norm = float(np.linalg.norm(W))
    if norm == 0:
        raise InputError("W is zero, so every score is 0")
    W *= math.sqrt(p) / norm
    f = Nonlinearity(f)
    if mu is None:
        direction = np.random.default_rng(np.random.SeedSequence([seed, p])).standard_normal(p)
        mu = signal * direction / np.linalg.norm(direction)
    vector = np.asarray(mu, dtype=np.float64)
    ridges = np.atleast_1d(np.asarray(gamma, dtype=np.float64))
    model = GeneralAttention(W, vector, f, ratio)
    found = decompose(W, rank)
    assumed = replace(model, W=LowRankWeights(found.w_K, found.w_Q)) if rank else replace(
        model, W=np.eye(p)
    )  # fmt: skip
    length = float(np.linalg.norm(vector))
    return WeightsReport(
        weights=weights,
        decomposition=found,
        f=f,
        ratio=ratio,
        signal=length,
        gamma=ridges,
        general=model.error(ridges),
        low_rank=assumed.error(ridges),
        linear_regression=np.asarray(regression_error(ratio=ratio, gamma=ridges, snr=length**2)),
        simulation=tuple(
            model.simulate(ridges, repetitions=repetitions, copies=copies, tokens=tokens, seed=seed)
        ),
    )
