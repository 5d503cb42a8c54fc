"""Straight-line programs: arithmetic recorded once, differentiated, written as Python.

Nodes are recorded with equal ones shared; zeros and ones vanish. The source uses ``+ - * /`` only,
so one function serves floats, NumPy arrays (many points at once), mpmath numbers, balls and series.

>>> tape = Tape()
>>> x, y = tape.inputs("x", 2)
>>> z = x * y + 1
>>> print(tape.source("f", [z, tape.derivative([z], {x: 1})[0]]))
def f(x, mean=None, inverse=None):
    [x0, x1] = x
    return [x0*x1 + 1, x1]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

Value = Any
"""A node, or a Python int known when the program is written."""

CALLS = ("mean", "inverse")
"""What a program may call: the mean over a spectral law, the inverse of a larger matrix."""

INLINE = 3
"""Inverses up to this size are written out in cofactors; larger ones are calls."""


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One intermediate result; equal operations give one node."""

    tape: Tape
    index: int

    def __add__(self, other: Value) -> Value:
        return self.tape.add(self, other)

    def __radd__(self, other: Value) -> Value:
        return self.tape.add(other, self)

    def __sub__(self, other: Value) -> Value:
        return self.tape.subtract(self, other)

    def __rsub__(self, other: Value) -> Value:
        return self.tape.subtract(other, self)

    def __mul__(self, other: Value) -> Value:
        return self.tape.multiply(self, other)

    def __rmul__(self, other: Value) -> Value:
        return self.tape.multiply(other, self)

    def __truediv__(self, other: Value) -> Value:
        return self.tape.divide(self, other)

    def __rtruediv__(self, other: Value) -> Value:
        return self.tape.divide(other, self)

    def __neg__(self) -> Value:
        return self.tape.subtract(0, self)


def is_known(value: Value, number: int) -> bool:
    """Whether the value is this integer, known when the program is written."""
    return isinstance(value, int) and value == number


