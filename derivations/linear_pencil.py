"""From a rational expression to a linear pencil and its Dyson equation."""

# %% [markdown]
# # Linear pencil and Dyson equation
#
# **Statement.** Any rational expression in random matrices, applied to a vector, is a straight-line
# program: one new unknown for each place where a random matrix meets something that is not yet a
# plain unknown, and one for each inverse. Written as equations this is a matrix
#
# $$L = A \otimes I + \sum_M B_M \otimes M,$$
#
# linear in every random matrix $M$, and the expression is one block of $L^{-1}$. Let $g_{kl}$ be
# the limit of the normalised trace of block (unknown $k$, row $l$) of $L^{-1}$. Then, size by size,
#
# $$g = (A - \Sigma(g))^{-1}, \qquad \Sigma_{ij} = \sum_{L_{ik} = \alpha M,\; L_{lj} = \beta M'}
# \alpha\beta\, \operatorname{Var}(M)\, \dim(k)\, g_{kl},$$
#
# over pairs of entries that hold the same random matrix: one of them transposed and the other not
# for a Gaussian matrix, every pair for a GOE matrix.
#
# **Assumptions.** Independent Gaussian or GOE matrices (or families of known covariance), sizes
# that grow in proportion, inverses that stay bounded.
#
# ## The kernel of attention without signal
#
# $Q = (K^\top Z^\top Z K/n + \gamma)^{-1}$, with $K$ the Gaussian equivalent of
# $\operatorname{offdiag}[f(Z^\top Z/\sqrt p)]/\sqrt p$.

# %%
import numpy as np
import sympy as sp

from derivations.document import Table
from rmtsym import (
    Entrywise,
    Gaussian,
    Identity,
    OffDiagonal,
    Trace,
    build,
    derive,
    dimensions,
    linearize,
    solve,
)
from rmtsym.nonlinearity import CATALOGUE

n, p = dimensions("n p")
gamma, c = sp.symbols("gamma c", positive=True)
a1, nu = sp.Symbol("a_1", real=True), sp.Symbol("nu", nonnegative=True)
Z, f = Gaussian("Z", p, n), sp.Symbol("f")
K = OffDiagonal(Entrywise(f, Z.T * Z / sp.sqrt(p))) / sp.sqrt(p)
Q = (K.T * Z.T * Z * K / n + gamma * Identity(n)).inverse()
trace = Trace(Q) / n
linearization = build(linearize(trace))
print(linearization)

# %% [markdown]
# Six unknowns, three of length $n$ and three of length $p$: shared subexpressions enter once.

# %%
(pencil,) = linearization.pencils
assert sorted(map(str, pencil.sizes)) == ["n", "n", "n", "p", "p", "p"]

# %% [markdown]
# ## The block of the inverse is the expression
#
# Checked at explicit matrices: $n = 6$, $p = 4$, a symmetric $N_f$. Sizes are in units of one here.

# %%
rng = np.random.default_rng(7)
sample = {"Z": rng.standard_normal((4, 6)), "N_f": rng.standard_normal((6, 6))}
sample["N_f"] += sample["N_f"].T
numbers = {n: 6, p: 4, gamma: 0.7, a1: 0.4, nu: 1}
dims = [int(size.subs(numbers)) for size in pencil.sizes]
ends = np.cumsum([0, *dims])
L = np.zeros((ends[-1], ends[-1]))
right = np.zeros((ends[-1], 6))
for e in pencil.entries:
    block = np.eye(dims[e.row])
    if e.factor is not None:
        block = sample[str(e.factor).rstrip("'")]
        block = block.T if str(e.factor).endswith("'") else block
    rows, columns = slice(*ends[e.row : e.row + 2]), slice(*ends[e.column : e.column + 2])
    L[rows, columns] += float(e.coefficient.subs(numbers)) * block
for s in pencil.sources:
    right[ends[s.row] : ends[s.row + 1]] += float(s.coefficient.subs(numbers)) * np.eye(6)
(term,) = pencil.readout.terms
solved = np.linalg.solve(L, right)[ends[term.column] : ends[term.column + 1]]
kernel = (sample["N_f"] + 0.4 * sample["Z"].T @ sample["Z"] / 2 - 0.4 * 2 * np.eye(6)) / 2
gram = sample["Z"] @ kernel
direct = np.linalg.inv(gram.T @ gram / 6 + 0.7 * np.eye(6))
assert np.max(np.abs(solved * float(term.coefficient.subs(numbers)) - direct)) < 1e-12

# %% [markdown]
# ## The same pencil by hand
#
# With $b = \sqrt{\nu - a_1^2}$ and unknowns $(q, u, h)$ of length $n$, $(t, s, r)$ of length $p$:
#
# $$\gamma q + K h = e, \quad u = K q, \quad h = Z^\top t/\sqrt n, \quad t = Z u/\sqrt n, \quad
# s = Z q/\sqrt p, \quad r = Z h/\sqrt p,$$
#
# $$K q = a_1 Z^\top s/\sqrt p - a_1 q + b S q.$$
#
# Collected in $3 \times 3$ matrices, with $Z/\sqrt n$ of variance $1/n$ and $S$ of variance $1/p$:
#
# $$g_n = \left(A_n - \frac1c B g_n B - c\, C g_p D\right)^{-1}, \qquad g_p = (I - D g_n C)^{-1}.$$

