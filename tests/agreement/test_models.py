"""Every model against its own simulation, sizes extrapolated."""

import numpy as np
import pytest
import sympy as sp

from rmtsym import Nonlinearity, simulate, solve
from rmtsym.models import MODELS
from rmtsym.models.base import gram
from rmtsym.parsing import exact_number
from rmtsym.rewriting import free_symbols

OWN = [
    "marchenko-pastur",
    "anisotropic",
    "semicircle",
    "free-sum",
    "wishart-product",
    "information-plus-noise",
    "conjugate-kernel",
    "inner-product-kernel",
    "random-features-training",
    "random-features-test",
    "ridge-bias",
    "ridge-variance",
]


@pytest.mark.parametrize("name", OWN)
def test_theory_is_the_extrapolated_simulation(name):
    model = MODELS[name]
    for example in model.examples:
        values = {symbol: exact_number(value) for symbol, value in example.values}
        functions = {g: Nonlinearity(x).centred() for g, x in example.nonlinearities}
        products = gram({v: tuple(map(exact_number, row)) for v, row in example.vectors})
        theory = solve(model.system, values | products, nonlinearities=functions).value
        sizes = dict(model.sizes)
        scalars = {s: v for s, v in values.items() if s in free_symbols(model.expression)}
        means, errors = [], []
        for scale, repetitions in ((100, 40), (200, 20)):
            estimate = simulate(
                model.expression,
                sizes={
                    s: round(scale * float(sp.sympify(r).subs(values))) for s, r in sizes.items()
                },
                values=scalars,
                vectors={v: [float(exact_number(x)) for x in row] for v, row in example.vectors},
                nonlinearities=functions,
                repetitions=repetitions,
                seed=5,
            )
            means.append(estimate.mean)
            errors.append(estimate.standard_error)
        extrapolated = 2 * means[1] - means[0]
        error = np.hypot(2 * errors[1], errors[0])
        assert abs(extrapolated - theory) < 4 * error + 1e-3 * abs(theory)
