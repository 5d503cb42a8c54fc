"""The commands, one file a subject; importing them registers them."""

from rmtsym.commands import attention, derive, hermite, phase, spectrum, sweep, weights

__all__ = ["attention", "derive", "hermite", "phase", "spectrum", "sweep", "weights"]
