"""The interpolation error of attention, typed from the equations, at any number of digits.

Independent of the package: 3 + 5 blocks (q, h, u; s, r, t, W s, W^T r) with

    g_n = (A_n - B g_n B / c - c C g_p D)^{-1},     g_p = (A_p - D g_n C)^{-1},

solved by Newton's method with a numerical Jacobian in the form ``(A - Sigma(g)) g = 1``, followed
from large gamma in small steps; the derivative in gamma is a difference at twice the digits.
"""

import math

import flint
from flint import arb, arb_mat


def _mat(rows):
    return arb_mat([[arb(x) for x in row] for row in rows])


def _mid(m):
    return m.mid()


class _Noise:
    def __init__(self, c, a, nu):
        self.c, self.a = arb(c), arb(a)
        self.b2 = arb(nu) - self.a**2
        if self.b2 < 0 or not self.b2.is_finite():
            self.b2 = arb(0)
        self.b2 = arb(self.b2.mid())
        root = 1 / self.c.sqrt()
        a = self.a
        self.C = _mat([[0, 0, 0, 0, a * root], [0, 0, 0, -a * root, 0], [0, 0, -1, 0, 0]])
        self.D = _mat([[-root, 0, 0], [0, -root, 0], [0, 0, -1], [0, 0, 0], [0, 0, 0]])
        self.Ap = _mat(
            [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [-1, 0, 0, 1, 0], [0, -1, 0, 0, 1]]
        )

    def g_p(self, g):
        return _mid((self.Ap - self.D * g * self.C).inv())

    def matrix(self, gamma, g):
        """A_n - Sigma_n(g); B g B has B = b (E_12 - E_21)."""
        a, k = self.a, self.b2 / self.c
        m = _mat([[gamma, -a, 0], [a, 0, 1], [0, 1, 0]])
        rows = [[m[i, j] for j in range(3)] for i in range(3)]
        # (B g B)_{11} = -b^2 g_22, _{12} = b^2 g_21, _{21} = b^2 g_12, _{22} = -b^2 g_11
        rows[0][0] += k * g[1, 1]
        rows[0][1] -= k * g[1, 0]
        rows[1][0] -= k * g[0, 1]
        rows[1][1] += k * g[0, 0]
        return _mid(arb_mat(rows) - self.c * (self.C * self.g_p(g) * self.D))

    def residual(self, gamma, g):
        return _mid(self.matrix(gamma, g) * g - _mat([[1, 0, 0], [0, 1, 0], [0, 0, 1]]))

    def newton(self, gamma, g, digits, near=None, most=60, floor=None):
        last = math.inf
        for _ in range(most):
            f = self.residual(gamma, g)
            columns = []
            h0 = arb(10) ** (-flint.ctx.dps // 3)
            for i in range(3):
                for j in range(3):
                    h = h0 * (abs(g[i, j]) + h0)
                    moved = [[g[r, s] for s in range(3)] for r in range(3)]
                    moved[i][j] += h
                    d = (self.residual(gamma, arb_mat(moved)) - f) * (1 / h)
                    columns.append([d[r, s] for r in range(3) for s in range(3)])
            jacobian = _mid(arb_mat([[columns[j][i] for j in range(9)] for i in range(9)]))
            right = arb_mat([[f[r, s]] for r in range(3) for s in range(3)])
            try:
                step = _mid(jacobian.solve(right))
            except ZeroDivisionError:
                return None
            size = 0.0
            for k in range(9):
                old = g[k // 3, k % 3]
                if step[k, 0] != 0:
                    least = arb(10) ** -300 if floor is None else floor[k]
                    size = max(size, float(abs(step[k, 0]) / max(abs(old), least)))
            if near is not None and (not size < near or size > last):
                return None
            near = near and near / 2
            g = _mid(g - arb_mat([[step[3 * r + s, 0] for s in range(3)] for r in range(3)]))
            if size < 10.0 ** -min(digits, 280):
                return g
            last = size
        return g if digits > 50 else None


def unknowns(c, gamma, a, nu, digits):
    noise = _Noise(c, a, nu)
    x = arb(10) ** 3 * (1 + noise.a**2 + noise.b2) * (1 + 1 / noise.c) ** 2
    x = max(x, gamma)
    g = _mat([[0] * 3] * 3)
    g = _mid(noise.matrix(x, g).inv())
    for _ in range(40):
        g = _mid(noise.matrix(x, g).inv())
    before = flint.ctx.dps
    flint.ctx.dps = 60
    try:
        g = noise.newton(x, g, 20)
        factor = arb(0.5)
        previous, scale = None, [arb(10) ** -300] * 9
        while x > gamma:
            goal = max(x * factor, gamma)
            guess = g
            if previous is not None:
                x0, g0 = previous
                power = float((goal / x).log() / (x / x0).log())
                rows = [[g[i, j] for j in range(3)] for i in range(3)]
                for i in range(3):
                    for j in range(3):
                        ratio = g[i, j] / g0[i, j] if g0[i, j] != 0 else arb(1)
                        if ratio > 0:
                            rows[i][j] = g[i, j] * ratio ** arb(power)
                guess = _mid(arb_mat(rows))
            scale = [max(abs(g[k // 3, k % 3]), s * (goal / x)) for k, s in enumerate(scale)]
            found = noise.newton(goal, guess, 12, near=0.3, floor=scale)
            if found is None:
                factor = factor ** arb(0.5)
                if 1 - factor < arb(10) ** -8:
                    raise ArithmeticError(f"lost at {x} {g}")
                continue
            assert found[0, 0] > 0
            previous, x, g = (x, g), goal, found
            factor = max(factor ** arb(1.5), arb(0.2))
    finally:
        flint.ctx.dps = before
    return noise, noise.newton(gamma, g, digits)


def _form(noise, g, mu, wk, wq):
    """(1/n) y^T Q y from the small matrix; coordinates of the vectors as balls."""
    k = len(mu)
    size = 3 + 5 * k
    gi, gp = _mid(g.inv()), _mid(noise.Ap - noise.D * g * noise.C)
    rows = [[arb(0)] * size for _ in range(size)]
    for i in range(3):
        for j in range(3):
            rows[i][j] = gi[i, j]
    for i in range(5):
        for j in range(5):
            for e in range(k):
                rows[3 + i * k + e][3 + j * k + e] += gp[i, j]
    for e in range(k):
        for i in range(3):
            for j in range(5):
                rows[i][3 + j * k + e] += noise.C[i, j] * mu[e]
                rows[3 + j * k + e][i] += noise.D[j, i] * mu[e]
        for d in range(k):
            rows[3 + 3 * k + e][3 + d] -= wk[e] * wq[d]
            rows[3 + 4 * k + e][3 + k + d] -= wq[e] * wk[d]
    right = arb_mat([[arb(int(i == 0))] for i in range(size)])
    return _mid(arb_mat(rows).solve(right))[0, 0]


def attention_error(c, gamma, a, nu, mu, wk, wq, digits=60):
    """The error, as a ball without radius; inputs are exact numbers that ``arb`` reads."""
    before = flint.ctx.dps
    flint.ctx.dps = 4 * digits + 60
    try:
        c, gamma, a, nu = (arb(x) for x in (c, gamma, a, nu))
        mu, wk, wq = ([arb(x) for x in v] for v in (mu, wk, wq))
        noise, g = unknowns(c, gamma, a, nu, digits)
        h = gamma * arb(10) ** -(digits + 20)
        sides = []
        for x in (gamma + h, gamma - h):
            sides.append(_form(noise, noise.newton(x, g, 3 * digits + 20), mu, wk, wq))
        return (-(gamma**2) * (sides[0] - sides[1]) / (2 * h)).mid()
    finally:
        flint.ctx.dps = before
