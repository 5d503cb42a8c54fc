"""Marchenko-Pastur: the resolvent of a sample covariance matrix."""

# %% [markdown]
# # Marchenko-Pastur
#
# **Statement.** Let $Z$ be $p \times n$ with independent entries of mean 0 and variance 1, and let
# $n, p \to \infty$ with $p/n \to c \in (0, \infty)$. For $\gamma > 0$, almost surely,
#
# $$\frac1n \operatorname{tr} \left(\frac1n Z^\top Z + \gamma I_n\right)^{-1} \longrightarrow
# m(\gamma), \qquad \gamma m^2 + (\gamma - 1 + c)\, m - 1 = 0, \quad m > 0.$$
#
# **Assumptions.** Second moments only; the derivation below uses Gaussian entries, and the limit is
# the same for every law of the entries.
#
# ## The expression
#
# A model is written once; equations, numbers and the simulation come from the same value.

# %%
import numpy as np
import sympy as sp

from derivations.document import Table
from rmtsym import Gaussian, Identity, Trace, build, derive, dimensions, linearize, refine, solve
from rmtsym.agreement import judge, verify

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
Z = Gaussian("Z", p, n)
resolvent = (Z.T * Z / n + gamma * Identity(n)).inverse()
trace = Trace(resolvent) / n
trace

# %% [markdown]
# ## Linear pencil
#
# $Q = (Z^\top Z / n + \gamma)^{-1}$ is not linear in $Z$. One more unknown, $x_2 = Z x_1$, makes it
# so: the inverse of the block matrix of these two equations holds $Q$ in its first block.

# %%
linearization = build(linearize(trace))
linearization

# %% [markdown]
# ## Dyson equation
#
# With the sizes $n = 1$, $p = c$ and $g_{kl}$ the normalised trace of block (unknown $k$, row $l$),
#
# $$g = (A - \Sigma(g))^{-1}, \qquad \Sigma_{ij} = \sum \alpha \beta \operatorname{Var}(Z) \dim(k)\,
# g_{kl},$$
#
# the sum running over the pairs of entries $L_{ik} = \alpha Z^\top$, $L_{lj} = \beta Z$ and their
# mirror images. Of the four $g_{kl}$ two remain:

# %%
system = derive(trace, sizes={n: 1, p: c})
system

# %%
g1, g2 = system.unknowns
by_hand = {(c * g2 + gamma) * g1 - 1, (g1 + 1) * g2 - 1}
assert {sp.expand(e) for e in system.equations} == {sp.expand(e) for e in by_hand}
assert system.outputs == (g1,)

# %% [markdown]
# ## Closed form
#
# The second equation gives $g_{22} = 1/(1 + g_{11})$; in the first this is the quadratic.

# %%
m = sp.Symbol("m", positive=True)
first, second = (e.subs(g1, m) for e in system.equations)
quadratic = sp.expand(sp.resultant(first, second, g2))
quadratic = quadratic if quadratic.coeff(m, 2).subs(gamma, 1) > 0 else sp.expand(-quadratic)
assert sp.expand(quadratic - (gamma * m**2 + (gamma - 1 + c) * m - 1)) == 0
sp.collect(quadratic, m)

# %% [markdown]
# Its product of roots is $-1/\gamma$: exactly one root is positive. Where $b = \gamma - 1 + c > 0$
# the textbook root $(\sqrt{b^2 + 4\gamma} - b)/(2\gamma)$ cancels; $2/(b + \sqrt{b^2 + 4\gamma})$
# does not.

# %%
b = gamma - 1 + c
root = 2 / (b + sp.sqrt(b**2 + 4 * gamma))
assert sp.simplify(quadratic.subs(m, root)) == 0
rows = []
for ratio in ("1/2", "1", "2"):
    for ridge in ("1/1000", "1/10", "1"):
        values = {c: sp.Rational(ratio), gamma: sp.Rational(ridge)}
        solved = solve(system, values)
        exact = refine(system, values, digits=30).value
        closed = sp.N(root.subs(values), 40)
        assert abs(float(closed) / solved.value - 1) < 1e-12
        assert abs(sp.Float(str(exact), 40) / closed - 1) < sp.Float("1e-29")
        rows.append((ratio, ridge, solved.value, str(exact), float(solved.residual)))
Table(["$c$", "$\\gamma$", "double", "30 digits", "residual"], rows, digits=15)

