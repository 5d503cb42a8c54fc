"""A number that knows how many of its digits are correct, and prints just those.

>>> x = Digits.of(mpmath.mpf(1) / 3, 12)
>>> print(x, x + 1 > x)
0.333333333333 True
"""

from __future__ import annotations

from typing import Any

import mpmath


class Digits(mpmath.mpf):  # type: ignore[misc]
    """An mpmath number with ``digits`` correct significant digits.

    ``notes`` says how inputs were read where that matters (a float taken as the shortest decimal
    that prints it). Arithmetic gives plain mpmath numbers at mpmath's current precision.
    """

    digits: int
    notes: tuple[str, ...]

    @classmethod
    def of(cls, value: Any, digits: int, notes: tuple[str, ...] = ()) -> Digits:
        """Keep every bit of ``value``; only ``digits`` digits are vouched for."""
        number = cls.__new__(cls)
        number._mpf_ = value._mpf_
        number.digits = digits
        number.notes = notes
        return number

    def __str__(self) -> str:
        text: str = mpmath.libmp.to_str(self._mpf_, self.digits, strip_zeros=False)
        return text

    def __repr__(self) -> str:
        return f"Digits({self!s})"

    def __reduce__(self) -> Any:
        return Digits._restore, (self._mpf_, self.digits, self.notes)

    @staticmethod
    def _restore(raw: Any, digits: int, notes: tuple[str, ...]) -> Digits:
        number = Digits.__new__(Digits)
        number._mpf_ = raw
        number.digits = digits
        number.notes = notes
        return number
