"""Every error rmtsym raises on purpose.

Each message says what was given, what was expected, and what to do.
"""

from __future__ import annotations

from typing import Any


class RmtsymError(Exception):
    """Base of all errors of this package."""


class InputError(RmtsymError, ValueError):
    """A value outside its domain, of the wrong shape, or that cannot be read."""


class NonlinearityError(InputError):
    """The function is not admissible: unknown symbol, complex, infinite nu, not parseable."""


class UnsupportedError(RmtsymError):
    """The expression is well formed but outside the theory that is implemented here."""


class ConvergenceError(RmtsymError):
    """A solver stopped before its residual met the tolerance.

    ``solution`` is the last iterate, for whoever wants it.
    """

    def __init__(self, message: str, solution: Any = None) -> None:
        super().__init__(message)
        self.solution = solution


class BranchError(ConvergenceError):
    """The equations are solved, but not on the physical branch."""


class BudgetError(RmtsymError):
    """A computation with a limit of time was stopped before it ended; nothing is known."""


class PrecisionError(RmtsymError):
    """The digits asked for cannot be given, usually because an input is not exact."""


class SimulationError(RmtsymError):
    """A simulation stopped: a worker died, a matrix was singular, the store cannot be written.

    ``estimate`` holds the samples that were finished, or None.
    """

    def __init__(self, message: str, estimate: Any = None) -> None:
        super().__init__(message)
        self.estimate = estimate


class FailedPointsWarning(UserWarning):
    """Some points of a grid were not solved; they are nan in the answer."""


def require(condition: bool, message: str) -> None:
    """Raise ``InputError`` unless the condition holds."""
    if not condition:
        raise InputError(message)
