"""Gaussian equivalent: every ``Entrywise`` node becomes a linear part plus independent noise.

For centred ``f`` and a matrix ``A`` whose entries are, to leading order, N(0, tau^2),

    f(A)  ~  a A + N,     a = E[xi f(tau xi)] / tau,     Var N_ij = E f(tau xi)^2 - a^2 tau^2,

where ``N`` is Gaussian and independent of everything else: symmetric (GOE) when ``A`` is a Gram
matrix ``Z^T M Z`` off its diagonal, with iid entries when ``A`` is a product of independent
factors. Low-rank terms of ``A`` are carried by the linear part. At ``tau = 1``, ``a = a_1``.

Spikes along the vector of ones 1 are written out where an expression can see it (labels of mean
other than 0, class indicators, ``Ones``). For ``A = Z^T M`` with columns ``z_i`` of length d,

    f(A)  gains  a_2 sqrt((kappa - 1) / (2 d)) (phi 1^T + 1 phi^T),     phi_i ~ |z_i|^2 / d - 1,

``kappa = E z^4``, phi of squared length n in an independent direction (symmetric laws).
``E f != 0`` is a spike of infinite strength, ``1 (0)^{-1} 1^T``: 1 is then projected out, and with
it the spikes above. The exact row softmax is ``g(A) (I - 1 1^T / n)`` and such a spike, with
``a_k(g) = beta^k / sqrt(k!)``, k >= 1; beside the spike the projection does not enter:

    n softmax(beta A)  ~  g(A) + 1 (0)^{-1} 1^T.

Source: X. Cheng and A. Singer, Random Matrices: Theory Appl. 2 (2013); J. Pennington and
P. Worah, NeurIPS 2017; Z. Liao et al., arXiv 2506.18656, Section 3.

>>> from rmtsym.matrices import *
>>> n, p = dimensions("n p")
>>> Z = Gaussian("Z", p, n)
>>> K = OffDiagonal(Entrywise(sp.Symbol("f"), Z.T * Z / sp.sqrt(p))) / sp.sqrt(p)
>>> print(linearize(K))
1/sqrt(p)*(N_f + a_1/sqrt(p)*Z'*Z + -a_1*sqrt(p)*I_n)
  Var N_f = -a_1**2 + nu
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import mpmath
import sympy as sp

from rmtsym.algebra import Product, Scaled, Sum, Transpose
from rmtsym.errors import InputError, UnsupportedError
from rmtsym.matrices import (
    Deterministic,
    Entrywise,
    Gaussian,
    Identity,
    Independent,
    Indicator,
    Labels,
    Matrix,
    OffDiagonal,
    Ones,
    RowSoftmax,
    Vector,
    Wigner,
    inner,
)
from rmtsym.rewriting import push_transposes, rebuild, transpose, walk

Word = tuple[Matrix, ...]


@dataclass(frozen=True)
class HermiteSymbol:
    """A symbol of the Gaussian equivalent and what it stands for.

    ``moment = "slope"``: E[xi f(tau xi)] / tau; ``"product"``: E[f(tau xi) g(tau xi)], which is
    nu when ``f`` and ``g`` are one; ``"mean"`` and ``"second"``: a_0 and a_2 of f(tau t).
    """

    symbol: sp.Symbol
    moment: str
    f: Any
    g: Any
    tau: sp.Expr

    def value(self, nonlinearities: Mapping[Any, Any], tau: Any, digits: int | None = None) -> Any:
        """Its number for given nonlinearities (those not in the mapping stand for themselves)."""
        f, g = (nonlinearities.get(x, x) for x in (self.f, self.g))
        for given in (f, g):
            if not hasattr(given, "coefficient"):
                raise InputError(
                    f"got no nonlinearity for {given}, needed for {self.symbol}; "
                    f"pass nonlinearities={{{given}: Nonlinearity(...)}} or a value for the symbol"
                )
        if tau != 1:
            f, g = f.scaled(tau), g.scaled(tau)
        if self.moment in ("mean", "second"):
            return f.coefficient(0 if self.moment == "mean" else 2, digits=digits)
        if self.moment == "slope":
            slope = f.coefficient(1, digits=digits)
            if tau == 1 or digits is None:
                return slope if tau == 1 else slope / sp.sympify(tau)
            with mpmath.workdps(digits + 5):
                return slope / mpmath.mpf(sp.N(sp.sympify(tau), digits + 10))
        return f.nu(digits=digits) if f == g else f.product_moment(g, digits=digits)


@dataclass(frozen=True)
class Exponential:
    """``exp(beta t - beta^2 tau^2 / 2) - 1``, the centred exponential behind a softmax."""

    beta: sp.Expr
    tau: sp.Expr

    name = "softmax"

    @property
    def scale(self) -> sp.Expr:
        return self.beta * self.tau

    def moment(self, moment: str, other: Exponential) -> sp.Expr:
        """The moments of :class:`HermiteSymbol` in closed form."""
        match moment:
            case "slope":
                return self.beta
        return sp.exp(self.scale * other.scale) - 1

    def nonlinearity(self) -> Any:
        from rmtsym.nonlinearity import Nonlinearity, t

        if self.scale.free_symbols or self.tau.free_symbols:
            raise UnsupportedError(
                f"got a softmax at beta = {self.beta} beside another nonlinearity on the same "
                "scores; give beta as a number there"
            )
        return Nonlinearity(sp.exp(self.beta * t - self.scale**2 / 2) - 1, self.name)


@dataclass(frozen=True)
class GaussianEquivalent:
    """An expression without ``Entrywise``, the covariance of its noise parts, and its symbols.

    ``covariance`` lists ``(N, N', cov)`` with ``cov`` the covariance of equal entries; noise parts
    not listed together are independent, and Gaussians of the user's own have unit variance.
    """

    expression: Matrix
    covariance: tuple[tuple[Matrix, Matrix, sp.Expr], ...] = ()
    symbols: tuple[HermiteSymbol, ...] = ()

    def covariance_of(self, one: Matrix, other: Matrix) -> sp.Expr:
        """The covariance of the (i, j) entries of two random matrices."""
        for first, second, value in self.covariance:
            if (one, other) in ((first, second), (second, first)):
                return value
        return sp.Integer(one == other)

    def __str__(self) -> str:
        lines = [str(self.expression)]
        for one, other, value in self.covariance:
            label = f"Var {one}" if one == other else f"Cov({one}, {other})"
            lines.append(f"  {label} = {value}")
        return "\n".join(lines)

    def _repr_latex_(self) -> str:
        rows = [self.expression._latex()]
        for one, other, value in self.covariance:
            label = (
                rf"\operatorname{{Var}} {one._latex()}"
                if one == other
                else rf"\operatorname{{Cov}}({one._latex()}, {other._latex()})"
            )
            rows.append(rf"{label} = {sp.latex(value)}")
        return "$" + r",\quad ".join(rows) + "$"


def expand(node: Matrix) -> tuple[tuple[sp.Expr, Word], ...]:
    """A polynomial expression as a sum of scalar times word, transposes on the leaves.

    >>> from rmtsym.matrices import *
    >>> n, p = dimensions("n p")
    >>> A, B = Gaussian("A", n, p), Gaussian("B", n, p)
    >>> [(c, "*".join(map(str, word))) for c, word in expand((A + B) * A.T / n)]
    [(1/n, "A*A'"), (1/n, "B*A'")]
    """
    node = push_transposes(node)
    match node:
        case Scaled():
            return tuple((node.coefficient * c, word) for c, word in expand(node.operand))
        case Sum():
            return tuple(item for term in node.terms for item in expand(term))
        case Product():
            words: tuple[tuple[sp.Expr, Word], ...] = ((sp.Integer(1), ()),)
            for factor in node.factors:
                words = tuple(
                    (c * d, left + right) for c, left in words for d, right in expand(factor)
                )
            return words
        case Identity():
            return ((sp.Integer(1), ()),)
        case Gaussian() | Wigner() | Vector() | Deterministic() | Transpose():
            return ((sp.Integer(1), (node,)),)
    raise UnsupportedError(
        f"got {node} inside Entrywise or OffDiagonal; only sums and products of random matrices, "
        "deterministic matrices and vectors can stand there (no inverse, no second Entrywise: "
        "there is no layer rule for a nonlinearity of a nonlinearity)"
    )


def leaf(factor: Matrix) -> Matrix:
    """The factor of a word without its transpose."""
    return factor.operand if isinstance(factor, Transpose) else factor


@dataclass(frozen=True)
class _Leading:
    """The leading part of the argument of f: one word, its standard deviation and kind."""

    word: Word
    coefficient: sp.Expr
    tau: sp.Expr
    symmetric: bool
    diagonal: sp.Expr


def _moment(middle: Word, power: int) -> sp.Expr:
    """``(1/p) tr (D_1 D_2 ...)^power`` of commuting deterministic matrices."""
    if not middle:
        return sp.Integer(1)
    laws = {factor.law for factor in middle if isinstance(factor, Deterministic)}
    if len(laws) != 1:
        raise UnsupportedError(
            f"got the deterministic matrices {', '.join(map(str, middle))} with different "
            "spectral laws in one product; give them one joint SpectralLaw"
        )
    law = laws.pop()
    powers = [0] * len(law.atoms[0])
    for factor in middle:
        assert isinstance(factor, Deterministic)
        powers[factor.component] += power
    return law.moment(tuple(powers))


def _read_leading(argument: Matrix, words: list[tuple[sp.Expr, Word]]) -> _Leading:
    total: dict[Word, sp.Expr] = {}
    for coefficient, word in words:
        total[word] = total.get(word, sp.Integer(0)) + coefficient
    if len(total) != 1:
        raise UnsupportedError(
            f"got {argument} inside Entrywise, with {len(total)} full-rank terms; exactly one "
            "product such as Z.T*Z, W*X or Z.T*C*Z may lead, all else must be of low rank"
        )
    ((word, coefficient),) = total.items()
    first, last, middle = word[0], word[-1], word[1:-1]
    if len(word) == 1 and isinstance(leaf(first), (Gaussian, Wigner)):
        return _Leading(word, coefficient, coefficient, isinstance(first, Wigner), sp.Integer(0))
    well_formed = (
        len(word) >= 2
        and isinstance(leaf(first), Gaussian)
        and isinstance(leaf(last), Gaussian)
        and all(isinstance(factor, Deterministic) for factor in middle)
    )
    if not well_formed:
        raise UnsupportedError(
            f"got {'*'.join(map(str, word)) or 'the identity'} inside Entrywise; the leading part "
            "must be a Gaussian matrix, or a product of two Gaussian factors with deterministic "
            "matrices between them only (rows or columns whose variance depends on their "
            "position, and longer products, have no Gaussian equivalent here)"
        )
    size = first.shape[1]
    tau = sp.sqrt(size * _moment(middle, 2)) * coefficient
    gram = transpose(first) == last
    if not gram and leaf(first) == leaf(last):
        raise UnsupportedError(
            f"got {'*'.join(map(str, word))} inside Entrywise: a product of a square matrix with "
            "itself; its factors must be independent or one the transpose of the other"
        )
    diagonal = coefficient * size * _moment(middle, 1) if gram else sp.Integer(0)
    return _Leading(word, coefficient, sp.simplify(tau), gram, diagonal)


class _Linearizer:
    def __init__(self) -> None:
        self.symbols: dict[tuple[Any, ...], HermiteSymbol] = {}
        self.noises: dict[tuple[Any, ...], tuple[Matrix, Any, _Leading]] = {}
        self.labels: dict[Any, str] = {}
        self.means: dict[Any, sp.Expr] = {}
        self.sees_ones = False

    def run(self, expression: Matrix, spikes: bool) -> GaussianEquivalent:
        self.sees_ones = spikes or any(map(_sees_ones, walk(expression)))
        rewritten = self.rewrite(push_transposes(expression))
        covariance = []
        parts = list(self.noises.values())
        for position, (one, f, lead) in enumerate(parts):
            for other, g, partner in parts[position:]:
                if lead.word == partner.word and lead.tau == partner.tau:
                    value = (
                        self.symbol("product", f, g, lead.tau)
                        - self.symbol("slope", f, f, lead.tau)
                        * self.symbol("slope", g, g, lead.tau)
                        * lead.tau**2
                        - self.means.get(f, sp.Integer(0)) * self.means.get(g, sp.Integer(0))
                    )
                    covariance.append((one, other, sp.expand(value)))
                elif _base(lead.word) & _base(partner.word) and _same_randomness(lead, partner):
                    raise UnsupportedError(
                        f"got two nonlinearities on {'*'.join(map(str, lead.word))} at different "
                        "scales; their joint noise is not covered: give both one scale"
                    )
        return GaussianEquivalent(rewritten, tuple(covariance), tuple(self.symbols.values()))

    def rewrite(self, node: Matrix) -> Matrix:
        if isinstance(node, OffDiagonal):
            return self.off_diagonal(node.operand)
        if isinstance(node, Entrywise):
            return self.entrywise(node, keep_diagonal=True)
        if isinstance(node, RowSoftmax):
            return self.softmax(node)
        if isinstance(node, Transpose) and isinstance(node.operand, RowSoftmax):
            return transpose(self.softmax(node.operand))
        return rebuild(node, tuple(map(self.rewrite, node.children)))

    def off_diagonal(self, node: Matrix) -> Matrix:
        if isinstance(node, Entrywise):
            return self.entrywise(node, keep_diagonal=False)
        if isinstance(node, (Sum, Scaled)):
            return rebuild(node, tuple(map(self.off_diagonal, node.children)))
        if isinstance(node, OffDiagonal):
            return self.off_diagonal(node.operand)
        if isinstance(node, RowSoftmax):
            return self.softmax(node)
        removed: sp.Expr = sp.Integer(0)
        for coefficient, word in expand(node):
            if any(isinstance(leaf(factor), Vector) for factor in word):
                continue
            if word and len(word) > 1:
                removed += _read_leading(node, [(coefficient, word)]).diagonal
            elif not word or isinstance(word[0], Deterministic):
                raise UnsupportedError(
                    f"got OffDiagonal of {node}, whose diagonal is deterministic; "
                    "write the expression without its diagonal part"
                )
        return node if removed == 0 else node + (-removed) * Identity(node.shape[0])

    def entrywise(self, node: Entrywise, keep_diagonal: bool) -> Matrix:
        argument = node.operand
        if isinstance(argument, OffDiagonal):
            argument, keep_diagonal = argument.operand, False
        lead = self.read(argument)
        if lead.diagonal != 0 and keep_diagonal:
            raise UnsupportedError(
                f"got {node} with its diagonal, whose entries grow like the square root of the "
                "size; write OffDiagonal(Entrywise(f, A)), the kernel without its diagonal"
            )
        if node.centred and getattr(node.f, "is_centred", True) is False:
            raise UnsupportedError(
                f"got {node.label} with E f(xi) != 0 (a spike along the ones vector that grows "
                "without bound); pass f.centred(), or write Entrywise(f, A, centred=False)"
            )
        equivalent = self.equivalent(node, argument, lead)
        if node.centred:
            return Sum.of(equivalent, *self.spikes(node, lead))
        mean = self.symbol("mean", node.f, node.f, lead.tau)
        self.means[node.f] = mean
        return equivalent + Scaled.of(mean, _infinite(*node.shape))

    def softmax(self, node: RowSoftmax) -> Matrix:
        argument = node.operand
        if isinstance(argument, OffDiagonal):
            argument = argument.operand
        lead = self.read(argument)
        g = Entrywise(Exponential(node.beta, lead.tau), argument)
        size = node.shape[0]
        return Scaled.of(1 / size, self.equivalent(g, argument, lead) + _infinite(size, size))

    def read(self, argument: Matrix) -> _Leading:
        """The leading part of the argument of a nonlinearity; all else must be of low rank."""
        words = expand(argument)
        full = [
            (c, word)
            for c, word in words
            if not any(isinstance(leaf(factor), Vector) for factor in word)
        ]
        lead = _read_leading(argument, full)
        self.check_low_rank(argument, words)
        return lead

    def equivalent(self, node: Entrywise, argument: Matrix, lead: _Leading) -> Matrix:
        """Linear part and noise of a centred f."""
        slope = self.symbol("slope", node.f, node.f, lead.tau)
        linear: Matrix = slope * argument
        if lead.diagonal != 0:
            linear = linear + (-slope * lead.diagonal) * Identity(node.shape[0])
        return self.noise(node, lead) + linear

    def spikes(self, node: Entrywise, lead: _Leading) -> list[Matrix]:
        """``a_2`` and the lengths of the tokens, where the vector of ones is seen."""
        if not self.sees_ones or len(lead.word) == 1 or getattr(node.f, "parity", None) == -1:
            return []
        if len(lead.word) > 2:
            raise UnsupportedError(
                f"got {'*'.join(map(str, lead.word))} inside Entrywise beside labels of mean other "
                "than 0: with a matrix in the middle the spikes of a_2 are not covered"
            )
        first, last = lead.word
        size = first.shape[1]
        second = self.symbol("second", node.f, node.f, lead.tau)
        rows, columns = (Ones(length) for length in node.shape)
        return [
            second * _fluctuation(first) / sp.sqrt(size) * (_direction(first) * columns.T),
            second * _fluctuation(last) / sp.sqrt(size) * (rows * _direction(transpose(last)).T),
        ]

    def check_low_rank(self, argument: Matrix, words: Any) -> None:
        """Low-rank terms must be of operator norm sqrt(n), as the leading term is."""
        for coefficient, word in words:
            if not any(isinstance(leaf(factor), Vector) for factor in word):
                continue
            squared = coefficient**2
            for factor in word:
                base = leaf(factor)
                if isinstance(base, Vector):
                    squared *= inner(base, base)
                elif isinstance(base, (Gaussian, Wigner)):
                    squared *= base.shape[0]
            if degree(squared) > 1:
                raise UnsupportedError(
                    f"got the low-rank term {coefficient}*{'*'.join(map(str, word))} of {argument} "
                    "inside Entrywise, larger than the noise around it; scale it so that its "
                    "operator norm is of the order of the square root of the size"
                )

    def noise(self, node: Entrywise, lead: _Leading) -> Matrix:
        key = (node.f, lead.word, lead.tau, node.shape)
        flipped = tuple(transpose(factor) for factor in reversed(lead.word))
        mirrored = (node.f, flipped, lead.tau, node.shape[::-1])
        if mirrored in self.noises:
            return transpose(self.noises[mirrored][0])
        if key not in self.noises:
            taken = {str(matrix) for matrix, _, _ in self.noises.values()}
            name = f"N_{self.label(node)}"
            if name in taken:
                name = next(f"{name}_{k}" for k in range(2, 1000) if f"{name}_{k}" not in taken)
            matrix: Matrix = (
                Wigner(name, node.shape[0]) if lead.symmetric else Gaussian(name, *node.shape)
            )
            self.noises[key] = (matrix, node.f, lead)
        return self.noises[key][0]

    def label(self, node: Entrywise) -> str:
        if node.f not in self.labels:
            name = node.label if node.label.isidentifier() else f"f{len(self.labels) + 1}"
            if name in self.labels.values():
                name = f"{name}{len(self.labels) + 1}"
            self.labels[node.f] = name
        return self.labels[node.f]

    def symbol(self, moment: str, f: Any, g: Any, tau: sp.Expr) -> sp.Expr:
        if isinstance(f, Exponential) and isinstance(g, Exponential):
            return f.moment(moment, g)
        f, g = (x.nonlinearity() if isinstance(x, Exponential) else x for x in (f, g))
        key = (moment, f, g, tau)
        mirrored = (moment, g, f, tau)
        if mirrored in self.symbols:
            return self.symbols[mirrored].symbol
        if key not in self.symbols:
            stem = {"slope": "a_1", "mean": "a_0", "second": "a_2"}.get(moment, "nu")
            taken = {entry.symbol.name for entry in self.symbols.values()}
            if stem in taken or (f != g):
                stem = "_".join([stem, *dict.fromkeys(self.labels.get(x, str(x)) for x in (f, g))])
            if stem in taken:
                stem = next(f"{stem}_{k}" for k in range(2, 1000) if f"{stem}_{k}" not in taken)
            energy = moment == "product" and f == g
            assumption = {"nonnegative": True} if energy else {"real": True}
            self.symbols[key] = HermiteSymbol(sp.Symbol(stem, **assumption), moment, f, g, tau)
        return self.symbols[key].symbol


def _sees_ones(node: Matrix) -> bool:
    return isinstance(node, (Ones, Indicator)) or (isinstance(node, Labels) and node.mean != 0)


def _infinite(rows: sp.Expr, columns: sp.Expr) -> Matrix:
    """``s 1 1^T`` in the limit of s -> infinity, as ``1 (1/s)^{-1} 1^T``."""
    unbounded = Scaled.of(sp.Integer(0), Identity(1)).inverse()
    return Scaled.of(1 / sp.sqrt(rows), Ones(rows) * unbounded * Ones(columns).T)


def _fluctuation(factor: Matrix) -> sp.Expr:
    """``sqrt((kappa - 1) / 2)`` of the entries of a random factor."""
    kurtosis = getattr(leaf(factor), "kurtosis", sp.Integer(3))
    return sp.sqrt((kurtosis - 1) / 2)


def _direction(factor: Matrix) -> Independent:
    """The fluctuation of the squared lengths of the rows of a factor, as a direction."""
    mark = "" if isinstance(factor, Transpose) else "'"
    return Independent(f"phi_{leaf(factor)}{mark}", factor.shape[0])


def _base(word: Word) -> set[Matrix]:
    return {leaf(factor) for factor in word}


def _same_randomness(one: _Leading, other: _Leading) -> bool:
    return [leaf(f) for f in (one.word[0], one.word[-1])] == [
        leaf(f) for f in (other.word[0], other.word[-1])
    ]


_SCALE = sp.Symbol("_N", positive=True)


@lru_cache(maxsize=4096)
def split_scale(value: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """``value`` as (coefficient, degree): its leading term in the common scale of all sizes.

    >>> n, p = sp.symbols("n p", positive=True, integer=True)
    >>> split_scale((p + 1) / n**2)
    (p/n**2, -1)
    """
    if value == 0:
        return sp.Integer(0), -sp.oo
    sizes = sorted((s for s in value.free_symbols if is_size(s)), key=str)
    if not sizes:
        return value, sp.Integer(0)
    scaled = value.subs({s: s * _SCALE for s in sizes}, simultaneous=True)
    terms: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(sp.expand(sp.powsimp(sp.expand(scaled)))):
        coefficient, power = term.as_independent(_SCALE)
        exponent = _exponent(power, value)
        terms[exponent] = terms.get(exponent, sp.Integer(0)) + coefficient
    top = max(terms)
    return terms[top], top


def _exponent(power: sp.Expr, value: sp.Expr) -> sp.Expr:
    if power == 1:
        return sp.Integer(0)
    base, exponent = power.as_base_exp()
    if base == _SCALE and exponent.is_Rational:
        return exponent
    raise UnsupportedError(
        f"got the scalar {value}, which is not a sum of powers of the sizes; "
        "write sizes only as powers such as 1/n or sqrt(p)"
    )


def is_size(symbol: sp.Symbol) -> bool:
    """Sizes are the symbols made by ``dimensions``: positive integers."""
    return bool(symbol.is_positive and symbol.is_integer)


def degree(value: sp.Expr) -> sp.Expr:
    """The power of the common scale of all sizes with which a scalar grows."""
    return split_scale(value)[1]


def linearize(expression: Matrix, *, spikes: bool = False) -> GaussianEquivalent:
    """Replace every ``Entrywise`` node by its Gaussian equivalent.

    The spikes of a_2 along the vector of ones are left out where the expression does not see that
    vector, as they then change no trace and no bilinear form; ``spikes`` keeps them (they are
    outliers of the spectrum all the same).

    Raises ``UnsupportedError`` naming the node when it has none here: an argument with several
    full-rank terms, a Gram matrix with its diagonal, a nonlinearity of a nonlinearity, f not
    centred.
    """
    kinds = (Entrywise, OffDiagonal, RowSoftmax)
    if not any(isinstance(node, kinds) for node in walk(expression)):
        return GaussianEquivalent(push_transposes(expression))
    return _Linearizer().run(expression, spikes)
