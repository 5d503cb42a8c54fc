r"""Mean squared error on new tokens, of attention and of linear regression.

The ridge fit ``w = X K Q y / n``, ``Q = (K^T X^T X K / n + gamma I_n)^{-1}``, sees m new tokens
``X_0 = mu y_0^T + Z_0`` through the kernel of the old ones,

    K_0 = f(X^T W X_0 / sqrt(p)) / sqrt(p)   (n x m),     v = X^T w,
    E_test(gamma) = |y_0 - K_0^T v|^2 / m,

which is written down literally: K_0 has noise of its own, independent of that of K. For balanced
labels the limit is that of (for any m)

    (1 - a_1 v^T X^T W mu / p)^2 + a_1^2 |W^T X v|^2 / p^2 + (nu - a_1^2) |v|^2 / p.

Linear regression is the same with K and f replaced by the identity: ``w = X Q y / n`` predicts
``X_0^T w``.

Source: the kernel of Z. Liao et al., arXiv 2506.18656, Theorem 1; T. Hastie, A. Montanari,
S. Rosset and R. J. Tibshirani, Ann. Statist. 50 (2022) (test error of ridge regression).

>>> round(attention_test_error("tanh(t)", ratio="2/3", gamma="0.2", mu=[1.5, 0, 0],
...                            w_k=[1, 1, 0], w_q=[1, 0, -1]), 5)
0.46485
>>> round(regression_test_error(ratio="2/3", gamma="0.2", snr="9/4"), 5)
0.48334
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

import rmtsym.models.tokens as at
from rmtsym.errors import InputError
from rmtsym.matrices import (
    Entrywise,
    Gaussian,
    Identity,
    Iid,
    Labels,
    Matrix,
    dimensions,
)
from rmtsym.models.attention import attention_case, f
from rmtsym.models.base import Example, Model
from rmtsym.models.regression import _snr
from rmtsym.models.tokens import BALANCED, Case, Tokens, gamma, kernel, mu, n, p, weights

m = dimensions("m")
SIZES = (*at.SIZES, (m, sp.Integer(1)))


def _new_tokens(tokens: Tokens) -> Tokens:
    """m tokens of the same law."""
    if isinstance(tokens.Z, Iid):
        return Tokens(Iid("Z_0", p, m, tokens.Z.kurtosis), Labels("y_0", m, mean=tokens.y.mean))
    return Tokens(Gaussian("Z_0", p, m), Labels("y_0", m))


def _mean_square(residual: Matrix) -> Matrix:
    error: Matrix = residual.T * residual / m
    return error


@lru_cache(maxsize=16)
def attention_test_model(rank: int = 1, tokens: Tokens = BALANCED) -> Model:
    """The test error of attention, for weights of this rank."""
    X, y, (W, _) = tokens.X, tokens.y, weights(rank)
    new = _new_tokens(tokens)
    K = kernel(f, X, W)
    Q = (K.T * X.T * X * K / n + gamma * Identity(n)).inverse()
    v = X.T * X * K * Q * y / n
    K_0: Matrix = Entrywise(f, X.T * W * new.X / sp.sqrt(p)) / sp.sqrt(p)
    _, ((w_k, w_q),) = weights(1)
    return Model(
        name="attention_test",
        title="Test error of nonlinear attention",
        expression=_mean_square(new.y - K_0.T * v),
        sizes=SIZES,
        reference="kernel of Z. Liao et al., arXiv 2506.18656, Theorem 1",
        examples=(
            Example(
                values=((at.c, "2/3"), (gamma, "0.2")),
                vectors=((mu, ("1.5", 0, 0)), (w_k, (1, 1, 0)), (w_q, (1, 0, -1))),
                nonlinearities=((f, "tanh(t)"),),
            ),
        ),
    )


def _regression() -> Model:
    X, y = BALANCED.X, BALANCED.y
    new = _new_tokens(BALANCED)
    Q = (X.T * X / n + gamma * Identity(n)).inverse()
    w = X * Q * y / n
    return Model(
        name="regression_test",
        title="Test error of linear regression",
        expression=_mean_square(new.y - new.X.T * w),
        sizes=SIZES,
        reference="T. Hastie et al., Ann. Statist. 50 (2022)",
        examples=(Example(values=((at.c, "2/3"), (gamma, "0.2")), vectors=((mu, ("1.5", 0, 0)),)),),
    )


ATTENTION_TEST = attention_test_model()
REGRESSION_TEST = _regression()


def attention_test_case(function: Any, **parameters: Any) -> Case:
    """The model at one point; parameters as for :func:`attention_test_error`."""
    if parameters.get("uncentred", False):
        raise InputError(
            "got uncentred=True for a test error; a kernel with a_0 != 0 sends the mean of v, of "
            "order 1/n, back as a number of order 1, for which there is no rule: f is centred here"
        )
    training = attention_case(function, **parameters)
    model = attention_test_model(len(training.vectors) // 2, at.tokens_of(training.values))
    return replace(training, model=model, largest=np.inf)


def attention_test_error(
    f: Any,
    *,
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
    """The limiting mean squared error of attention's ridge fit on a new token.

    Parameters and errors as for :func:`~rmtsym.models.attention.attention_error`, ``f - a_0`` for f
    too; ``uncentred`` is refused, as a kernel with ``a_0 != 0`` sends the mean of v, of order 1/n,
    back as a number of order 1.

    >>> attention_test_error("relu", ratio=1, gamma=[0.1, 1.0], mu=[1]).shape
    (2,)
    """
    case = attention_test_case(
        f,
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


def regression_test_case(*, ratio: Any, gamma: Any, snr: Any = 0) -> Case:
    """The model at one point; parameters as for :func:`regression_test_error`."""
    values = at.token_values(ratio, gamma)
    strength = _snr(snr)
    if not isinstance(strength, sp.Basic):
        raise InputError("got several values of snr; broadcast ratio and gamma only")
    given = {"ratio": ratio, "gamma": gamma, "snr": snr}
    return Case(REGRESSION_TEST, values, {mu: (sp.sqrt(strength),)}, {}, given)


def regression_test_error(
    *, ratio: Any, gamma: Any, snr: Any = 0, digits: int | None = None
) -> Any:
    """The limiting mean squared error of linear regression on a new token, ``snr = |mu|^2``.

    >>> regression_test_error(ratio=[0.5, 1, 2], gamma=1e-6, snr=1).round(2)
    array([  1.  , 250.25,   1.11])
    """
    return regression_test_case(ratio=ratio, gamma=gamma, snr=snr).solution(digits).value


def best_penalty(
    curve: Callable[[Any], Any], low: float = 1e-6, high: float = 1e6
) -> tuple[float, float]:
    """The gamma in [low, high] with the least error, and that error.

    ``curve`` maps an array of gammas to errors.

    >>> gamma, error = best_penalty(lambda g: regression_test_error(ratio=1, gamma=g, snr=1))
    >>> round(gamma, 4), round(error, 4)
    (1.1304, 0.7017)
    """
    from scipy.optimize import minimize_scalar

    logs = np.linspace(np.log(low), np.log(high), 49)
    errors = np.asarray(curve(np.exp(logs)))
    best = int(np.argmin(errors))
    around = logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)]
    found = minimize_scalar(
        lambda log: float(np.asarray(curve(np.exp(np.array([log]))))[0]),
        bounds=around,
        method="bounded",
        options={"xatol": 1e-7},
    )
    if found.fun < errors[best]:
        return float(np.exp(found.x)), float(found.fun)
    return float(np.exp(logs[best])), float(errors[best])
