r"""The deterministic equivalent: the deterministic matrix that stands for a random one.

For a random matrix R (a resolvent, a product, any rational expression) and any deterministic
vectors u, v of bounded length,

    u^T R v  ->  u^T R_bar v,      R_bar = g I + sum_ij b_ij v_i v_j^T,

with v_i the vectors of the expression (divided by the square root of the size where their length
grows with it). With A the small matrix of the spikes, free of u and v, ``b = -l A^{-1} r``.

Source: Z. Liao et al., arXiv 2506.18656, Proposition 1; W. Hachem, P. Loubaton and J. Najim, Ann.
Appl. Probab. 17 (2007).

>>> from rmtsym.matrices import *
>>> n, p = dimensions("n p")
>>> c, gamma = sp.symbols("c gamma", positive=True)
>>> Z, y, mu = Gaussian("Z", p, n), Labels("y", n), Vector("mu", p)
>>> X = Z + mu * y.T
>>> R = (X.T * X / n + gamma * Identity(n)).inverse()
>>> print(deterministic_equivalent(R, {n: 1, p: c}))
(1/n*(Z + mu*y')'*(Z + mu*y') + gamma*I_n)^-1
  ~ g_1_1*I_n + b_1_1*y*y'/n
  b_1_1 = -g_1_1**2*g_2_2*mu.mu/(g_1_1*g_2_2*mu.mu + 1)
  g_1_1*(c*g_2_2 + gamma) - 1 = 0
  g_2_2*(g_1_1 + 1) - 1 = 0
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy as sp

from rmtsym.dyson import derive
from rmtsym.errors import UnsupportedError
from rmtsym.matrices import Matrix, Vector
from rmtsym.pencil import vector_degree
from rmtsym.solver import bind, solve
from rmtsym.system import BilinearOutput, FixedPointSystem

__all__ = ["DeterministicEquivalent", "deterministic_equivalent"]


@dataclass(frozen=True)
class NumericEquivalent:
    """``identity * I + sum coefficients[i, j] left[i] right[j]^T``, vectors as in the expression.

    Vectors whose length grows with their size are divided by the square root of it.
    """

    identity: float
    coefficients: npt.NDArray[Any]
    left: tuple[Vector, ...]
    right: tuple[Vector, ...]

    def bilinear(self, uv: float, u: Mapping[Vector, float], v: Mapping[Vector, float]) -> float:
        """``u^T R_bar v`` from the inner products of u and v with each other and the vectors."""
        a = np.array([float(u.get(x, 0)) for x in self.left])
        b = np.array([float(v.get(x, 0)) for x in self.right])
        return float(self.identity * uv + a @ self.coefficients @ b)


@dataclass(frozen=True)
class DeterministicEquivalent:
    """The deterministic equivalent of ``expression``; made by :func:`deterministic_equivalent`.

    ``identity``: the factor of the identity; ``small``: the matrix A of the spikes; ``left`` and
    ``right``: the vectors, with the rows l and the columns r of ``b = -l A^{-1} r``; all in the
    unknowns of ``system``.
    """

    expression: Matrix
    system: FixedPointSystem
    identity: sp.Expr
    left: tuple[Vector, ...]
    right: tuple[Vector, ...]
    rows: sp.ImmutableMatrix
    small: sp.ImmutableMatrix
    columns: sp.ImmutableMatrix

    @cached_property
    def coefficients(self) -> sp.Matrix:
        """``b`` in closed form (up to three spikes; more are solved numerically)."""
        if self.small.rows > 3:
            raise UnsupportedError(
                f"got {self.small.rows} spikes; their closed form is too long: use at()"
            )
        if not self.small.rows:
            return sp.zeros(len(self.left), len(self.right))
        inverse = sp.Matrix(self.small).adjugate() / sp.Matrix(self.small).det(method="berkowitz")
        return (-self.rows * inverse * self.columns).applyfunc(sp.factor)

    def at(
        self,
        values: Mapping[Any, Any],
        *,
        nonlinearities: Mapping[Any, Any] | None = None,
    ) -> NumericEquivalent:
        """The equivalent at given parameters (those of the expression; not of u and v)."""
        system = self.system
        by_name = {str(s): s for s in system.parameters}
        known = {by_name.get(str(s), s): x for s, x in values.items()}
        probes = [s for s in system.parameters if s.name.startswith("_")]
        known = bind(system, {**known, **{s: 0.0 for s in probes}}, nonlinearities)

        def limit(*chosen: sp.Symbol) -> float:
            return float(solve(system, {**known, **{s: 1.0 for s in chosen if s in probes}}).value)

        unit = {
            x: float(_unit(x, dict(system.sizes)).subs(known)) for x in (*self.left, *self.right)
        }
        table = [
            [limit(_beside("u", x), _beside("v", y)) * unit[x] * unit[y] for y in self.right]
            for x in self.left
        ]
        identity = limit(_BOTH) if self.identity != 0 else 0.0
        shape = (len(self.left), len(self.right))
        coefficients = np.array(table, dtype=float).reshape(shape)
        return NumericEquivalent(identity, coefficients, self.left, self.right)

    def _terms(self) -> str:
        parts = []
        for i, u in enumerate(self.left):
            for j, v in enumerate(self.right):
                scale = sp.prod([sp.sqrt(x.size) for x in (u, v) if vector_degree(x) == 1])
                word = f"b_{i + 1}_{j + 1}*{u}*{v}'"
                parts.append(word if scale == 1 else f"{word}/{scale}")
        return " + ".join(parts)

    def __str__(self) -> str:
        rows = self.expression.shape[0]
        text = f"{sp.sstr(self.identity)}*I_{rows}" if self.identity != 0 else ""
        spikes = self._terms()
        lines = [f"{self.expression}", "  ~ " + " + ".join(filter(None, [text, spikes]))]
        if spikes and self.small.rows <= 3:
            for i in range(len(self.left)):
                for j in range(len(self.right)):
                    lines.append(f"  b_{i + 1}_{j + 1} = {self.coefficients[i, j]}")
        elif spikes:
            lines.append("  b = -l*A^-1*r")
            for name, matrix in (("l", self.rows), ("A", self.small), ("r", self.columns)):
                lines.append(f"  {name} = {matrix.tolist()}")
        lines += [f"  {equation} = 0" for equation in self.system.equations]
        return "\n".join(lines)

    def _repr_latex_(self) -> str:
        rows = self.expression.shape[0]
        parts = [rf"{sp.latex(self.identity)}\, I_{{{sp.latex(rows)}}}"]
        parts = parts if self.identity != 0 else []
        for i, u in enumerate(self.left):
            for j, v in enumerate(self.right):
                scale = sp.prod([sp.sqrt(x.size) for x in (u, v) if vector_degree(x) == 1])
                word = rf"{u._latex()} {v._latex()}^{{\top}}"
                word = word if scale == 1 else rf"\frac{{{word}}}{{{sp.latex(scale)}}}"
                parts.append(rf"b_{{{i + 1}{j + 1}}} {word}")
        lines = [rf"{self.expression._latex()} &\leftrightarrow {' + '.join(parts) or '0'}"]
        if self.left and self.right:
            lines.append(
                rf"b &= -{sp.latex(self.rows)} {sp.latex(self.small)}^{{-1}} "
                rf"{sp.latex(self.columns)}"
            )
        lines += [rf"{sp.latex(equation)} &= 0" for equation in self.system.equations]
        return r"$$\begin{aligned}" + r" \\ ".join(lines) + r"\end{aligned}$$"


def _unit(vector: Vector, relative: Mapping[Any, sp.Expr]) -> sp.Expr:
    """``sqrt(size)`` in units of the common scale, for a vector whose length grows with it."""
    if vector_degree(vector) != 1:
        return sp.Integer(1)
    return sp.sqrt(relative.get(vector.size, sp.Integer(1)))


_BOTH = sp.Symbol("_u._v", real=True)


def _beside(probe: str, vector: Vector) -> sp.Symbol:
    """The inner product of u or v with a vector of the expression."""
    return sp.Symbol(f"_{probe}.{vector.name}", real=True)


def deterministic_equivalent(
    R: Matrix, sizes: Mapping[Any, Any] | None = None
) -> DeterministicEquivalent:
    """The deterministic equivalent of a matrix expression of operator norm of order one.

    Raises ``UnsupportedError`` for deterministic matrices with a spectral law, where the
    equivalent is a function of them and not a multiple of the identity.
    """
    u, v = (Vector(name, size, norm2=1) for name, size in zip(("_u", "_v"), R.shape, strict=True))
    plain = derive(u.T * R * v, sizes)
    if any(b.law is not None for k in plain.components for b in k.full.blocks):
        raise UnsupportedError(
            f"got {R} with a spectral law; its equivalent is a function of the deterministic "
            "matrices: ask for bilinear forms u.T*R*v and traces"
        )
    (old,) = plain.limits
    assert isinstance(old, BilinearOutput)
    limit = replace(old, gram=_gram(old, u, v))
    system = replace(plain, limits=(limit,))
    small = _small(limit, system.readings[limit.component].full())
    ((own, weight),) = ((row, value) for row, value in limit.readout if value != 0)
    keep = [i for i in range(limit.count) if i != own]
    # Row `own` defines u^T R v: the other entries of the row are minus its linear form.
    form = (-weight / small[own, own] * small[own, :]).applyfunc(sp.expand)
    last = (small[:, limit.count]).applyfunc(sp.expand)
    others = sorted(
        {x for x in limit.vectors if x not in (u, v)}, key=lambda x: (str(x.size), x.name)
    )
    left = tuple(x for x in others if any(f.has(_beside("u", x)) for f in form))
    right = tuple(x for x in others if any(f.has(_beside("v", x)) for f in last))
    relative = dict(system.sizes)
    rows = [[_unit(x, relative) * form[k].coeff(_beside("u", x), 1) for k in keep] for x in left]
    columns = [
        [_unit(x, relative) * last[k].coeff(_beside("v", x), 1) for x in right] for k in keep
    ]
    return DeterministicEquivalent(
        R,
        system,
        sp.factor_terms(form[limit.count].coeff(_BOTH, 1)),
        left,
        right,
        sp.ImmutableMatrix(len(left), len(keep), [x for row in rows for x in row]),
        sp.ImmutableMatrix(small.extract(keep, keep)),
        sp.ImmutableMatrix(len(keep), len(right), [x for row in columns for x in row]),
    )


def _gram(limit: BilinearOutput, u: Vector, v: Vector) -> tuple[tuple[int, int, sp.Expr], ...]:
    """The inner products, those with u and v as symbols of order one."""
    found = {(i, j): value for i, j, value in limit.gram}
    for i in {entry[2] for entry in limit.left}:
        for j in {entry[1] for entry in limit.right}:
            one, other = limit.vectors[i], limit.vectors[j]
            if one.size != other.size:
                continue
            if (one, other) == (u, v):
                found[i, j] = _BOTH
            elif one == u:
                found[i, j] = _beside("u", other)
            elif other == v:
                found[i, j] = _beside("v", one)
    return tuple((i, j, value) for (i, j), value in sorted(found.items()))


def _small(limit: BilinearOutput, inverse: Mapping[tuple[int, int], sp.Expr]) -> sp.Matrix:
    """``(C - V G U, V G b - r)`` in the unknowns."""
    gram = {(i, j): value for i, j, value in limit.gram}
    small = sp.zeros(limit.count, limit.count + 1)
    for row, column, value in limit.corner:
        small[row, column] += value
    for row, unknown, one, x, _ in limit.left:
        for source, other, column, y in limit.right:
            if (one, other) in gram and (unknown, source) in inverse:
                small[row, column] -= x * y * gram[one, other] * inverse[unknown, source]
    return small
