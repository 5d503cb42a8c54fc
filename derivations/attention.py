"""The interpolation error of nonlinear attention."""

# %% [markdown]
# # Attention: the interpolation error
#
# **Statement (Theorem 1).** Tokens $X = \mu y^\top + Z$ ($p \times n$, $p/n \to c$, labels $y_i =
# \pm 1$ balanced), weights $W = I_p + w_K w_Q^\top$, kernel $K = \operatorname{offdiag}[f(X^\top W
# X/\sqrt p)]/\sqrt p$. The mean squared training error of the ridge fit of $y$ on the features $X
# K$,
#
# $$E(\gamma) = \frac{\gamma^2}{n}\, y^\top Q^2 y = -\frac{\gamma^2}{n} \frac{d}{d\gamma}\, y^\top Q
# y, \qquad Q(\gamma) = \left(\frac1n K^\top X^\top X K + \gamma I_n\right)^{-1},$$
#
# has a limit that depends on $c$, $\gamma$, on $f$ through $a_1$ and $\nu$, and on $\mu$, $w_K$,
# $w_Q$ through their lengths and inner products:
#
# - $g_n$, $g_p$ ($3 \times 3$) solve the Dyson equation of the noise (see *Linear pencil*);
# - the low-rank parts enter afterwards, as a small linear system built on $g_n$ and $g_p$;
# - the derivative in $\gamma$ follows by implicit differentiation.
#
# **Assumptions.** Independent symmetric entries of variance 1; $|\mu|, |w_K|, |w_Q|$ bounded; $f$
# centred with finite $\nu$; $\gamma > 0$.
#
# ## The expression
#
# As in the statement, line by line.

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
    OffDiagonal,
    Vector,
    build,
    derive,
    dimensions,
    linearize,
    solve,
)
from rmtsym.rewriting import differentiate

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
Z, y = Gaussian("Z", p, n), Labels("y", n)
mu, w_k, w_q = (Vector(name, p) for name in ("mu", "w_k", "w_q"))
f = sp.Symbol("f")

X = Z + mu * y.T
W = Identity(p) + w_k * w_q.T
K = OffDiagonal(Entrywise(f, X.T * W * X / sp.sqrt(p))) / sp.sqrt(p)
Q = (K.T * X.T * X * K / n + gamma * Identity(n)).inverse()
error = -(gamma**2) * D(y.T * Q * y / n, gamma)
error

# %% [markdown]
# ## Gaussian equivalent, pencil
#
# $X^\top W X$ is rewritten to $a_1 X^\top W X/\sqrt p$ plus symmetric noise; the pencil follows.

# %%
equivalent = linearize(error)
print(equivalent)

# %%
linearization = build(equivalent)
(pencil,) = linearization.pencils
print(len(pencil.sizes), "unknowns, of which", sum(s == 1 for s in pencil.sizes), "are numbers")
print(linearization)

# %% [markdown]
# ## Fixed-point system
#
# Twelve scalar unknowns and, for the signal and the weights, a few linear equations in the
# $\sigma$: entries of the small matrix below.

# %%
system = derive(error, sizes={n: 1, p: c})
print(system)
assert len(system.unknowns) == 12
assert system.formula == -(gamma**2) * system.derivatives[0][0]

# %% [markdown]
# ## The small matrix by hand
#
# Restricted to $\operatorname{span}\{y\}$ on the $n$ side and $\operatorname{span}\{\mu, w_K,
# w_Q\}$ on the $p$ side, the pencil is $\operatorname{blockdiag}(g_n^{-1} \otimes I, g_p^{-1}
# \otimes I)$ plus the low-rank parts. With unknowns $(q, u, h)$ of length $n$ and $(t, s, r, s_2,
# r_2)$ of length $p$, $X^\top W X = X^\top s_2 \sqrt p$ for $s = X q/\sqrt p$, $s_2 = W s$, $r_2 =
# W^\top r$:

# %%


