"""Hermite coefficients of a nonlinearity, from one function."""

# %% [markdown]
# # Hermite expansion and the generating function
#
# **Statement.** Let $\xi \sim N(0,1)$, $\mathrm{he}_k = \mathrm{He}_k/\sqrt{k!}$ (probabilists',
# orthonormal) and $\nu = \mathbb{E} f(\xi)^2 < \infty$. Then with $a_k =
# \mathbb{E}[f(\xi)\,\mathrm{he}_k(\xi)]$
#
# $$f = \sum_{k \ge 0} a_k\, \mathrm{he}_k, \qquad \nu = \sum_{k \ge 0} a_k^2, \qquad F(s) :=
# \mathbb{E} f(\xi + s) = \sum_{k \ge 0} \frac{a_k}{\sqrt{k!}}\, s^k.$$
#
# **Assumptions.** $\nu$ finite; $f$ need not be continuous.
#
# ## Why one function holds them all
#
# Shifting the Gaussian density by $s$ multiplies it by $e^{s x - s^2/2}$, the generating function
# of the Hermite polynomials. So $F^{(k)}(0) = \mathbb{E}[f(\xi)\,\mathrm{He}_k(\xi)] = \sqrt{k!}\,
# a_k$.

# %%
import numpy as np
import sympy as sp

from derivations.document import Table
from rmtsym import CATALOGUE, Nonlinearity
from rmtsym.nonlinearity import t

s = sp.Symbol("s", real=True)
series = sp.series(sp.exp(s * t - s**2 / 2), s, 0, 6).removeO()


def he(k):
    """The orthonormal polynomial, from the three-term recurrence."""
    older, old = sp.Integer(0), sp.Integer(1)
    for j in range(k):
        older, old = old, sp.expand((t * old - sp.sqrt(j) * older) / sp.sqrt(j + 1))
    return old


for k in range(6):
    assert sp.expand(series.coeff(s, k) - he(k) / sp.sqrt(sp.factorial(k))) == 0
[he(k) for k in range(5)]

# %% [markdown]
# ## Closed forms
#
# For relu, $F(s) = \mathbb{E}\max(\xi + s, 0) = s\,\Phi(s) + \varphi(s)$. Every coefficient is a
# derivative at 0: no integral for each $k$.

# %%
density = sp.exp(-(s**2) / 2) / sp.sqrt(2 * sp.pi)
F = s * (1 + sp.erf(s / sp.sqrt(2))) / 2 + density
relu = Nonlinearity("Max(t, 0)")
assert sp.simplify(relu.generating_function(s) - F) == 0
for k in range(9):
    derived = sp.diff(F, s, k).subs(s, 0) / sp.sqrt(sp.factorial(k))
    assert sp.simplify(derived - relu.exact_coefficient(k)) == 0
assert relu.exact_nu() == sp.Rational(1, 2)
Table(
    ["$k$", "$a_k$ of relu", "value"],
    [(k, f"${sp.latex(relu.exact_coefficient(k))}$", relu.coefficient(k)) for k in range(9)],
    digits=12,
)

# %% [markdown]
# The same for a jump, an oscillation and an exponential. $e^{\beta t}$ has
# $F(s) = e^{\beta s + \beta^2/2}$, so $a_k = \beta^k e^{\beta^2/2}/\sqrt{k!}$.

# %%
beta = sp.Symbol("beta", real=True)
exact = {
    "sign(t)": sp.erf(s / sp.sqrt(2)),
    "cos(t)": sp.exp(-sp.Rational(1, 2)) * sp.cos(s),
    "exp(beta*t)": sp.exp(beta * s + beta**2 / 2),
}
for formula, function in exact.items():
    f = Nonlinearity(formula)
    assert sp.simplify(f.generating_function(s) - function) == 0
    for k in range(6):
        derived = sp.diff(function, s, k).subs(s, 0) / sp.sqrt(sp.factorial(k))
        assert sp.simplify(derived - f.exact_coefficient(k)) == 0
