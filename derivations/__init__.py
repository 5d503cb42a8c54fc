"""Executable derivations: one document per theorem, every step asserted.

A document is plain Python in cells: ``# %% [markdown]`` starts text, ``# %%`` code; the value of a
cell's last expression is shown. ``python -m derivations`` runs them all and writes HTML and LaTeX.
"""

NAMES = (
    "marchenko_pastur",
    "hermite_expansion",
    "gaussian_equivalent",
    "linear_pencil",
    "deterministic_equivalent",
    "linear_regression",
    "attention",
    "no_linear_part",
    "new_nonlinearity",
    "softmax",
    "heads",
    "test_error",
)
