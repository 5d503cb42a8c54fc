"""Test error of attention and of linear regression on a new token."""

# %% [markdown]
# # Test error on a new token
#
# **Statement.** The ridge fit $w = X K Q y/n$ on the features of attention predicts, for a new
# token $x_0 = y_0 \mu + z_0$, the value $v^\top k_0$ with $v = X^\top w$ and $k_0 = f(X^\top W
# x_0/\sqrt p)/\sqrt p$. For balanced labels and centred $f$ its mean squared error tends to the
# limit of
#
# $$E_{\mathrm{test}} = \left(1 - \frac{a_1}{p}\, v^\top X^\top W \mu\right)^2
# + \frac{a_1^2}{p^2}\, |W^\top X v|^2 + \frac{\nu - a_1^2}{p}\, |v|^2.$$
#
# For linear regression, $w = X Q y/n$ predicts $w^\top x_0$ and
# $E_{\mathrm{test}} = (1 - \mu^\top w)^2 + |w|^2$.
#
# **Assumptions.** Those of *Attention*; the new token is independent of the old ones.
#
# ## Why
#
# Given the old tokens, $k_0$ has entries $f(s_i)/\sqrt p$ with $s = X^\top W x_0/\sqrt p$. Their
# linear part $a_1 s$ has mean $a_1 y_0 X^\top W \mu/\sqrt p$ and covariance $a_1^2 X^\top W W^\top
# X/p$; the rest is independent noise of variance $\nu - a_1^2$. The square of $y_0 - v^\top k_0$
# has the three terms above.
#
# ## The expression, literally
#
# $m$ new tokens, a kernel $K_0$ between old and new: nothing of the statement is used.

# %%
import numpy as np
import sympy as sp

from derivations.document import Table
from rmtsym import (
    Entrywise,
    Gaussian,
    Identity,
    Labels,
    Nonlinearity,
    OffDiagonal,
    Vector,
    derive,
    dimensions,
    solve,
)

n, p, m = dimensions("n p m")
gamma, c = sp.symbols("gamma c", positive=True)
f = sp.Symbol("f")
Z, y = Gaussian("Z", p, n), Labels("y", n)
Z_0, y_0 = Gaussian("Z_0", p, m), Labels("y_0", m)
mu, w_k, w_q = (Vector(name, p) for name in ("mu", "w_k", "w_q"))
X, X_0 = Z + mu * y.T, Z_0 + mu * y_0.T
W = Identity(p) + w_k * w_q.T
K = OffDiagonal(Entrywise(f, X.T * W * X / sp.sqrt(p))) / sp.sqrt(p)
Q = (K.T * X.T * X * K / n + gamma * Identity(n)).inverse()
v = X.T * X * K * Q * y / n
K_0 = Entrywise(f, X.T * W * X_0 / sp.sqrt(p)) / sp.sqrt(p)
residual = y_0 - K_0.T * v

from rmtsym.models.generalization import ATTENTION_TEST

# The shipped model is this expression.
assert str(ATTENTION_TEST.expression) == str(residual.T * residual / m)
literal = ATTENTION_TEST.system
print(len(literal.unknowns), "unknowns")

# %% [markdown]
# ## The statement, on the old tokens alone
#
# As an expression of its own, simulated with `tanh` in the kernel on a ladder of sizes and judged
# against the limit derived from new tokens.

# %%
from rmtsym.agreement import judge, verify
from rmtsym.models.generalization import attention_test_case, attention_test_error

a1, nu = sp.Symbol("a_1", real=True), sp.Symbol("nu", nonnegative=True)
hit = a1 / p * (v.T * X.T * W * mu)
spread = W.T * X * v
stated = (Identity(1) - hit) * (Identity(1) - hit)
stated = stated + a1**2 / p**2 * (spread.T * spread) + (nu - a1**2) / p * (v.T * v)

tanh = Nonlinearity("tanh(t)")
vectors = {"mu": [1.5, 0], "w_k": [1, 1], "w_q": [1, 0]}
limit = attention_test_error(tanh, ratio="1/2", gamma="1/2", **vectors)
verdict = verify(
    stated,
    limit,
    sizes=[{n: 2 * k, p: k} for k in (60, 120, 240)],
    repetitions=[120, 60, 30],
    values={gamma: 0.5, a1: tanh.coefficient(1), nu: tanh.nu()},
    vectors={mu: vectors["mu"], w_k: vectors["w_k"], w_q: vectors["w_q"]},
    nonlinearities={f: tanh},
    seed=15,
)
print(verdict)
assert verdict.agrees
assert not judge(1.15 * limit, verdict.extrapolation).agrees

