"""Spectra against closed forms, samples, and the theory of outliers."""

import mpmath
import numpy as np
import pytest
import sympy as sp

from rmtsym import MODELS, Nonlinearity
from rmtsym.commands.spectrum import point
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
from rmtsym.spectrum import draw, eigenvalues, resolvent_matrix, spectrum
from rmtsym.stieltjes import stieltjes_transform

CLASSICAL = (
    "anisotropic conjugate-kernel free-sum information-plus-noise inner-product-kernel "
    "random-features-test random-features-training ridge-bias ridge-variance semicircle "
    "wishart-product"
).split()

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


@pytest.mark.parametrize("c", ["1e-6", "1/100", "1/2", 1, 2, 100, "1e3", "1e6"])
def test_marchenko_pastur_at_every_ratio(c):
    """``p/n = c``: the band holds the mass ``min(1, 1/c)``, however little and far it is."""
    c = sp.Rational(c)
    found = spectrum(Z.T * Z / n, {n: 1, p: c})
    root = float(sp.sqrt(c))
    ((low, high),) = found.support
    assert (low, high) == pytest.approx(((1 - root) ** 2, (1 + root) ** 2), rel=2e-9, abs=1e-11)
    assert found.masses == pytest.approx([float(min(1, 1 / c))], rel=1e-6)
    atom = float(max(0, 1 - 1 / c))
    assert found.atoms == ((0.0, pytest.approx(atom, abs=1e-8)),) * (atom > 0)


def test_bands_over_decades():
    scales = [1, 10, 100, 1000]
    Q = Deterministic("Q", n, SpectralLaw.from_atoms(scales))
    found = spectrum(Q + S * sp.Rational(1, 1000) / sp.sqrt(n), {n: 1})
    assert [(a + b) / 2 for a, b in found.support] == pytest.approx(scales, rel=1e-6)
    assert found.masses == pytest.approx([0.25] * 4, abs=1e-7)


def test_bands_on_both_sides_and_an_atom_between():
    A = Deterministic("A", n, SpectralLaw.from_atoms([-3, 5]))
    found = spectrum(A + S / (10 * sp.sqrt(n)), {n: 1})
    assert len(found.support) == 2
    assert found.support[0][1] < -2 and found.support[1][0] > 4
    assert found.masses == pytest.approx([0.5, 0.5], abs=1e-7)
    found = spectrum(A + A, {n: 1})
    assert found.support == ()
    assert found.atoms == ((-6.0, 0.5), (10.0, 0.5))


def test_bands_that_touch_or_nearly_do():
    """At +-1 two semicircles of mass 1/2 touch in a cusp, at +-1.01 a gap of 0.04 % is left."""
    touching = spectrum(
        Deterministic("A", n, SpectralLaw.from_atoms([-1, 1])) + S / sp.sqrt(n), {n: 1}
    )
    ((low, high),) = touching.support
    assert (low, high) == pytest.approx((-(6.75**0.5), 6.75**0.5), rel=1e-6)
    far = sp.Rational(101, 100)
    A = Deterministic("A", n, SpectralLaw.from_atoms([-far, far]))
    parted = spectrum(A + S / sp.sqrt(n), {n: 1})
    (_, left), (right, _) = parted.support
    assert (left, right) == pytest.approx((-0.00108237, 0.00108237), rel=1e-4)
    assert parted.masses == pytest.approx([0.5, 0.5], abs=1e-6)


def test_a_density_infinite_inside_its_band():
    """``|x|^(-1/3)`` at 0 in the difference of two Wishart matrices of ratio 1/2."""
    Y = Gaussian("Y", n, p)
    found = spectrum((Z * Z.T - Y * Y.T) / n, {n: 1, p: sp.Rational(1, 2)})
    assert found.support[0] == pytest.approx((-(6.75**0.5), 6.75**0.5), rel=1e-6)
    assert found.masses == pytest.approx([1], abs=1e-4)


@pytest.mark.parametrize("factor", ["1e-12", "1e9"])
def test_scale_does_not_matter(factor):
    (low, high), *_ = spectrum(
        sp.Rational(factor) * Z.T * Z / n, {n: 1, p: sp.Rational(1, 2)}
    ).support
    edges = np.array([(1 - 0.5**0.5) ** 2, (1 + 0.5**0.5) ** 2]) * float(factor)
    assert (low, high) == pytest.approx(edges, rel=1e-9)


