r"""Attention fitting other targets than the labels.

A target of given correlation to the labels, with independent noise (noisy labels: flipped with
probability q, correlation 1 - 2q; regression targets),

    t = r y + sqrt(1 - r^2) e,     |e|^2 = n,  e in a direction independent of all else,
    E(gamma) = -(gamma^2 / n) d/dgamma t^T (K^T X^T X K / n + gamma I_n)^{-1} t;

and classes: with j_k the indicator of class k, of share pi_k, and codes C (classes x outputs),

    X = sum_k mu_k j_k^T + Z,     T = J C,     E(gamma) = sum of the errors on the columns of T.

Source: the kernel of Z. Liao et al., arXiv 2506.18656, Theorem 1.

>>> clean = dict(ratio="2/3", gamma="0.2", mu=[1.5, 0, 0], w_k=[1, 1, 0], w_q=[1, 0, -1])
>>> [round(target_error("tanh(t)", correlation=r, **clean), 4) for r in (1, "0.8", 0)]
[0.2144, 0.368, 0.6409]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import sympy as sp

import rmtsym.models.tokens as at
from rmtsym.errors import InputError
from rmtsym.matrices import Iid, Independent, Matrix, Vector, indicators
from rmtsym.models.attention import attention_case, f
from rmtsym.models.base import Example, Model, coordinates
from rmtsym.models.tokens import BALANCED, Case, Tokens, kernel, n, p, training_error, weights
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.parsing import exact_number

r = sp.Symbol("r", real=True)
e = Independent("e", n)


@lru_cache(maxsize=16)
def target_model(rank: int = 1, tokens: Tokens = BALANCED, centred: bool = True) -> Model:
    """The model of a target of correlation r to the labels."""
    X = tokens.X
    K = kernel(f, X, weights(rank)[0], centred)
    target: Matrix = r * tokens.y + sp.sqrt(1 - r**2) * e
    _, ((w_k, w_q),) = weights(1)
    return Model(
        name="target",
        title="Interpolation error of attention on a target correlated with the labels",
        expression=training_error(K.T * X.T * X * K / n, target),
        sizes=at.SIZES,
        reference="kernel of Z. Liao et al., arXiv 2506.18656, Theorem 1",
        examples=(
            Example(
                values=((at.c, "2/3"), (at.gamma, "0.2"), (r, "0.8")),
                vectors=((at.mu, ("1.5", 0, 0)), (w_k, (1, 1, 0)), (w_q, (1, 0, -1))),
                nonlinearities=((f, "tanh(t)"),),
            ),
        ),
    )


TARGET = target_model()


def target_case(function: Any, *, correlation: Any, **parameters: Any) -> Case:
    """The model at one point; parameters as for :func:`target_error`."""
    fitted = attention_case(function, **parameters)
    number = exact_number(correlation)
    if abs(number) > 1:
        raise InputError(f"got correlation = {correlation}; a correlation lies in [-1, 1]")
    chosen = fitted.nonlinearities[f]
    model = target_model(
        len(fitted.vectors) // 2,
        at.tokens_of(fitted.values),
        not parameters.get("uncentred", False) or chosen.coefficient(0) == 0,
    )
    return replace(fitted, model=model, values={**fitted.values, r: number})


def target_error(
    f: Any,
    *,
    correlation: Any,
    ratio: Any,
    gamma: Any,
    mu: Any = None,
    w_k: Any = None,
    w_q: Any = None,
    alpha: Any = 1,
    label_mean: Any = 0,
    kurtosis: Any = 3,
    uncentred: bool = False,
    digits: int | None = None,
) -> Any:
    """The limiting interpolation error of attention on a target of variance 1.

    ``correlation`` in [-1, 1] is r above; all else as for
    :func:`~rmtsym.models.attention.attention_error`. A target of another variance s^2 has s^2
    times this error.

    >>> round(target_error("cos(t)", correlation="1/2", ratio=1, gamma=1), 4)
    0.7787
    """
    case = target_case(
        f,
        correlation=correlation,
        ratio=ratio,
        gamma=gamma,
        mu=mu,
        w_k=w_k,
        w_q=w_q,
        alpha=alpha,
        label_mean=label_mean,
        kurtosis=kurtosis,
        uncentred=uncentred,
    )
    return case.solution(digits).value


@lru_cache(maxsize=32)
def mixture_model(
    shares: tuple[sp.Expr, ...], code: tuple[tuple[sp.Expr, ...], ...], rank: int = 1
) -> Model:
    """The model of classes with these shares; ``code[k]`` is the target of class k."""
    classes = indicators(" ".join(f"j_{k + 1}" for k in range(len(shares))), n, shares)
    X: Matrix = Iid("Z", p, n, at.kurtosis)
    for mean, own in zip(_means(len(shares)), classes, strict=True):
        X = X + mean * own.T
    K = kernel(f, X, weights(rank)[0])
    features = K.T * X.T * X * K / n
    error: Matrix | None = None
    for column in zip(*code, strict=True):
        target: Matrix | None = None
        for own, value in zip(classes, column, strict=True):
            if value != 0:
                target = value * own if target is None else target + value * own
        if target is not None:
            part = training_error(features, target)
            error = part if error is None else error + part
    if error is None:
        raise InputError("got a code that is zero for every class")
    _, ((w_k, w_q),) = weights(1)
    return Model(
        name="mixture",
        title="Interpolation error of attention on the classes of a mixture",
        expression=error,
        sizes=at.SIZES,
        reference="kernel of Z. Liao et al., arXiv 2506.18656, Theorem 1",
        examples=(
            Example(
                values=((at.c, "2/3"), (at.gamma, "0.2"), (at.kurtosis, 3)),
                vectors=(
                    *zip(_means(3), ((2, 0, 0), (0, 2, 0), (0, 0, 2)), strict=True),
                    (w_k, (1, 1, 0)),
                    (w_q, (1, 0, -1)),
                ),
                nonlinearities=((f, "tanh(t)"),),
            ),
        ),
    )


def _means(count: int) -> tuple[Vector, ...]:
    return tuple(Vector(f"mu_{k + 1}", p) for k in range(count))


def _code(name: Any, classes: int) -> tuple[tuple[sp.Expr, ...], ...]:
    if isinstance(name, str) and name in ("one-hot", "signs"):
        other = sp.Integer(0 if name == "one-hot" else -1)
        return tuple(
            tuple(sp.Integer(1) if k == q else other for q in range(classes))
            for k in range(classes)
        )
    if isinstance(name, str) or not hasattr(name, "__len__") or len(name) != classes:
        raise InputError(
            f"got code = {name!r} for {classes} classes; pass 'one-hot', 'signs', or one row of "
            "numbers per class"
        )
    rows = tuple(
        tuple(exact_number(x) for x in (row if hasattr(row, "__len__") else [row])) for row in name
    )
    if len({len(row) for row in rows}) != 1:
        raise InputError(f"got code = {name!r}; its rows must have one length")
    return rows


_THIRD = sp.Rational(1, 3)
MIXTURE = mixture_model((_THIRD,) * 3, _code("one-hot", 3))


def mixture_case(
    function: Any,
    *,
    means: Sequence[Any],
    shares: Sequence[Any] | None = None,
    code: Any = "one-hot",
    ratio: Any,
    gamma: Any,
    w_k: Any = None,
    w_q: Any = None,
    alpha: Any = 1,
    kurtosis: Any = 3,
) -> Case:
    """The model at one point (see :func:`mixture_error`)."""
    if isinstance(means, str) or not hasattr(means, "__len__") or len(means) < 1:
        raise InputError(f"got means = {means!r}; pass one vector of coordinates per class")
    count = len(means)
    parts = [sp.Rational(1, count)] * count if shares is None else [*map(exact_number, shares)]
    if len(parts) != count or any(share <= 0 for share in parts) or sum(parts) != 1:
        raise InputError(
            f"got shares {[str(s) for s in parts]} for {count} classes; give one positive share "
            "per class, summing to 1"
        )
    values = at.token_values(ratio, gamma, 0, kurtosis)
    full = at.nonzero("alpha", alpha, "the full part of W")
    chosen = Nonlinearity(function).scaled(full).centred()
    given = at.scaled_weights(at.pairs_of(w_k, w_q), full)
    others = {**dict(zip(_means(count), means, strict=True)), **at.named(given)}
    rows = coordinates({vector.name: value for vector, value in others.items()})
    codes = _code(code, count)
    largest = sum(s * sum(x**2 for x in row) for s, row in zip(parts, codes, strict=True))
    return Case(
        mixture_model(tuple(parts), codes, len(given)),
        values,
        {vector: rows[vector.name] for vector in others},
        {f: chosen},
        {"ratio": ratio, "gamma": gamma},
        1.0 if chosen.parity == -1 else 0.5,
        float(largest),
    )


def mixture_error(
    f: Any,
    *,
    means: Sequence[Any],
    shares: Sequence[Any] | None = None,
    code: Any = "one-hot",
    ratio: Any,
    gamma: Any,
    w_k: Any = None,
    w_q: Any = None,
    alpha: Any = 1,
    kurtosis: Any = 3,
    digits: int | None = None,
) -> Any:
    """The limiting interpolation error of attention on the classes of a mixture.

    Parameters
    ----------
    means : (K, d) coordinates of the class means, in the basis of w_k and w_q
    shares : (K,) positive, summing to 1; equal unless given
    code : ``"one-hot"``, ``"signs"`` (1 for the own class, -1 for the others), or a (K, q) array:
        row k is the target of class k. Errors of the q outputs are added.

    All else as for :func:`~rmtsym.models.attention.attention_error`.

    >>> two = mixture_error("tanh(t)", means=[[1.5], [-1.5]], code=[1, -1], ratio=1, gamma="0.2")
    >>> from rmtsym.models.attention import attention_error
    >>> abs(two - attention_error("tanh(t)", ratio=1, gamma="0.2", mu=[1.5])) < 1e-12
    True
    """
    case = mixture_case(
        f,
        means=means,
        shares=shares,
        code=code,
        ratio=ratio,
        gamma=gamma,
        w_k=w_k,
        w_q=w_q,
        alpha=alpha,
        kurtosis=kurtosis,
    )
    return case.solution(digits).value
