"""Text to exact SymPy expressions, without evaluating the text as Python.

A tokenizer and a Pratt parser (V. R. Pratt, "Top down operator precedence", 1973) over a
whitelist of functions.  Every other name is a real symbol, so ``gamma*t``, ``lambda*t`` and
``S*t`` mean what they say.  ``^`` and ``**`` are both powers; decimal numbers become exact.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any, NamedTuple

import sympy
from sympy import Expr, Symbol
from sympy.logic.boolalg import Boolean, BooleanAtom

from rmtsym.errors import InputError, NonlinearityError

MAX_LENGTH = 4000
MAX_DEPTH = 60
MAX_EXPONENT = 1000
MAX_BITS = 50_000

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![A-Za-z_0-9.])"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<operator>\*\*|<=|>=|==|!=|[-+*/^(),<>&|~]))"
)


def _heaviside(x: Expr, at_zero: Expr | None = None) -> Expr:
    return sympy.Heaviside(x)  # the value at one point has no Gaussian weight


def _bounded(function: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """Refuse towers such as exp(exp(exp(9))), which nobody can evaluate."""

    def checked(x: Expr) -> Expr:
        if x.is_number and abs(x.evalf(5)) > 10**6:
            raise NonlinearityError(f"a constant exponent beyond 10^6: {sympy.sstr(x)[:40]}")
        return function(x)

    return checked


FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {
    **{
        name: (getattr(sympy, name), 1, 1)
        for name in (
            "sqrt cbrt sin cos tan cot sec csc asin acos atan acot "
            "tanh coth sech csch asinh acosh atanh "
            "erf erfc erfi Abs sign floor ceiling frac Not sinc"
        ).split()
    },
    **{name: (_bounded(getattr(sympy, name)), 1, 1) for name in ("exp", "sinh", "cosh")},
    **{name: (sympy.log, 1, 1) for name in ("log", "ln")},
    "abs": (sympy.Abs, 1, 1),
    "ceil": (sympy.ceiling, 1, 1),
    "log1p": (lambda x: sympy.log(1 + x), 1, 1),
    "expm1": (lambda x: sympy.exp(x) - 1, 1, 1),
    "arctan": (sympy.atan, 1, 1),
    "arcsin": (sympy.asin, 1, 1),
    "arccos": (sympy.acos, 1, 1),
    "arcsinh": (sympy.asinh, 1, 1),
    "arctanh": (sympy.atanh, 1, 1),
    "Heaviside": (_heaviside, 1, 2),
    "Max": (sympy.Max, 1, 32),
    "max": (sympy.Max, 1, 32),
    "Min": (sympy.Min, 1, 32),
    "min": (sympy.Min, 1, 32),
    "And": (sympy.And, 1, 32),
    "Or": (sympy.Or, 1, 32),
    "Mod": (sympy.Mod, 2, 2),
    "Pow": (lambda x, y: _power(x, y), 2, 2),
    "Rational": (lambda p, q: p / q, 2, 2),
    "Piecewise": (lambda *branches: _piecewise(branches), 1, 64),
}
_CONSTANTS: dict[str, Any] = {
    "pi": sympy.pi,
    "True": sympy.true,
    "False": sympy.false,
    "nan": sympy.nan,
}
_RELATIONS = {
    "<": sympy.Lt, "<=": sympy.Le, ">": sympy.Gt, ">=": sympy.Ge, "==": sympy.Eq, "!=": sympy.Ne,
}  # fmt: skip
_BINDING = {
    "|": 10, "&": 20, **dict.fromkeys(_RELATIONS, 30), "+": 40, "-": 40, "*": 50, "/": 50,
    "**": 70, "^": 70,
}  # fmt: skip
_PREFIX = 60


def _bits(x: Expr) -> int:
    return int(x.p).bit_length() + int(x.q).bit_length() if x.is_Rational else 1


def _power(base: Expr, exponent: Expr) -> Expr:
    if exponent.is_Rational:
        if abs(exponent) > MAX_EXPONENT or int(exponent.q) > MAX_EXPONENT:
            raise NonlinearityError(
                f"the exponent {sympy.sstr(exponent)} is beyond {MAX_EXPONENT}; use a smaller one"
            )
        if _bits(base) * abs(exponent) > MAX_BITS:
            raise NonlinearityError(f"a power gives a number of more than {MAX_BITS} bits")
    return base**exponent


def _piecewise(branches: tuple[Any, ...]) -> Expr:
    for branch in branches:
        if not (isinstance(branch, tuple) and len(branch) == 2 and isinstance(branch[1], Boolean)):
            raise NonlinearityError(
                "Piecewise takes pairs (value, condition), the last condition usually True"
            )
    return sympy.Piecewise(*branches)


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


class _Parser:
    """Pratt parser over the tokens of one text."""

    def __init__(self, text: str, named: Mapping[str, Callable[[Expr], Expr]]) -> None:
        self.text = text
        self.named = {name: (function, 1, 1) for name, function in named.items()}
        self.tokens = self._tokenize(text)
        self.index = 0
        self.depth = 0

    def fail(self, what: str, position: int | None = None) -> NonlinearityError:
        place = "" if position is None else f" at character {position + 1}"
        shown = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return NonlinearityError(f"cannot read {shown!r}: {what}{place}")

    def _tokenize(self, text: str) -> list[_Token]:
        tokens, position = [], 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                skip = len(stripped[position:]) - len(stripped[position:].lstrip())
                at = position + skip
                raise self.fail(f"{stripped[at]!r} is not part of a formula", at)
            kind = str(match.lastgroup)
            tokens.append(_Token(kind, match[kind], match.start(kind)))
            position = match.end()
        return [*tokens, _Token("end", "", len(stripped))]

    @property
    def token(self) -> _Token:
        return self.tokens[self.index]

    def take(self, text: str | None = None) -> _Token:
        token = self.token
        if text is not None and token.text != text:
            found = repr(token.text) if token.text else "the end"
            raise self.fail(f"expected {text!r}, found {found}", token.position)
        self.index += 1
        return token

    def expression(self, minimum: int = 0) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.fail(f"nested deeper than {MAX_DEPTH} levels")
        left = self.prefix()
        while (power := _BINDING.get(self.token.text, -1)) > minimum:
            operator = self.take()
            # powers associate to the right: 2^3^2 = 2^9
            right = self.expression(power - 1 if power == 70 else power)
            left = self.binary(operator, left, right)
            if operator.text in _RELATIONS:
                while self.token.text in _RELATIONS:  # -1 < t < 1
                    operator = self.take()
                    middle, right = right, self.expression(power)
                    left = sympy.And(left, self.binary(operator, middle, right))
        self.depth -= 1
        return left

    def binary(self, operator: _Token, left: Any, right: Any) -> Any:
        symbol = operator.text
        if symbol in "&|":
            for side in (left, right):
                if not isinstance(side, Boolean) or isinstance(side, Symbol):
                    raise self.fail(f"{symbol!r} joins conditions", operator.position)
            return sympy.And(left, right) if symbol == "&" else sympy.Or(left, right)
        for side in (left, right):
            if not isinstance(side, Expr):
                raise self.fail(f"{symbol!r} needs numbers on both sides", operator.position)
        if symbol in _RELATIONS:
            return _RELATIONS[symbol](left, right)
        if symbol == "+":
            return left + right
        if symbol == "-":
            return left - right
        if symbol == "*":
            return left * right
        if symbol == "/":
            if right.is_zero:
                raise self.fail("division by zero", operator.position)
            return left / right
        return _power(left, right)

    def prefix(self) -> Any:
        token = self.take()
        if token.kind == "number":
            return _decimal(token.text)
        if token.kind == "name":
            return self.call(token) if self.token.text == "(" else self.atom(token)
        if token.text == "(":
            inner = self.expression()
            if self.token.text == ",":
                self.take()
                inner = (inner, self.expression())
            self.take(")")
            return inner
        if token.text in ("-", "+"):
            operand = self.expression(_PREFIX)
            if not isinstance(operand, Expr):
                raise self.fail(f"{token.text!r} needs a number", token.position)
            return -operand if token.text == "-" else operand
        if token.text == "~":
            operand = self.expression(_PREFIX)
            if not isinstance(operand, Boolean):
                raise self.fail("'~' negates a condition", token.position)
            return sympy.Not(operand)
        found = f"{token.text!r} is out of place" if token.text else "it ends too early"
        raise self.fail(found, token.position)

    def atom(self, token: _Token) -> Any:
        if token.text in _CONSTANTS:
            return _CONSTANTS[token.text]
        if token.text in FUNCTIONS:
            raise self.fail(f"the function {token.text} needs an argument", token.position)
        return Symbol(token.text, real=True)

    def call(self, token: _Token) -> Any:
        name = token.text
        known = {**self.named, **FUNCTIONS}
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise self.fail(
                f"unknown function {name}; {hint}known are {', '.join(sorted(known))} "
                "(a product is written with *)",
                token.position,
            )
        function, least, most = known[name]
        self.take("(")
        arguments = [self.expression()]
        while self.token.text == ",":
            self.take()
            arguments.append(self.expression())
        self.take(")")
        if not least <= len(arguments) <= most:
            raise self.fail(f"{name} does not take {len(arguments)} argument(s)", token.position)
        wanted: type = {"Piecewise": tuple, "And": Boolean, "Or": Boolean, "Not": Boolean}.get(
            name, Expr
        )
        for argument in arguments:
            if not isinstance(argument, wanted):
                raise self.fail(f"{name} got an argument of the wrong kind", token.position)
        return function(*arguments)


def _decimal(text: str) -> Expr:
    mantissa, _, exponent = text.lower().partition("e")
    if exponent and abs(int(exponent[:8])) > MAX_EXPONENT:
        raise InputError(f"the number {text[:40]!r} has an exponent beyond {MAX_EXPONENT}")
    digits = Fraction(mantissa if mantissa[-1] != "." else mantissa[:-1])
    value = digits * Fraction(10) ** int(exponent or 0)
    return sympy.Rational(value.numerator, value.denominator)


def parse(text: str, named: Mapping[str, Callable[[Expr], Expr]] | None = None) -> Expr:
    r"""The SymPy expression written in ``text``; nothing is executed.

    named : further functions of one argument, by name.

    Names that are not functions are real symbols; ``pi`` is the number.  Raises
    NonlinearityError, naming the character, for anything that is not a formula.

    >>> parse("0.1*t^2 + gamma")
    gamma + t**2/10
    >>> parse("Piecewise((-1, t < -1), (t^3, t < 1), (1, True))")
    Piecewise((-1, t < -1), (t**3, t < 1), (1, True))
    >>> parse("lambda*t - t**2")
    lambda*t - t**2
    """
    if not isinstance(text, str):
        raise NonlinearityError(f"expected text, got {type(text).__name__}")
    if not text.strip():
        raise NonlinearityError("the formula is empty; write for example tanh(t)")
    if len(text) > MAX_LENGTH:
        raise NonlinearityError(f"the formula is longer than {MAX_LENGTH} characters")
    parser = _Parser(text, named or {})
    try:
        result = parser.expression()
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, RecursionError) as error:
        if isinstance(error, NonlinearityError):
            raise
        raise parser.fail(str(error).splitlines()[0] if str(error) else "not a formula") from error
    if parser.token.kind != "end":
        raise parser.fail(f"{parser.token.text!r} is out of place", parser.token.position)
    if isinstance(result, Boolean | BooleanAtom) and not isinstance(result, Symbol):
        raise NonlinearityError(f"{text.strip()!r} is a condition, not a function of t")
    if not isinstance(result, Expr):
        raise NonlinearityError(f"{text.strip()!r} is not a function of t")
    return result


_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$")


def exact_number(value: Any) -> Expr:
    """The exact real SymPy number that ``value`` stands for.

    value : int, float (read as the shortest decimal that prints it), Fraction, Decimal, NumPy
        scalar, mpmath mpf, SymPy real number without symbols, or text: "0.25", "1e-4", "2/3".

    Raises InputError for nan, infinities, complex numbers, booleans and anything else.

    >>> exact_number(0.1), exact_number("2/3"), exact_number("1e-4")
    (1/10, 2/3, 1/10000)
    """
    if isinstance(value, str):
        parts = [part.strip() for part in value.split("/")]
        if len(value) <= MAX_LENGTH and len(parts) <= 2 and all(map(_NUMBER.match, parts)):
            numbers = [
                -_decimal(part[1:]) if part[0] == "-" else _decimal(part.lstrip("+"))
                for part in parts
            ]
            if len(numbers) == 1 or numbers[1] != 0:
                return numbers[0] if len(numbers) == 1 else numbers[0] / numbers[1]
        raise InputError(f"{value[:60]!r} is not a number; write 0.25, 1e-4 or 2/3")
    if isinstance(value, bool):
        raise InputError(f"expected a number, got {value}")
    if isinstance(value, sympy.Basic):
        if isinstance(value, sympy.Float):
            return _float(float(value)) if value._prec <= 53 else sympy.Rational(str(value))
        if isinstance(value, Expr) and value.is_number and value.is_extended_real:
            if value.is_finite is not False and value is not sympy.nan:
                floats = {x: exact_number(x) for x in value.atoms(sympy.Float)}
                return value.xreplace(floats)
        raise InputError(f"expected a finite real number, got {value}")
    if isinstance(value, Integral):
        return sympy.Integer(int(value))
    if isinstance(value, Rational):
        return sympy.Rational(int(value.numerator), int(value.denominator))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise InputError(f"expected a finite real number, got {value}")
        return _decimal_signed(str(value))
    if hasattr(value, "_mpf_"):
        return exact_number(sympy.Float(value, dps=17)) if not _finite(value) else _mpf(value)
    if isinstance(value, Real) or hasattr(value, "dtype"):
        try:
            if getattr(value, "size", 1) != 1 or isinstance(value, complex):
                raise TypeError
            item = value.item() if hasattr(value, "item") else value
            if isinstance(item, complex | str):
                raise TypeError
            # the shortest decimal of a NumPy scalar is that of its own precision
            return _float(item, str(value) if hasattr(value, "dtype") else None)
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
    raise InputError(f"expected a real number, got {value!r} ({type(value).__name__})")


def _finite(value: Any) -> bool:
    return bool(abs(value) < float("inf"))


def _mpf(value: Any) -> Expr:
    sign, mantissa, exponent, _ = value._mpf_
    number = sympy.Integer(int(mantissa)) * sympy.Integer(2) ** int(exponent)
    return -number if sign else number


def _decimal_signed(text: str) -> Expr:
    return -_decimal(text[1:]) if text.startswith("-") else _decimal(text.lstrip("+"))


def _float(value: float, text: str | None = None) -> Expr:
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise InputError(f"expected a finite real number, got {number}")
    return _decimal_signed(text if text and _NUMBER.match(text) else repr(number))
