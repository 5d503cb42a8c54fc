"""Exact row softmax: exponential coefficients and a centring projection."""

# %% [markdown]
# # Attention with the exact row softmax
#
# **Statement.** Let $K = \frac{n}{\sqrt p} \operatorname{softmax}_{\mathrm{row}}(\beta X^\top W
# X/\sqrt p)$ with its diagonal masked. For every limit it may be replaced by
#
# $$K \sim K_g \left(I - \frac1n 1 1^\top\right) + s\, \frac1n 1 1^\top, \qquad s \to \infty, \qquad
# a_k(g) = \frac{\beta^k}{\sqrt{k!}} \; (k \ge 1), \quad \nu(g) = e^{\beta^2} - 1,$$
#
# $K_g$ the kernel of the entry-wise $g(t) = e^{\beta t - \beta^2/2} - 1$. With balanced labels the
# error is that of $g$; with labels of mean $\rho$ the row normalisation acts as a centring.
#
# **Assumptions.** Those of *Attention*; $\beta$ fixed as $n \to \infty$.
#
# ## Coefficients of g

# %%
import numpy as np
import sympy as sp

from derivations.document import Table
from rmtsym import (
    D,
    Entrywise,
    Gaussian,
    Identity,
    Labels,
    Nonlinearity,
    OffDiagonal,
    Ones,
    Vector,
    attention_error,
    derive,
    dimensions,
    linearize,
    solve,
)
from rmtsym.nonlinearity import t

beta = sp.Symbol("beta", real=True)
g = Nonlinearity(sp.exp(beta * t - beta**2 / 2) - 1)
assert sp.simplify(g.exact_coefficient(0)) == 0
for k in range(1, 8):
    assert sp.simplify(g.exact_coefficient(k) - beta**k / sp.sqrt(sp.factorial(k))) == 0
assert sp.simplify(g.exact_nu() - (sp.exp(beta**2) - 1)) == 0

# %% [markdown]
# ## The row sums
#
# $\sum_j e^{\beta S_{ij}} = n\, e^{\beta^2/2} (1 + \bar g_i)$ with $\bar g_i$ the row mean of
# $g(S)$, of order $n^{-1/2}$. So $n \operatorname{softmax}_{ij} - 1 = (g_{ij} - \bar g_i)/(1 + \bar
# g_i)$: to leading order $g(S)(I - 1 1^\top/n)$. The relative error in operator norm falls with
# $n$:

