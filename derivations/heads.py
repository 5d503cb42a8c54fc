"""Several heads: shared tokens, jointly Gaussian noise."""

# %% [markdown]
# # Several heads
#
# **Statement.** Heads $h = 1, \dots, H$ with nonlinearities $f_h$ and weights $W_h = I + w_{K,h}
# w_{Q,h}^\top$ read the same tokens; their features are stacked, each with penalty $\gamma$:
#
# $$E(\gamma) = -\frac{\gamma^2}{n} \frac{d}{d\gamma}\; y^\top
# \left(\frac1n \sum_h K_h^\top X^\top X K_h + \gamma I_n\right)^{-1} y.$$
#
# The Gaussian equivalents of the $K_h$ share $Z$, and their noise parts are jointly Gaussian with
#
# $$\operatorname{Cov}(N_h, N_{h'}) = \mathbb{E} f_h f_{h'} - a_1^h a_1^{h'}.$$
#
# **Assumptions.** Those of *Attention*, all $f_h$ centred; $H$ fixed.
#
# ## Why the noise is shared
#
# $f_h(S_{ij})$ and $f_{h'}(S_{ij})$ are functions of the same score, up to low rank; by Mehler's
# formula only equal orders correlate: $\operatorname{Cov} = \sum_{k \ge 2} a_k^h a_k^{h'}$.

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
    Vector,
    attention_error,
    derive,
    dimensions,
    linearize,
    solve,
)

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
Z, y = Gaussian("Z", p, n), Labels("y", n)
mu = Vector("mu", p)
X = Z + mu * y.T
f, g = sp.symbols("f_1 f_2")


def kernel(function, head):
    """The kernel of one head."""
    w_k, w_q = Vector(f"w_k_{head}", p), Vector(f"w_q_{head}", p)
    W = Identity(p) + w_k * w_q.T
    return OffDiagonal(Entrywise(function, X.T * W * X / sp.sqrt(p))) / sp.sqrt(p)


def error(*functions):
    """The error of heads with these functions."""
    kernels = [kernel(function, head) for head, function in enumerate(functions, 1)]
    features = [K.T * X.T * X * K / n for K in kernels]
    Q = (sum(features[1:], features[0]) + gamma * Identity(n)).inverse()
    return -(gamma**2) * D(y.T * Q * y / n, gamma)


equivalent = linearize(error(f, g))
rows = [(str(a), str(b), f"${sp.latex(value)}$") for a, b, value in equivalent.covariance]
Table(["N", "N'", "covariance"], rows)

# %%
named = {entry.symbol: entry for entry in equivalent.symbols}
for one, other, value in equivalent.covariance:
    functions = {str(one): one, str(other): other}
    slopes = [e.symbol for e in equivalent.symbols if e.moment == "slope"]
    products = [e.symbol for e in equivalent.symbols if e.moment == "product"]
    assert value.free_symbols <= {*slopes, *products} and len(value.args) == 2
cross = [v for a, b, v in equivalent.covariance if a != b]
assert len(cross) == 1 and len(equivalent.covariance) == 3
pair = {f: Nonlinearity("tanh"), g: Nonlinearity("t**3")}
numbers = {e.symbol: e.value(pair, 1) for e in equivalent.symbols}
tanh, cube = pair[f].coefficients(60), pair[g].coefficients(60)
expected = sum(a * b for a, b in zip(tanh[2:], cube[2:], strict=True))
assert abs(float(cross[0].subs(numbers)) - expected) < 1e-12

# %% [markdown]
# Heads of one $f$ share one noise matrix, whatever their weights.

# %%
shared = linearize(error(f, f))
assert len(shared.covariance) == 1
print(shared.covariance[0][0], "of variance", shared.covariance[0][2])

# %% [markdown]
# ## Exact relations
#
# Two equal heads double the Gram matrix: their error at $\gamma$ is that of one at $\gamma/2$. The
# sign of a head does not matter.

# %%
from rmtsym.models.heads import Head, heads_case, heads_error

weights = {"w_k": [1, 1, 0], "w_q": [1, 0, -1]}
other = {"w_k": [0, 2, 0], "w_q": [2, 0, 0]}
tokens = {"ratio": "2/3", "gamma": "1/5", "mu": [1.5, 0, 0]}
twice = heads_error([Head("tanh(t)", **weights)] * 2, **tokens)
once = attention_error("tanh(t)", **weights, **(tokens | {"gamma": "1/10"}))
assert abs(twice / once - 1) < 1e-9
signs = [
    heads_error([Head("tanh(t)", **weights), Head(second, **other)], **tokens)
    for second in ("tanh(t)", "-tanh(t)")
]
assert abs(signs[0] / signs[1] - 1) < 1e-9

# %% [markdown]
# ## Numbers
#
# A second head lowers the error; a second head of another shape, whose noise is partly independent,
# lowers it too.

# %%
rows = []
for second in ("tanh(t)", "erf(t)", "cos(t)"):
    alone = attention_error(second, **other, **tokens)
    both = heads_error([Head("tanh(t)", **weights), Head(second, **other)], **tokens)
    rows.append((second, attention_error("tanh(t)", **weights, **tokens), alone, both))
    assert both < min(rows[-1][1:3])
assert f"{rows[0][3]:.5f}" == "0.17676"
Table(["second head", "tanh alone", "second alone", "both"], rows)

# %% [markdown]
# ## Simulation
#
# The finite-size error is large (12 % at $p = 400$ in the first row above); the ladder removes it.

# %%
case = heads_case(
    [Head("tanh(t)", w_k=[1], w_q=[1]), Head("cos(t)")], ratio="1/2", gamma="1/2", mu=[1]
)
verdict = case.verify(
    sizes=[{n: 2 * k, p: k} for k in (60, 160, 400)], repetitions=[360, 120, 40], seed=13
)
print(verdict)
assert verdict.agrees and verdict.power < 0.25

# %% [markdown]
# ## The package's own
#
# The expression above, solved, is the shipped `heads_error`, for shared and for different $f$.

# %%
vectors = {"mu": [1.5, 0, 0]}
for head, both in enumerate((weights, other), 1):
    vectors |= {f"{name}_{head}": row for name, row in both.items()}
gram = {}
for left, a in vectors.items():
    for right, b in vectors.items():
        if left <= right:
            kind = {"nonnegative": True} if left == right else {"real": True}
            gram[sp.Symbol(f"{left}.{right}", **kind)] = float(np.dot(a, b))
for functions, chosen in (((f, f), "tanh(t)"), ((f, g), "erf(t)")):
    system = derive(error(*functions), sizes={n: 1, p: c})
    values = {c: sp.Rational(2, 3), gamma: 0.2, **gram}
    derived = solve(
        system, values, nonlinearities={f: Nonlinearity("tanh(t)"), g: Nonlinearity(chosen)}
    ).value
    shipped = heads_error([Head("tanh(t)", **weights), Head(chosen, **other)], **tokens)
    assert abs(derived / shipped - 1) < 1e-10

# %% [markdown]
# **Limits of validity.** $H$ fixed as $n \to \infty$. Heads at different temperatures have
# different functions $f(\cdot/T)$, no scale of their own. Output weights per head are ridge
# weights, not trained by gradient descent.
#
# **References.** Z. Liao et al., arXiv 2506.18656, Theorem 1, for each head.
