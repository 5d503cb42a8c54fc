"""Beyond the theorem: every extension against the simulation of its own expression."""

import pytest

from rmtsym.agreement import judge
from rmtsym.models.attention import attention_case
from rmtsym.models.generalization import attention_test_case, regression_test_case
from rmtsym.models.heads import Head, heads_case
from rmtsym.models.softmax import Softmax, softmax_case
from rmtsym.models.targets import mixture_case, target_case
from rmtsym.models.tokens import c, n, p

ONE = {"w_k": [1, 1, 0], "w_q": [1, 0, -1]}
TWO = {"w_k": [0, 2, 0], "w_q": [2, 0, 0]}
RANK_TWO = {"w_k": [[1, 0.5], [1, 0], [0, 1]], "w_q": [[1, 0], [0, 1], [-1, 1]]}
HE = "t + (t**2 - 1)/sqrt(2)"

POINTS = {
    "rank 2, tanh": attention_case("tanh(t)", ratio="2/3", gamma="0.2", mu=[1.5, 0, 0], **RANK_TWO),
    "rank 2, erf, alpha -3/2": attention_case(
        "erf(t)", ratio="3/2", gamma="0.5", mu=[1, 0, 0], alpha="-3/2", **RANK_TWO
    ),
    "rank 2, sign": attention_case("sign(t)", ratio="1/2", gamma=1, mu=[0, 1, 0], **RANK_TWO),
    "one f": heads_case(
        [Head("tanh(t)", [0.5, 0.5], [0.5, 0]), Head("tanh(t)", [0, 1], [0.5, 0])],
        ratio=1,
        gamma=1,
        mu=[1, 0],
    ),
    "one f, p < n": heads_case(
        [Head("erf(t)", [1, 0], [0, 1]), Head("erf(t)")], ratio="1/2", gamma="0.2", mu=[1, 0]
    ),
    "one f, three heads": heads_case(
        [Head("tanh(t)", [0.5, 0], [0.5, 0]), Head("tanh(t)"), Head("tanh(t)", [0, 1], [0, 1])],
        ratio=2,
        gamma=2,
        mu=[0.7, 0],
    ),
    "two f": heads_case(
        [Head("tanh(t)", [1, 0], [1, 0]), Head("relu", temperature=2)],
        ratio="2/3",
        gamma="0.5",
        mu=[1, 0],
    ),
    "two f, odd and even": heads_case(
        [Head("tanh(t)", [1, 0], [1, 0]), Head("cos(t)")], ratio=1, gamma="0.2", mu=[1, 0]
    ),
    "two f, one a softmax": heads_case(
        [Head("tanh(t)", [1, 0], [1, 0]), Head(Softmax("1/2"))], ratio=1, gamma="0.2", mu=[1, 0]
    ),
    "softmax 1/2": softmax_case("1/2", ratio="1/2", gamma="0.2", mu=[1, 0], w_k=[1, 0], w_q=[1, 0]),
    "softmax 1/2, p > n": softmax_case(
        "1/2", ratio=2, gamma="0.05", mu=[1.5, 0], w_k=[1, 1], w_q=[1, -1]
    ),
    "softmax 1/2, p < n": softmax_case("1/2", ratio="1/3", gamma=1, mu=[2]),
    "softmax 1/2, rho 0.8": softmax_case(
        "1/2", ratio="1/2", gamma="0.2", mu=[1.5, 0, 0], label_mean="0.8", **ONE
    ),
    "softmax 1/2, rho 0.8, p > n": softmax_case(
        "1/2", ratio=3, gamma="0.5", mu=[1], label_mean="0.8"
    ),
    "softmax 1/2, rho 0.8, orthogonal": softmax_case(
        "1/2", ratio=1, gamma="0.05", mu=[2, 0], w_k=[0, 1], w_q=[0, 1], label_mean="0.8"
    ),
    "softmax 1": softmax_case(1, ratio=1, gamma=1, mu=[1, 0]),
    "softmax 1, aligned": softmax_case(
        1, ratio="1/2", gamma="0.2", mu=[1.5, 0], w_k=[1, 0], w_q=[1, 0]
    ),
    "softmax 1, p > n": softmax_case(1, ratio=3, gamma="0.1", mu=[0.5]),
    "softmax 1, rho 0.8": softmax_case(1, ratio=1, gamma=1, mu=[1, 0], label_mean="0.8"),
    "softmax 1, rho 0.8, p < n": softmax_case(
        1, ratio="1/3", gamma="0.5", mu=[2, 0], w_k=[1, 1], w_q=[1, 0], label_mean="0.8"
    ),
    "softmax 1, rho 0.8, p > n": softmax_case(
        1, ratio=2, gamma="0.05", mu=[1, 0], w_k=[1, 0], w_q=[0, 1], label_mean="0.8"
    ),
    "a_2, Laplace": attention_case(
        HE, ratio="2/3", gamma="0.2", mu=[0.7], label_mean="0.9", kurtosis=6
    ),
    "a_2, Laplace, relu": attention_case(
        "relu", ratio=2, gamma="0.05", mu=[1], w_k=[1], w_q=[1], label_mean="0.9", kurtosis=6
    ),
    "a_2, Laplace, exp": attention_case(
        "Min(exp(t), 5)", ratio="1/3", gamma=1, mu=[1.5], label_mean="0.9", kurtosis=6
    ),
    "a_2, Rademacher": attention_case(
        HE, ratio="2/3", gamma="0.2", mu=[0.7], label_mean="0.9", kurtosis=1
    ),
    "a_2, Rademacher, exp": attention_case(
        "Min(exp(t), 5)",
        ratio=3,
        gamma="0.1",
        mu=[1.5, 0],
        w_k=[1, 0],
        w_q=[0, 1],
        label_mean="0.9",
        kurtosis=1,
    ),
    "a_2, Rademacher, relu": attention_case(
        "relu",
        ratio="1/2",
        gamma="0.2",
        mu=[2, 0],
        w_k=[1, 1],
        w_q=[1, 0],
        label_mean="0.9",
        kurtosis=1,
    ),
    "a_2, Gaussian": attention_case(HE, ratio="2/3", gamma="0.2", mu=[0.7], label_mean="0.9"),
    "relu, not centred": attention_case(
        "relu", ratio="2/3", gamma="0.2", mu=[1.5, 0, 0], label_mean="0.8", uncentred=True, **ONE
    ),
    "target": target_case("tanh(t)", correlation="0.6", ratio=1, gamma="0.5", mu=[1]),
    "mixture": mixture_case(
        "tanh(t)",
        means=[[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        shares=["1/2", "1/4", "1/4"],
        ratio="2/3",
        gamma="0.5",
    ),
    "mixture, a_2, Laplace": mixture_case(
        HE, means=[[1, 0], [0, 1]], shares=["3/4", "1/4"], ratio=1, gamma="0.5", kurtosis=6
    ),
    "test, tanh": attention_test_case("tanh(t)", ratio=1, gamma=1, mu=[1, 0], w_k=[1, 0]),
    "test, tanh, aligned": attention_test_case(
        "tanh(t)", ratio="2/3", gamma="0.5", mu=[1, 0], w_k=[1, 0], w_q=[1, 0]
    ),
    "test, tanh, p > n": attention_test_case("tanh(t)", ratio=2, gamma="0.5", mu=[1.5]),
    "test, sign": attention_test_case("sign(t)", ratio=1, gamma=1, mu=[1]),
    "test, sign, aligned": attention_test_case(
        "sign(t)", ratio="2/3", gamma="0.5", mu=[1, 0], w_k=[1, 0], w_q=[1, 0]
    ),
    "test, sign, p > n": attention_test_case("sign(t)", ratio=2, gamma="0.5", mu=[1.5]),
    "test, regression": regression_test_case(ratio="2/3", gamma="0.2", snr=2.25),
}
QUICK = {
    "rank 2, tanh": {"detect": 0.05},
    "two f": {"detect": 0.05},
    "softmax 1/2, rho 0.8": {"tokens": (100, 400, 1600), "repetitions": (800, 200, 40)},
    "a_2, Laplace": {"tokens": (100, 300, 1000), "repetitions": (300, 80, 24)},
    "mixture": {"detect": 0.05},
    "test, tanh": {"detect": 0.1},
}
# What the limit would be without: the second head, the projection, the kurtosis.
WRONG = {
    "rank 2, tanh": attention_case("tanh(t)", ratio="2/3", gamma="0.2", mu=[1.5, 0, 0]),
    "two f": heads_case([Head("tanh(t)", [1, 0], [1, 0])], ratio="2/3", gamma="0.5", mu=[1, 0]),
    "softmax 1/2, rho 0.8": softmax_case("1/2", ratio="1/2", gamma="0.2", mu=[1.5, 0, 0], **ONE),
    "a_2, Laplace": attention_case(
        HE, ratio="2/3", gamma="0.2", mu=[0.7], label_mean="0.9", kurtosis=1
    ),
}


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in POINTS],
)
def test_simulation_agrees(name):
    case, options = POINTS[name], dict(QUICK.get(name, {"detect": 0.02}))
    if "tokens" in options:
        ratio = case.values[c]
        options["sizes"] = [{n: size, p: int(size * ratio)} for size in options.pop("tokens")]
    verdict = case.verify(seed=3, **options)
    assert verdict.agrees, f"{name}: {verdict}"
    if name in WRONG:
        wrong = float(WRONG[name].solution())
        assert not judge(wrong, verdict.extrapolation).agrees
