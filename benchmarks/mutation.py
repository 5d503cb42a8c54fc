"""Sign, factor and transpose faults seeded into the derivation passes, one at a time.

    python benchmarks/mutation.py [--sample 100] [--seed 0] [--modules pencil,dyson] [--list]

Every mutant is one change of the syntax tree of one module: a flipped sign, a dropped or doubled
factor, two swapped indices, a forgotten transpose. The targeted tests, then wider ones, run against
it in a forked process that loads the changed module; a mutant is caught when a test fails, the
import fails, or the time runs out. What survives is listed in ``EQUIVALENT`` with an argument, or
counts as missed.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODULES = ("linearization", "pencil", "structure", "dyson", "source", "compilation", "programs")
TESTS = (
    "tests/test_compilation.py",
    "tests/test_programs.py",
    "tests/test_dyson.py",
    "tests/test_structure.py",
    "tests/test_linearization.py",
    "tests/test_pencil.py",
    "tests/test_attention.py",
    "tests/test_softmax.py",
    "tests/test_heads.py",
    "tests/test_classical_models.py",
    "tests/properties/test_pencil_laws.py",
)
# What survives those meets these, slower ones.
WIDER = (
    "tests/test_general_attention.py",
    "tests/test_equivalents.py",
    "tests/test_targets.py",
    "tests/test_generalization.py",
    "tests/test_solver.py",
    "tests/test_elimination.py",
    "tests/test_spectrum.py",
    "tests/test_matrices.py",
    "tests/properties/test_attention_laws.py",
    "tests/agreement/test_beyond.py",
    "tests/agreement/test_models.py",
)
# Left out: tests that start processes of their own, which would not see the mutant, and slow ones.
SLOW = ("hash_seed", "fresh", "process", "quartic", "cubic", "(test_heads and test_digits)",
        "linear_and_cyclic", "undoes", "resolvent_identity", "of_the_transpose")  # fmt: skip
OUTSIDE = " and ".join(f"not {name}" for name in SLOW)
# Text for readers and messages are no derivation.
PRINTED = ("__str__", "_repr_latex_", "_latex", "__repr__")
SECONDS = 300

SAME_BLOCK = "row and unknown of one term have one size, so both lie in one block"
NAMES = "it numbers names, which no value depends on"
SIGN = "sources stand in forms that are written with sign -1 only: the image of an inverse has none"
DIAGONAL = "the row of an entry on the diagonal is its column"
NO_SIGN = "a spike of infinite strength has no sign: 1 is projected out"
ANY_PIVOT = (
    "any number of a row of numbers can be its pivot: the unknowns left differ, no value does"
)
COPIES = "it decides how many copies of an unknown there are, which are equal"
ORDER = "the order of terms and of eliminations changes no value"
SAME_NUMBERS = "a row that is eliminated has the number of the unknown it defines"
EQUIVALENT: dict[str, str] = {
    "compilation: _equation: e.row -> e.column #1": SAME_BLOCK,
    "compilation: _equation: e.row -> e.column #2": SAME_BLOCK,
    "compilation: _equation: t.row -> t.column #1": SAME_BLOCK,
    "compilation: Point.inverses: "
    "sigma[b][..., 0, i, j] -> sigma[b][..., 0, j, i] #1": SAME_NUMBERS,
    "dyson: _Noise.component: e.row -> e.column #1": SAME_NUMBERS,
    "dyson: _without_plain: e.column -> e.row #1": ANY_PIVOT,
    **{f"dyson: _without_plain: pivot.column -> pivot.row #{k}": SAME_NUMBERS for k in range(1, 6)},
    "linearization: _Linearizer.label: len(self.labels) + 1 -> len(self.labels) - 1 #1": NAMES,
    "linearization: _Linearizer.label: len(self.labels) + 1 -> len(self.labels) - 1 #2": NAMES,
    "linearization: _Linearizer.entrywise: equivalent + Scaled.of(mean, _infinite(*node.shape)) -> "
    "equivalent - Scaled.of(mean, _infinite(*node.shape)) #1": NO_SIGN,
    "linearization: _Linearizer.softmax: "
    "self.equivalent(g, argument, lead) + _infinite(size, size) -> "
    "self.equivalent(g, argument, lead) - _infinite(size, size) #1": NO_SIGN,
    "pencil: _needs_plain: -1 -> 1 #1": COPIES,
    "pencil: _collect: e.column -> e.row #1": ORDER,
    "pencil: _collect: e.row -> e.column #1": ORDER,
    "programs: Programs._dense: t.row -> t.column #1": SAME_BLOCK,
    "programs: _eliminable: t.row -> t.column #1": SAME_BLOCK,
    "programs: _eliminable: -len(_owned(component, b)) -> len(_owned(component, b)) #1": ORDER,
    "pencil: _merge_infinite: entry.row -> entry.column #1": DIAGONAL,
    "programs: Programs._matrix: e.row -> e.column #1": SAME_BLOCK,
    "programs: Programs._matrix: t.row -> t.column #1": SAME_BLOCK,
    "pencil: _Builder.write: -sign * coefficient -> coefficient #1": SIGN,
}
"""``module: function: old -> new #k`` to the argument why the value cannot change."""


