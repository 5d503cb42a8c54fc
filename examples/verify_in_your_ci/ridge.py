"""The package under test: closed forms of somebody else's theory."""

from __future__ import annotations

from math import sqrt


def resolvent_trace(ratio: float, gamma: float) -> float:
    """lim (1/n) tr (Z'Z/n + gamma)^-1 for Z with iid entries, p x n, p/n -> ratio."""
    b = gamma - 1 + ratio
    return (-b + sqrt(b * b + 4 * gamma)) / (2 * gamma)


def training_error(ratio: float, gamma: float) -> float:
    """lim gamma^2 / n |(Z'Z/n + gamma)^-1 y|^2 for labels y independent of Z."""
    m = resolvent_trace(ratio, gamma)
    slope = -(m * m + m) / (2 * gamma * m + gamma - 1 + ratio)
    return -gamma * gamma * slope