def by_hand(c, gamma, a1, nu, mu, k, q):
    """(1/n) y^T Q y: Dyson equation by iteration, then the small matrix."""
    b, r = np.sqrt(nu - a1**2), 1 / np.sqrt(c)
    A_n = np.array([[gamma, 0, -a1], [a1, 1, 0], [0, 0, 1]])
    B = np.array([[0, 0, b], [-b, 0, 0], [0, 0, 0]])
    # Columns t, s, r, s2, r2: the transposed noise meets t, s2 and r2.
    C = np.array([[0, 0, 0, 0, a1 * r], [0, 0, 0, -a1 * r, 0], [-1, 0, 0, 0, 0]])
    D = np.array([[0, -1, 0], [-r, 0, 0], [0, 0, -r], [0, 0, 0], [0, 0, 0]])
    A_p = np.eye(5)
    A_p[3, 1] = A_p[4, 2] = -1
    g_n, g_p = np.linalg.inv(A_n), np.linalg.inv(A_p)
    for _ in range(100_000):
        new_n = np.linalg.inv(A_n - B @ g_n @ B / c - c * C @ g_p @ D)
        new_p = np.linalg.inv(A_p - D @ g_n @ C)
        change = np.abs(new_n - g_n).max() + np.abs(new_p - g_p).max()
        g_n, g_p = (g_n + new_n) / 2, (g_p + new_p) / 2
        if change < 1e-14:
            break
    # y/sqrt(n) on the n side; an orthonormal basis of the span on the p side.
    vectors = np.array([mu, k, q], dtype=float)
    d = vectors.shape[1]
    small = np.zeros((3 + 5 * d, 3 + 5 * d))
    small[:3, :3] = np.linalg.inv(g_n)
    small[3:, 3:] = np.kron(np.linalg.inv(g_p), np.eye(d))
    small[:3, 3:] += np.kron(C, vectors[0])
    small[3:, :3] += np.kron(D, vectors[0][:, None])
    low_rank = np.outer(vectors[1], vectors[2])
    small[3 + 3 * d : 3 + 4 * d, 3 + d : 3 + 2 * d] -= low_rank
    small[3 + 4 * d :, 3 + 2 * d : 3 + 3 * d] -= low_rank.T
    return np.linalg.inv(small)[0, 0]


def gram(mu, k, q):
    """Values of the inner products."""
    named = {"mu": np.array(mu), "w_k": np.array(k), "w_q": np.array(q)}
    values = {}
    for s, left in named.items():
        for t, right in named.items():
            if s <= t:
                kind = {"nonnegative": True} if s == t else {"real": True}
                values[sp.Symbol(f"{s}.{t}", **kind)] = float(left @ right)
    return values


bilinear = derive(y.T * Q * y / n, sizes={n: 1, p: c})
a1, nu = sp.Symbol("a_1", real=True), sp.Symbol("nu", nonnegative=True)
rows = []
for ratio, ridge, vectors in (
    (2 / 3, 0.2, ([1.5, 0, 0], [1, 1, 0], [1, 0, -1])),
    (2.0, 0.5, ([1.5, 0, 0], [1, 0, 0], [1, 0, 0])),
    (0.4, 0.3, ([0.5, 1, 0], [-1, 2, 0.5], [0, 1, 1])),
):
    values = {c: ratio, gamma: ridge, a1: 0.61, nu: 0.4, **gram(*vectors)}
    solved = solve(bilinear, values).value
    manual = by_hand(ratio, ridge, 0.61, 0.4, *vectors)
    assert abs(solved / manual - 1) < 1e-9
    rows.append((ratio, ridge, solved, float(manual)))
Table(["$c$", "$\\gamma$", "package: $y^\\top Q y/n$", "by hand"], rows, digits=10)

# %% [markdown]
# ## Two routes to the error
#
# The derivative by implicit differentiation, and $\gamma^2 y^\top Q\, Q\, y/n$ as a product of two
# resolvents, a larger pencil of its own.

# %%
product = differentiate(y.T * Q * y / n, gamma)
other = derive(-(gamma**2) * product, sizes={n: 1, p: c})
case = {c: 2 / 3, gamma: 0.2, a1: 0.61, nu: 0.4, **gram([1.5, 0, 0], [1, 1, 0], [1, 0, -1])}
one, two = solve(system, case).value, solve(other, case).value
print(f"{len(system.unknowns)} unknowns: {one:.14f}\n{len(other.unknowns)} unknowns: {two:.14f}")
assert abs(one / two - 1) < 1e-10

# %% [markdown]
# ## Numbers
#
# Vectors in units of an orthonormal basis $e_1, e_2, \dots$