@dataclass(frozen=True)
class Mutant:
    """The ``number``-th change of a module."""

    module: str
    number: int
    kind: str
    function: str
    line: int
    change: str
    occurrence: int

    @property
    def key(self) -> str:
        """Its name in ``EQUIVALENT``: equal changes of a function are numbered in order."""
        return f"{self.module}: {self.function}: {self.change} #{self.occurrence}"

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line} ({self.kind}) {self.function}: {self.change}"


def path_of(module: str) -> Path:
    return ROOT / "rmtsym" / f"{module}.py"


Change = tuple[str, ast.AST]


def changes(node: ast.AST) -> Iterator[Change]:
    """The faults of one node: (kind, what stands in its place)."""
    match node:
        case ast.BinOp(op=ast.Add() | ast.Sub()) if not _is_text(node.left, node.right):
            op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield "sign", ast.BinOp(node.left, op, node.right)
        case ast.BinOp(op=ast.Mult()) if not _is_text(node.left, node.right):
            yield "factor", node.left
            yield "factor", node.right
        case ast.BinOp(op=ast.Div()):
            yield "factor", ast.BinOp(node.left, ast.Mult(), node.right)
            if isinstance(node.right, ast.Constant):
                yield "factor", node.left
        case ast.UnaryOp(op=ast.USub()):
            yield "sign", node.operand
        case ast.AugAssign(op=ast.Add() | ast.Sub()) if not _is_text(node.value):
            op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield "sign", ast.AugAssign(node.target, op, node.value)
        case ast.Attribute(attr="T"):
            yield "transpose", node.value
        case ast.Attribute(attr="row" | "column") if isinstance(node.ctx, ast.Load):
            other = "column" if node.attr == "row" else "row"
            yield "transpose", ast.Attribute(node.value, other, node.ctx)
        case ast.Subscript(slice=ast.Tuple(elts=[*rest, a, b])) if _differ(a, b):
            turned = ast.Tuple([*rest, b, a], ast.Load())
            yield "transpose", ast.Subscript(node.value, turned, node.ctx)
        case ast.Call(func=ast.Name(id="transpose" | "reversed"), args=[argument]):
            yield "transpose", argument
        case ast.Call(func=ast.Name(id="Transpose"), args=[argument]):
            yield "transpose", argument
        case ast.Call(func=ast.Name(id="Entry"), args=[a, b, *rest]) if _differ(a, b):
            yield "transpose", ast.Call(node.func, [b, a, *rest], node.keywords)
        case ast.Call(func=ast.Attribute(attr="Integer"), args=[ast.Constant(value=1)]):
            yield "factor", ast.Call(node.func, [ast.Constant(2)], [])
        case ast.Call(
            func=ast.Attribute(attr="Rational"),
            args=[ast.Constant(value=int(a)), ast.Constant(value=int(b))],
        ):
            yield "factor", ast.Call(node.func, [ast.Constant(a), ast.Constant(b + 1)], [])


def _is_text(*nodes: ast.AST) -> bool:
    """Whether a + or * joins texts, lists or tuples."""
    kinds = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp, ast.Dict, ast.Set)
    return any(
        isinstance(node, kinds) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for node in nodes
    )