# %% [markdown]
# ## Linear regression
#
# Its statement through the same passes, against the shipped value, which is derived from new
# tokens.

# %%
from rmtsym.models.generalization import regression_test_error

signal = sp.Symbol("mu.mu", nonnegative=True)


def gram(**vectors):
    """Values of the inner products."""
    return {
        sp.Symbol(f"{k}.{k}", nonnegative=True): float(np.dot(v, v)) for k, v in vectors.items()
    }


ridge_Q = (X.T * X / n + gamma * Identity(n)).inverse()
w = X * ridge_Q * y / n
miss = Identity(1) - mu.T * w
linear = derive(miss * miss + w.T * w, sizes={n: 1, p: c})
rows = []
for ratio, ridge, snr in ((0.5, 0.1, 1.0), (1.0, 0.3, 4.0), (3.0, 0.01, 2.0)):
    derived = solve(linear, {c: ratio, gamma: ridge, signal: snr}).value
    shipped = regression_test_error(ratio=ratio, gamma=ridge, snr=snr)
    assert abs(derived / shipped - 1) < 1e-9
    rows.append((ratio, ridge, snr, derived, shipped))
Table(["$c$", "$\\gamma$", "$|\\mu|^2$", "statement", "new tokens"], rows, digits=10)

# %% [markdown]
# ## Double descent
#
# As $\gamma \to 0$ the test error of linear regression diverges at $c = 1$; the best penalty
# removes the peak.

# %%
from matplotlib.figure import Figure

ratios = np.geomspace(0.1, 10, 21)
peaked = regression_test_error(ratio=ratios, gamma=1e-4, snr=2)
attended = attention_test_error("tanh(t)", ratio=ratios, gamma=1e-4, mu=[2**0.5], w_k=[1], w_q=[1])
smooth = np.min([regression_test_error(ratio=ratios, gamma=x, snr=2) for x in (0.3, 1, 3)], axis=0)
assert abs(ratios[np.argmax(peaked)] - 1) < 0.05 and np.max(peaked) > 10 * np.max(smooth)
figure = Figure(figsize=(6, 3.4), layout="constrained")
axes = figure.subplots()
axes.loglog(ratios, attended, label="attention, tanh, aligned, small penalty")
axes.loglog(ratios, peaked, "--", label="regression, small penalty")
axes.loglog(ratios, smooth, ":", label="regression, good penalty")
axes.set(xlabel="c = p/n", ylabel="test error")
axes.legend(frameon=False)
figure

# %% [markdown]
# ## Simulation
#
# Old and new tokens drawn, `tanh` applied to every score.

# %%
case = attention_test_case("tanh(t)", ratio="1/2", gamma="1/2", mu=[1.5], w_k=[1], w_q=[1])
verdict = case.verify(
    sizes=[{n: 2 * k, p: k, m: 2 * k} for k in (60, 120, 240)], repetitions=[120, 60, 30], seed=14
)
print(verdict)
assert verdict.agrees
assert not judge(1.2 * verdict.theory, verdict.extrapolation).agrees

# %% [markdown]
# ## The package's own
#
# The equations derived here are those of the shipped model. As $\gamma \to \infty$ nothing is
# predicted and the error tends to 1.

# %%
aligned = {"mu": [1.5, 0, 0], "w_k": [1, 1, 0], "w_q": [1, 0, -1]}
shipped = attention_test_error(tanh, ratio="2/3", gamma="1/5", **aligned)
assert f"{shipped:.5f}" == "0.46485"
nothing = attention_test_error(tanh, ratio="2/3", gamma=1e6, **aligned)
assert abs(nothing - 1) < 1e-3
system = derive(residual.T * residual / m, sizes={n: 1, p: c, m: 1})
assert system == literal

# %% [markdown]
# **Limits of validity.** A mean squared error, not a classification error. The new token enters
# through the kernel with the old ones only. Near $c = 1$ at small $\gamma$ a simulation is far from
# its limit.
#
# **References.** T. Hastie, A. Montanari, S. Rosset and R. Tibshirani, Ann. Statist. 50 (2022); the
# kernel of Z. Liao et al., arXiv 2506.18656, Theorem 1.