def test_the_physical_branch_just_above_the_axis():
    """Between two scales of a covariance the conjugate root is near."""
    C = Deterministic("C", p, SpectralLaw.from_atoms([1, 4]))
    m = stieltjes_transform(Z * C * Z.T / n, {n: 1, p: sp.Rational(1, 2)})
    x = np.linspace(0.2, 7, 200)
    value = m(x + 0j)
    assert np.all(value.imag > 0)
    assert np.max(np.abs(value - m(x + 1e-6j))) < 1e-4
    f = Nonlinearity("sign(t)")
    m = stieltjes_transform(
        OffDiagonal(Entrywise(f, Z.T * Z / sp.sqrt(n))) / sp.sqrt(n), {n: 1, p: sp.Rational(1, 2)}
    )
    x = np.linspace(-1, 1, 200)
    assert np.all(m(x + 0j).imag > 0.1)


@pytest.mark.parametrize("name", sorted({"attention", "mixture", *CLASSICAL}))
def test_masses_of_every_model_add_to_one(name):
    model = MODELS[name]
    values, vectors, functions = point(model, None, None, None)
    sizes = {size: value.subs(values) for size, value in model.sizes}
    H = resolvent_matrix(model.expression)
    found = spectrum(H, sizes, values, vectors=vectors, nonlinearities=functions, points=9)
    rough = (
        3e-3 if name == "wishart-product" else 1e-6
    )  # x^(-2/3) at 0: the error of N nodes N^(-2/3)
    assert sum(found.masses) + sum(w for _, w in found.atoms) == pytest.approx(1, abs=rough)


def test_a_spike_far_from_a_narrow_bulk():
    """``(1 + s)(1 + c/s)`` beyond ``(1 +- sqrt(c))^2``, c = 1e-4 (Baik and Silverstein)."""
    u, strength = Vector("u", p), 50
    root = Identity(p) + (sp.sqrt(1 + strength) - 1) * u * u.T
    found = spectrum(root * Z.T * Z * root / n, {n: 1, p: sp.Rational(1, 10**4)}, vectors={u: [1]})
    (outlier,) = found.outliers
    assert outlier.location == pytest.approx((1 + strength) * (1 + 1e-4 / strength), rel=1e-8)


@pytest.mark.parametrize("second", [1.5, 1.4999, 1.4999999])
def test_equal_and_nearly_equal_spikes(second):
    """``theta + 1/theta``, theta = |v|^2: twice for two vectors of the same length."""
    u, v = Vector("u", n), Vector("v", n)
    H = S / sp.sqrt(n) + u * u.T + v * v.T
    found = spectrum(H, {n: 1}, vectors={u: [1.5, 0], v: [0, second]}, signals=[u], points=9)
    expected = sorted(theta + 1 / theta for theta in (1.5**2, second**2))
    listed = [o.location for o in found.outliers for _ in range(o.multiplicity)]
    assert listed == pytest.approx(expected, rel=1e-6)
    assert sum(o.overlaps["u"] for o in found.outliers) == pytest.approx(1 - 1.5**-4, rel=1e-8)


def test_three_equal_spikes():
    vectors = [Vector(f"v_{k}", n) for k in range(3)]
    H = S / sp.sqrt(n) + sum((v * v.T for v in vectors[1:]), vectors[0] * vectors[0].T)
    rows = {v: list(2.0 * row) for v, row in zip(vectors, np.eye(3), strict=True)}
    (outlier,) = spectrum(H, {n: 1}, vectors=rows, points=9).outliers
    assert outlier.multiplicity == 3
    assert outlier.location == pytest.approx(4.25, rel=1e-5)


def test_misspelt_values_are_refused():
    s = sp.Symbol("s", real=True)
    H = S / sp.sqrt(n) + s * Identity(n)
    assert spectrum(H, {n: 1}, {"s": 1}).support[0] == pytest.approx((-1, 3))
    with pytest.raises(InputError, match="this spectrum has the parameters s"):
        spectrum(H, {n: 1}, {"t": 1})


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
