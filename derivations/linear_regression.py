"""The interpolation error of linear regression in closed form."""

# %% [markdown]
# # Linear regression
#
# **Statement.** Tokens $X = \mu y^\top + Z$ ($p \times n$, $p/n \to c$), balanced labels $y_i = \pm
# 1$. The mean squared training error of the ridge fit of $y$ on the tokens,
#
# $$E(\gamma) = -\frac{\gamma^2}{n} \frac{d}{d\gamma}\, y^\top \left(\frac1n X^\top X + \gamma
# I_n\right)^{-1} y,$$
#
# tends to
#
# $$E(\gamma) = -\gamma^2 \frac{d}{d\gamma} \left[ \frac{1}{m} + \frac{|\mu|^2}{1 + m} \right]^{-1},
# \qquad \gamma m^2 + (\gamma - 1 + c)\, m - 1 = 0, \quad m > 0.$$
#
# **Assumptions.** Entries of $Z$ independent of mean 0 and variance 1; $|\mu|$ bounded; $\gamma >
# 0$.
#
# ## The expression

# %%
import numpy as np
import sympy as sp

from derivations.document import Table
from rmtsym import (
    D,
    Gaussian,
    Identity,
    Labels,
    Vector,
    build,
    derive,
    dimensions,
    linearize,
    solve,
)
from rmtsym.agreement import judge, verify

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
Z, y, mu = Gaussian("Z", p, n), Labels("y", n), Vector("mu", p)
X = Z + mu * y.T
Q = (X.T * X / n + gamma * Identity(n)).inverse()
error = -(gamma**2) * D(y.T * Q * y / n, gamma)
error

# %% [markdown]
# ## Pencil with a spike
#
# The low-rank part $\mu y^\top$ brings unknowns of size one, $y^\top x$ and $\mu^\top x$; it does
# not enter the Dyson equation, only the small linear system after it.

# %%
linearization = build(linearize(error))
print(linearization)

# %%
system = derive(error, sizes={n: 1, p: c})
system

# %% [markdown]
# ## The bilinear form
#
# The unknowns are those of Marchenko-Pastur, $m = g_n$ and $g_p = 1/(1 + m)$.

# %%
m = sp.Symbol("m", positive=True)
snr = sp.Symbol("mu.mu", nonnegative=True)
(form,) = system.outputs
unknowns = system.unknowns
solutions = [
    solution
    for solution in sp.solve(list(system.equations), unknowns, dict=True)
    if solution[unknowns[0]].subs({c: 1, gamma: 1}) > 0
]
assert len(solutions) == 1
one, two = unknowns
b = gamma - 1 + c
closed_m = (sp.sqrt(b**2 + 4 * gamma) - b) / (2 * gamma)
is_m = [u for u in unknowns if sp.simplify(solutions[0][u] - closed_m) == 0]
assert len(is_m) == 1
(other,) = [u for u in unknowns if u not in is_m]
form = sp.factor(form.subs({is_m[0]: m, other: 1 / (1 + m)}))
assert system.spike_equations == ()
assert sp.simplify(form - 1 / (1 / m + snr / (1 + m))) == 0
form

# %% [markdown]
# ## The error in closed form
#
# $m' = dm/d\gamma$ follows from the quadratic, $m' = -m(1 + m)/(2\gamma m + \gamma - 1 + c)$.

# %%
quadratic = gamma * m**2 + b * m - 1
slope = -sp.diff(quadratic, gamma) / sp.diff(quadratic, m)
assert sp.simplify(slope + m * (1 + m) / (2 * gamma * m + b)) == 0
assert system.formula == -(gamma**2) * system.derivatives[0][0]
closed = sp.factor(-(gamma**2) * sp.diff(form, m) * slope)
closed

# %% [markdown]
# As $\gamma \to \infty$ the fit vanishes and $E \to 1$. As $\gamma \to 0$ it tends to 0 for $c > 1$
# (interpolation), and for $c < 1$ to $(1 - c)/(1 + |\mu|^2)$.

# %%
explicit = closed.subs(m, 2 / (b + sp.sqrt(b**2 + 4 * gamma)))
assert sp.limit(explicit.subs({c: sp.Rational(1, 2), snr: 1}), gamma, sp.oo) == 1
explicit_low = closed.subs(m, closed_m)
assert sp.limit(explicit_low.subs({c: 2, snr: 1}), gamma, 0) == 0
limits = {
    (ratio, signal): sp.limit(explicit_low.subs({c: ratio, snr: signal}), gamma, 0)
    for ratio in (sp.Rational(1, 3), sp.Rational(1, 2))
    for signal in (0, 1, 3)
}
for (ratio, signal), value in limits.items():
    assert sp.simplify(value - (1 - ratio) / (1 + signal)) == 0

# %% [markdown]
# ## Numbers
#
# The solver, which knows nothing of the closed form, against it.

# %%
rows = []
points = (("1/3", "1/10", "9/4"), ("1", "1/100", "0"), ("3", "2", "1"), ("1/4", "1", "4"))
for ratio, ridge, signal in points:
    point = {c: sp.Rational(ratio), gamma: sp.Rational(ridge), snr: sp.Rational(signal)}
    solved, exact = solve(system, point).value, float(sp.N(explicit.subs(point), 30))
    assert abs(solved / exact - 1) < 1e-11
    rows.append((ratio, ridge, signal, solved, exact))
assert f"{rows[0][3]:.5f}" == "0.20805"
Table(["$c$", "$\\gamma$", "$|\\mu|^2$", "solver", "closed form"], rows, digits=10)

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(6, 3.4), layout="constrained")
axes = figure.subplots()
ridges = np.geomspace(1e-4, 10, 80)
for ratio in (0.25, 0.75, 2.0):
    axes.semilogx(
        ridges, solve(system, {c: ratio, gamma: ridges, snr: 1.0}).value, label=f"c = {ratio}"
    )
axes.set(xlabel="ridge penalty", ylabel="interpolation error", ylim=(0, None))
axes.legend(frameon=False)
figure

# %% [markdown]
# ## Simulation

# %%
theory = solve(system, {c: 0.5, gamma: 0.1, snr: 2.25}).value
verdict = verify(
    error,
    theory,
    sizes=[{n: 2 * k, p: k} for k in (60, 120, 240)],
    repetitions=[160, 80, 40],
    values={gamma: 0.1},
    vectors={mu: [1.5]},
    seed=6,
)
print(verdict)
assert verdict.agrees and verdict.power < 0.1
assert not judge(1.1 * theory, verdict.extrapolation).agrees

# %% [markdown]
# ## The package's own
#
# The closed form `regression_error` evaluates, as a formula in symbols, and its expression.

# %%
from rmtsym import regression_error
from rmtsym.models.regression import REGRESSION

assert str(REGRESSION.expression) == str(error)
assert REGRESSION.system.equations == system.equations
for ratio, ridge, signal in ((0.2, 0.05, 0.0), (1.0, 1e-3, 4.0), (5.0, 3.0, 1.0)):
    value = float(sp.N(explicit.subs({c: ratio, gamma: ridge, snr: signal}), 30))
    assert abs(regression_error(ratio=ratio, gamma=ridge, snr=signal) / value - 1) < 1e-12

# %% [markdown]
# **Limits of validity.** Training error, isotropic noise. With unbalanced labels the limit is the
# same: $y$ enters through $|y|^2 = n$ only.
#
# **References.** Z. Liao et al., arXiv 2506.18656, Section 4; T. Hastie, A. Montanari, S. Rosset
# and R. Tibshirani, Ann. Statist. 50 (2022).
