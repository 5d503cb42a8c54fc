r"""Attention with the exact row softmax, its diagonal masked.

    K = (n / sqrt(p)) softmax_row(beta X^T W X / sqrt(p)),     K_ii = 0,
    E(gamma) = -(gamma^2 / n) d/dgamma y^T (K^T X^T X K / n + gamma I_n)^{-1} y.

The row sums centre the rows and leave one direction of infinite strength: with g of Hermite
coefficients ``a_k = beta^k / sqrt(k!)``, k >= 1, ``nu = exp(beta^2) - 1``, and the unit vector 1,

    K ~ K_g (I - 1 1^T) + kappa 1 1^T,     kappa -> infinity.

The limit does not see the kurtosis of the noise. Simulation subtracts each row's maximum, so no
beta overflows there. The limit needs ``exp(beta^2)`` finite and is approached slowly for large
beta, where few scores of a row outweigh the others. For p/n = 1/2, gamma = 0.2 and the weights
below (100 samples; z in standard errors of the simulated mean, so of the finite size, not of the
theory):

             labels balanced                     rho = 0.8
    beta     limit    n = 800         z         limit    n = 800         z
    1/4      0.2666   0.2726(16)    +3.8        0.1721   0.1782(9)     +6.5
    1/2      0.2321   0.2354(14)    +2.3        0.1488   0.1504(10)    +1.7
    3/4      0.2031   0.2107(13)    +5.7        0.1298   0.1326(10)    +2.9
    1        0.1861   0.2017(12)   +12.6        0.1185   0.1266(10)    +8.3
    5/4      0.1821   0.2050(12)   +18.5        0.1156   0.1290(10)   +13.8
    3/2      0.1867   0.2151(13)   +22.3        0.1180   0.1363(10)   +18.7
    2        0.2195   0.2441(14)   +17.9        0.1343   0.1583(10)   +24.0

Simulated over limit, balanced labels (standard errors of 2 to 4 %):

    beta      n = 500    n = 1000    n = 2000
    1/2       1.03       1.02        1.01
    1         1.11       1.08        1.04
    3/2       1.24       1.13        1.08

so beta up to 1 is practical at sizes of thousands. Verdicts extrapolate with a bias of order
N^-1/2, for balanced labels too: beside strong signals the order 1/N sets in beyond N = 1000 only.

Source: Z. Liao et al., arXiv 2506.18656, Theorem 1, for the kernel of g.

>>> round(softmax_error("1/2", ratio="1/2", gamma="0.2", mu=[1.5, 0, 0],
...                     w_k=[1, 1, 0], w_q=[1, 0, -1], label_mean="0.8"), 4)
0.1488
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy as sp

import rmtsym.models.tokens as at
from rmtsym.errors import InputError
from rmtsym.matrices import Matrix, RowSoftmax
from rmtsym.models.base import Example, Model
from rmtsym.models.tokens import BALANCED, Case, Tokens, n, p, training_error, weights
from rmtsym.parsing import exact_number

beta = sp.Symbol("beta", real=True)
LARGEST = 26


@dataclass(frozen=True)
class Softmax:
    """The exact row softmax as the nonlinearity of a head, at inverse temperature ``beta``."""

    beta: Any = 1


@lru_cache(maxsize=16)
def softmax_model(rank: int = 1, tokens: Tokens = BALANCED) -> Model:
    """The model with weights of this rank; on ``UNBALANCED`` tokens, labels have mean rho."""
    X, (W, _) = tokens.X, weights(rank)
    K: Matrix = n / sp.sqrt(p) * RowSoftmax(beta, X.T * W * X / sp.sqrt(p))
    error = training_error(K.T * X.T * X * K / n, tokens.y)
    title = "Interpolation error of attention with the exact row softmax"
    source = "Z. Liao et al., arXiv 2506.18656, Theorem 1, rows centred"
    _, ((w_k, w_q),) = weights(1)
    example = Example(
        values=((at.c, "1/2"), (at.gamma, "0.2"), (beta, "1/2")),
        vectors=((at.mu, ("1.5", 0, 0)), (w_k, (1, 1, 0)), (w_q, (1, 0, -1))),
    )
    return Model("softmax", title, error, at.SIZES, source, (example,))


SOFTMAX = softmax_model()


def inverse_temperature(value: Any) -> sp.Expr:
    """beta as an exact number for which ``nu = exp(beta^2) - 1`` is a finite double.

    >>> inverse_temperature("1/2")
    1/2
    """
    number = exact_number(value)
    if abs(number) > LARGEST:
        raise InputError(
            f"got beta = {value}; exp(beta^2), the energy of the softmax, overflows beyond "
            f"{LARGEST} (and the limit describes no matrix of feasible size long before)"
        )
    return number


def softmax_case(
    beta: Any,
    *,
    ratio: Any,
    gamma: Any,
    mu: Any = None,
    w_k: Any = None,
    w_q: Any = None,
    alpha: Any = 1,
    label_mean: Any = 0,
) -> Case:
    """The model at one point (see :func:`softmax_error`)."""
    from rmtsym.models import softmax as here

    values = at.token_values(ratio, gamma, label_mean)
    full = at.nonzero("alpha", alpha, "the full part of W")
    values[here.beta] = inverse_temperature(exact_number(beta) * full)
    given = at.scaled_weights(at.pairs_of(w_k, w_q), full)
    vectors = at.place(at.mu, mu, at.named(given))
    model = softmax_model(len(given), at.tokens_of(values))
    read = {"beta": beta, "ratio": ratio, "gamma": gamma, "mu": mu}
    return Case(model, values, vectors, {}, read, 0.5, 1.0)


def softmax_error(
    beta: Any,
    *,
    ratio: Any,
    gamma: Any,
    mu: Any = None,
    w_k: Any = None,
    w_q: Any = None,
    alpha: Any = 1,
    label_mean: Any = 0,
    digits: int | None = None,
) -> Any:
    """The limiting interpolation error of attention with the exact row softmax.

    Parameters
    ----------
    beta : inverse temperature, ``|beta alpha| <= 26``
    ratio, gamma, mu, w_k, w_q, alpha, label_mean, digits : as for
        :func:`~rmtsym.models.attention.attention_error`

    >>> softmax_error(1, ratio=1, gamma=[0.1, 1.0]).shape
    (2,)
    """
    case = softmax_case(
        beta,
        ratio=ratio,
        gamma=gamma,
        mu=mu,
        w_k=w_k,
        w_q=w_q,
        alpha=alpha,
        label_mean=label_mean,
    )
    return case.solution(digits).value
