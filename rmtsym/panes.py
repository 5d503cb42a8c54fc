"""A function of one variable cut into panes on which it is analytic.

Every ``Abs``, ``sign``, ``Heaviside``, ``Max``, ``Min``, ``floor``, ``Mod`` and ``Piecewise`` is
resolved pane by pane, wherever it hides (``sign(t**2 - 1)``, ``Abs(sin(t))``); zeros of
denominators, logarithms and roots become breakpoints as well, and a branch that is complex is
refused with its place.  Breakpoints are exact SymPy numbers where algebra gives them, otherwise
``Root`` constants, isolated by ball arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy
from flint import arb, ctx
from sympy import Expr, Integer, Symbol

from rmtsym.balls import Constant, compile_ball, constant_ball, precision
from rmtsym.errors import NonlinearityError, UnsupportedError

MAX_PANES = 4000
MAX_PIECES = 40_000


class Undecided(UnsupportedError):
    """A sign or an order depends on the value of a parameter."""


class Root(Constant):
    """The one zero of a function between two rationals where it changes sign."""

    __slots__ = ("_lower", "_source", "_symbol", "_upper")

    def __new__(cls, source: Expr, symbol: Symbol, lower: Expr, upper: Expr) -> Root:
        self: Root = super().__new__(cls)
        self._source, self._symbol, self._lower, self._upper = source, symbol, lower, upper
        return self

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self._source, self._symbol, self._lower, self._upper)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (Root, self._hashable_content())

    def _sympystr(self, printer: Any) -> str:
        return str(self.evalf(6))

    def ball(self) -> arb:
        f = compile_ball(self._source, self._symbol)
        slope = compile_ball(self._source.diff(self._symbol), self._symbol)
        goal = ctx.prec
        with precision(2 * goal + 64):
            low, high = constant_ball(self._lower), constant_ball(self._upper)
            sign_low = f(low, False)
            rising = bool(sign_low < 0)
            bracket = low.union(high)
            for _ in range(20 * goal):
                if bracket.rad() * arb(2) ** (goal + 4) < 1:
                    break
                middle = bracket.mid()
                value = f(middle, False)
                newton = bracket
                steepness = slope(bracket, False)
                if steepness.is_finite() and not steepness.contains(0):
                    newton = middle - value / steepness
                if newton.is_finite() and newton.rad() * 2 < bracket.rad():
                    bracket = bracket.intersection(newton)
                elif value > 0 or value < 0:
                    left = bool(value > 0) == rising
                    bracket = (bracket.lower().union(middle) if left
                               else middle.union(bracket.upper()))  # fmt: skip
                else:
                    break
        return +bracket


@dataclass(frozen=True)
class Pane:
    """``expression`` (analytic inside) on the open interval from ``lower`` to ``upper``."""

    lower: Expr
    upper: Expr
    expression: Expr


@dataclass(frozen=True)
class Panes:
    """The panes of a function, in order.

    complete : the panes are those of the whole line; otherwise of [-reach, reach].
    singular : the breakpoints that are zeros of a denominator, a logarithm or a root.
    """

    panes: tuple[Pane, ...]
    complete: bool
    singular: tuple[Expr, ...]

    def __iter__(self) -> Iterator[Pane]:
        return iter(self.panes)

    @property
    def breakpoints(self) -> tuple[Expr, ...]:
        """The finite inner endpoints, increasing."""
        return tuple(pane.lower for pane in self.panes[1:])


@lru_cache(maxsize=512)
def split(expression: Expr, symbol: Symbol, reach: int = 32) -> Panes:
    """Cut a real function of ``symbol`` into panes; where there are infinitely many, those
    within [-reach, reach].

    Raises NonlinearityError where the function is complex or undefined on an interval,
    Undecided where a parameter decides.

    >>> t = Symbol("t", real=True)
    >>> [(p.lower, p.upper, p.expression) for p in split(sympy.Max(t**2 - 1, 0), t)]
    [(-oo, -1, t**2 - 1), (-1, 1, 0), (1, oo, t**2 - 1)]
    """
    work = _Splitter(symbol, Integer(reach))
    refused: NonlinearityError | None = None
    try:
        cells = work.split(expression, -sympy.oo, sympy.oo)
    except NonlinearityError as error:
        refused = error
    if not work.complete:  # what lies beyond reach was not cut: start again within it
        work = _Splitter(symbol, Integer(reach))
        cells = work.split(expression, -work.reach, work.reach)
        work.complete = False
    elif refused is not None:
        raise refused
    merged: list[Pane] = []
    for a, b, e in cells:
        if merged and merged[-1].expression == e and merged[-1].upper not in work.marks:
            merged[-1] = Pane(merged[-1].lower, b, e)
        else:
            merged.append(Pane(a, b, e))
    return Panes(tuple(merged), work.complete, tuple(sorted(work.marks, key=_OrderKey)))


def order(a: Expr, b: Expr) -> int:
    """-1, 0, 1 as a < b, a = b, a > b; Undecided when a parameter decides."""
    if a == b:
        return 0
    if a is sympy.oo or b is -sympy.oo:
        return 1
    if b is sympy.oo or a is -sympy.oo:
        return -1
    if a.is_Rational and b.is_Rational:
        return 1 if a > b else -1
    if a.free_symbols or b.free_symbols:
        return _assumed_sign(a - b)
    for bits in (64, 256, 1024):
        with precision(bits):
            difference = constant_ball(a) - constant_ball(b)
            if difference > 0:
                return 1
            if difference < 0:
                return -1
    return 0


def _assumed_sign(x: Expr) -> int:
    for candidate in (x, sympy.factor(x)):
        if candidate.is_positive:
            return 1
        if candidate.is_negative:
            return -1
        if candidate.is_zero:
            return 0
    raise Undecided(f"the sign of {sympy.sstr(x)} depends on its parameters; declare assumptions")


Cell = tuple[Expr, Expr, Any]

_NONANALYTIC = (
    sympy.Abs, sympy.sign, sympy.Heaviside, sympy.Max, sympy.Min, sympy.floor, sympy.ceiling,
    sympy.frac, sympy.Mod, sympy.Piecewise, sympy.log, sympy.tan, sympy.cot, sympy.sec, sympy.csc,
    sympy.asin, sympy.acos, sympy.acosh, sympy.atanh, sympy.coth, sympy.csch, sympy.acot,
)  # fmt: skip
_POLES = {
    sympy.tan: sympy.cos, sympy.sec: sympy.cos, sympy.cot: sympy.sin, sympy.csc: sympy.sin,
    sympy.coth: sympy.sinh, sympy.csch: sympy.sinh, sympy.acot: lambda g: g,
}  # fmt: skip
_DOMAINS = {
    sympy.log: lambda g: g,
    sympy.asin: lambda g: 1 - g**2,
    sympy.acos: lambda g: 1 - g**2,
    sympy.atanh: lambda g: 1 - g**2,
    sympy.acosh: lambda g: g - 1,
}


class _Splitter:
    def __init__(self, symbol: Symbol, reach: Expr) -> None:
        self.symbol, self.reach = symbol, reach
        self.complete = True
        self.marks: set[Expr] = set()

    def smaller(self, a: Expr, b: Expr) -> Expr:
        return a if order(a, b) <= 0 else b

    def larger(self, a: Expr, b: Expr) -> Expr:
        return a if order(a, b) >= 0 else b

    def needs(self, e: Expr) -> bool:
        if not e.has(self.symbol):
            return False
        if isinstance(e, _NONANALYTIC):
            return True
        if e.is_Pow and e.exp.is_Integer is not True and e.base.has(self.symbol):
            return True
        if e.is_Pow and e.exp.is_negative and e.base.has(self.symbol):
            return True
        return any(self.needs(a) for a in e.args)

    def split(self, e: Expr, a: Expr, b: Expr) -> list[Cell]:
        if not self.needs(e):
            return [(a, b, e)]
        if isinstance(e, sympy.Piecewise):
            return self.piecewise(e, a, b)
        cells: list[Cell] = [(a, b, ())]
        arguments = e.args[:1] if isinstance(e, sympy.Heaviside) else e.args
        if isinstance(e, sympy.Max | sympy.Min):  # SymPy keeps these in a set: fix the order
            arguments = sorted(e.args, key=sympy.default_sort_key)
        for argument in arguments:
            cells = [
                (low, high, (*done, part))
                for left, right, done in cells
                for low, high, part in self.split(argument, left, right)
            ]
            if len(cells) > MAX_PANES:
                raise UnsupportedError(
                    f"more than {MAX_PANES} kinks within {self.reach} of the origin"
                )
        return [cell for low, high, parts in cells for cell in self.apply(e, parts, low, high)]

    def apply(self, e: Expr, parts: tuple[Expr, ...], a: Expr, b: Expr) -> list[Cell]:
        g = parts[0]
        if isinstance(e, sympy.Abs):
            return [(low, high, s * g) for low, high, s in self.signs(g, a, b)]
        if isinstance(e, sympy.sign):
            return [(low, high, Integer(s)) for low, high, s in self.signs(g, a, b)]
        if isinstance(e, sympy.Heaviside):
            return [(low, high, Integer(s > 0)) for low, high, s in self.signs(g, a, b)]
        if isinstance(e, sympy.Max | sympy.Min):
            wanted = 1 if isinstance(e, sympy.Max) else -1
            cells: list[Cell] = [(a, b, g)]
            for other in parts[1:]:
                cells = [
                    (low, high, held if s == wanted else other)
                    for left, right, held in cells
                    for low, high, s in self.signs(held - other, left, right)
                ]
            return cells
        if isinstance(e, sympy.floor):
            return self.levels(g, a, b)
        if isinstance(e, sympy.ceiling):
            return [(low, high, -n) for low, high, n in self.levels(-g, a, b)]
        if isinstance(e, sympy.frac):
            return [(low, high, g - n) for low, high, n in self.levels(g, a, b)]
        if isinstance(e, sympy.Mod):
            m = parts[1]
            return [(low, high, g - m * n) for low, high, n in self.levels(g / m, a, b)]
        if type(e) in _POLES:
            self.signs(g if isinstance(e, sympy.acot) else _POLES[type(e)](g), a, b, mark=True)
            cells = self.signs(_POLES[type(e)](g), a, b, mark=True)
            return [(low, high, e.func(g)) for low, high, _ in cells]
        if type(e) in _DOMAINS:
            inside = self.signs(_DOMAINS[type(e)](g), a, b, mark=True)
            self.refuse_negative(e.func(g), inside)
            return [(low, high, e.func(g)) for low, high, _ in inside]
        if e.is_Pow and g.has(self.symbol) and not (parts[1].is_Integer and parts[1].is_positive):
            cells = self.signs(g, a, b, mark=True)
            if parts[1].is_integer is not True:
                self.refuse_negative(e.func(*parts), cells)
            return [(low, high, e.func(*parts)) for low, high, _ in cells]
        return [(a, b, e.func(*parts))]

    def refuse_negative(self, e: Expr, cells: Iterable[Cell]) -> None:
        for low, high, s in cells:
            if s < 0:
                raise NonlinearityError(
                    f"{sympy.sstr(e)} is complex for {self.symbol} between {sympy.sstr(low)} and "
                    f"{sympy.sstr(high)}; f must be real on the whole line "
                    "(write Abs, sign or Piecewise to say what is meant there)"
                )

    def piecewise(self, e: Expr, a: Expr, b: Expr) -> list[Cell]:
        done: list[Cell] = []
        open_cells: list[tuple[Expr, Expr]] = [(a, b)]
        for value, condition in e.args:
            rest = []
            for left, right in open_cells:
                for low, high, truth in self.truths(condition, left, right):
                    if truth:
                        done += self.split(value, low, high)
                    else:
                        rest.append((low, high))
            open_cells = rest
        for low, high in open_cells:
            raise NonlinearityError(
                f"the Piecewise has no value for {self.symbol} between {sympy.sstr(low)} and "
                f"{sympy.sstr(high)}; close it with a branch (value, True)"
            )
        for low, high, value in done:
            if value is sympy.nan:
                raise NonlinearityError(
                    f"f is nan between {sympy.sstr(low)} and {sympy.sstr(high)}"
                )
        return sorted(done, key=_OrderKey)

    def truths(self, condition: Any, a: Expr, b: Expr) -> list[Cell]:
        if condition in (True, False):
            return [(a, b, bool(condition))]
        if isinstance(condition, sympy.Not):
            return [(low, high, not s) for low, high, s in self.truths(condition.args[0], a, b)]
        if isinstance(condition, sympy.And | sympy.Or):
            every = isinstance(condition, sympy.And)
            cells: list[Cell] = [(a, b, every)]
            for part in condition.args:
                cells = [
                    (low, high, (held and s) if every else (held or s))
                    for left, right, held in cells
                    for low, high, s in self.truths(part, left, right)
                ]
            return cells
        if isinstance(condition, sympy.core.relational.Relational):
            cells = [
                piece
                for low, high, g in self.split(condition.lhs - condition.rhs, a, b)
                for piece in self.signs(g, low, high)
            ]
            # equality holds on a null set, unless it holds throughout a pane
            tests: dict[str, Callable[[int], bool]] = {
                "<": lambda s: s < 0, ">": lambda s: s > 0, "<=": lambda s: s <= 0,
                ">=": lambda s: s >= 0, "==": lambda s: s == 0, "!=": lambda s: s != 0,
            }  # fmt: skip
            test = tests[condition.rel_op]
            return [(low, high, test(s)) for low, high, s in cells]
        raise NonlinearityError(f"{condition} is not a condition on {self.symbol}")

    # signs, levels and roots

    def signs(self, g: Expr, a: Expr, b: Expr, mark: bool = False) -> list[Cell]:
        """Sub-panes of (a, b) with the sign of ``g`` on each."""
        if not g.has(self.symbol):
            return [(a, b, order(g, Integer(0)))]
        if g.is_positive or g.is_negative:
            return [(a, b, 1 if g.is_positive else -1)]
        if g.free_symbols - {self.symbol}:
            return self.parametric_signs(g, a, b, mark)
        points = self.inside(self.roots(g, a, b), a, b)
        if mark:
            self.marks.update(points, self.vanishing(g, (a, b)))
        ends = [a, *points, b]
        cells = [(low, high, self.sample(g, low, high)) for low, high in itertools.pairwise(ends)]
        return cells

    def parametric_signs(self, g: Expr, a: Expr, b: Expr, mark: bool) -> list[Cell]:
        if not (g.is_polynomial(self.symbol) and sympy.degree(g, self.symbol) == 1):
            raise Undecided(f"the sign of {sympy.sstr(g)} depends on its parameters")
        slope = sympy.Poly(g, self.symbol).LC()
        root = sympy.simplify(-g.subs(self.symbol, 0) / slope)
        s = _assumed_sign(slope)
        if order(root, a) <= 0:
            return [(a, b, s)]
        if order(root, b) >= 0:
            return [(a, b, -s)]
        if mark:
            self.marks.add(root)
        return [(a, root, -s), (root, b, s)]

    def vanishing(self, g: Expr, ends: tuple[Expr, Expr]) -> set[Expr]:
        function, found = compile_ball(g, self.symbol), set()
        for end in ends:
            if end.is_finite:
                with precision(128):
                    value = function(constant_ball(end), False)
                    if not value.is_finite() or value.contains(0):
                        found.add(end)
        return found

    def sample(self, g: Expr, a: Expr, b: Expr) -> int:
        function = compile_ball(g, self.symbol)
        low, high = self.larger(a, -self.reach * 8), self.smaller(b, self.reach * 8)
        for weight in (sympy.Rational(1, 2), sympy.Rational(3, 7), sympy.Rational(5, 9)):
            for bits in (64, 512, 4096):
                with precision(bits):
                    left, right = constant_ball(low), constant_ball(high)
                    if a is -sympy.oo:
                        left = right - 2
                    if b is sympy.oo:
                        right = left + 2 if a is not -sympy.oo else arb(1)
                    share = constant_ball(weight)
                    value = function((left * share + right * (1 - share)).mid(), False)
                    if value > 0:
                        return 1
                    if value < 0:
                        return -1
                    if value.is_exact() and value.is_zero():
                        break
        return 0

    def levels(self, g: Expr, a: Expr, b: Expr) -> list[Cell]:
        """Sub-panes of (a, b) with the integer floor(g) on each."""
        if g.free_symbols - {self.symbol}:
            raise Undecided(f"floor({sympy.sstr(g)}) depends on its parameters")
        if not g.has(self.symbol):
            return [(a, b, sympy.floor(g))]
        low, high = self.clip(a, b, g)
        if order(low, high) >= 0:
            return []
        with precision(64):
            values = compile_ball(g, self.symbol)(
                constant_ball(low).union(constant_ball(high)), False
            )
            values = self.tighten(g, low, high, values)
            first, last = values.lower().floor(), values.upper().ceil()
            bottom, top = int(first.mid().unique_fmpz()), int(last.mid().unique_fmpz())
        points = self.meets(g, range(bottom, top + 1), low, high)
        ends = [low, *self.inside(points, low, high), high]
        function = compile_ball(g, self.symbol)
        cells = []
        for left, right in itertools.pairwise(ends):
            with precision(256):
                middle = (constant_ball(left) + constant_ball(right)) / 2
                level = function(middle.mid(), False).mid().floor()
                cells.append((left, right, Integer(int(level.unique_fmpz()))))
        return cells

    def tighten(self, g: Expr, low: Expr, high: Expr, values: arb) -> arb:
        """A usable enclosure of the range of ``g`` over [low, high]."""
        width = values.rad() if values.is_finite() else arb(10**9)
        if values.is_finite() and width < 100:
            return values
        function, hull = compile_ball(g, self.symbol), arb(0)
        left, right = constant_ball(low), constant_ball(high)
        count = 512
        for i in range(count):
            piece = (left + (right - left) * i / count).union(
                left + (right - left) * (i + 1) / count
            )
            value = function(piece, False)
            if not value.is_finite():
                raise UnsupportedError(f"floor of the unbounded {sympy.sstr(g)}")
            hull = value if i == 0 else hull.union(value)
        if hull.rad() > MAX_PANES:
            raise UnsupportedError(f"floor({sympy.sstr(g)}) jumps too often to be cut into panes")
        return hull

    def clip(self, a: Expr, b: Expr, g: Expr) -> tuple[Expr, Expr]:
        """(a, b) within reach; what lies beyond is left out and the panes are not complete."""
        if not (a.is_finite and b.is_finite):
            self.complete = False
        return self.larger(a, -self.reach), self.smaller(b, self.reach)

    def inside(self, points: Iterable[Expr], a: Expr, b: Expr) -> list[Expr]:
        distinct = list(set(points))
        if all(x.is_Rational for x in distinct):
            within = sorted((Fraction(x.p, x.q), x) for x in distinct)
            return [x for _, x in within if order(a, x) < 0 < order(b, x)]
        kept: list[Expr] = []
        for point in sorted(distinct, key=_OrderKey):
            if order(a, point) < 0 < order(b, point) and (not kept or order(kept[-1], point)):
                kept.append(point)
        return kept

    def roots(self, g: Expr, a: Expr, b: Expr) -> set[Expr]:
        """Real zeros of the analytic ``g`` between a and b (others may be included)."""
        if not g.has(self.symbol):
            return set()
        if g.is_Mul:
            return set().union(*(self.roots(factor, a, b) for factor in g.args))
        if g.is_Pow:
            return self.roots(g.base, a, b) if g.exp.is_positive else set()
        if g.is_polynomial(self.symbol):
            exact = _polynomial_roots(g, self.symbol)
            if exact is not None:
                return exact
        numerator, denominator = sympy.fraction(sympy.together(g))
        if denominator.has(self.symbol):
            return self.roots(numerator, a, b)
        inverted = self.invert(g, a, b)
        return inverted if inverted is not None else self.isolate(g, a, b)

    def invert(self, g: Expr, a: Expr, b: Expr) -> set[Expr] | None:
        """Zeros of a polynomial in one function of the variable."""
        inner = [x for x in g.atoms(sympy.Function) if x.has(self.symbol)]
        u = sympy.Dummy("u", real=True)
        for function in inner:
            h = function.args[0]
            if function.func not in _INVERSES or not h.is_polynomial(self.symbol):
                continue
            outer = g.xreplace({function: u})
            if outer.has(self.symbol) or not outer.is_polynomial(u):
                continue
            values = _polynomial_roots(outer, u)
            if values is None:
                return None
            targets = [
                target for value in values
                for target in self.preimages(function.func, h, value, a, b)
            ]  # fmt: skip
            return self.meets(h, targets, a, b)
        return None

    def meets(self, g: Expr, targets: Iterable[Expr], a: Expr, b: Expr) -> set[Expr]:
        """Where ``g`` takes one of the targets."""
        line = sympy.Poly(g, self.symbol).all_coeffs() if g.is_polynomial(self.symbol) else []
        if len(line) == 2:
            return {(target - line[1]) / line[0] for target in targets}
        return {root for target in targets for root in self.roots(g - target, a, b)}

    def preimages(self, f: Any, h: Expr, value: Expr, a: Expr, b: Expr) -> list[Expr]:
        lowest, highest, inverse = _INVERSES[f]
        if order(value, lowest) < 0 or order(value, highest) > 0:
            return []
        if f not in (sympy.sin, sympy.cos):
            return [inverse(value)] if order(lowest, value) < 0 < order(highest, value) else []
        low, high = self.clip(a, b, h)
        with precision(64):
            span = compile_ball(h, self.symbol)(
                constant_ball(low).union(constant_ball(high)), False
            )
            turns = span / (2 * arb.pi())
            first, last = int(float(turns.lower().mid())) - 2, int(float(turns.upper().mid())) + 2
        if last - first > MAX_PANES:
            raise UnsupportedError(f"{sympy.sstr(f(h))} oscillates too fast to be cut into panes")
        angle = inverse(value)
        others = (angle, sympy.pi - angle) if f is sympy.sin else (angle, -angle)
        return [x + 2 * sympy.pi * n for n in range(first, last + 1) for x in set(others)]

    def isolate(self, g: Expr, a: Expr, b: Expr) -> set[Expr]:
        """Zeros by bisection and monotonicity, proven by ball arithmetic, within reach."""
        low, high = self.clip(a, b, g)
        f, slope = compile_ball(g, self.symbol), compile_ball(g.diff(self.symbol), self.symbol)
        found: set[Expr] = set()
        with precision(96):
            start = sympy.floor(low * 2**20) / 2**20, sympy.ceiling(high * 2**20) / 2**20
        stack = [(*start, 0)]
        if start[0] < 0 < start[1]:  # symmetry likes a zero at the origin
            stack = [(start[0], Integer(0), 0), (Integer(0), start[1], 0)]
        count = 0
        with precision(96):
            while stack:
                left, right, depth = stack.pop()
                count += 1
                if count > MAX_PIECES:
                    raise UnsupportedError(f"cannot isolate the zeros of {sympy.sstr(g)}")
                ends = constant_ball(left), constant_ball(right)
                box = ends[0].union(ends[1])
                value = f(box, False)
                if value.is_finite() and not value.contains(0):
                    continue
                steepness = slope(box, False)
                monotone = steepness.is_finite() and not steepness.contains(0)
                at_left, at_right = f(ends[0], False), f(ends[1], False)
                if monotone or depth >= 40:
                    if at_left.contains(0) and at_left.is_finite():
                        found.add(left)
                    elif at_right.contains(0) and at_right.is_finite():
                        found.add(right)
                    elif bool(at_left * at_right < 0):
                        found.add(Root(g, self.symbol, left, right))
                    continue
                middle = (left + right) / 2 + (right - left) / 64
                stack += [(left, middle, depth + 1), (middle, right, depth + 1)]
        return found


_INVERSES: dict[Any, tuple[Expr, Expr, Any]] = {
    sympy.exp: (Integer(0), sympy.oo, sympy.log),
    sympy.log: (-sympy.oo, sympy.oo, sympy.exp),
    sympy.sinh: (-sympy.oo, sympy.oo, sympy.asinh),
    sympy.tanh: (Integer(-1), Integer(1), sympy.atanh),
    sympy.atan: (-sympy.pi / 2, sympy.pi / 2, sympy.tan),
    sympy.sin: (Integer(-1), Integer(1), sympy.asin),
    sympy.cos: (Integer(-1), Integer(1), sympy.acos),
}


class _OrderKey:
    def __init__(self, item: Any) -> None:
        self.point = item[0] if isinstance(item, tuple) else item

    def __lt__(self, other: _OrderKey) -> bool:
        return order(self.point, other.point) < 0


@lru_cache(maxsize=1024)
def _polynomial_roots(g: Expr, symbol: Symbol) -> set[Expr] | None:
    p = sympy.Poly(g, symbol)
    coefficients = p.all_coeffs()
    if p.degree() == 1:
        return {-coefficients[1] / coefficients[0]}
    if all(c.is_Rational for c in coefficients):
        return set(sympy.real_roots(p))
    if p.degree() == 2:
        lead, middle, last = coefficients
        discriminant = sympy.expand(middle**2 - 4 * lead * last)
        if order(discriminant, Integer(0)) < 0:
            return set()
        root = sympy.sqrt(discriminant)
        return {(-middle - root) / (2 * lead), (-middle + root) / (2 * lead)}
    return None