class Tape:
    """A growing list of operations on earlier ones."""

    def __init__(self) -> None:
        self.operations: list[tuple[Any, ...]] = []
        self.nodes: list[Node] = []
        self.known: dict[tuple[Any, ...], Node] = {}
        self.groups: dict[str, int] = {}
        self.inverses: dict[Node, tuple[list[list[Value]], list[list[Value]], int, int]] = {}

    def _push(self, *operation: Any) -> Node:
        key = tuple(("n", x.index) if isinstance(x, Node) else x for x in operation)
        if key not in self.known:
            self.known[key] = Node(self, len(self.operations))
            self.nodes.append(self.known[key])
            self.operations.append(operation)
        return self.known[key]

    def input(self, name: str, place: int) -> Node:
        """The argument ``name[place]``."""
        self.groups[name] = max(self.groups.get(name, 0), place + 1)
        return self._push("input", name, place)

    def inputs(self, name: str, count: int) -> list[Node]:
        """The arguments ``name[0], ..., name[count - 1]``."""
        return [self.input(name, k) for k in range(count)]

    # -- arithmetic ---------------------------------------------------------------------------

    def add(self, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if is_known(a, 0) or is_known(b, 0):
            return b if is_known(a, 0) else a
        if (negative := self._negative(b)) is not None:
            return self.subtract(a, negative)
        if (negative := self._negative(a)) is not None:
            return self.subtract(b, negative)
        if isinstance(a, int) or (isinstance(b, Node) and a.index > b.index):
            a, b = b, a
        return self._push("+", a, b)

    def subtract(self, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        if is_known(b, 0):
            return a
        if a is b:
            return 0
        if (negative := self._negative(b)) is not None:
            return self.add(a, negative)
        return self._push("neg", b) if is_known(a, 0) else self._push("-", a, b)

    def multiply(self, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(b, int):
            a, b = b, a
        if isinstance(a, int) and a in (-1, 0, 1):
            return self.subtract(0, b) if a == -1 else 0 if a == 0 else b
        one, other = self._negative(a), self._negative(b)
        if one is not None or other is not None:
            product = self.multiply(a if one is None else one, b if other is None else other)
            return product if (one is None) == (other is None) else self.subtract(0, product)
        if isinstance(a, Node) and a.index > b.index:
            a, b = b, a
        return self._push("*", a, b)

    def divide(self, a: Value, b: Value) -> Value:
        if is_known(a, 0) or is_known(b, 1):
            return a
        if is_known(b, -1):
            return self.subtract(0, a)
        if (negative := self._negative(a)) is not None:
            return self.subtract(0, self.divide(negative, b))
        return self._push("/", a, b)

    def _negative(self, value: Value) -> Value | None:
        """x where the value is recorded as -x."""
        if isinstance(value, Node) and self.operations[value.index][0] == "neg":
            return self.operations[value.index][1]
        return None

    def mean(self, law: int, value: Value) -> Value:
        """The mean over spectral law number ``law``."""
        return value if isinstance(value, int) else self._push("mean", law, value)

    # -- matrices -----------------------------------------------------------------------------

    def inverse(self, matrix: Sequence[Sequence[Value]]) -> list[list[Value]]:
        """The inverse of a square matrix of values.

        Unknowns that a row determines with a pivot of +-1 are eliminated first; what is left is
        written in cofactors up to size 3, and left to pivoted elimination at run time beyond.
        """
        rows = [list(row) for row in matrix]
        result = self._inverse(rows)
        self._remember(rows, result)
        return result

    def _inverse(self, rows: list[list[Value]]) -> list[list[Value]]:
        size = len(rows)
        pivot = self._pivot(rows)
        if pivot is None:
            return self._cofactors(rows) if size <= INLINE else self._call(rows)
        r, c = pivot
        sign = rows[r][c]
        others_r = [i for i in range(size) if i != r]
        others_c = [j for j in range(size) if j != c]
        # row r gives x_c = sign (e_r - sum_j m_rj x_j)
        schur = [[rows[i][j] - rows[i][c] * sign * rows[r][j] for j in others_c] for i in others_r]
        inner = self._inverse(schur) if schur else []
        result: list[list[Value]] = [[0] * size for _ in range(size)]
        for a, j in enumerate(others_c):
            for b, i in enumerate(others_r):
                result[j][i] = inner[a][b]
            result[j][r] = -sum_of(inner[a][b] * rows[i][c] * sign for b, i in enumerate(others_r))
        for i in range(size):
            own = sign if i == r else 0
            result[c][i] = own - sum_of(sign * rows[r][j] * result[j][i] for j in others_c)
        return result

    def _pivot(self, rows: list[list[Value]], *, fill: bool = False) -> tuple[int, int] | None:
        """The +-1 whose elimination fills least; in small matrices only those that do not fill."""
        size = len(rows)
        best, least = None, (size - 1) ** 2 + 1 if size > INLINE or fill else size
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                if isinstance(value, int) and abs(value) == 1:
                    in_row = sum(not is_known(x, 0) for x in row) - 1
                    in_column = sum(not is_known(line[j], 0) for line in rows) - 1
                    if in_row * in_column < least:
                        best, least = (i, j), in_row * in_column
        return best

    def _cofactors(self, m: list[list[Value]]) -> list[list[Value]]:
        size = len(m)
        if size == 1:
            return [[self.divide(1, m[0][0])]]
        if size == 2:
            adjugate = [[m[1][1], -m[0][1]], [-m[1][0], m[0][0]]]
        else:
            adjugate = [
                [
                    m[(j + 1) % 3][(i + 1) % 3] * m[(j + 2) % 3][(i + 2) % 3]
                    - m[(j + 1) % 3][(i + 2) % 3] * m[(j + 2) % 3][(i + 1) % 3]
                    for j in range(3)
                ]
                for i in range(3)
            ]
        scale = self.divide(1, sum_of(m[0][k] * adjugate[k][0] for k in range(size)))
        return [[value * scale for value in line] for line in adjugate]

    def _call(self, rows: list[list[Value]]) -> list[list[Value]]:
        size = len(rows)
        call = self._push("inverse", size, *(x for row in rows for x in row))
        result: list[list[Value]] = [
            [self._push("item", call, i * size + j) for j in range(size)] for i in range(size)
        ]
        self._remember(rows, result)
        return result

    def _remember(self, rows: list[list[Value]], result: list[list[Value]]) -> None:
        """Note which nodes are entries of an inverse, for ``d G = -G dM G``."""
        latest = max((x.index for row in rows for x in row if isinstance(x, Node)), default=-1)
        for i, line in enumerate(result):
            for j, value in enumerate(line):
                if isinstance(value, Node) and value.index > latest:
                    self.inverses.setdefault(value, (rows, result, i, j))

    def bilinear(
        self, left: Sequence[Value], matrix: Sequence[Sequence[Value]], right: Sequence[Value]
    ) -> Value:
        """``left^T matrix^{-1} right``; pivots of +-1 are eliminated first."""
        rows = [[*row, x] for row, x in zip(matrix, right, strict=True)]
        rows.append([*left, 0])
        # the Schur complement of the matrix in [[matrix, right], [left, 0]] is minus the form
        while len(rows) > 1:
            square = [row[:-1] for row in rows[:-1]]
            pivot = self._pivot(square, fill=True)
            if pivot is None:
                last = [row[-1] for row in rows[:-1]]
                if len(square) > 2 * INLINE:  # a pivot may vanish: exchanged at run time
                    inverse = self.inverse(square)
                    x = [sum_of(a * b for a, b in zip(row, last, strict=True)) for row in inverse]
                else:
                    x = self.solve(square, [last])[0]
                return sum_of(l * y for l, y in zip(rows[-1], x, strict=False)) - rows[-1][-1]
            r, c = pivot
            sign = rows[r][c]
            rows = [
                [
                    x - line[c] * sign * y
                    for j, (x, y) in enumerate(zip(line, rows[r], strict=True))
                    if j != c
                ]
                for i, line in enumerate(rows)
                if i != r
            ]
        return -rows[-1][-1]

    def solve(
        self, matrix: Sequence[Sequence[Value]], columns: Sequence[Sequence[Value]]
    ) -> list[list[Value]]:
        """The solutions of ``matrix x = column``.

        Eliminated in the order given; rows are exchanged only for pivots known to vanish.
        """
        rows = [[*row, *(column[i] for column in columns)] for i, row in enumerate(matrix)]
        size = len(rows)
        for k in range(size):
            pivot = next((i for i in range(k, size) if not is_known(rows[i][k], 0)), k)
            rows[k], rows[pivot] = rows[pivot], rows[k]
            scale = self.divide(1, rows[k][k])
            rows[k] = [0] * (k + 1) + [x * scale for x in rows[k][k + 1 :]]
            for i in range(k + 1, size):
                factor = rows[i][k]
                for j in range(k + 1, len(rows[i])):
                    rows[i][j] = rows[i][j] - factor * rows[k][j]
        found: list[list[Value]] = []
        for c in range(len(columns)):
            x: list[Value] = [0] * size
            for k in reversed(range(size)):
                x[k] = rows[k][size + c] - sum_of(rows[k][j] * x[j] for j in range(k + 1, size))
            found.append(x)
        return found

    # -- differentiation ----------------------------------------------------------------------

    def derivative(self, outputs: Sequence[Value], seeds: Mapping[Node, Value]) -> list[Value]:
        """The derivatives of the outputs when input x changes at rate ``seeds[x]``."""
        rates: dict[int, Value] = {node.index: rate for node, rate in seeds.items()}
        changes: dict[int, list[list[Value]]] = {}

        def rate(value: Value) -> Value:
            return 0 if isinstance(value, int) else rates.get(value.index, 0)

        needed = self._needed(outputs, through_inverses=True)
        for index in sorted(needed):
            if index in rates:
                continue
            node = self.nodes[index]
            if node in self.inverses:
                matrix, result, i, j = self.inverses[node]
                key = id(result)
                if key not in changes:
                    changes[key] = [[rate(x) for x in row] for row in matrix]
                rates[index] = -sum_of(
                    result[i][r] * dm * result[c][j]
                    for r, row in enumerate(changes[key])
                    for c, dm in enumerate(row)
                    if not is_known(dm, 0)
                )
                continue
            operation, *rest = self.operations[index]
            if operation == "input":
                rates[index] = 0
            elif operation == "neg":
                rates[index] = -rate(rest[0])
            elif operation == "+":
                rates[index] = rate(rest[0]) + rate(rest[1])
            elif operation == "-":
                rates[index] = rate(rest[0]) - rate(rest[1])
            elif operation == "*":
                rates[index] = rate(rest[0]) * rest[1] + rest[0] * rate(rest[1])
            elif operation == "/":
                change = rate(rest[0]) - node * rate(rest[1])
                rates[index] = self.divide(change, rest[1])
            elif operation == "mean":
                rates[index] = self.mean(rest[0], rate(rest[1]))
        return [rate(x) for x in outputs]

    def _needed(self, outputs: Sequence[Value], *, through_inverses: bool = False) -> set[int]:
        """Indices the outputs depend on; an inverse is one step from its matrix if asked."""
        found: set[int] = set()
        stack = [x.index for x in outputs if isinstance(x, Node)]
        while stack:
            index = stack.pop()
            if index in found:
                continue
            found.add(index)
            if through_inverses and self.nodes[index] in self.inverses:
                matrix = self.inverses[self.nodes[index]][0]
                stack += [x.index for row in matrix for x in row if isinstance(x, Node)]
            else:
                stack += [x.index for x in self.operations[index] if isinstance(x, Node)]
        return found

    # -- source -------------------------------------------------------------------------------

    def source(
        self, name: str, outputs: Sequence[Value], groups: Sequence[str] | None = None
    ) -> str:
        """Python source of the function of the input groups (all by default)."""
        needed = sorted(self._needed(outputs))
        uses = dict.fromkeys(needed, 0)
        for index in needed:
            for x in self.operations[index]:
                if isinstance(x, Node):
                    uses[x.index] += 1
        for x in outputs:
            if isinstance(x, Node):
                uses[x.index] += 1
        text: dict[int, _Text] = {}
        steps: list[tuple[int, _Text]] = []

        def read(value: Value) -> _Text:
            if isinstance(value, int):
                return _Text(str(value), 3 if value >= 0 else 1)
            return text[value.index]

        for index in needed:
            operation, *rest = self.operations[index]
            written = _write(operation, rest, read)
            if operation == "input":
                text[index] = written
            elif uses[index] == 1 and len(written.text) < 160 and operation != "inverse":
                text[index] = written
            else:
                steps.append((index, written))
                text[index] = _Text(f"@{index}@", 3, frozenset((index,)))
        results = [read(x) for x in outputs]
        chosen = {g: self.groups.get(g, 0) for g in (self.groups if groups is None else groups)}
        return _assemble(name, chosen, steps, results)

    def function(
        self, name: str, outputs: Sequence[Value], groups: Sequence[str] | None = None
    ) -> Callable[..., list[Any]]:
        """The compiled function of :meth:`source`."""
        namespace: dict[str, Any] = {}
        source = self.source(name, outputs, groups)
        exec(compile(source, f"<rmtsym {name}>", "exec"), namespace)
        return cast(Callable[..., list[Any]], namespace[name])


def sum_of(values: Any) -> Value:
    """The sum, 0 when there is nothing to add."""
    total: Value = 0
    for value in values:
        total = total + value
    return total


@dataclass(frozen=True)
class _Text:
    """Written arithmetic: 1 a sum, 2 a product, 3 an atom; ``inside`` are the names it reads."""

    text: str
    level: int
    inside: frozenset[int] = frozenset()

    def at(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"


def _write(operation: str, rest: list[Any], read: Callable[[Value], _Text]) -> _Text:
    if operation == "input":
        return _Text(f"{rest[0]}{rest[1]}", 3)
    if operation == "inverse":
        pieces = [read(x) for x in rest[1:]]
        inside = frozenset().union(*(x.inside for x in pieces))
        return _Text(f"inverse({rest[0]}, [{', '.join(x.text for x in pieces)}])", 3, inside)
    if operation == "item":
        return _Text(f"{read(rest[0]).text}[{rest[1]}]", 3, read(rest[0]).inside)
    if operation == "mean":
        return _Text(f"mean({rest[0]}, {read(rest[1]).text})", 3, read(rest[1]).inside)
    if operation == "neg":
        return _Text(f"-{read(rest[0]).at(2)}", 1, read(rest[0]).inside)
    one, other = read(rest[0]), read(rest[1])
    inside = one.inside | other.inside
    if operation in "+-":
        return _Text(f"{one.at(1)} {operation} {other.at(2)}", 1, inside)
    return _Text(f"{one.at(2)}{operation}{other.at(3)}", 2, inside)


def _assemble(
    name: str, groups: Mapping[str, int], steps: list[tuple[int, _Text]], results: list[_Text]
) -> str:
    """Names are taken again after their last use, so that large arrays stay in the cache."""
    last = {i: position for position, (_, step) in enumerate(steps) for i in step.inside}
    last.update({i: len(steps) for result in results for i in result.inside})
    holder: dict[int, int] = {}
    free: list[int] = []

    def named(written: str) -> str:
        return re.sub(r"@(\d+)@", lambda match: f"t{holder[int(match[1])]}", written)

    lines = [f"def {name}({', '.join([*groups, *(f'{x}=None' for x in CALLS)])}):"]
    for group, size in groups.items():
        if size:
            lines.append(f"    [{', '.join(f'{group}{k}' for k in range(size))}] = {group}")
    for position, (index, step) in enumerate(steps):
        right = named(step.text)
        free += [holder[i] for i in sorted(step.inside) if last[i] == position]
        holder[index] = free.pop() if free else len(set(holder.values()))
        lines.append(f"    t{holder[index]} = {right}")
    lines.append(f"    return [{', '.join(named(result.text) for result in results)}]")
    return "\n".join(lines)
