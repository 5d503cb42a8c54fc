"""Random matrix theory of machine learning: one matrix expression, all of its limits.

From one expression rmtsym derives the Hermite coefficients of the nonlinearity, the deterministic
equivalent, a numeric solver, as many digits as asked, a simulation of the same expression, and the
verdict whether they agree.

Conventions. ``Gaussian`` entries have variance 1, ``Wigner`` is GOE with off-diagonal variance 1;
powers of the sizes are written out. ``a_k = E f(xi) He_k(xi) / sqrt(k!)``, ``nu = E f(xi)^2``.
``ratio = c = p/n`` with p the dimension and n the number of tokens. Resolvents are
``(H + gamma)^{-1}`` with ``gamma > 0``; a Stieltjes transform is ``(1/n) tr (H - z)^{-1}``.

>>> from rmtsym import attention_error, regression_error
>>> tokens = dict(ratio=0.25, gamma=1)
>>> round(attention_error("Min(exp(t), 5)", **tokens, mu=[2], w_k=[3], w_q=[3]), 3)
0.155
>>> round(regression_error(**tokens, snr=4), 3)
0.187
"""

from rmtsym.agreement import Verdict, verify
from rmtsym.asymptotics import series
from rmtsym.certification import certify
from rmtsym.compilation import compile_system
from rmtsym.dyson import derive, fixed_point
from rmtsym.elimination import polynomial, specialise
from rmtsym.equivalents import deterministic_equivalent
from rmtsym.errors import (
    BranchError,
    BudgetError,
    ConvergenceError,
    InputError,
    NonlinearityError,
    PrecisionError,
    RmtsymError,
    UnsupportedError,
)
from rmtsym.linearization import linearize
from rmtsym.matrices import (
    D,
    Deterministic,
    Entrywise,
    Gaussian,
    Identity,
    Iid,
    Independent,
    Indicator,
    Labels,
    Matrix,
    OffDiagonal,
    Ones,
    RowSoftmax,
    SpectralLaw,
    Trace,
    Vector,
    Wigner,
    dimensions,
    from_sympy,
    indicators,
    inner,
)
from rmtsym.models import MODELS
from rmtsym.models.attention import attention_error, verify_attention
from rmtsym.models.generalization import (
    attention_test_error,
    best_penalty,
    regression_test_error,
)
from rmtsym.models.heads import Head, heads_error
from rmtsym.models.phase import best_nonlinearity, critical_alignment, phase_diagram
from rmtsym.models.regression import regression_error
from rmtsym.models.softmax import Softmax, softmax_error
from rmtsym.models.targets import mixture_error, target_error
from rmtsym.nonlinearity import CATALOGUE, Nonlinearity
from rmtsym.pencil import build
from rmtsym.precision import refine
from rmtsym.puiseux import exact_series
from rmtsym.sensitivity import sensitivities
from rmtsym.simulation import Estimate, simulate
from rmtsym.solver import Solution, solve
from rmtsym.stieltjes import stieltjes_transform

__version__ = "0.1.0"

__all__ = [
    "CATALOGUE",
    "MODELS",
    "BranchError",
    "BudgetError",
    "ConvergenceError",
    "D",
    "Deterministic",
    "Entrywise",
    "Estimate",
    "Gaussian",
    "Head",
    "Identity",
    "Iid",
    "Independent",
    "Indicator",
    "InputError",
    "Labels",
    "Matrix",
    "Nonlinearity",
    "NonlinearityError",
    "OffDiagonal",
    "Ones",
    "PrecisionError",
    "RmtsymError",
    "RowSoftmax",
    "Softmax",
    "Solution",
    "SpectralLaw",
    "Trace",
    "UnsupportedError",
    "Vector",
    "Verdict",
    "Wigner",
    "attention_error",
    "attention_test_error",
    "best_nonlinearity",
    "best_penalty",
    "build",
    "certify",
    "compile_system",
    "critical_alignment",
    "derive",
    "deterministic_equivalent",
    "dimensions",
    "exact_series",
    "fixed_point",
    "from_sympy",
    "heads_error",
    "indicators",
    "inner",
    "linearize",
    "mixture_error",
    "phase_diagram",
    "polynomial",
    "refine",
    "regression_error",
    "regression_test_error",
    "sensitivities",
    "series",
    "simulate",
    "softmax_error",
    "solve",
    "specialise",
    "stieltjes_transform",
    "target_error",
    "verify",
    "verify_attention",
]