# %%
rows = []
for size in (200, 400, 800):
    draw = np.random.default_rng(size)
    Z = draw.standard_normal((size // 2, size))
    scores = 0.5 * Z.T @ Z / np.sqrt(size // 2)
    np.fill_diagonal(scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    softmax = weights / weights.sum(axis=1, keepdims=True)
    kernel = np.exp(scores - 0.125) - 1
    np.fill_diagonal(kernel, 0)
    centred = kernel - kernel.mean(axis=1, keepdims=True)
    deviation = np.linalg.norm(size * softmax - 1 - centred, 2) / np.linalg.norm(centred, 2)
    rows.append((size, float(deviation)))
assert rows[0][1] > rows[1][1] > rows[2][1] and rows[2][1] < 0.75 * rows[0][1]
Table(["n", "relative error in norm"], rows, digits=3)

# %% [markdown]
# ## The pass
#
# `linearize` writes the spike of infinite strength, $1\,(0)^{-1} 1^\top$. What else acts along 1,
# the projection and the spikes of $a_2$, vanishes beside it.

# %%
from rmtsym.matrices import RowSoftmax

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
rho, s = sp.Symbol("rho", real=True), sp.Symbol("s", positive=True)
Z, y = Gaussian("Z", p, n), Labels("y", n, mean=rho)
mu, w_k, w_q = (Vector(name, p) for name in ("mu", "w_k", "w_q"))
X, W = Z + mu * y.T, Identity(p) + w_k * w_q.T
equivalent = linearize(n / sp.sqrt(p) * RowSoftmax(beta, X.T * W * X / sp.sqrt(p)))
print(equivalent)
((_, _, variance),) = equivalent.covariance
assert sp.simplify(variance - (sp.exp(beta**2) - 1 - beta**2)) == 0

# %% [markdown]
# ## By a finite spike
#
# The same error from $g$, the projection written out and a spike of strength $s$, as $s$ grows. No
# step of the softmax rule is used here.

# %%
one = Ones(n)
f = sp.Symbol("f")
kernel = OffDiagonal(Entrywise(f, X.T * W * X / sp.sqrt(p))) / sp.sqrt(p)
K = kernel * (Identity(n) - one * one.T / n) + s * (one * one.T) / n
Q = (K.T * X.T * X * K / n + gamma * Identity(n)).inverse()
system = derive(-(gamma**2) * D(y.T * Q * y / n, gamma), sizes={n: 1, p: c})
vectors = {"mu": (1.5, 0, 0), "w_k": (1, 1, 0), "w_q": (1, 0, -1)}
values = {c: 0.5, gamma: 0.2, rho: 0.8}
for left, a in vectors.items():
    for right, b in vectors.items():
        if left <= right:
            kind = {"nonnegative": True} if left == right else {"real": True}
            values[sp.Symbol(f"{left}.{right}", **kind)] = float(np.dot(a, b))
half = {f: Nonlinearity("exp(t/2 - 1/8) - 1")}
strengths = np.array([1e2, 1e3, 1e4, 1e5, 1e6])
errors = np.array([solve(system, values | {s: x}, nonlinearities=half).value for x in strengths])

# %%
from rmtsym.models.softmax import softmax_case, softmax_error

case = {"mu": vectors["mu"], "w_k": vectors["w_k"], "w_q": vectors["w_q"]}
limit = softmax_error("1/2", ratio="1/2", gamma="1/5", **case, label_mean="4/5")
assert f"{limit:.4f}" == "0.1488"
assert abs(errors[-1] / limit - 1) < 1e-6 and np.all(np.diff(np.abs(errors - limit)) < 0)
Table(
    ["$s$", "E", "E - limit"], [(x, e, e - limit) for x, e in zip(strengths, errors, strict=True)]
)

# %% [markdown]
# ## Numbers
#
# With balanced labels the error is that of $g$. As $\beta \to 0$ it is that of the linear kernel at
# penalty $\gamma/\beta^2$.

# %%
rows = []
for inverse in ("1/4", "1/2", "1", "3/2"):
    value = sp.Rational(inverse)
    shape = sp.exp(value * t - value**2 / 2) - 1
    pair = [
        softmax_error(inverse, ratio="1/2", gamma="1/5", **case, label_mean=mean)
        for mean in (0, "4/5")
    ]
    entrywise = attention_error(shape, ratio="1/2", gamma="1/5", **case)
    assert abs(pair[0] / entrywise - 1) < 1e-9
    rows.append((inverse, float(sp.N(sp.exp(value**2) - 1)), *pair))
small = softmax_error("1/1000", ratio="1/2", gamma="1/10000000", **case)
assert abs(small / attention_error("t", ratio="1/2", gamma="1/10", **case) - 1) < 1e-5
Table(["$\\beta$", "$\\nu$", "balanced", "$\\rho = 0.8$"], rows)

# %% [markdown]
# ## Simulation
#
# As softmax: row maximum subtracted, exponentials, row sums.

# %%

example = softmax_case("1/2", ratio="1/2", gamma="1/2", mu=[1], w_k=[1], w_q=[1], label_mean="4/5")
verdict = example.verify(seed=12, detect=0.2)
print(verdict)
assert verdict.agrees and verdict.power < 0.25

# %% [markdown]
# How far the limit is from $n = 800$, the weights as above and balanced labels; $z$ counts standard
# errors of the simulated mean, so it shows the finite size:

# %%
from rmtsym.agreement import ladder

rows = []
for inverse in ("1/2", "1", "3/2", "2"):
    point = softmax_case(inverse, ratio="1/2", gamma="1/5", **case)
    size, symbols = {"n": 800, "p": 400}, point.simulated()
    (found,) = ladder(point.model.expression, sizes=[size], repetitions=24, seed=5, **symbols)
    limit = float(point.solution().value)
    rows.append((inverse, limit, found.mean, (found.mean - limit) / found.standard_error))
assert abs(rows[0][2] / rows[0][1] - 1) < 0.06
assert all(1 < mean / value < 1.25 for _, value, mean, _ in rows[1:])
Table(["$\\beta$", "E", "simulated", "z"], rows, digits=4)

# %% [markdown]
# ## The package's own
#
# The kernel of the model linearises to the expression above.

# %%
from rmtsym.models import tokens
from rmtsym.models.softmax import softmax_model

shipped = softmax_model(1, tokens.UNBALANCED)
own = linearize(shipped.expression)
((_, _, shipped_variance),) = own.covariance
assert sp.simplify(shipped_variance - variance) == 0
assert sp.simplify(own.covariance[0][2] - (g.exact_nu() - g.exact_coefficient(1) ** 2)) == 0

# %% [markdown]
# **Limits of validity.** The series of $g$ grows like $e^{\beta^2}$: at $\beta = 2$ one score in a
# row outweighs the others until $n$ is far above $e^4$, and the limit is approached slowly. $\beta$
# beyond 26 is refused. Causal masks, whose rows differ, are outside.
#
# **References.** Z. Liao et al., arXiv 2506.18656, Theorem 1, for the kernel of $g$.
