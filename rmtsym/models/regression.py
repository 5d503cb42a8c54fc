r"""Interpolation error of linear regression on the same tokens.

With ``X = mu y^T + Z`` (p x n), ``p / n -> c``,

    E(gamma) = -(gamma^2 / n) d/dgamma y^T (X^T X / n + gamma I_n)^{-1} y
             -> -gamma^2 d/dgamma 1 / (1/m + snr/(1 + m)),    snr = |mu|^2,

with m = m(gamma) > 0 the Marchenko-Pastur root of ``gamma m^2 + (gamma - 1 + c) m - 1 = 0``.

Source: Z. Liao et al., arXiv 2506.18656, Section 4; V. Marchenko and L. Pastur (1967).

>>> round(regression_error(ratio="1/3", gamma="0.1", snr=2.25), 5)
0.20805
"""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from rmtsym.digits import Digits
from rmtsym.errors import InputError
from rmtsym.matrices import D, Gaussian, Identity, Labels, Matrix, Vector, dimensions
from rmtsym.models.base import Example, Model, notes_on_floats, positive
from rmtsym.parsing import exact_number

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
Z = Gaussian("Z", p, n)
y = Labels("y", n)
mu = Vector("mu", p)

X = Z + mu * y.T
Q = (X.T * X / n + gamma * Identity(n)).inverse()
ERROR: Matrix = -(gamma**2) * D(y.T * Q * y / n, gamma)

REGRESSION = Model(
    name="regression",
    title="Interpolation error of linear regression",
    expression=ERROR,
    sizes=((n, sp.Integer(1)), (p, c)),
    reference="Z. Liao et al., arXiv 2506.18656, Section 4",
    examples=(
        Example(
            values=((c, "1/3"), (gamma, "0.1")),
            vectors=((mu, ("1.5",)),),
            published="0.20805",
        ),
    ),
)


def marchenko_pastur_root(ratio: Any, gamma: Any, sqrt: Any) -> tuple[Any, Any]:
    """``m > 0`` with ``gamma m^2 + b m - 1 = 0``, b = ratio - 1 + gamma, and ``2 gamma m + b``.

    Written so that no digits cancel on either side of ratio = 1, and nothing overflows.
    """
    b = (ratio - 1) + gamma
    scale = 2 * sqrt(gamma) + abs(b)
    root = scale * sqrt((b / scale) ** 2 + 4 * (sqrt(gamma) / scale) ** 2)
    m = 2 / (b + root) if b > 0 else (root - b) / (2 * gamma)
    return m, root


def _error(ratio: Any, gamma: Any, snr: Any, sqrt: Any) -> Any:
    """``gamma^2 m (1 + m) (1 + snr r^2) / (root (1 + snr r)^2)``, r = m / (1 + m)."""
    m, root = marchenko_pastur_root(ratio, gamma, sqrt)
    r = m / (1 + m)
    shape = (1 + snr * r * r) / (1 + snr * r) / (1 + snr * r)
    return (gamma * m) * (gamma * (1 + m) / root) * shape


def regression_error(*, ratio: Any, gamma: Any, snr: Any = 0, digits: int | None = None) -> Any:
    """The limiting interpolation error of linear regression, in closed form.

    ``ratio`` = p/n > 0, ``gamma`` > 0, ``snr`` = |mu|^2 >= 0; they broadcast. Returns a float, an
    array of the broadcast shape, or with ``digits`` an mpmath number with that many digits.

    >>> regression_error(ratio=1, gamma=[0.1, 1.0]).shape
    (2,)
    >>> print(regression_error(ratio=1, gamma=1, snr=0, digits=30))
    0.447213595499957939281834733746
    """
    notes = notes_on_floats({"ratio": ratio, "gamma": gamma, "snr": snr}) if digits else ()
    ratio = positive("ratio", ratio, "p/n")
    gamma = positive("gamma", gamma, "the ridge penalty")
    snr = _snr(snr)
    if digits is None:
        arguments = [
            np.asarray(float(v) if isinstance(v, sp.Basic) else v, dtype=float)
            for v in (ratio, gamma, snr)
        ]
        aspect, penalty, signal = np.broadcast_arrays(*arguments)
        value = np.vectorize(lambda x, y, z: _error(x, y, z, math.sqrt))(aspect, penalty, signal)
        return float(value) if np.ndim(value) == 0 else value
    if not all(isinstance(v, sp.Basic) for v in (ratio, gamma, snr)):
        raise InputError(f"got arrays with digits={digits}; ask for digits point by point")
    context = mpmath.MPContext()
    context.dps = 2 * digits + 20
    exact = [context.mpf(int(v.p)) / int(v.q) for v in (ratio, gamma, snr)]
    aspect, penalty, signal = exact
    return Digits.of(_error(aspect, penalty, signal, context.sqrt), digits, notes)


def _snr(value: Any) -> Any:
    if np.ndim(value) > 0:
        entries = np.asarray(value, dtype=float)
        if not np.all(np.isfinite(entries) & (entries >= 0)):
            raise InputError("got snr with entries not >= 0 and finite; snr is |mu|^2")
        return entries
    number = exact_number(value)
    if number < 0:
        raise InputError(f"got snr = {value}; snr is |mu|^2, a number >= 0")
    return number
