"""The deterministic matrix that stands for the resolvent of attention."""

# %% [markdown]
# # Deterministic equivalent with features that depend on the tokens
#
# **Statement (Proposition 1).** Let $X = \mu y^\top + Z$ and let $C$ be a matrix that depends on
# $X$: the kernel of attention. The resolvent $Q = (\frac1n C^\top X^\top X C + \gamma I)^{-1}$ has
# a deterministic equivalent: for deterministic vectors $u$, $v$ of bounded length,
#
# $$u^\top Q v - u^\top \bar Q v \to 0, \qquad \bar Q = m\, I_n + b\, \frac{y y^\top}{n},$$
#
# $m$ the normalised trace without signal (see *Linear pencil*), $b$ from the small matrix of the
# spikes. The dependence of $C$ on $X$ costs nothing: the pencil treats all factors alike.
#
# **Assumptions.** Those of *Attention*; $u$, $v$ independent of $Z$.
#
# ## Warm-up: C = I
#
# Linear regression. With $d = 1/m + |\mu|^2/(1 + m)$ the bilinear form along $y$ is $1/d$, so
# $b = 1/d - m$.

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
    Trace,
    Vector,
    derive,
    dimensions,
    solve,
)
from rmtsym.agreement import judge, verify
from rmtsym.equivalents import deterministic_equivalent

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
Z, y, mu = Gaussian("Z", p, n), Labels("y", n), Vector("mu", p)
X = Z + mu * y.T
simple = deterministic_equivalent((X.T * X / n + gamma * Identity(n)).inverse(), {n: 1, p: c})
print(simple)

# %%
m, g_p = simple.system.unknowns
snr = sp.Symbol("mu.mu", nonnegative=True)
assert sp.simplify(simple.identity - m) == 0
((along,),) = simple.coefficients.tolist()
height = 1 / m + snr / (1 + m)
assert sp.simplify(along.subs(g_p, 1 / (1 + m)) - (1 / height - m)) == 0

# %% [markdown]
# ## C the kernel of attention
#
# $Q = (\frac1n K^\top X^\top X K + \gamma)^{-1}$ with $K = \operatorname{offdiag}[f(X^\top W
# X/\sqrt p)]/\sqrt p$.

# %%
f = sp.Symbol("f")
w_k, w_q = Vector("w_k", p), Vector("w_q", p)
W = Identity(p) + w_k * w_q.T
K = OffDiagonal(Entrywise(f, X.T * W * X / sp.sqrt(p))) / sp.sqrt(p)
Q = (K.T * X.T * X * K / n + gamma * Identity(n)).inverse()
equivalent = deterministic_equivalent(Q, {n: 1, p: c})
print(equivalent.left, equivalent.right, "identity:", equivalent.identity)
assert equivalent.left == equivalent.right == (y,)

# %% [markdown]
# The identity part is the trace without signal, and the form along $y$ that of the attention error.

# %%
bilinear = derive(y.T * Q * y / n, sizes={n: 1, p: c})
kernel = OffDiagonal(Entrywise(f, Z.T * Z / sp.sqrt(p))) / sp.sqrt(p)
noise = (kernel.T * Z.T * Z * kernel / n + gamma * Identity(n)).inverse()
trace = derive(Trace(noise) / n, sizes={n: 1, p: c})


def inner_products(**vectors):
    """Values of the inner products."""
    found = {}
    for left, a in vectors.items():
        for right, b in vectors.items():
            if left <= right:
                kind = {"nonnegative": True} if left == right else {"real": True}
                found[sp.Symbol(f"{left}.{right}", **kind)] = float(np.dot(a, b))
    return found


rows = []
gram = inner_products(mu=[1.5, 0, 0], w_k=[1, 1, 0], w_q=[1, 0, -1])
for name, ratio, ridge in (("tanh(t)", 2 / 3, 0.2), ("sign(t)", 2.0, 0.5), ("cos(t)", 0.5, 0.1)):
    function = {f: Nonlinearity(name).centred()}
    values = {c: ratio, gamma: ridge}
    numeric = equivalent.at(values | gram, nonlinearities=function)
    m_noise = solve(trace, values, nonlinearities=function).value
    form = solve(bilinear, values | gram, nonlinearities=function).value
    assert abs(numeric.identity / m_noise - 1) < 1e-9
    assert abs((numeric.identity + numeric.coefficients[0, 0]) / form - 1) < 1e-9
    rows.append((name, ratio, ridge, numeric.identity, float(numeric.coefficients[0, 0])))
assert abs(rows[2][4]) < 1e-9  # a_1 = 0: the resolvent does not see the labels
Table(["f", "$c$", "$\\gamma$", "$m$", "$b$"], rows, digits=8)

# %% [markdown]
# ## Simulation
#
# The form along the labels, $u = v = y/\sqrt n$: the equivalent gives $m + b$.

# %%
tanh = {f: Nonlinearity("tanh(t)")}
theory = equivalent.at({c: 0.5, gamma: 0.5} | gram, nonlinearities=tanh)
expected = theory.identity + float(theory.coefficients[0, 0])
verdict = verify(
    y.T * Q * y / n,
    expected,
    sizes=[{n: 2 * k, p: k} for k in (60, 120, 240)],
    repetitions=[120, 60, 30],
    values={gamma: 0.5},
    vectors={mu: [1.5, 0, 0], w_k: [1, 1, 0], w_q: [1, 0, -1]},
    nonlinearities=tanh,
    seed=16,
)
print(verdict)
assert verdict.agrees
assert not judge(1.2 * expected, verdict.extrapolation).agrees

# %% [markdown]
# ## The package's own
#
# The bilinear form of the shipped attention model is the entry of this equivalent along the labels.

# %%
from rmtsym.models import attention

assert attention.Q == Q
shipped = derive(attention.y.T * attention.Q * attention.y / n, sizes={n: 1, p: c})
values = {c: 0.7, gamma: 0.3} | gram
numeric = equivalent.at(values, nonlinearities=tanh)
form = solve(shipped, values, nonlinearities=tanh).value
assert abs(numeric.bilinear(1.0, {y: 1.0}, {y: 1.0}) / form - 1) < 1e-9

# %% [markdown]
# **Limits of validity.** Vectors independent of the noise: $Z^\top \mu$, or an eigenvector of $Q$,
# has its own limit. Not in operator norm: $Q - \bar Q$ does not vanish as a matrix.
#
# **References.** Z. Liao et al., arXiv 2506.18656, Proposition 1; W. Hachem, P. Loubaton and J.
# Najim, Ann. Appl. Probab. 17 (2007).
