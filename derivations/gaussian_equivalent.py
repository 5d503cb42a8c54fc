"""The Gaussian equivalent of the attention kernel, and where a_2 and the kurtosis enter."""

# %% [markdown]
# # Gaussian equivalent of the attention kernel
#
# **Statement.** Tokens $X = \mu y^\top + Z$ ($p \times n$, $p/n \to c$), weights $W = I_p + w_K
# w_Q^\top$, $f$ centred, $a_k$ and $\nu$ its Hermite coefficients. To leading order in operator
# norm, up to terms that leave every limit with balanced labels alone,
#
# $$K = \frac{1}{\sqrt p}
# \operatorname{offdiag}\left[ f\left(\frac{X^\top W X}{\sqrt p}\right) \right] \;\sim\;
# a_1 \left(\frac{X^\top W X}{p} - I_n\right) + \sqrt{\nu - a_1^2}\; S,$$
#
# $S$ a GOE matrix independent of $Z$ with $\mathbb{E} S_{ij}^2 = 1/p$. The terms left out have rank
# two, with $\kappa = \mathbb{E} z^4$ and unit vectors $1$, $\phi$:
#
# $$\frac{a_2}{c} \sqrt{\frac{\kappa - 1}{2}}\; (\phi\, 1^\top + 1\, \phi^\top).$$
#
# **Assumptions.** Entries of $Z$ independent, symmetric, of variance 1 and finite moments;
# $|\mu|, |w_K|, |w_Q|$ bounded; $\nu < \infty$.
#
# ## Why the higher coefficients are noise
#
# Two scores $S_{ij}$, $S_{ik}$ share a token but have correlation of order $p^{-1/2}$. For Gaussian
# variables of correlation $\rho$, Mehler's formula gives $\mathbb{E}\, \mathrm{he}_j(x)\,
# \mathrm{he}_k(x') = \delta_{jk}\, \rho^k$: all but $k = 1$ is uncorrelated to leading order, and
# what remains has variance $\sum_{k \ge 2} a_k^2 = \nu - a_1^2$.

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
    derive,
    dimensions,
    linearize,
    solve,
)
from rmtsym.agreement import judge, verify
from rmtsym.hermite import orthonormal
from rmtsym.matrices import Iid

x, z, rho = sp.symbols("x z rho", real=True)


def mean(polynomial):
    """E of a polynomial in independent standard normal x, z."""
    moments = {k: sp.factorial2(k - 1) if k % 2 == 0 else sp.Integer(0) for k in range(20)}
    terms = sp.Poly(sp.expand(polynomial), x, z).terms()
    return sp.expand(sum(value * moments[i] * moments[j] for (i, j), value in terms))


root = sp.Symbol("root")  # sqrt(1 - rho^2)
for j in range(5):
    for k in range(5):
        product = orthonormal(j, x) * orthonormal(k, rho * x + root * z)
        covariance = sp.expand(mean(product).subs(root**4, (1 - rho**2) ** 2))
        covariance = sp.expand(covariance.subs(root**2, 1 - rho**2))
        assert covariance == (rho**k if j == k else 0)

# %% [markdown]
# ## The pass
#
# `linearize` makes this replacement on the expression itself; `f` stays a symbol.

# %%
n, p = dimensions("n p")
c, gamma = sp.symbols("c gamma", positive=True)
Z, y = Gaussian("Z", p, n), Labels("y", n)
mu, w_k, w_q = (Vector(name, p) for name in ("mu", "w_k", "w_q"))
X, W = Z + mu * y.T, Identity(p) + w_k * w_q.T
K = OffDiagonal(Entrywise(sp.Symbol("f"), X.T * W * X / sp.sqrt(p))) / sp.sqrt(p)
equivalent = linearize(K)
print(equivalent)

# %%
a1, nu = sp.Symbol("a_1", real=True), sp.Symbol("nu", nonnegative=True)
((N, _, variance),) = equivalent.covariance
assert (N.shape == (n, n) and N.T == N) or type(N).__name__ == "Wigner"
assert sp.expand(variance - (nu - a1**2)) == 0

# %% [markdown]
# Written out: $(N_f + a_1 X^\top W X/\sqrt p - a_1 \sqrt p\, I_n)/\sqrt p$. The linear part must be
# exactly $a_1 (X^\top W X/p - I_n)$; checked here on explicit matrices with $N_f = 0$.