# %%


def by_hand(c, gamma, a1, nu, sweeps=100_000):
    """The normalised trace of Q by damped iteration of the 3 x 3 equations."""
    b, r = np.sqrt(nu - a1**2), 1 / np.sqrt(c)
    A = np.array([[gamma, 0, -a1], [a1, 1, 0], [0, 0, 1]])
    B = np.array([[0, 0, b], [-b, 0, 0], [0, 0, 0]])
    C = np.array([[0, 0, a1 * r], [0, -a1 * r, 0], [-1, 0, 0]])
    D = np.array([[0, -1, 0], [-r, 0, 0], [0, 0, -r]])
    g_n, g_p = np.linalg.inv(A), np.eye(3)
    for _ in range(sweeps):
        new_n = np.linalg.inv(A - B @ g_n @ B / c - c * C @ g_p @ D)
        new_p = np.linalg.inv(np.eye(3) - D @ g_n @ C)
        change = np.abs(new_n - g_n).max() + np.abs(new_p - g_p).max()
        g_n, g_p = (g_n + new_n) / 2, (g_p + new_p) / 2
        if change < 1e-14:
            return g_n[0, 0]
    raise AssertionError("the iteration did not settle")


# %% [markdown]
# ## The pass
#
# `derive` removes what is zero by pattern or by the sign of $Z$, and what is equal by
# transposition; each removal is proven on the pencil, not seen in numbers. Twelve scalar unknowns
# remain at most.

# %%
system = derive(trace, sizes={n: 1, p: c})
print("\n".join(f"{e} = 0" for e in system.equations))
assert len(system.unknowns) <= 12

# %%
rows = []
for ratio, ridge in ((0.3, 0.5), (1.0, 0.2), (4.0, 0.1)):
    for slope, energy in ((0.6, 0.4), (0.0, 1.0), (-1.0, 1.0)):
        solution = solve(system, {c: ratio, gamma: ridge, a1: slope, nu: energy})
        manual = by_hand(ratio, ridge, slope, energy)
        assert abs(solution.value / manual - 1) < 1e-10
        # The physical branch: m > 0, gamma m <= 1.
        assert 0 < ridge * solution.value <= 1
        rows.append((ratio, ridge, slope, energy, solution.value, float(manual)))
Table(["$c$", "$\\gamma$", "$a_1$", "$\\nu$", "package", "by hand"], rows, digits=12)

# %% [markdown]
# The branch: $m$ decreases in $\gamma$ and $\gamma m \to 1$ as $\gamma \to \infty$.

# %%
ridges = np.geomspace(1e-3, 1e6, 19)
m = solve(system, {c: 0.7, gamma: ridges, a1: 0.6, nu: 0.4}).value
assert np.all(np.diff(m) < 0) and np.all(np.diff(ridges * m) > 0)
assert abs(ridges[-1] * m[-1] - 1) < 1e-5

# %% [markdown]
# ## Simulation
#
# The expression itself, with `tanh` applied entry by entry: no Gaussian equivalent anywhere.

# %%
from rmtsym.agreement import judge, verify

tanh = CATALOGUE["tanh"]
values = {c: 0.5, gamma: 0.3}
theory = solve(system, values, nonlinearities={f: tanh}).value
verdict = verify(
    trace,
    theory,
    sizes=[{n: 2 * k, p: k} for k in (60, 120, 240)],
    repetitions=[120, 60, 20],
    values={gamma: 0.3},
    nonlinearities={f: tanh},
    seed=4,
)
print(verdict)
assert verdict.agrees and verdict.power < 0.1
assert not judge(1.1 * theory, verdict.extrapolation).agrees

# %% [markdown]
# ## The package's own
#
# The unknowns of the attention model without signal are these: its error is the derivative of the
# bilinear form, $E = -\gamma^2 \frac{d}{d\gamma} \frac1n y^\top Q y$, and without signal the form
# is the trace.

# %%
from rmtsym import attention_error

step = 1e-4
ridge = np.array([0.3 * (1 - step), 0.3 * (1 + step)])
low, high = solve(system, {c: 0.5, gamma: ridge}, nonlinearities={f: tanh}).value
slope = (high - low) / (ridge[1] - ridge[0])
assert abs(-(0.3**2) * slope / attention_error(tanh, ratio=0.5, gamma=0.3) - 1) < 1e-6

# %% [markdown]
# **Limits of validity.** Leading order only: fluctuations of the trace are of order $1/n$. Damped
# iteration as above slows down as $\gamma \to 0$ and a fixed number of sweeps is no convergence;
# the package follows the solution from zero randomness by Newton's method and stops on the
# residual.
#
# **References.** J. W. Helton, T. Mai and R. Speicher, J. Funct. Anal. 274 (2018); J. Alt, L. Erdos
# and T. Kruger, *The Dyson equation with linear self-energy*, Doc. Math. 25 (2020).
