r"""Attention with several heads, each with its own nonlinearity, weights and temperature.

Heads read the same tokens ``X = mu y^T + Z``; their features are stacked, each head with the ridge
penalty gamma of its own value matrix:

    K_h = offdiag[ f_h(X^T W_h X / (T_h sqrt(p))) ] / sqrt(p),   W_h = alpha_h I + w_K,h w_Q,h^T,
    E(gamma) = -(gamma^2 / n) d/dgamma y^T ( sum_h K_h^T X^T X K_h / n + gamma I_n )^{-1} y.

The heads share Z; the noise parts of their Gaussian equivalents have covariance
``E[f_h f_h'] - a_1,h a_1,h'``, so heads of one f share one noise matrix. A head of
:class:`~rmtsym.models.softmax.Softmax` is an exact row softmax, ``n/sqrt(p) softmax(beta S)``.

Finite sizes lie below the limit: for the heads below by 12 % at p = 400, 3 % at p = 1600.

Source: the kernel of Z. Liao et al., arXiv 2506.18656, Theorem 1, for each head.

>>> one = Head("tanh(t)", w_k=[1, 1, 0], w_q=[1, 0, -1])
>>> two = Head("tanh(t)", w_k=[0, 2, 0], w_q=[2, 0, 0])
>>> round(heads_error([one, two], ratio="2/3", gamma="0.2", mu=[1.5, 0, 0]), 5)
0.17676
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy as sp

import rmtsym.models.tokens as at
from rmtsym.errors import InputError
from rmtsym.matrices import Matrix, RowSoftmax, Vector
from rmtsym.models.base import Example, Model
from rmtsym.models.softmax import Softmax, inverse_temperature
from rmtsym.models.tokens import BALANCED, Case, Tokens, kernel, n, p, training_error, weights
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.parsing import exact_number


@dataclass(frozen=True)
class Head:
    """One head: ``f((alpha S + ...) / temperature)``.

    f : as for :func:`~rmtsym.models.attention.attention_error` (centred here), or ``Softmax(beta)``
    w_k, w_q : coordinates (d,) or (d, r), in one orthonormal basis for all heads
    temperature : > 0; alpha : other than 0
    """

    f: Any
    w_k: Any = None
    w_q: Any = None
    temperature: Any = 1
    alpha: Any = 1


@lru_cache(maxsize=64)
def heads_model(
    functions: tuple[int | sp.Expr, ...], ranks: tuple[int, ...], tokens: Tokens = BALANCED
) -> Model:
    """The model of heads with these ranks; equal numbers in ``functions`` share one f.

    A SymPy expression stands for a softmax of this inverse temperature.
    """
    X = tokens.X
    features: list[Matrix] = []
    for number, (function, rank) in enumerate(zip(functions, ranks, strict=True), 1):
        W, _ = weights(rank, f"_{number}")
        if isinstance(function, int):
            K = kernel(_function(function), X, W)
        else:
            K = n / sp.sqrt(p) * RowSoftmax(function, X.T * W * X / sp.sqrt(p))
        features.append(K.T * X.T * X * K / n)
    total = features[0]
    for feature in features[1:]:
        total = total + feature
    error = training_error(total, tokens.y)
    title = "Interpolation error of attention with several heads"
    return Model("heads", title, error, at.SIZES, SOURCE, EXAMPLES)


SOURCE = "Z. Liao et al., arXiv 2506.18656, Theorem 1, for each head"


def _function(number: int) -> sp.Symbol:
    return sp.Symbol(f"f_{number + 1}")


def _beta(number: int) -> sp.Symbol:
    return sp.Symbol(f"beta_{number}", real=True)


def _examples() -> tuple[Example, ...]:
    (_, (one,)), (_, (two,)) = weights(1, "_1"), weights(1, "_2")
    vectors = (
        (at.mu, ("1.5", 0, 0)),
        (one[0], (1, 1, 0)),
        (one[1], (1, 0, -1)),
        (two[0], (0, 2, 0)),
        (two[1], (2, 0, 0)),
    )
    return (
        Example(
            values=((at.c, "2/3"), (at.gamma, "0.2")),
            vectors=vectors,
            nonlinearities=((_function(0), "tanh(t)"),),
            published="0.17676",
        ),
    )


EXAMPLES = _examples()
HEADS = heads_model((0, 0), (1, 1))


def heads_case(
    heads: Sequence[Head],
    *,
    ratio: Any,
    gamma: Any,
    mu: Any = None,
    label_mean: Any = 0,
    kurtosis: Any = 3,
) -> Case:
    """The model of these heads at one point (see :func:`heads_error`)."""
    if not isinstance(heads, (list, tuple)) or not heads:
        raise InputError(f"got heads = {heads!r}; pass a list of Head(f, w_k=..., w_q=...)")
    values = at.token_values(ratio, gamma, label_mean, kurtosis)
    known: list[Nonlinearity] = []
    functions: list[int | sp.Expr] = []
    # Beside another f, the joint noise of a softmax needs the value of beta.
    alone = all(isinstance(head, Head) and isinstance(head.f, Softmax) for head in heads)
    ranks: list[int] = []
    placed: dict[Vector, Any] = {}
    for number, head in enumerate(heads, 1):
        if not isinstance(head, Head):
            raise InputError(f"got {head!r} among the heads; pass Head(f, w_k=..., w_q=...)")
        where = f" in head {number}"
        alpha = at.nonzero(f"alpha{where}", head.alpha, "the full part of W")
        temperature = exact_number(head.temperature)
        if not temperature > 0:
            raise InputError(f"got temperature {head.temperature}{where}; it is > 0")
        given = at.scaled_weights(at.pairs_of(head.w_k, head.w_q, where), alpha)
        ranks.append(len(given))
        placed.update(at.named(given, f"_{number}"))
        if isinstance(head.f, Softmax):
            beta = inverse_temperature(exact_number(head.f.beta) * alpha / temperature)
            values[_beta(number)] = beta
            functions.append(_beta(number) if alone else beta)
            continue
        f = Nonlinearity(head.f).scaled(alpha / temperature).centred()
        if f not in known:
            known.append(f)
        functions.append(known.index(f))
    vectors = at.place(at.mu, mu, placed)
    model = heads_model(tuple(functions), tuple(ranks), at.tokens_of(values))
    named = {_function(k): f for k, f in enumerate(known)}
    softmax = any(isinstance(head.f, Softmax) for head in heads)
    order = 0.5 if softmax else at.bias_order(values, known)
    read = {"ratio": ratio, "gamma": gamma, "mu": mu}
    return Case(model, values, vectors, named, read, order, 1.0)


def heads_error(
    heads: Sequence[Head],
    *,
    ratio: Any,
    gamma: Any,
    mu: Any = None,
    label_mean: Any = 0,
    kurtosis: Any = 3,
    digits: int | None = None,
) -> Any:
    """The limiting interpolation error of attention with several heads.

    Parameters
    ----------
    heads : list of :class:`Head`
    ratio, gamma, mu, digits : as for :func:`~rmtsym.models.attention.attention_error`
    label_mean : rho in [-1, 1]; kurtosis : ``E z^4 >= 1`` of the noise (enters with rho only)

    >>> both = [Head("tanh(t)"), Head("erf(t)", temperature=2)]
    >>> heads_error(both, ratio=1, gamma=[0.1, 1.0]).shape
    (2,)
    """
    case = heads_case(
        heads, ratio=ratio, gamma=gamma, mu=mu, label_mean=label_mean, kurtosis=kurtosis
    )
    return case.solution(digits).value