# %%
rng = np.random.default_rng(5)
numbers = {n: 7, p: 5, a1: 0.6}
arrays = {Z: rng.standard_normal((5, 7)), y: rng.choice([-1.0, 1.0], (7, 1))}
arrays |= {v: rng.standard_normal((5, 1)) for v in (mu, w_k, w_q)}


def evaluate(node):
    """The expression at explicit matrices."""
    match type(node).__name__:
        case "Identity":
            return np.eye(int(node.size.subs(numbers)))
        case "Transpose":
            return evaluate(node.operand).T
        case "Scaled":
            return float(node.coefficient.subs(numbers)) * evaluate(node.operand)
        case "Sum":
            return sum(evaluate(term) for term in node.terms)
        case "Product":
            return np.linalg.multi_dot([evaluate(f) for f in node.factors])
        case "Wigner":
            return np.zeros((7, 7))
    return arrays[node]


tokens = arrays[Z] + arrays[mu] @ arrays[y].T
weights = np.eye(5) + arrays[w_k] @ arrays[w_q].T
linear = 0.6 * (tokens.T @ weights @ tokens / 5 - np.eye(7))
assert np.max(np.abs(evaluate(equivalent.expression) - linear)) < 1e-13

# %% [markdown]
# ## Where a_2 and the kurtosis enter
#
# Given the lengths of the tokens, $S_{ij}$ has variance $(1 + \varepsilon_i)(1 + \varepsilon_j)$
# with $\varepsilon_i = |z_i|^2/p - 1$, of variance $(\kappa - 1)/p$. The mean of
# $\mathrm{he}_2(S_{ij})$ is then $(\varepsilon_i + \varepsilon_j)/\sqrt 2$ to first order: a
# rank-two matrix, as strong as the bulk.

# %%
first, second = sp.symbols("varepsilon_i varepsilon_j")
inside = ((1 + first) * (1 + second) - 1) / sp.sqrt(2)
scale = sp.Symbol("sigma", positive=True)
assert sp.expand(mean(orthonormal(2, scale * x)) - (scale**2 - 1) / sp.sqrt(2)) == 0
assert sp.expand(inside - (first + second) / sp.sqrt(2)) == first * second / sp.sqrt(2)

# %% [markdown]
# The pass writes this term out as soon as the expression can see the vector of ones, for instance
# when the labels have a mean $\rho \ne 0$.

# %%
kappa, mean_label = sp.Symbol("kappa", positive=True), sp.Symbol("rho", real=True)
Zk, yr = Iid("Z", p, n, kappa), Labels("y", n, mean=mean_label)
tilted = Zk + mu * yr.T
kernel = OffDiagonal(Entrywise(sp.Symbol("f"), tilted.T * tilted / sp.sqrt(p))) / sp.sqrt(p)
with_spikes = linearize(kernel)
print(with_spikes)
a2 = sp.Symbol("a_2", real=True)
spikes = [
    t
    for t in with_spikes.expression.operand.terms
    if a2 in getattr(t, "coefficient", a1).free_symbols
]
assert len(spikes) == 2
for term in spikes:
    expected = a2 * sp.sqrt((kappa - 1) / 2) / sp.sqrt(p)
    assert sp.simplify(term.coefficient - expected) == 0

# %% [markdown]
# ## Simulation: the strength of the spikes
#
# For $f = \mathrm{he}_2$ ($a_1 = 0$, $a_2 = \nu = 1$) the form $1^\top K \phi$ of unit vectors
# tends to $\theta = \sqrt{(\kappa - 1)/2}/c$. Here $c = 1/4$, three laws of the entries, two sizes.

# %%
ratio, laws = 0.25, {"rademacher": 1, "gaussian": 3, "laplace": 6}
he2 = Nonlinearity("he2")


def sampled(law, size, seed):
    """A kernel of tokens of dimension p = size, and the unit vector phi."""
    draw = np.random.default_rng([seed, size])
    count = int(size / ratio)
    if law == "gaussian":
        noise = draw.standard_normal((size, count))
    elif law == "rademacher":
        noise = draw.choice([-1.0, 1.0], (size, count))
    else:
        noise = draw.laplace(size=(size, count)) / np.sqrt(2)
    matrix = he2(noise.T @ noise / np.sqrt(size)) / np.sqrt(size)
    np.fill_diagonal(matrix, 0)
    phi = np.mean(noise**2, axis=0) - 1
    if law == "rademacher":  # all lengths are equal: any direction
        phi = draw.standard_normal(count)
    return matrix, phi / np.linalg.norm(phi)


