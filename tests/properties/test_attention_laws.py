"""Laws of the interpolation error that hold at every parameter."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rmtsym import attention_error

LAWS = settings(deadline=None, max_examples=25, derandomize=True)
positive = st.floats(0.1, 10)
ridges = st.floats(1e-3, 10)
vectors = st.lists(st.floats(-2, 2), min_size=3, max_size=3)
functions = st.sampled_from(
    ["tanh(t)", "relu", "sign(t)", "Min(exp(t), 5)", "t + t**2/4", "erf(t)"]
)
CLOSE = {"rtol": 1e-8, "atol": 1e-12}


@LAWS
@given(functions, positive, ridges, vectors, vectors, vectors)
def test_bounded_and_increasing_in_gamma(f, c, gamma, mu, w_k, w_q):
    low, high = attention_error(
        f, ratio=c, gamma=np.array([gamma, 1.5 * gamma]), mu=mu, w_k=w_k, w_q=w_q
    )
    assert 0 <= low <= high * (1 + 1e-12) <= 1 + 1e-9


@LAWS
@given(positive, ridges, vectors, vectors, vectors, st.floats(0.2, 5))
def test_scaling_f_is_scaling_gamma(c, gamma, mu, w_k, w_q, s):
    from rmtsym import Nonlinearity

    scaled = Nonlinearity(Nonlinearity("tanh(t)").expression * Nonlinearity(s).expression)
    one = attention_error(scaled, ratio=c, gamma=gamma, mu=mu, w_k=w_k, w_q=w_q)
    other = attention_error("tanh(t)", ratio=c, gamma=gamma / s**2, mu=mu, w_k=w_k, w_q=w_q)
    np.testing.assert_allclose(one, other, **CLOSE)


@LAWS
@given(positive, ridges, vectors, vectors, vectors)
def test_sign_of_f_does_not_matter(c, gamma, mu, w_k, w_q):
    parameters = {"ratio": c, "gamma": gamma, "mu": mu, "w_k": w_k, "w_q": w_q}
    np.testing.assert_allclose(
        attention_error("-Max(t, 0)", **parameters),
        attention_error("relu", **parameters),
        **CLOSE,
    )


@LAWS
@given(functions, positive, ridges, vectors, vectors, vectors, st.floats(0.2, 5))
def test_weights_rescale_against_each_other(f, c, gamma, mu, w_k, w_q, s):
    one = attention_error(f, ratio=c, gamma=gamma, mu=mu, w_k=w_k, w_q=w_q)
    other = attention_error(
        f, ratio=c, gamma=gamma, mu=mu, w_k=[s * x for x in w_k], w_q=[x / s for x in w_q]
    )
    np.testing.assert_allclose(one, other, **CLOSE)


@LAWS
@given(functions, positive, ridges, vectors, vectors, vectors, st.integers(0, 2**32 - 1))
def test_rotations_do_not_matter(f, c, gamma, mu, w_k, w_q, seed):
    rotation, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))
    one = attention_error(f, ratio=c, gamma=gamma, mu=mu, w_k=w_k, w_q=w_q)
    mu, w_k, w_q = (rotation @ np.array(v) for v in (mu, w_k, w_q))
    other = attention_error(f, ratio=c, gamma=gamma, mu=mu, w_k=w_k, w_q=w_q)
    np.testing.assert_allclose(one, other, **CLOSE)


@LAWS
@given(
    st.sampled_from(["cos(t)", "t**2", "abs(t)", "t**3 - 3*t"]), positive, ridges, vectors, vectors
)
def test_without_linear_part_nothing_is_seen(f, c, gamma, mu, w):
    one = attention_error(f, ratio=c, gamma=gamma, mu=mu, w_k=w, w_q=w)
    other = attention_error(f, ratio=c, gamma=gamma)
    np.testing.assert_allclose(one, other, **CLOSE)
