"""Elimination: one closed polynomial for one unknown of a fixed-point system.

The equations are polynomial. Unknowns that some equation gives linearly are substituted, the rest
leave by resultants; after each step an equation keeps only the factor that vanishes at the physical
solution (solved numerically at two parameter points), so no spurious branch survives and the
polynomials stay small. The work is done in a process of its own with a hard limit of time.

>>> from rmtsym.matrices import *
>>> from rmtsym.dyson import derive
>>> n, p = dimensions("n p")
>>> c, gamma = sp.symbols("c gamma", positive=True)
>>> Z = Gaussian("Z", p, n)
>>> system = derive(Trace((Z.T * Z / n + gamma * Identity(n)).inverse()) / n, sizes={n: 1, p: c})
>>> m = sp.Symbol("m")
>>> print(polynomial(system, "value", m, budget=60))
gamma*m**2 + m*(c + gamma - 1) - 1
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import sympy as sp

from rmtsym.compilation import compile_system
from rmtsym.dyson import fixed_point
from rmtsym.errors import BudgetError, ConvergenceError, InputError, UnsupportedError
from rmtsym.linearization import GaussianEquivalent
from rmtsym.pencil import build
from rmtsym.rewriting import substitute
from rmtsym.solver import solve
from rmtsym.system import FixedPointSystem

__all__ = ["polynomial", "specialise"]


def specialise(system: FixedPointSystem, values: Mapping[Any, Any]) -> FixedPointSystem:
    """The system of the expression with some symbols given exact values, derived anew.

    What becomes zero or equal is then found by its structure: ``{a_1: 0}`` removes whole blocks.
    """
    exact = {sp.sympify(key): sp.sympify(value) for key, value in values.items()}
    for key, value in exact.items():
        if value.has(sp.Float):
            raise InputError(f"got {key} = {value}; elimination takes exact numbers")
    old = system.linearization.equivalent
    equivalent = GaussianEquivalent(
        substitute(old.expression, exact),
        tuple((one, other, value.subs(exact)) for one, other, value in old.covariance),
        tuple(entry for entry in old.symbols if entry.symbol not in exact),
    )
    return fixed_point(build(equivalent), {k: v.subs(exact) for k, v in system.sizes})


def polynomial(
    system: FixedPointSystem,
    unknown: Any,
    name: sp.Symbol | None = None,
    *,
    values: Mapping[Any, Any] | None = None,
    at: Mapping[Any, Any] | None = None,
    budget: float = 30.0,
) -> sp.Expr:
    """The irreducible polynomial, in one unknown and the parameters, that the solution satisfies.

    Parameters
    ----------
    unknown : one of ``system.unknowns``, a limit ``o_k``, or ``"value"`` for the expression itself
        (which must not hold derivatives).
    name : the symbol to write it with; by default its own (``v`` for the value).
    values : exact values of parameters, put in before the derivation.
    at : a parameter point where the physical solution exists, for the choice of factors.
    budget : seconds of work allowed.

    Raises
    ------
    BudgetError
        if the time ran out; nothing is known then.
    """
    if values:
        system = specialise(system, values)
    unknown = sp.sympify(unknown) if isinstance(unknown, str) and unknown != "value" else unknown
    points = _points(system, at or {})
    target = name or (sp.Symbol("v") if unknown == "value" else cast(sp.Symbol, unknown))
    equations = list(system.equations)
    solutions = [dict(point) for point in points]
    if unknown not in system.unknowns:
        definition = _definition(system, unknown)
        equations.append(target - definition)
        for solution in solutions:
            solution[target] = complex(definition.subs(solution))
    elif name is not None:
        equations = [equation.subs(unknown, target) for equation in equations]
        for solution in solutions:
            solution[target] = solution.pop(unknown)
    parameters = set(system.parameters)
    task = (
        equations,
        sorted({s for e in equations for s in e.free_symbols} - parameters - {target}, key=str),
        target,
        sorted(parameters, key=str),
        solutions,
    )
    answer = eliminate(*task) if len(equations) <= 3 else _in_a_process(task, budget)
    if answer is None:
        raise BudgetError(
            f"got no polynomial for {target} within {budget:g} seconds; give parameters exact "
            "values (values={...}) or allow more time (budget=...)"
        )
    return answer


def _definition(system: FixedPointSystem, unknown: Any) -> sp.Expr:
    outputs = dict(zip(system.linearization.symbols, system.outputs, strict=True))
    if system.spike_equations:
        raise UnsupportedError(
            "got a system with several spikes; ask for one of system.unknowns, its outputs are "
            "given linearly by system.spike_equations"
        )
    if unknown == "value":
        if system.derivatives:
            raise UnsupportedError(
                "got a value with derivatives; ask for one of system.unknowns or a limit o_k"
            )
        return system.formula.subs(outputs)
    if unknown not in outputs:
        raise InputError(
            f"got the unknown {unknown}; this system has "
            f"{', '.join(map(str, (*system.unknowns, *outputs)))} and 'value'"
        )
    return outputs[unknown]


def _points(system: FixedPointSystem, at: Mapping[Any, Any]) -> list[dict[sp.Symbol, complex]]:
    """All entries of g at two parameter points, on the physical branch."""
    if any(block.law is not None for c in system.components for block in c.core.blocks):
        raise UnsupportedError(
            "got a system with a spectral law; its equations are integrals over the law, "
            "not polynomials: write the atoms as blocks of their own sizes"
        )
    given = {str(key): value for key, value in at.items()}
    compiled = compile_system(system)
    found = []
    for scale in (1.0, 3.0, 10.0):
        for seed in range(4):
            rng = np.random.default_rng(seed)
            values: dict[Any, Any] = {}
            for symbol in system.parameters:
                draw = rng.uniform(1, 1.5)
                if str(symbol) in given:
                    values[symbol] = complex(given[str(symbol)]) * (1 + 0.01 * (draw - 1) * seed)
                elif symbol.is_nonnegative:
                    values[symbol] = draw * (1 if at else scale)
                else:
                    values[symbol] = draw / 3
            try:
                solution = solve(compiled, values)
            except ConvergenceError:
                continue
            point = compiled.at(values)
            known = {s: complex(v) for s, v in values.items()}
            for index, (reading, u) in enumerate(
                zip(system.readings, solution.unknowns, strict=True)
            ):
                blocks = reading.component.core.blocks
                for block, g in zip(blocks, point.inverses(index, u), strict=True):
                    for i, k in enumerate(block.members):
                        for j, l in enumerate(block.members):
                            known[reading.name(k, l)] = complex(g[0, i, j])
            found.append(known)
            if len(found) == 2:
                return found
    raise ConvergenceError(
        "no parameter point with a physical solution was found; pass one as at={...}"
    )


def _in_a_process(task: Any, budget: float) -> sp.Expr | None:
    command = [sys.executable, "-c", "import rmtsym.elimination as e; e._serve()"]
    try:
        done = subprocess.run(
            command, input=pickle.dumps(task), capture_output=True, timeout=budget, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        raise UnsupportedError(
            f"elimination failed: {done.stderr.decode(errors='replace').strip().splitlines()[-1]}"
        )
    return cast(sp.Expr, pickle.loads(done.stdout))


def _serve() -> None:
    answer = eliminate(*pickle.loads(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(pickle.dumps(answer))


def eliminate(
    equations: Sequence[sp.Expr],
    unknowns: Sequence[sp.Symbol],
    target: sp.Symbol,
    parameters: Sequence[sp.Symbol],
    solutions: Sequence[Mapping[sp.Symbol, complex]],
) -> sp.Expr:
    """Eliminate ``unknowns``; ``solutions`` are numbers of all symbols, to choose factors by."""
    roots = {s: sp.Symbol(f"_root_{s}", positive=True) for s in parameters}
    values = [{**s, **{r: complex(s[q]) ** 0.5 for q, r in roots.items()}} for s in solutions]
    current: list[sp.Expr] = []

    def vanishing(numerator: sp.Expr) -> sp.Expr | None:
        """The irreducible factor that vanishes at the solutions; None if there is no unknown."""
        for factor, _ in sp.factor_list(numerator)[1]:
            if not factor.free_symbols & active:
                continue
            if all(_is_zero(factor, value) for value in values):
                return cast(sp.Expr, factor)
        raise UnsupportedError("no factor vanishes at the physical solution")

    def add(expression: sp.Expr) -> None:
        numerator = sp.fraction(sp.together(expression))[0]
        if sp.expand(numerator) == 0:
            return
        factor = vanishing(numerator)
        if factor is not None and factor not in current:
            current.append(factor)

    active = {*unknowns, target}
    for equation in equations:
        add(equation.subs({s: r**2 for s, r in roots.items()}).replace(_is_root, _root))
    left = [u for u in unknowns if any(e.has(u) for e in current)]
    while left:
        variable, pivot = _cheapest(current, left, values)
        left.remove(variable)
        others = [e for e in current if e is not pivot]
        current = [e for e in others if not e.has(variable)]
        affected = [e for e in others if e.has(variable)]
        a, b = pivot.coeff(variable, 1), pivot.coeff(variable, 0)
        linear = sp.degree(pivot, variable) == 1
        for e in affected:
            if linear:
                add(e.subs(variable, -b / a))
            else:
                add(sp.resultant(pivot, e, variable))
        left = [u for u in left if any(e.has(u) for e in current)]
    final = [e for e in current if e.has(target)]
    if not final:
        raise UnsupportedError(f"the equations do not determine {target}")
    best = min(final, key=lambda e: (sp.degree(e, target), sp.count_ops(e)))
    best = best.subs({r: sp.sqrt(s) for s, r in roots.items()})
    poly = sp.Poly(sp.expand(best), target)
    if poly.LC().could_extract_minus_sign():
        poly = -poly
    return cast(sp.Expr, sp.collect(poly.as_expr(), target))


def _is_root(expression: sp.Expr) -> bool:
    return bool(expression.is_Pow and expression.exp.is_Rational and expression.exp.q == 2)


def _root(expression: sp.Expr) -> sp.Expr:
    return sp.powdenest(expression, force=True)


def _is_zero(expression: sp.Expr, values: Mapping[sp.Symbol, complex]) -> bool:
    total, size = 0j, 0.0
    for term in sp.Add.make_args(sp.expand(expression)):
        number = complex(term.subs(values))
        total, size = total + number, size + abs(number)
    return abs(total) < 1e-9 * size


def _cheapest(
    equations: Sequence[sp.Expr],
    unknowns: Sequence[sp.Symbol],
    values: Sequence[Mapping[sp.Symbol, complex]],
) -> tuple[sp.Symbol, sp.Expr]:
    """The next unknown to leave and the equation it leaves by: linear ones and short ones first."""
    best: Any = None
    for unknown in unknowns:
        holders = [e for e in equations if e.has(unknown)]
        for equation in holders:
            degree = int(sp.degree(equation, unknown))
            head = sp.LC(equation, unknown)
            if any(_is_zero(head, value) for value in values):
                continue
            simple = not head.free_symbols & {*unknowns}
            cost = (degree > 1, not simple, degree, len(holders), sp.count_ops(equation))
            if best is None or (cost, str(unknown)) < best[0]:
                best = ((cost, str(unknown)), unknown, equation)
    if best is None:
        raise UnsupportedError("no equation determines the unknowns that are left")
    return best[1], best[2]
