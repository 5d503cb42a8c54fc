r"""Interpolation error of nonlinear attention (one head).

Tokens ``X = mu y^T + Z`` (p x n), weights ``W = I_p + w_K w_Q^T``, kernel

    K = offdiag[ f(X^T W X / sqrt(p)) ] / sqrt(p),
    E(gamma) = -(gamma^2 / n) d/dgamma y^T (K^T X^T X K / n + gamma I_n)^{-1} y,

``p / n -> c``, ``|mu|, |w_K|, |w_Q| = O(1)``, f centred. Beyond the theorem: w_K, w_Q of rank r, a
full part ``alpha I_p``, labels of mean rho and noise of kurtosis kappa (which then enter through
a_2), f not centred (the vector of ones is then projected out).

Source: Z. Liao, J. Liu, T. Hou, Q. Zou, Z. Ling, *On the Interpolation Error of Nonlinear
Attention versus Linear Regression*, arXiv 2506.18656, Theorem 1.

>>> round(attention_error("tanh(t)", ratio="2/3", gamma="0.2", mu=[1.5, 0, 0],
...                       w_k=[1, 1, 0], w_q=[1, 0, -1]), 5)
0.21443
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import sympy as sp

import rmtsym.models.tokens as at
from rmtsym.agreement import Verdict
from rmtsym.certification import CertifiedSolution
from rmtsym.errors import InputError
from rmtsym.matrices import (
    D,
    Entrywise,
    Gaussian,
    Identity,
    Labels,
    Matrix,
    OffDiagonal,
    Vector,
    dimensions,
)
from rmtsym.models.base import Example, Model
from rmtsym.models.tokens import BALANCED, Case, Tokens, kernel, training_error, weights
from rmtsym.nonlinearity import Nonlinearity
from rmtsym.solver import Solution
from rmtsym.system import FixedPointSystem

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
f = sp.Symbol("f")
Z = Gaussian("Z", p, n)
y = Labels("y", n)
mu, w_k, w_q = (Vector(name, p) for name in ("mu", "w_k", "w_q"))

X = Z + mu * y.T
W = Identity(p) + w_k * w_q.T
K = OffDiagonal(Entrywise(f, X.T * W * X / sp.sqrt(p))) / sp.sqrt(p)
Q = (K.T * X.T * X * K / n + gamma * Identity(n)).inverse()
ERROR: Matrix = -(gamma**2) * D(y.T * Q * y / n, gamma)

ATTENTION = Model(
    name="attention",
    title="Interpolation error of nonlinear attention",
    expression=ERROR,
    sizes=((n, sp.Integer(1)), (p, c)),
    reference="Z. Liao et al., arXiv 2506.18656, Theorem 1",
    examples=(
        Example(
            values=((c, "2/3"), (gamma, "0.2")),
            vectors=((mu, ("1.5", 0, 0)), (w_k, (1, 1, 0)), (w_q, (1, 0, -1))),
            nonlinearities=((f, "tanh(t)"),),
            published="0.21443",
        ),
        Example(
            values=((c, 2), (gamma, "0.5")),
            vectors=((mu, ("1.5",)), (w_k, (1,)), (w_q, (1,))),
            nonlinearities=((f, "sign(t)"),),
            published="0.1475",
        ),
    ),
)


def attention_system() -> FixedPointSystem:
    """The equations of the interpolation error, derived from :data:`ERROR`."""
    return ATTENTION.system


@lru_cache(maxsize=64)
def attention_model(rank: int = 1, tokens: Tokens = BALANCED, centred: bool = True) -> Model:
    """The model for weights of this rank, labels of mean rho, and f centred or not."""
    if (rank, tokens, centred) == (1, BALANCED, True):
        return ATTENTION
    kernel_matrix = kernel(f, tokens.X, weights(rank)[0], centred)
    error = training_error(kernel_matrix.T * tokens.X.T * tokens.X * kernel_matrix / n, tokens.y)
    return Model("attention", ATTENTION.title, error, at.SIZES, ATTENTION.reference)


def attention_case(
    function: Any,
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
) -> Case:
    """The model at one point: its limit, its simulation, and their comparison.

    Parameters as in :func:`attention_error`.

    >>> case = attention_case("tanh(t)", ratio=1, gamma=1, mu=[1, 0],
    ...                       w_k=[[1, 0], [0, 2]], w_q=[[1, 1], [0, 1]])
    >>> round(case.solution().value, 5)
    0.39319
    """
    values = at.token_values(ratio, gamma, label_mean, kurtosis)
    full = at.nonzero("alpha", alpha, "the full part of W")
    chosen = Nonlinearity(function)
    chosen = chosen if full == 1 else chosen.scaled(full)
    if uncentred and chosen.coefficient(0) == 0:
        uncentred = False
    given = at.scaled_weights(at.pairs_of(w_k, w_q), full)
    chosen = chosen if uncentred else chosen.centred()
    return Case(
        attention_model(len(given), at.tokens_of(values), not uncentred),
        values,
        at.place(at.mu, mu, at.named(given)),
        {f: chosen},
        {"ratio": ratio, "gamma": gamma, "mu": mu, "w_k": w_k, "w_q": w_q},
        at.bias_order(values, [chosen]),
        1.0,
    )


def read_nonlinearity(function: Any) -> Nonlinearity:
    """``f - a_0`` of a nonlinearity, an expression, a text or a catalogue name."""
    return Nonlinearity(function).centred()


def attention_solution(
    function: Any, *, digits: int | None = None, certified: bool = False, **parameters: Any
) -> Solution:
    """As :func:`attention_error`, with residual and unknowns (and ``enclosure`` if certified)."""
    case = attention_case(function, **parameters)
    if certified and case.model is not ATTENTION:
        raise InputError(
            "got certified=True beyond rank one, balanced labels and centred f; "
            "use certify(system, values) on the system of the model"
        )
    return case.solution(digits, certified)


def attention_error(
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
    certified: bool = False,
) -> Any:
    """The limiting interpolation error of attention.

    Parameters
    ----------
    f : SymPy expression in one symbol, text such as ``"tanh(t)"``, a catalogue name, or a
        :class:`~rmtsym.nonlinearity.Nonlinearity`; centred here.
    ratio : p/n > 0; gamma : ridge penalty > 0. They broadcast; numbers may be floats, fractions,
        SymPy rationals, or text ("2/3").
    mu, w_k, w_q : coordinates in any orthonormal basis of their span, all of one length d;
        ``w_k, w_q`` may be (d, r) arrays: ``W = alpha I + w_k w_q^T``.
    alpha : full part of W, other than 0.
    label_mean : rho in [-1, 1], the mean of the labels. kurtosis : ``E z^4 >= 1`` of the noise;
        it enters where rho and a_2 are not 0.
    uncentred : take f as it is, a_0 included (simulation too), instead of ``f - a_0``.
    digits : correct decimal digits of the result, from exact inputs (a float is read as the
        shortest decimal that prints it).
    certified : a ball proven to hold the solution of the equations, of relative radius below
        ``10**-digits`` (15 unless given), for rank one, balanced labels and centred f.

    Returns a float, an array of the broadcast shape, with ``digits`` an mpmath number, or a ball.

    Raises ``InputError`` for values outside their domain, ``NonlinearityError`` for an f that is
    not admissible, ``ConvergenceError`` or ``BranchError`` if a point is not solved; on a grid such
    points are nan, with a ``FailedPointsWarning``, unless all of them are.

    >>> attention_error("cos(t)", ratio=1, gamma=[0.1, 1.0]).shape
    (2,)
    >>> tokens = dict(ratio="2/3", gamma="0.2", mu=[0.7], label_mean="0.9", kurtosis=6)
    >>> round(attention_error("t + (t**2 - 1)/sqrt(2)", **tokens), 4)
    0.2007
    """
    solution = attention_solution(
        f,
        ratio=ratio,
        gamma=gamma,
        mu=mu,
        w_k=w_k,
        w_q=w_q,
        digits=digits,
        certified=certified,
        alpha=alpha,
        label_mean=label_mean,
        kurtosis=kurtosis,
        uncentred=uncentred,
    )
    return solution.enclosure if isinstance(solution, CertifiedSolution) else solution.value


def verify_attention(
    f: Any,
    *,
    ratio: Any,
    gamma: Any,
    mu: Any = None,
    w_k: Any = None,
    w_q: Any = None,
    sizes: Sequence[int] | None = None,
    repetitions: int | None = None,
    seed: int = 0,
    theory: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Verdict:
    """Judge the theory by direct simulation of the same expression on a ladder of sizes.

    Parameters as in :func:`attention_error` (one point). ``sizes`` lists the numbers of tokens n
    (p = ratio n, rounded); ``theory`` replaces the limit to be judged; ``options`` go to
    :func:`rmtsym.agreement.verify`.

    >>> verdict = verify_attention("tanh(t)", ratio=1, gamma=1, sizes=[60, 120], repetitions=20)
    >>> verdict.agrees
    True
    """
    case = attention_case(f, ratio=ratio, gamma=gamma, mu=mu, w_k=w_k, w_q=w_q)
    if not all(isinstance(value, sp.Basic) for value in case.values.values()):
        raise InputError("got several values of ratio or gamma; verify one point at a time")
    if sizes is not None:
        if len(sizes) < 2 or any(isinstance(m, bool) or m < 20 for m in sizes):
            raise InputError(
                f"got sizes {list(sizes)}; a ladder has at least two sizes of at least 20 tokens"
            )
        c = float(case.values[at.c])
        options["sizes"] = [{n: int(m), p: max(2, round(c * m))} for m in sizes]
    return case.verify(
        theory=theory, repetitions=repetitions, seed=seed, progress=progress, **options
    )