# %% [markdown]
# Special values: $c = 1$, $\gamma = 1$ gives $(\sqrt5 - 1)/2$, and $\gamma m \to 1$ as
# $\gamma \to \infty$, $\gamma m \to \max(0, 1 - c)$ as $\gamma \to 0$, the mass of the atom at 0.

# %%
assert sp.simplify(root.subs({c: 1, gamma: 1}) - (sp.sqrt(5) - 1) / 2) == 0
assert sp.limit(gamma * root, gamma, sp.oo) == 1
mass = gamma * (sp.sqrt(b**2 + 4 * gamma) - b) / (2 * gamma)
assert sp.limit(mass.subs(c, sp.Rational(1, 3)), gamma, 0) == sp.Rational(2, 3)
assert sp.limit(mass.subs(c, 3), gamma, 0) == 0

# %% [markdown]
# ## The density
#
# At $\gamma = -x - \mathrm{i}\varepsilon$ the same system is the Stieltjes transform of the
# spectrum, and $\operatorname{Im} m / \pi$ its density, $\sqrt{(x_+ - x)(x - x_-)}/(2\pi x)$ on
# $[x_-, x_+] = [(1 - \sqrt c)^2, (1 + \sqrt c)^2]$.

# %%
from matplotlib.figure import Figure

ratio = 0.5
low, high = (1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2
x = np.linspace(low + 0.02, high - 0.02, 60)
density = solve(system, {c: ratio, gamma: -x - 1e-9j}).value.imag / np.pi
closed = np.sqrt((high - x) * (x - low)) / (2 * np.pi * x)
assert np.max(np.abs(density - closed)) < 1e-7

sample = np.random.default_rng(1).standard_normal((300, 600))
eigenvalues = np.linalg.eigvalsh(sample @ sample.T / 600)
figure = Figure(figsize=(6, 3.4), layout="constrained")
axes = figure.subplots()
axes.hist(eigenvalues, bins=40, weights=np.full(300, 40 / (np.ptp(eigenvalues) * 600)), alpha=0.4)
axes.plot(x, density)
axes.set(xlabel="x", ylabel="density (mass c)", title="c = 1/2, one 300 x 600 sample")
figure

# %% [markdown]
# ## Simulation
#
# The expression is evaluated literally at three sizes; the mean is extrapolated to infinite size,
# and the verdict states which error it would have found. The same data reject a theory 10 % off.

# %%
theory = solve(system, {c: 0.5, gamma: 0.3}).value
sizes = [{n: 2 * k, p: k} for k in (60, 120, 240)]
verdict = verify(trace, theory, sizes=sizes, repetitions=[120, 60, 30], values={gamma: 0.3}, seed=1)
print(verdict)
assert verdict.agrees and verdict.power < 0.1
assert not judge(1.1 * theory, verdict.extrapolation).agrees

# %% [markdown]
# ## The package's own
#
# The model `marchenko-pastur` (the trace of the $p$ side), and the root in
# the closed form of linear regression.

# %%
from rmtsym import MODELS
from rmtsym.models.regression import marchenko_pastur_root

shipped = MODELS["marchenko-pastur"]
for ratio in (0.3, 1.0, 3.0):
    for ridge in (0.01, 2.0):
        # n tr (Z^T Z/n + g)^{-1} and p tr (Z Z^T/n + g)^{-1} differ by (n - p)/g.
        small = solve(shipped.system, {c: ratio, gamma: ridge}).value
        large = solve(system, {c: ratio, gamma: ridge}).value
        assert abs(large - (ratio * small + (1 - ratio) / ridge)) < 1e-10 * large
for ratio in (sp.Rational(1, 3), sp.Integer(1), sp.Integer(4)):
    for ridge in (sp.Rational(1, 100), sp.Integer(2)):
        other, slope = marchenko_pastur_root(ratio, ridge, sp.sqrt)
        point = {m: other, c: ratio, gamma: ridge}
        assert sp.simplify(other - root.subs(point)) == 0
        assert sp.simplify(slope - sp.diff(quadratic, m).subs(point)) == 0

# %% [markdown]
# **Limits of validity.** Heavy tails (infinite fourth moment) keep the bulk but not its edges. At
# $c = 1$ and $\gamma \to 0$, $m$ grows like $\gamma^{-1/2}$, and the size needed for a simulation
# to agree grows with it.
#
# **References.** V. Marchenko and L. Pastur, Math. USSR Sbornik 1 (1967); Z. Bai and J.
# Silverstein, *Spectral Analysis of Large Dimensional Random Matrices*, Springer 2010, chapter 3.
