"""Newton's method along the strength of the randomness, in steps of its own scale.

The last resort of the solver, where the path from large ridges is lost or does not exist. With the
randomness switched off (``Sigma = 0``) the solution is ``A^{-1}``. For every strength t in [0, 1]
of the self-energy the system is that of a model with its randomness scaled by ``sqrt(t)``, so the
physical solution is one smooth path from t = 0 to t = 1. Where A is singular (an inverse that
exists by its randomness alone), every inverse ``M^{-1}`` starts as ``(t M + 1 - t)^{-1}``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rmtsym.compilation import Point
from rmtsym.linalg import Array, solutions


@dataclass(frozen=True)
class DenseContinuation:
    """``tolerance`` bounds ``max |Phi(u) - u| / max |u|``; ``first`` is the first step in t."""

    tolerance: float = 1e-13
    first: float = 1e-2
    corrections: int = 8
    steps: int = 400

    def __call__(self, point: Point, component: int) -> tuple[Array, Array]:
        """The unknowns at t = 1, shape (points, unknowns), and their relative residuals.

        Both are nan and inf where the path was lost; ``point`` holds many points (one axis).
        """
        (count,) = point.batch
        u, residual = self._path(point, component, np.zeros(count))
        for shift in (1.0, -1.0):
            lost = np.flatnonzero(~np.isfinite(residual))
            if len(lost) and point.compiled.core[component].inverses:
                found, size = self._path(point.take(lost), component, np.full(len(lost), shift))
                u[lost], residual[lost] = found, size
        return u, residual

    def _path(self, whole: Point, component: int, shift: Array) -> tuple[Array, Array]:
        batch = whole.batch
        count = whole.count(component)
        start = whole.phi(component, whole._zeros(count), shift=shift)[0]
        u = np.array(np.broadcast_to(start, (*batch, count)))
        t = np.zeros(batch)
        h = np.full(batch, self.first)
        active = np.all(np.isfinite(u) & (np.abs(u) < 1e12), axis=-1)
        u[~active] = np.nan
        residual = np.full(batch, np.inf)
        if not count:
            return u, np.zeros(batch)
        tangent = np.zeros_like(u)
        for _ in range(self.steps):
            chosen = np.flatnonzero(active)
            if len(chosen) == 0:
                break
            here = whole if len(chosen) == len(active) else whole.take(chosen)
            goal = np.minimum(1.0, t[chosen] + h[chosen])
            guess = u[chosen] + (goal - t[chosen])[:, None] * tangent[chosen]
            found, size, good, slope = self._correct(here, component, guess, goal, shift[chosen])
            accepted = chosen[good]
            u[accepted] = found[good]
            tangent[accepted] = slope[good]
            t[accepted] = goal[good]
            residual[accepted] = size[good]
            h[accepted] *= 2
            h[chosen[~good]] /= 4
            active[accepted] = t[accepted] < 1
            active &= h >= 1e-16
        u[t < 1] = np.nan
        residual[t < 1] = np.inf
        return u, residual

    def _correct(
        self, point: Point, component: int, u: Array, t: Array, shift: Array
    ) -> tuple[Array, Array, Array, Array]:
        identity = np.eye(u.shape[-1])
        previous = np.full(len(u), np.inf)
        good = np.zeros(len(u), dtype=bool)
        dead = np.zeros(len(u), dtype=bool)
        slope = np.zeros_like(u)
        size = np.full(len(u), np.inf)
        for step in range(self.corrections):
            value, inverses = point.phi(component, u * t[:, None], shift=shift * (1 - t))
            difference = value - u
            with np.errstate(invalid="ignore"):
                size = np.max(np.abs(difference), axis=-1) / np.max(np.abs(u), axis=-1)
                dead |= ~np.isfinite(size) | ((step > 1) & (size > 4 * previous))
            good = (size < self.tolerance) & ~dead
            if np.all(good | dead):
                break
            system = identity - point.jacobian(component, inverses) * t[:, None, None]
            system[dead] = identity
            update = solutions(system, np.where(dead[:, None], 0, difference)[..., None])[..., 0]
            u = np.where((~(good | dead))[:, None], u + update, u)
            good |= (size >= previous * 0.5) & (size < 1e-9) & ~dead
            if np.all(good | dead):
                break
            previous = size
        inverses = point.inverses(component, u * t[:, None], shift=shift * (1 - t))
        jacobian = point.jacobian(component, inverses)
        system = identity - jacobian * t[:, None, None]
        system[dead] = identity
        with np.errstate(invalid="ignore"):
            right = jacobian @ u[..., None]
            if np.any(shift):
                right -= (shift[:, None] * point.shift_slope(component, inverses))[..., None]
            slope = solutions(system, np.where(dead[:, None, None], 0, right))[..., 0]
        return u, size, good, slope
