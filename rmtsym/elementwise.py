"""SymPy expressions as NumPy functions that neither overflow nor cancel where f is finite.

log(1 + exp(g)), 1/(1 + exp(g)), 1 + erf(g), 1 + tanh(g) and exp(g) - 1 are recognised and
computed by their stable forms; what still is not finite at a finite argument is computed again,
entry by entry, in ball arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import sympy
from flint import arb
from sympy import Expr, Symbol

from rmtsym.balls import compile_ball, constant_ball, precision
from rmtsym.errors import InputError, NonlinearityError

Array = Any
NumpyFunction = Callable[[Array], Array]

BLOCK = 1 << 16

_UFUNCS: dict[Any, str] = {
    sympy.sin: "sin", sympy.cos: "cos", sympy.tan: "tan", sympy.asin: "arcsin",
    sympy.acos: "arccos", sympy.atan: "arctan", sympy.sinh: "sinh", sympy.cosh: "cosh",
    sympy.tanh: "tanh", sympy.asinh: "arcsinh", sympy.acosh: "arccosh", sympy.atanh: "arctanh",
    sympy.exp: "exp", sympy.log: "log", sympy.Abs: "abs", sympy.sign: "sign",
    sympy.floor: "floor", sympy.ceiling: "ceil",
}  # fmt: skip
_SPECIAL: dict[Any, str] = {
    sympy.erf: "erf", sympy.erfc: "erfc", sympy.erfi: "erfi", sympy.gamma: "gamma",
}  # fmt: skip
_RECIPROCAL: dict[Any, str] = {
    sympy.sec: "cos", sympy.csc: "sin", sympy.cot: "tan", sympy.sech: "cosh",
    sympy.csch: "sinh", sympy.coth: "tanh",
}  # fmt: skip
_UNBOUNDED = (sympy.exp, sympy.log, sympy.tan, sympy.sinh, sympy.cosh, sympy.gamma, sympy.erfi)


def _special(name: str) -> Callable[..., Array]:
    import scipy.special

    return getattr(scipy.special, name)  # type: ignore[no-any-return]


def _number(e: Expr) -> float:
    with precision(80):
        return float(constant_ball(e).mid())


def _one_plus_exp(e: Expr) -> Expr | None:
    """g where e = 1 + exp(g)."""
    if e.is_Add and len(e.args) == 2 and e.args[0] == 1 and isinstance(e.args[1], sympy.exp):
        return e.args[1].args[0]
    return None


class _Builder:
    def __init__(self, symbol: Symbol) -> None:
        self.symbol = symbol

    def build(self, e: Expr) -> NumpyFunction:
        if e == self.symbol:
            return lambda x: x
        if not e.has(self.symbol):
            value = _number(e)
            return lambda x: value
        special_cases = {
            sympy.Add: self.add, sympy.Mul: self.multiply, sympy.Pow: self.power,
            sympy.log: self.logarithm, sympy.Piecewise: self.piecewise,
        }  # fmt: skip
        if e.func in special_cases:
            return special_cases[e.func](e)
        parts = [self.build(a) for a in e.args]
        first = parts[0]
        if isinstance(e, sympy.Max | sympy.Min):
            extreme = np.maximum if isinstance(e, sympy.Max) else np.minimum
            return lambda x: reduce(extreme, [part(x) for part in parts])
        if isinstance(e, sympy.Heaviside):
            return lambda x: np.heaviside(first(x), 0.5)
        if isinstance(e, sympy.Mod):
            return lambda x: np.mod(first(x), parts[1](x))
        if isinstance(e, sympy.frac):
            return lambda x: np.mod(first(x), 1)
        if isinstance(e, sympy.sinc):
            return lambda x: np.sinc(first(x) / np.pi)
        if e.func in _RECIPROCAL:
            divisor = getattr(np, _RECIPROCAL[e.func])
            return lambda x: 1 / divisor(first(x))
        ufunc = _ufunc(e.func)
        if ufunc is None:
            raise NonlinearityError(f"the function {e.func.__name__} is not known here")
        return lambda x: ufunc(first(x))

    def add(self, e: Expr) -> NumpyFunction:
        constant, rest = e.as_coeff_Add()
        if constant != 0 and not rest.is_Add:
            factor, core = rest.as_coeff_Mul()
            if abs(factor) == abs(constant) and isinstance(
                core, sympy.erf | sympy.tanh | sympy.exp
            ):
                c, sign = _number(constant), 1 if factor == constant else -1
                g = self.build(core.args[0])
                if isinstance(core, sympy.erf):  # 1 + erf(g) = erfc(-g)
                    erfc = _special("erfc")
                    return lambda x: c * erfc(-sign * g(x))
                if isinstance(core, sympy.tanh):  # 1 + tanh(g) = 2/(1 + exp(-2 g))
                    expit = _special("expit")
                    return lambda x: 2 * c * expit(2 * sign * g(x))
                if sign < 0:
                    return lambda x: -c * np.expm1(g(x))
        parts = [self.build(a) for a in e.args]
        return lambda x: reduce(lambda u, v: u + v, [part(x) for part in parts])

    def multiply(self, e: Expr) -> NumpyFunction:
        factors = list(e.args)
        for factor in e.args:
            g = _one_plus_exp(factor.base) if factor.is_Pow and factor.exp == -1 else None
            if g is not None and sympy.exp(g) in factors:  # exp(g)/(1 + exp(g)) = 1/(1 + exp(-g))
                factors.remove(factor)
                factors.remove(sympy.exp(g))
                factors.append((1 + sympy.exp(-g)) ** -1)
        parts = [self.build(a) for a in factors]
        return lambda x: reduce(lambda u, v: u * v, [part(x) for part in parts])

    def logarithm(self, e: Expr) -> NumpyFunction:
        argument = e.args[0]
        g = _one_plus_exp(argument)
        if g is not None:
            exponent = self.build(g)
            return lambda x: np.logaddexp(0.0, exponent(x))
        if argument.is_Add and argument.args[0] == 1:
            inner = self.build(argument - 1)
            return lambda x: np.log1p(inner(x))
        inner = self.build(argument)
        return lambda x: np.log(inner(x))

    def power(self, e: Expr) -> NumpyFunction:
        base, exponent = e.args
        if base is sympy.E:
            inner = self.build(exponent)
            return lambda x: np.exp(inner(x))
        g = _one_plus_exp(base)
        if g is not None and exponent.is_Integer and exponent.is_negative:
            expit, inner, n = _special("expit"), self.build(g), -int(exponent)
            return lambda x: expit(-inner(x)) ** n
        below = self.build(base)
        if exponent == sympy.S.Half:
            return lambda x: np.sqrt(below(x))
        if exponent == -1:
            return lambda x: 1 / below(x)
        if exponent.is_Integer and 2 <= exponent <= 4:
            times = int(exponent)
            return lambda x: reduce(lambda u, v: u * v, [below(x)] * times)
        if exponent.is_Integer:
            n = int(exponent)
            return lambda x: below(x) ** n
        above = self.build(exponent)
        return lambda x: np.power(below(x), above(x))

    def condition(self, c: Any) -> NumpyFunction:
        if c in (True, False):
            return lambda x: bool(c)
        if isinstance(c, sympy.Not):
            inner = self.condition(c.args[0])
            return lambda x: np.logical_not(inner(x))
        if isinstance(c, sympy.And | sympy.Or):
            parts = [self.condition(a) for a in c.args]
            join = np.logical_and if isinstance(c, sympy.And) else np.logical_or
            return lambda x: reduce(join, [part(x) for part in parts])
        left, right = self.build(c.lhs), self.build(c.rhs)
        compare = {
            "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
            "==": np.equal, "!=": np.not_equal,
        }[c.rel_op]  # fmt: skip
        return lambda x: compare(left(x), right(x))

    def piecewise(self, e: Expr) -> NumpyFunction:
        branches = [(self.build(value), self.condition(c)) for value, c in e.args]

        def choose(x: Array) -> Array:
            value: Array = np.nan
            for branch, condition in reversed(branches):
                value = np.where(condition(x), branch(x), value)
            return np.where(np.isnan(x), x, value)

        return choose


def _ufunc(function: Any) -> Any:
    if function in _UFUNCS:
        return getattr(np, _UFUNCS[function])
    return _special(_SPECIAL[function]) if function in _SPECIAL else None


class Evaluator:
    """``expression`` of one symbol, applied entry by entry to NumPy arrays."""

    def __init__(self, expression: Expr, symbol: Symbol) -> None:
        self.expression, self.symbol = expression, symbol
        self.function = _Builder(symbol).build(expression)
        self.direct = _ufunc(expression.func) if expression.args == (symbol,) else None
        self.bounded = not expression.has(*_UNBOUNDED)

    def __call__(self, x: Any, out: Array | None = None) -> Array:
        values = np.asarray(x)
        if values.dtype.kind not in "fiub":
            raise InputError(f"expected real numbers, got an array of type {values.dtype}")
        if values.dtype.kind != "f" or values.dtype == np.float16:
            values = values.astype(np.float64)
        result = np.empty(values.shape, values.dtype) if out is None else out
        with np.errstate(all="ignore"):
            if self.direct is not None and self.bounded:
                self.direct(values, out=result)
            elif values.size <= BLOCK or not (
                values.flags.c_contiguous and result.flags.c_contiguous
            ):
                self.block(values, result)
            else:  # blocks that stay in the cache
                flat, target = values.reshape(-1), result.reshape(-1)
                for start in range(0, values.size, BLOCK):
                    self.block(flat[start : start + BLOCK], target[start : start + BLOCK])
        return result[()] if out is None else result

    def block(self, values: Array, result: Array) -> None:
        new = self.function(values)
        if not np.isfinite(np.sum(new)):
            new = np.array(np.broadcast_to(new, values.shape), dtype=values.dtype)
            self.repair(values, new)
        result[...] = new

    def repair(self, values: Array, result: Array) -> None:
        """Entries that are not finite at a finite argument, once more in balls."""
        wrong = ~np.isfinite(result) & np.isfinite(values)
        exact = compile_ball(self.expression, self.symbol)
        for index in np.argwhere(wrong)[:100_000]:
            place = tuple(index)
            for bits in (128, 1024, 8192):
                with precision(bits):
                    ball = exact(arb(float(values[place])), False)
                if ball.is_finite() and (ball.is_exact() or ball.rel_accuracy_bits() > 60):
                    result[place] = float(ball.mid())
                    break


@lru_cache(maxsize=512)
def compile_numpy(expression: Expr, symbol: Symbol) -> Evaluator:
    """``expression`` as a function of arrays: float32 stays float32, all else is float64.

    >>> t = Symbol("t", real=True)
    >>> softplus = compile_numpy(sympy.log(1 + sympy.exp(t)), t)
    >>> float(softplus(800.0)), softplus(np.float32(0)).dtype
    (800.0, dtype('float32'))
    """
    return Evaluator(expression, symbol)