assert Nonlinearity("sign(t)").exact_coefficient(1) == sp.sqrt(2 / sp.pi)

# %% [markdown]
# ## Where there is no closed form
#
# Parity and Stein's identity $a_1 = \mathbb{E} f'(\xi)$ still give exact values: an odd $f$ has no
# even $a_k$, and softplus, silu and GELU, each $t/2$ plus an even function up to a constant, have
# $a_1 = 1/2$. Otherwise the coefficients are integrals, to as many digits as asked.

# %%
tanh = CATALOGUE["tanh"]
assert tanh.exact_coefficient(2) == 0 and tanh.exact_coefficient(3) is None
for name in ("softplus", "silu", "gelu"):
    assert CATALOGUE[name].exact_coefficient(1) == sp.Rational(1, 2)
stein = Nonlinearity(1 - sp.tanh(t) ** 2).coefficient(0, digits=30)
assert abs(stein / tanh.coefficient(1, digits=30) - 1) < 1e-28
print("a_1 of tanh =", tanh.coefficient(1, digits=30))

# %% [markdown]
# ## Parseval
#
# Partial sums of $a_k^2$ stay below $\nu$ (Bessel's inequality) and reach it: fast for smooth $f$,
# like $k^{-3/2}$ at a kink and $k^{-1/2}$ at a jump.

# %%
rows = []
for name in ("tanh", "truncated_exp", "gelu", "abs", "relu", "sign"):
    f = CATALOGUE[name]
    shares = [f.share(count) for count in (2, 4, 12, 60)]
    assert shares == sorted(shares) and shares[-1] <= 1 + 1e-12
    rows.append((name, f.coefficient(0), f.coefficient(1), f.nu(), *shares))
Table(["f", "$a_0$", "$a_1$", "$\\nu$", "k < 2", "k < 4", "k < 12", "k < 60"], rows, digits=5)

# %% [markdown]
# ## Simulation
#
# Means over Gaussian samples, within four standard errors; a value 5 % off is rejected.

# %%
xi = np.random.default_rng(3).standard_normal(400_000)
rows = []
for name, k in (("tanh", 1), ("relu", 2), ("sign", 1), ("truncated_exp", 1)):
    f = CATALOGUE[name]
    draws = f(xi) * np.asarray(sp.lambdify(t, he(k))(xi))
    mean, error = draws.mean(), draws.std() / np.sqrt(len(xi))
    z = (mean - f.coefficient(k)) / error
    assert abs(z) < 4 < abs(mean - 1.05 * f.coefficient(k)) / error
    rows.append((name, k, f.coefficient(k), float(mean), float(error), float(z)))
Table(["f", "$k$", "$a_k$", "sample mean", "standard error", "z"], rows, digits=4)

# %% [markdown]
# ## The package's own
#
# `from_coefficients` is the inverse of the expansion, and the closed form of the package is $F$.

# %%
chosen = [sp.Rational(1, 3), sp.Integer(1), sp.Rational(-1, 2), sp.Rational(1, 5)]
polynomial = Nonlinearity.from_coefficients(chosen)
assert sp.expand(polynomial.expression - sum(a * he(k) for k, a in enumerate(chosen))) == 0
assert [polynomial.exact_coefficient(k) for k in range(5)] == [*chosen, 0]
assert polynomial.exact_nu() == sum(a**2 for a in chosen)
assert sp.simplify(relu.generating_function(s) - F) == 0

# %% [markdown]
# **Limits of validity.** $\nu = \infty$ is refused ($e^{t^2/4}$ has $a_0$ but no $\nu$). For the
# theory $f$ is centred: $f - a_0$. The value of $f$ at a jump does not enter.
#
# **References.** R. O'Donnell, *Analysis of Boolean Functions*, section 11.2; C. Stein, Ann.
# Statist. 9 (1981).
