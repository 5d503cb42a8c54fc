"""A nonlinearity nobody has tabulated, from its formula to a verdict."""

# %% [markdown]
# # A new nonlinearity from scratch
#
# **Statement.** For $f(t) = t\, e^{-t^2/2} + \theta$ with any constant $\theta$,
#
# $$a_1 = 2^{-3/2}, \qquad \operatorname{Var} f(\xi) = 3^{-3/2}, \qquad
# \frac{a_1^2}{\nu} = \frac{3\sqrt3}{8} \approx 0.65,$$
#
# and with these two numbers its attention error is known for every $c$, $\gamma$, $\mu$, $w_K$,
# $w_Q$.
#
# **Assumptions.** Those of *Attention*. Replace the formula below by your own.
#
# ## Coefficients by hand
#
# $\mathbb{E} f(\xi + s)$ is a Gaussian integral: with $\mathbb{E}\, e^{-(\xi+s)^2/2} =
# e^{-s^2/4}/\sqrt 2$ and $t e^{-t^2/2} = -\frac{d}{dt} e^{-t^2/2}$, $F(s) = \theta +
# \frac{s}{2\sqrt2} e^{-s^2/4}$.

# %%
import numpy as np
import sympy as sp

from derivations.document import Table
from rmtsym import Nonlinearity, attention_error, regression_error
from rmtsym.nonlinearity import t

s = sp.Symbol("s", real=True)
bump = sp.exp(-(s**2) / 4) / sp.sqrt(2)
F = 1 - sp.diff(bump, s)
f = Nonlinearity("t*exp(-t**2/2) + 1")
assert sp.simplify(f.generating_function(s) - F) == 0
for k in range(8):
    derived = sp.diff(F, s, k).subs(s, 0) / sp.sqrt(sp.factorial(k))
    assert sp.simplify(derived - f.exact_coefficient(k)) == 0
centred = f.centred()
assert sp.simplify(centred.exact_coefficient(1) - sp.Integer(2) ** sp.Rational(-3, 2)) == 0
assert sp.simplify(centred.exact_nu() - sp.Integer(3) ** sp.Rational(-3, 2)) == 0
Table(
    ["$k$", "$a_k$", "value"],
    [(k, f"${sp.latex(f.exact_coefficient(k))}$", f.coefficient(k)) for k in range(8)],
    digits=12,
)

# %% [markdown]
# The part of $\nu$ beyond $a_1$ is noise: a nonlinearity of the same $a_1$ and $\nu$ has the same
# error, whatever it looks like. One with a cubic term:

# %%
rest = sp.sqrt(centred.exact_nu() - centred.exact_coefficient(1) ** 2)
twin = Nonlinearity.from_coefficients([0, centred.exact_coefficient(1), 0, rest])
assert sp.simplify(twin.exact_nu() - centred.exact_nu()) == 0
case = {"ratio": "1/2", "gamma": "1/20", "mu": [1.5, 0], "w_k": [1, 1], "w_q": [1, 0]}
assert abs(attention_error(f, **case) / attention_error(twin, **case) - 1) < 1e-12

# %% [markdown]
# ## Numbers

# %%
rows = []
for ratio in ("1/4", "1/2", "1", "2"):
    for ridge in ("1/50", "1/5"):
        here = case | {"ratio": ratio, "gamma": ridge}
        value = attention_error(f, **here)
        digits = attention_error(f, **here, digits=25)
        assert abs(float(digits) / value - 1) < 1e-11
        linear = regression_error(ratio=ratio, gamma=ridge, snr="9/4")
        tanh = attention_error("tanh(t)", **here)
        rows.append((ratio, ridge, value, str(digits), tanh, linear))
Table(["$c$", "$\\gamma$", "f", "25 digits", "tanh", "regression"], rows)

# %% [markdown]
# ## What counts is a_1^2/nu
#
# At one $\nu$, the error along $a_1^2/\nu$, with this $f$ marked.

# %%
from matplotlib.figure import Figure

from rmtsym import solve
from rmtsym.models import attention
from rmtsym.models.base import gram

system = attention.attention_system()
energy = float(centred.nu())
shares = np.linspace(0, 1, 41)
values = {
    attention.c: 0.5,
    attention.gamma: 0.05,
    sp.Symbol("a_1", real=True): np.sqrt(shares * energy),
    sp.Symbol("nu", nonnegative=True): energy,
    **gram(
        {
            attention.mu: (sp.Rational(3, 2), 0),
            attention.w_k: (1, 1),
            attention.w_q: (1, 0),
        }
    ),
}
errors = solve(system, values).value
share = float(centred.coefficient(1)) ** 2 / energy
assert abs(share - 3 * np.sqrt(3) / 8) < 1e-14
assert abs(np.interp(share, shares, errors) / attention_error(f, **case) - 1) < 1e-3
figure = Figure(figsize=(6, 3.4), layout="constrained")
axes = figure.subplots()
axes.plot(shares, errors)
axes.plot([share], [attention_error(f, **case)], "o")
axes.set(xlabel=r"$a_1^2/\nu$", ylabel="interpolation error", ylim=(0, None))
figure

# %% [markdown]
# ## Simulation

# %%
from rmtsym.agreement import judge
from rmtsym.models.attention import verify_attention

verdict = verify_attention(f, **case, sizes=[100, 200, 400], repetitions=160, seed=11)
print(verdict)
assert verdict.agrees and verdict.power < 0.25
assert not judge(1.2 * verdict.theory, verdict.extrapolation).agrees

# %% [markdown]
# ## The package's own
#
# The two numbers the attention model uses are the two derived by hand.

# %%
(slope, noise) = (entry for entry in system.hermite_symbols)
chosen = {attention.f: centred}
assert abs(slope.value(chosen, 1) - 2**-1.5) < 1e-15
assert abs(noise.value(chosen, 1) - 3**-1.5) < 1e-15
assert t in f.expression.free_symbols

# %% [markdown]
# **Limits of validity.** $\nu < \infty$; a text is parsed, never evaluated. The closer $a_1^2/\nu$
# is to 0, the longer a simulation takes to reach the limit.
#
# **References.** See *Hermite expansion* and *Attention*.
