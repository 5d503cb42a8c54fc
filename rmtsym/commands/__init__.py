"""The commands, one file a subject; importing them registers them."""

from rmtsym.commands import attention, hermite, spectrum, sweep, weights

__all__ = ["attention", "hermite", "spectrum", "sweep", "weights"]