def _differ(a: ast.AST, b: ast.AST) -> bool:
    plain = (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp)
    return isinstance(a, plain) and isinstance(b, plain) and ast.dump(a) != ast.dump(b)


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, Any, str]]:
    """(parent, field, index, function) of every node that can be changed, in order."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str, Any, str]]:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if node.name in PRINTED:
                return
            function = f"{function}.{node.name}".lstrip(".")
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for index, child in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(child, ast.AST) or isinstance(child, (ast.Raise, ast.Assert)):
                    continue
                if isinstance(child, ast.AnnAssign) and child.value is None:
                    continue
                yield node, field, index if isinstance(value, list) else None, function
                yield from visit(child, function)

    yield from visit(tree, "")


def _child(parent: ast.AST, field: str, index: Any) -> ast.AST:
    value = getattr(parent, field)
    return value if index is None else value[index]


def mutants(module: str) -> list[Mutant]:
    """All mutants of a module, in the order of its text."""
    tree = ast.parse(path_of(module).read_text(encoding="utf-8"))
    found: list[Mutant] = []
    for parent, field, index, function in _places(tree):
        if not function:
            continue
        node = _child(parent, field, index)
        for kind, new in changes(node):
            change = f"{ast.unparse(node)} -> {ast.unparse(new)}"
            earlier = sum(m.function == function and m.change == change for m in found)
            found.append(
                Mutant(module, len(found), kind, function, node.lineno, change, earlier + 1)
            )
    return found


def mutated(mutant: Mutant) -> str:
    """The source of the module with the fault in it."""
    tree = ast.parse(path_of(mutant.module).read_text(encoding="utf-8"))
    number = 0
    for parent, field, index, function in _places(tree):
        if not function:
            continue
        for _, new in changes(_child(parent, field, index)):
            if number == mutant.number:
                replacement = copy.deepcopy(new)
                if index is None:
                    setattr(parent, field, replacement)
                else:
                    getattr(parent, field)[index] = replacement
                return ast.unparse(ast.fix_missing_locations(tree))
            number += 1
    raise LookupError(str(mutant))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module of the package from a text."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        return importlib.util.spec_from_loader(name, self, origin=str(path_of(name.split(".")[1])))

    def exec_module(self, module: Any) -> None:
        code = compile(self.source, module.__spec__.origin, "exec")
        exec(code, module.__dict__)


def run_tests(source: str | None, module: str, tests: tuple[str, ...] = TESTS) -> str:
    """``passed``, ``failed`` or ``timeout`` of the tests in a fork that loads the source."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            log = os.open(os.environ.get("MUTATION_LOG", os.devnull), os.O_WRONLY | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            signal.alarm(SECONDS)
            if source is not None:
                sys.meta_path.insert(0, _Finder(f"rmtsym.{module}", source))
            os.chdir(ROOT)
            sys.path.insert(0, str(ROOT))
            import pytest

            arguments = [
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                "--hypothesis-seed=0",
                "-k",
                OUTSIDE,
                *tests,
            ]
            status = int(pytest.main(arguments))
        except BaseException:
            status = 1
        finally:
            os._exit(0 if status == 0 else 1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "timeout"
    return "passed" if os.WEXITSTATUS(status) == 0 else "failed"


def chosen(modules: tuple[str, ...], sample: int | None, seed: int) -> list[Mutant]:
    """A sample over all modules, the same for a seed while the sources stay the same."""
    everything = [mutant for module in modules for mutant in mutants(module)]
    if sample is None or sample >= len(everything):
        return everything
    return sorted(
        random.Random(seed).sample(everything, sample), key=lambda m: (m.module, m.number)
    )


def survivors(
    selection: list[Mutant], report: Any = None, tests: tuple[str, ...] = TESTS
) -> list[Mutant]:
    """The mutants that no test catches and no argument explains."""
    found = []
    for position, mutant in enumerate(selection, 1):
        started = time.perf_counter()
        argued = mutant.key in EQUIVALENT
        outcome = "equivalent" if argued else run_tests(mutated(mutant), mutant.module, tests)
        if outcome == "passed":
            found.append(mutant)
        if report is not None:
            seconds = time.perf_counter() - started
            word = "SURVIVED" if outcome == "passed" else outcome
            report(f"{position}/{len(selection)} {word} {seconds:.1f} s  {mutant}")
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sample", type=int, default=None, help="mutants tried; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--modules", default=",".join(MODULES))
    parser.add_argument("--list", action="store_true", help="print the mutants only")
    options = parser.parse_args(arguments)
    selection = chosen(tuple(options.modules.split(",")), options.sample, options.seed)
    if options.list:
        for mutant in selection:
            print(mutant)
        print(len(selection), "mutants")
        return 0
    # What the tests import and no mutant touches is loaded once, before the forks; pytest plugins
    # are not, it wants to load them itself.
    for name in ("sympy", "mpmath", "numpy", "scipy.linalg", "scipy.sparse.csgraph", "scipy.stats"):
        importlib.import_module(name)
    if run_tests(None, "") != "passed":
        print("the tests fail without any fault; nothing to measure")
        return 2
    argued = sum(mutant.key in EQUIVALENT for mutant in selection)
    quick = survivors(selection, lambda line: print(line, flush=True))
    left = survivors(quick, lambda line: print("again", line, flush=True), WIDER)
    tried = len(selection) - argued
    caught = tried - len(left)
    print(f"\n{caught} of {tried} faults caught ({100 * caught / max(tried, 1):.1f} %), "
          f"{argued} equivalent")  # fmt: skip
    for mutant in left:
        print("  survived:", mutant)
    return 0 if caught >= 0.95 * tried else 1


if __name__ == "__main__":
    sys.exit(main())