rows = []
for law, value in laws.items():
    theta = float(np.sqrt((value - 1) / 2) / ratio)
    for size, count in ((60, 80), (160, 30)):
        forms = [
            matrix.sum(axis=0) @ phi / np.sqrt(len(phi))
            for matrix, phi in (sampled(law, size, k) for k in range(count))
        ]
        mean_form, deviation = np.mean(forms), np.std(forms) / np.sqrt(count)
        assert abs(mean_form - theta) < 4 * deviation < 0.3
        rows.append((law, value, theta, size, float(mean_form), float(deviation)))
Table(["law", "$\\kappa$", "$\\theta$", "p", "mean", "standard error"], rows, digits=4)

# %% [markdown]
# The noise has radius $2/\sqrt c$; a spike with $\theta > 1/\sqrt c$ shows as an eigenvalue near
# $\theta + 1/(c\,\theta)$ (dotted; at $p = 150$ the eigenvalues lie above their limits, and come
# down slowly).

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(7, 3), layout="constrained")
for axes, (law, value) in zip(figure.subplots(1, 3, sharey=True), laws.items(), strict=True):
    axes.hist(np.linalg.eigvalsh(sampled(law, 150, 0)[0]), bins=80, density=True)
    theta = np.sqrt((value - 1) / 2) / ratio
    if theta > 1 / np.sqrt(ratio):
        axes.axvline(theta + 1 / (ratio * theta), linestyle=":", color="black")
    axes.set(title=f"{law}, kappa = {value}", xlabel="eigenvalue", yscale="log")
figure

# %% [markdown]
# ## Simulation: the error sees them when labels are unbalanced
#
# The same pencil, with the spikes as low-rank terms, gives the interpolation error. For $f = t +
# \mathrm{he}_2(t)$, $\rho = 0.9$, $|\mu| = 0.7$, $\gamma = 0.2$, $c = 2/3$ it moves with $\kappa$;
# with balanced labels it does not. The bias is of order $p^{-1/2}$, so the check is weak; it does
# reject the value without spikes.

# %%
Q = (kernel.T * tilted.T * tilted * kernel / n + gamma * Identity(n)).inverse()
error = -(gamma**2) * D(yr.T * Q * yr / n, gamma)
system = derive(error, sizes={n: 1, p: c})
f = Nonlinearity.from_coefficients([0, 1, 1])
point = {c: sp.Rational(2, 3), gamma: 0.2, sp.Symbol("mu.mu", nonnegative=True): 0.49}
rows = []
for label in (0.9, 0.0):
    values = [
        solve(
            system,
            point | {kappa: k, mean_label: label},
            nonlinearities={sp.Symbol("f"): f},
        ).value
        for k in (1, 3, 6)
    ]
    rows.append((label, *values))
assert f"{rows[0][3]:.4f}" == "0.2007" and rows[0][1] > rows[0][2] > rows[0][3]
assert abs(rows[0][1] - rows[1][1]) < 1e-10  # equal lengths: no spike
assert max(rows[1][1:]) - min(rows[1][1:]) < 1e-10
Table(["$\\rho$", "$\\kappa = 1$", "$\\kappa = 3$", "$\\kappa = 6$"], rows)

# %%
laplace = {"values": {gamma: 0.2, kappa: 6, mean_label: 0.9}, "noise": "laplace"}
verdict = verify(
    error,
    rows[0][3],
    ratios={n: 1, p: "2/3"},
    detect=0.25,
    order=0.5,
    vectors={mu: [0.7]},
    nonlinearities={sp.Symbol("f"): f},
    seed=2,
    **laplace,
)
print(verdict)
assert verdict.agrees and verdict.power < 0.25
assert not judge(rows[0][1], verdict.extrapolation).agrees

# %% [markdown]
# ## The package's own
#
# The model of attention is built on this expression, and its kernel linearises to the same form.

# %%
from rmtsym.models import attention

shipped = linearize(attention.K)
assert str(shipped) == str(equivalent)

# %% [markdown]
# **Limits of validity.** A statement in operator norm and to leading order: single entries of $K$
# are not Gaussian. The size of the spikes was worked out for symmetric laws; for centred
# exponential noise nothing beyond $\kappa = 9$ was seen. Spikes bring a finite-size error of order
# $p^{-1/2}$. Gram matrices with their diagonal, and a nonlinearity of a nonlinearity, are refused
# by name.
#
# **References.** X. Cheng and A. Singer, Random Matrices: Theory Appl. 2 (2013); Z. Fan and A.
# Montanari, Probab. Theory Relat. Fields 173 (2019); Z. Liao et al., arXiv 2506.18656, Section 3.
