"""a_1 = 0: the kernel sees neither signal nor weights."""

# %% [markdown]
# # No linear part: a_1 = 0
#
# **Statement.** If $a_1 = 0$ (every even $f$), the interpolation error of attention does not depend
# on $\mu$, $w_K$, $w_Q$. With $m_0(z)$ the Marchenko-Pastur transform, $z m_0^2 + (z - 1 + c) m_0 -
# 1 = 0$, the normalised trace $m = \lim \frac1n \operatorname{tr} Q(\gamma)$ satisfies
#
# $$\gamma m = z\, m_0(z), \qquad z = \frac{c}{\nu m}, \qquad E(\gamma) = -\gamma^2 m'(\gamma).$$
#
# At $c = 1$, $\nu = 1$, $\gamma = 1/100$ the trace is $m = 20$ exactly.
#
# **Assumptions.** Those of the Gaussian equivalent; balanced labels; $\nu < \infty$.
#
# ## Why
#
# All that is known of $\mu$, $w_K$, $w_Q$ stands in the linear part of the Gaussian equivalent,
# multiplied by $a_1$. What is left is $K \sim \sqrt\nu\, S$ with $S$ free of $Z$.

# %%
import numpy as np
import sympy as sp

from derivations.document import Table
from rmtsym import Entrywise, Gaussian, Identity, OffDiagonal, Trace, derive, dimensions, solve
from rmtsym.elimination import polynomial, specialise
from rmtsym.models import attention

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
a1, nu = sp.Symbol("a_1", real=True), sp.Symbol("nu", nonnegative=True)
flat = specialise(attention.attention_system(), {a1: 0})
signal = [s for s in flat.parameters if "mu" in str(s) or "w_" in str(s)]
print("parameters:", ", ".join(map(str, flat.parameters)))
values = {s: 0.7 for s in flat.parameters if s in signal}
base = solve(flat, {c: 0.5, gamma: 0.2, nu: 1.0} | values).value
for seed in range(5):
    rng = np.random.default_rng(seed)
    mu, k, q = rng.standard_normal((3, 3))
    moved = solve(
        attention.attention_system(),
        {
            c: 0.5,
            gamma: 0.2,
            nu: 1.0,
            a1: 0.0,
            **{
                sp.Symbol(f"{s}.{t}", **kind): x
                for s, t, kind, x in [
                    ("mu", "mu", {"nonnegative": True}, mu @ mu),
                    ("w_k", "w_k", {"nonnegative": True}, k @ k),
                    ("w_q", "w_q", {"nonnegative": True}, q @ q),
                    ("mu", "w_k", {"real": True}, mu @ k),
                    ("mu", "w_q", {"real": True}, mu @ q),
                    ("w_k", "w_q", {"real": True}, k @ q),
                ]
            },
        },
    ).value
    assert abs(moved / base - 1) < 1e-12

# %% [markdown]
# ## The equations with a_1 = 0
#
# Put into the expression before the derivation, $a_1 = 0$ removes whole blocks of the pencil.

# %%
Z = Gaussian("Z", p, n)
K = OffDiagonal(Entrywise(attention.f, Z.T * Z / sp.sqrt(p))) / sp.sqrt(p)
Q = (K.T * Z.T * Z * K / n + gamma * Identity(n)).inverse()
general = derive(Trace(Q) / n, sizes={n: 1, p: c})
system = specialise(general, {a1: 0})
print(system)

# %% [markdown]
# ## Closed form
#
# Eliminating all but the trace leaves one polynomial; putting $z = c/(\nu m)$ and
# $m_0 = \gamma m/z = \gamma \nu m^2/c$ in the Marchenko-Pastur quadratic must give the same.

# %%
m, z, m0 = sp.symbols("m z m_0", positive=True)
quadratic = z * m0**2 + (z - 1 + c) * m0 - 1
claimed = quadratic.subs({m0: gamma * m / z}).subs(z, c / (nu * m))
claimed = sp.numer(sp.together(claimed))
derived = polynomial(system, "value", m)
assert sp.expand(derived - claimed) == 0 or sp.expand(derived + claimed) == 0
sp.collect(sp.expand(claimed), m)

# %% [markdown]
# The special point: $c = \nu = 1$ and $\gamma = 1/100$ give $m = 20$, and the double solver finds
# it.

# %%
at = {c: 1, nu: 1, gamma: sp.Rational(1, 100)}
assert claimed.subs(at).subs(m, 20) == 0
assert abs(solve(system, at).value / 20 - 1) < 1e-13
rows = []
for ratio in (0.3, 1.0, 3.0):
    for energy in (0.4, 2.0):
        ridge = 0.07
        value = solve(system, {c: ratio, nu: energy, gamma: ridge}).value
        shift = ratio / (energy * value)
        b = shift - 1 + ratio
        transform = (np.sqrt(b * b + 4 * shift) - b) / (2 * shift)
        assert abs(shift * transform / (ridge * value) - 1) < 1e-12
        rows.append((ratio, energy, value, float(shift * transform)))
Table(["$c$", "$\\nu$", "$m$", "$z\\,m_0(z)$"], rows, digits=12)

# %% [markdown]
# ## Simulation
#
# cos, far from centred, with a signal and aligned weights: the limit is that of pure noise. The
# signal shifts a score by $O(p^{-1/2})$ only, but with $f'' \ne 0$ it is seen at finite size: at
# $|w_K| = |w_Q| = 2$ the error at $p = 200$ is still 5 % low.

# %%
from rmtsym import Nonlinearity, attention_error, regression_error
from rmtsym.models.attention import verify_attention

case = {"ratio": "1/2", "gamma": "1/10", "mu": [1, 0], "w_k": [1, 0], "w_q": [1, 0]}
verdict = verify_attention(
    "cos(t)", **case, sizes=[150, 300, 600], repetitions=[240, 120, 60], seed=8
)
print(verdict)
assert verdict.agrees and verdict.power < 0.25
blind = attention_error("cos(t)", ratio="1/2", gamma="1/10")
assert abs(verdict.theory / blind - 1) < 1e-10
regression = regression_error(ratio="1/2", gamma="1/10", snr=1)
print(f"attention {blind:.4f}, linear regression on the same tokens {regression:.4f}")
assert blind > regression

# %% [markdown]
# ## The package's own
#
# $E = -\gamma^2 m'$ with $m'$ from the polynomial, against the shipped error.

# %%
slope = -sp.diff(claimed, gamma) / sp.diff(claimed, m)
for f, ratio, ridge in (("cos(t)", 0.5, 0.1), ("t**2", 2.0, 0.3), ("abs(t)", 1.0, 0.05)):
    energy = Nonlinearity(f).centred().nu()
    trace = solve(system, {c: ratio, nu: energy, gamma: ridge}).value
    expected = -(ridge**2) * float(slope.subs({m: trace, c: ratio, nu: energy, gamma: ridge}))
    shipped = attention_error(f, ratio=ratio, gamma=ridge, mu=[1.0], w_k=[1.0], w_q=[1.0])
    assert abs(shipped / expected - 1) < 1e-10
assert f"{attention_error('cos(t)', ratio='1/3', gamma=0.1):.4f}" == "0.6927"

# %% [markdown]
# **Limits of validity.** Exactly zero $a_1$: for $\cos(10 t)$ perturbed by a little $t$ the
# dependence returns. With unbalanced labels $a_2$ brings the spikes of the Gaussian equivalent
# back.
#
# **References.** Z. Liao et al., arXiv 2506.18656, Section 4; V. Marchenko and L. Pastur (1967).
