"""Spectra against closed forms, samples, and the theory of outliers."""

import mpmath
import numpy as np
import pytest
import sympy as sp

from rmtsym import Nonlinearity
from rmtsym.errors import InputError, UnsupportedError
from rmtsym.matrices import (
    Deterministic,
    Entrywise,
    Gaussian,
    Identity,
    OffDiagonal,
    SpectralLaw,
    Vector,
    Wigner,
    dimensions,
)
from rmtsym.spectrum import draw, eigenvalues, spectrum, stieltjes_transform

n, p = dimensions("n p")
Z, S = Gaussian("Z", n, p), Wigner("S", n)
f = sp.Symbol("f")


def reference(z, c):
    """(1/p) tr (Z^T Z/n - z)^{-1} with 40 digits."""
    with mpmath.workdps(40):
        z, c = mpmath.mpc(z), mpmath.mpf(c)
        a, b = (1 - mpmath.sqrt(c)) ** 2, (1 + mpmath.sqrt(c)) ** 2
        return complex((1 - c - z + mpmath.sqrt(z - a) * mpmath.sqrt(z - b)) / (2 * c * z))


@pytest.mark.parametrize("c", [0.5, 1, 2])
def test_marchenko_pastur_to_twelve_digits(c):
    m = stieltjes_transform(Z.T * Z / n, {n: 1, p: sp.nsimplify(c)})
    z = np.linspace(0.01, 6, 200) + 1e-3j
    exact = np.array([reference(x, c) for x in z])
    assert np.max(np.abs(m(z) - exact) / np.abs(exact)) < 1e-12
    edges = [(1 - c**0.5) ** 2 + 1e-6j, (1 + c**0.5) ** 2 + 1e-6j]
    for x in [-1, *edges, 1e-6j, 1e-3 + 1e-9j, 100.0, 1 - 1j]:
        assert abs(m(x) - reference(x, c)) < 1e-10 * abs(reference(x, c))


def test_edges_and_the_atom():
    found = spectrum(Z.T * Z / n, {n: 1, p: 2})
    ((low, high),) = found.support
    assert (low, high) == pytest.approx(((1 - 2**0.5) ** 2, (1 + 2**0.5) ** 2), rel=1e-9)
    assert found.atoms == ((0.0, 0.5),)
    exact = np.sqrt((found.grid - low) * (high - found.grid)) / (4 * np.pi * found.grid)
    assert np.max(np.abs(found.density - exact)) < 1e-7


def test_two_bands():
    C = Deterministic("C", p, SpectralLaw.from_atoms([1, 7]))
    found = spectrum(Z * C * Z.T / n, {n: 1, p: sp.Rational(1, 10)})
    assert len(found.support) == 2
    assert found.atoms[0] == (0.0, pytest.approx(0.9, rel=1e-6))


def test_the_spiked_wigner_matrix():
    u = Vector("u", n)
    found = spectrum(
        S / sp.sqrt(n) + u * u.T, {n: 1}, vectors={u: [np.sqrt(2)]}, signals=[u], points=50
    )
    (outlier,) = found.outliers
    assert outlier.location == pytest.approx(2.5, rel=1e-9)
    assert outlier.overlaps["u"] == pytest.approx(0.75, rel=1e-8)
    below = spectrum(S / sp.sqrt(n) + u * u.T, {n: 1}, vectors={u: [0.9]}, points=50)
    assert below.outliers == ()


def test_a_kernel_against_a_sample():
    K = OffDiagonal(Entrywise(f, Z * Z.T / sp.sqrt(p))) / sp.sqrt(p)
    functions = {f: Nonlinearity("tanh(t)")}
    found = spectrum(K, {n: 1, p: 2}, nonlinearities=functions, points=200)
    ((low, high),) = found.support
    sample = eigenvalues(K, sizes={n: 400, p: 800}, nonlinearities=functions, seed=1)
    assert sample[0] == pytest.approx(low, abs=0.06)
    assert sample[-1] == pytest.approx(high, abs=0.06)
    below = np.mean(sample < 0)
    mass = np.trapezoid(np.where(found.grid < 0, found.density, 0), found.grid)
    assert mass == pytest.approx(below, abs=0.02)


def test_it_draws():
    found = spectrum(S / sp.sqrt(n), {n: 1}, points=50)
    axes = draw(found, eigenvalues(S / sp.sqrt(n), sizes={n: 100}))
    assert axes.get_xlabel() == "eigenvalue"
    assert str(found) == "support: [-2, 2]"


def test_bad_input_is_refused():
    with pytest.raises(UnsupportedError, match="self-adjoint"):
        spectrum(Gaussian("A", n, n) / sp.sqrt(n), {n: 1})
    with pytest.raises(InputError, match="square"):
        spectrum(Z, {n: 1, p: 1})
    s = sp.Symbol("s")
    with pytest.raises(InputError, match="no value for s"):
        spectrum(S / sp.sqrt(n) + s * Identity(n), {n: 1})


def test_an_even_kernel_has_the_outliers_of_its_second_coefficient():
    """``theta + sigma^2 / theta`` at both ends, theta = a_2 / c, sigma^2 = nu / c (a_1 = 0)."""
    from rmtsym import Entrywise, Gaussian, Nonlinearity, OffDiagonal, dimensions
    from rmtsym.spectrum import spectrum

    n, p = dimensions("n p")
    Z = Gaussian("Z", p, n)
    kernel = OffDiagonal(Entrywise(Nonlinearity("t**2 - 1"), Z.T * Z / sp.sqrt(p))) / sp.sqrt(p)
    found = spectrum(kernel, {n: 1, p: sp.Rational(1, 2)})
    theta = np.sqrt(2) / 0.5
    expected = theta + (2 / 0.5) / theta
    assert [o.location for o in found.outliers] == pytest.approx([-expected, expected], rel=1e-9)