# %%
from rmtsym import attention_error, regression_error

aligned = {"mu": [1.5, 0, 0], "w_k": [1, 1, 0], "w_q": [1, 0, -1]}
cases = [
    ("tanh(t)", {"ratio": "2/3", "gamma": "1/5", **aligned}, "0.21443"),
    ("sign(t)", {"ratio": 2, "gamma": "1/2", "mu": [1.5], "w_k": [1], "w_q": [1]}, "0.1475"),
    ("cos(t)", {"ratio": "1/3", "gamma": "1/10", **aligned}, "0.6927"),
    ("Min(exp(t), 5)", {"ratio": "1/4", "gamma": 1, "mu": [2], "w_k": [3], "w_q": [3]}, "0.155"),
]
rows = []
for formula, parameters, known in cases:
    value = attention_error(formula, **parameters)
    assert f"{value:.{len(known) - 2}f}" == known
    snr = sum(sp.Rational(str(x)) ** 2 for x in parameters["mu"])
    linear = regression_error(ratio=parameters["ratio"], gamma=parameters["gamma"], snr=snr)
    digits = attention_error(formula, **parameters, digits=20)
    assert abs(float(digits) / value - 1) < 1e-12
    rows.append((formula, parameters["ratio"], parameters["gamma"], value, str(digits), linear))
Table(["f", "$c$", "$\\gamma$", "attention", "20 digits", "regression"], rows)

# %% [markdown]
# In the last row attention beats linear regression: few dimensions, strong signal, aligned weights.
# Weights orthogonal to the signal change nothing; alignment lowers the error.

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(6.4, 3.6), layout="constrained")
axes = figure.subplots()
ridges = np.geomspace(1e-4, 10, 60)
shared = {"ratio": 0.25, "gamma": ridges, "mu": [2.0, 0]}
curves = {
    "aligned": attention_error("truncated_exp", **shared, w_k=[3, 0], w_q=[3, 0]),
    "orthogonal": attention_error("truncated_exp", **shared, w_k=[0, 3], w_q=[0, 3]),
    "no weights": attention_error("truncated_exp", **shared),
}
for label, values in curves.items():
    axes.semilogx(ridges, values, label=f"attention, {label}")
linear = regression_error(ratio=0.25, gamma=ridges, snr=4.0)
axes.semilogx(ridges, linear, "k--", label="linear regression")
axes.set(xlabel="ridge penalty", ylabel="interpolation error", ylim=(0, None))
axes.legend(frameon=False)
assert np.all(curves["aligned"] < curves["no weights"])
assert np.any(curves["aligned"] < linear)
assert np.allclose(curves["orthogonal"], curves["no weights"], rtol=1e-10)
assert np.all(curves["aligned"] < curves["orthogonal"])
figure

# %% [markdown]
# ## Simulation
#
# The features are computed with `tanh` applied to every score; no step of the derivation is used.

# %%
from rmtsym.agreement import judge
from rmtsym.models.attention import verify_attention

verdict = verify_attention(
    "tanh(t)",
    ratio="1/2",
    gamma="1/2",
    mu=[1.5, 0],
    w_k=[1, 1],
    w_q=[1, 0],
    sizes=[100, 200, 400],
    repetitions=80,
    seed=3,
)
print(verdict)
assert verdict.agrees and verdict.power < 0.1
assert not judge(1.15 * verdict.theory, verdict.extrapolation).agrees

# %% [markdown]
# ## The package's own
#
# Expression and equations are those of the shipped model.

# %%
from rmtsym.models.attention import ATTENTION

assert ATTENTION.expression == error
assert ATTENTION.system.equations == system.equations
assert ATTENTION.system.spike_equations == system.spike_equations

# %% [markdown]
# **Limits of validity.** Leading order; $\gamma$ of order one: as $\gamma \to 0$ finite sizes need
# $n \gamma \gg 1$. Strong weights bring a large bias at finite size. Unbalanced labels need the
# spikes of the Gaussian equivalent. An $f$ with $a_0 \ne 0$ is centred here and in the simulation.
#
# **References.** Z. Liao, J. Liu, T. Hou, Q. Zou and Z. Ling, *On the Interpolation Error of
# Nonlinear Attention versus Linear Regression*, arXiv 2506.18656, Theorem 1.
