r"""Attention weights of published checkpoints, in the orientation and scale of the theory.

A checkpoint scores query token ``x_j`` against key token ``x_i`` by

    q_j . k_i / sqrt(d_head),     q_j = W_Q x_j + b_Q,     k_i = W_K x_i + b_K,

the theory by ``x_i^T W x_j / sqrt(p)``. So, biases aside,

    W = sqrt(p / d_head) W_K^T W_Q,        summed over the heads that were asked for.

Layouts, recognised by the names of the tensors:

======  ===================================================  ==================================
gpt2    ``[transformer.]h.N.attn.c_attn.{weight,bias}``      (p, 3p), used as x @ W, columns
                                                             q | k | v; (3p, p) is transposed
bert    ``encoder.layer.N.attention.self.query.weight``      (p, p), used as W x
llama   ``layers.N.self_attn.{q,k}_proj.weight``             (heads d_head, p), used as W x,
                                                             key heads shared by query heads
plain   ``w_q, w_k`` [``w_v, b_q, b_k, b_v``]                (d, p) or (heads, d_head, p)
======  ===================================================  ==================================

Files: safetensors (float64, float32, float16, bfloat16; one file, or shards with an index), npz,
and a torch ``.bin`` where torch is installed. Nothing in a file is ever executed.
"""

from __future__ import annotations

import importlib
import json
import math
import operator
import pickle
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rmtsym.errors import InputError, UnsupportedError

__all__ = ["AttentionWeights", "load_attention", "softmax"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    r"""Keys and queries of one attention layer; tokens are columns of length p.

    ===============  ======================  =====================================================
    layout           str                     "gpt2", "bert", "llama" or "plain"
    layer, heads     int, (h,) int           which part of the checkpoint this is
    n_head           int                     query heads in the layer
    keys, queries    (h, d_head, p)          W_K, W_Q of each head; ``k = keys[i] @ x + ...``
    values           (h, d_head, p) or None  W_V, where the checkpoint has it
    *_bias           (h, d_head) or None     None: the checkpoint has none
    scale            float                   sqrt(p / d_head), times 1/(layer + 1) if config.json
                                             says ``scale_attn_by_inverse_layer_idx``
    norm             str or None             name of the normalisation in front of the layer
    norm_weight, \   (p,) or None            its gain and shift; folded into keys, queries, values
      norm_bias                              and their biases if ``norm_folded``
    notes            (k,) str                what the model does that W does not represent
    ===============  ======================  =====================================================
    """

    layout: str
    layer: int
    heads: tuple[int, ...]
    n_head: int
    keys: Array
    queries: Array
    scale: float
    values: Array | None = None
    key_bias: Array | None = None
    query_bias: Array | None = None
    value_bias: Array | None = None
    norm: str | None = None
    norm_weight: Array | None = None
    norm_bias: Array | None = None
    norm_folded: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def p(self) -> int:
        """Length of a token."""
        return int(self.keys.shape[-1])

    @property
    def d_head(self) -> int:
        """Length of a key of one head."""
        return int(self.keys.shape[-2])

    @property
    def W(self) -> Array:
        """``scale * sum_h W_K^T W_Q``, (p, p): rows meet keys, columns meet queries."""
        flat = (len(self.heads) * self.d_head, self.p)
        return self.scale * (self.keys.reshape(flat).T @ self.queries.reshape(flat))

    def products(self, tokens: ArrayLike) -> Array:
        r"""``q_i . k_j`` with biases, before the division by ``sqrt(d_head)``: (h, n, n).

        tokens : (p, n), columns. Row i is the query, column j the key, as checkpoints have it.

        >>> tensors = {"w_q": [[2.0, 0.0]], "w_k": [[1.0, 1.0]], "b_q": [1.0]}
        >>> weights = load_attention(tensors, layer=0)
        >>> weights.products([[1.0, 0.0], [0.0, 1.0]])
        array([[[3., 3.],
                [1., 1.]]])
        """
        queries = _project(self.queries, self.query_bias, self._tokens(tokens))
        keys = _project(self.keys, self.key_bias, self._tokens(tokens))
        return np.asarray(queries.transpose(0, 2, 1) @ keys)

    def attention(self, tokens: ArrayLike, *, causal: bool = False) -> Array:
        """What the heads hand to the output projection, stacked: (h d_head, n), columns.

        ``softmax_j(q_i . k_j / sqrt(d_head))`` applied to the values; ``causal`` hides j > i.
        Positions (RoPE and the like) are not represented. InputError without W_V.
        """
        if self.values is None:
            raise InputError("attention needs the values; these weights hold only W_K and W_Q")
        scores = self.products(tokens) * (self.scale / math.sqrt(self.p))
        if causal:
            n = scores.shape[-1]
            scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        values = _project(self.values, self.value_bias, self._tokens(tokens))
        return (values @ softmax(scores).transpose(0, 2, 1)).reshape(-1, scores.shape[-1])

    def _tokens(self, tokens: ArrayLike) -> Array:
        X = np.asarray(tokens, dtype=np.float64)
        if X.ndim != 2 or X.shape[0] != self.p:
            raise InputError(
                f"tokens have shape {X.shape}; expected ({self.p}, n), one token per column"
            )
        return X


def softmax(scores: ArrayLike) -> Array:
    """Row softmax along the last axis, the maximum subtracted; a fully masked row is 0.

    scores : (..., n), -inf where masked.

    >>> softmax([1000.0, 999.0, -float("inf")]).round(4)
    array([0.7311, 0.2689, 0.    ])
    """
    s = np.asarray(scores, dtype=np.float64)
    top = s.max(axis=-1, keepdims=True)
    weights = np.exp(s - np.where(np.isneginf(top), 0.0, top))
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights / np.where(total == 0, 1.0, total))


def load_attention(
    source: str | Path | Mapping[str, ArrayLike],
    *,
    layer: int,
    head: int | None = None,
    heads: Sequence[int] | None = None,
    n_head: int | None = None,
    prefix: str | None = None,
    fold_layer_norm: bool = False,
    config: Mapping[str, Any] | None = None,
) -> AttentionWeights:
    r"""Read the keys and queries of one layer.

    source : a ``.safetensors``, ``.safetensors.index.json``, ``.npz`` or ``.bin`` file, the
        directory that holds one, or a mapping from tensor names to arrays. Only the tensors of
        this layer are read.
    layer : 0 for the first.
    head, heads : one head, or several; all of them when neither is given.
    n_head : query heads in the layer. From ``config.json`` beside the file, or ``config``, when
        left out; never guessed. Plain arrays are one head unless told.
    prefix : which of several models in one file, such as ``"model.decoder."``.
    fold_layer_norm : multiply the gain of the normalisation in front of the layer into W_K, W_Q,
        W_V and its shift into their biases. Returned beside them either way.

    InputError: a file that is missing, empty, truncated, pickled, or of an unknown layout; a
    layer or head that is not there; n_head unknown, or not fitting; wrong shapes; NaN or
    infinite weights. UnsupportedError: a normalisation that cannot be folded.

    >>> weights = load_attention({"w_q": [[2.0, 0.0]], "w_k": [[0.0, 3.0]]}, layer=0)
    >>> weights.W / weights.scale                                      # W_K^T W_Q
    array([[0., 0.],
           [6., 0.]])
    >>> load_attention({"w_q": [[2.0, 0.0]], "w_k": [[0.0, 3.0]]}, layer=0, head=1)
    Traceback (most recent call last):
    ...
    rmtsym.errors.InputError: head 1 is not in the layer, which has heads 0 to 0
    """
    tensors = _open(source, config)
    layout, names = _locate(tensors, _index(layer, "layer"), prefix)
    full = _READERS[layout](tensors, names, layer, _heads_told(tensors, n_head))
    if fold_layer_norm:
        full = _fold(full, str(tensors.config.get("model_type", "")))
    return _choose(full, head, heads)


# ------------------------------------------------------------------------------------------------
# Files


@dataclass(frozen=True)
class _Tensors:
    """Names, and a way to read one of them; nothing is read before it is asked for."""

    where: str
    names: frozenset[str]
    read: Callable[[str], Array]
    config: Mapping[str, Any]

    def optional(self, name: str) -> Array | None:
        return self.read(name) if name in self.names else None


def _open(
    source: str | Path | Mapping[str, ArrayLike], config: Mapping[str, Any] | None
) -> _Tensors:
    if isinstance(source, Mapping):
        mapping = source
        return _Tensors(
            "the mapping",
            frozenset(map(str, mapping)),
            lambda name: _floats(name, mapping[name]),
            config or {},
        )
    path = _file(Path(source))
    if config is None:
        config = _config(path.parent / "config.json")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty (0 bytes); download it again")
    if path.name.endswith(".index.json"):
        return _shards(path, config)
    if path.suffix == ".safetensors":
        names, read = _safetensors(path)
    elif path.suffix == ".npz":
        names, read = _npz(path)
    elif path.suffix in (".bin", ".pt", ".pth"):
        names, read = _torch(path)
    else:
        raise InputError(
            f"{path} is none of .safetensors, .safetensors.index.json, .npz, .bin; "
            "pickles are not opened, convert the weights to safetensors"
        )
    return _Tensors(str(path), frozenset(names), read, config)


def _file(path: Path) -> Path:
    if path.is_dir():
        for name in ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"):
            if (path / name).is_file():
                return path / name
        raise InputError(f"{path} holds neither model.safetensors nor model.safetensors.index.json")
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    return path


def _config(path: Path) -> Mapping[str, Any]:
    return _json(path) if path.is_file() else {}


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not readable JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no JSON object")
    return content


def _safetensors(path: Path) -> tuple[list[str], Callable[[str], Array]]:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise InputError(
            f"reading {path} needs the safetensors library: pip install 'rmtsym[pretrained]'"
        ) from error

    def broken(error: Exception) -> InputError:
        return InputError(f"{path} is not a whole safetensors file: {error}")

    try:
        with safe_open(str(path), framework="numpy") as file:
            names = list(file.keys())
    except (SafetensorError, OSError, ValueError) as error:
        raise broken(error) from error

    def read(name: str) -> Array:
        try:
            with safe_open(str(path), framework="numpy") as file:
                dtype = file.get_slice(name).get_dtype()
                if dtype in ("F64", "F32", "F16"):
                    return _floats(name, file.get_tensor(name))
        except (SafetensorError, OSError, ValueError) as error:
            raise broken(error) from error
        if dtype != "BF16":
            raise InputError(
                f"{name} is of type {dtype}; F64, F32, F16 and BF16 are read, quantised weights not"
            )
        return _floats(name, _bfloat16(path, name))

    return names, read


def _bfloat16(path: Path, name: str) -> NDArray[np.float32]:
    """NumPy has no bfloat16: the upper half of a float32. The library has checked the header."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(length))[name]
        begin, end = entry["data_offsets"]
        file.seek(8 + length + begin)
        raw = file.read(end - begin)
    halves = np.frombuffer(raw, dtype="<u2").astype(np.uint32) << np.uint32(16)
    return halves.view(np.float32).reshape(entry["shape"])


def _shards(path: Path, config: Mapping[str, Any]) -> _Tensors:
    """``model.safetensors.index.json``: a shard is opened when a tensor in it is asked for."""
    index = _json(path).get("weight_map")
    if not isinstance(index, dict) or not all(isinstance(shard, str) for shard in index.values()):
        raise InputError(f"{path} has no weight_map from tensor names to files")

    def read(name: str) -> Array:
        shard = index[name]
        if Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise InputError(f"{path} points to {shard!r}; expected a .safetensors file beside it")
        names, read_shard = _safetensors(_file(path.parent / shard))
        if name not in names:
            raise InputError(f"{path} places {name} in {shard}, which does not hold it")
        return read_shard(name)

    return _Tensors(str(path), frozenset(index), read, config)


def _npz(path: Path) -> tuple[list[str], Callable[[str], Array]]:
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not a whole npz file (it is no zip archive)")

    def read(name: str) -> Array:
        try:
            with np.load(path, allow_pickle=False) as file:
                return _floats(name, file[name])
        except (ValueError, OSError, EOFError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{name} in {path} is no plain array: {error}") from error

    with np.load(path, allow_pickle=False) as file:
        return list(file.files), read


def _torch(path: Path) -> tuple[list[str], Callable[[str], Array]]:
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        raise InputError(
            f"{path} is a torch pickle, which only torch can open safely, and torch is not "
            "installed; use the .safetensors file of the same model"
        ) from error
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        names = list(state)
    except Exception as error:  # torch raises whatever the archive provokes
        raise InputError(f"{path} is not a torch file of plain weights: {error}") from error

    def read(name: str) -> Array:
        return _floats(name, state[name].to(torch.float64).numpy())

    return names, read


def _floats(name: str, values: Any) -> Array:
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiu":
            raise InputError(f"{name} is of type {array.dtype}; expected real numbers")
        array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} is no array of real numbers: {error}") from error
    if array.size == 0:
        raise InputError(f"{name} is empty, of shape {array.shape}; expected weights")
    if not np.isfinite(array).all():
        bad = int(array.size - np.isfinite(array).sum())
        raise InputError(f"{name} holds {bad} values that are NaN or infinite")
    return array


# ------------------------------------------------------------------------------------------------
# Layouts

_PATTERNS = {
    "gpt2": r"(?P<prefix>.*?)h\.(?P<layer>\d+)\.attn\.c_attn\.weight",
    "bert": r"(?P<prefix>.*?)encoder\.layer\.(?P<layer>\d+)\.attention\.self\.query\.weight",
    "llama": r"(?P<prefix>.*?)layers\.(?P<layer>\d+)\.self_attn\.q_proj\.weight",
}


def _locate(tensors: _Tensors, layer: int, prefix: str | None) -> tuple[str, str]:
    """The layout, and the prefix that every tensor name of the model starts with."""
    if {"w_q", "w_k"} <= tensors.names:
        if layer != 0:
            raise InputError(f"layer {layer} was asked for, but w_q, w_k are one layer; use 0")
        return "plain", ""
    found: dict[tuple[str, str], set[int]] = {}
    for layout, pattern in _PATTERNS.items():
        for name in tensors.names:
            if match := re.fullmatch(pattern, name):
                found.setdefault((layout, match["prefix"]), set()).add(int(match["layer"]))
    if prefix is not None:
        found = {key: layers for key, layers in found.items() if key[1] == prefix}
    if not found:
        raise InputError(
            f"{tensors.where} holds no attention weights"
            + (f" with prefix {prefix!r}" if prefix is not None else "")
            + " in a known layout; looked for h.N.attn.c_attn.weight (GPT-2), "
            "encoder.layer.N.attention.self.query.weight (BERT), "
            "layers.N.self_attn.q_proj.weight (Llama), and w_q, w_k"
        )
    if len(found) > 1:
        prefixes = ", ".join(repr(name) for _, name in sorted(found))
        raise InputError(f"{tensors.where} holds several models; pass prefix as one of {prefixes}")
    ((layout, name), layers), *_ = found.items()
    if layer not in layers:
        raise InputError(
            f"layer {layer} is not in {tensors.where}, which has layers "
            f"{min(layers)} to {max(layers)}"
        )
    return layout, name


def _heads_told(tensors: _Tensors, n_head: int | None) -> int | None:
    told = tensors.config.get("n_head", tensors.config.get("num_attention_heads"))
    if n_head is not None:
        n_head = _index(n_head, "n_head", least=1)
        if told is not None and told != n_head:
            raise InputError(f"n_head={n_head} was given, but config.json says {told}")
        return n_head
    return None if told is None else _index(told, "n_head in config.json", least=1)


def _gpt2(tensors: _Tensors, prefix: str, layer: int, n_head: int | None) -> AttentionWeights:
    block = f"{prefix}h.{layer}."
    weight = tensors.read(block + "attn.c_attn.weight")
    bias = tensors.optional(block + "attn.c_attn.bias")
    if weight.ndim == 2 and weight.shape[0] == 3 * weight.shape[1]:
        weight = weight.T
    if weight.ndim != 2 or weight.shape[1] != 3 * weight.shape[0]:
        raise InputError(
            f"{block}attn.c_attn.weight has shape {weight.shape}; expected (p, 3p) or (3p, p)"
        )
    q, k, v = np.split(weight.T, 3)
    biases = (None, None, None) if bias is None else _thirds(block, bias, 3 * q.shape[1])
    inverse_layer = bool(tensors.config.get("scale_attn_by_inverse_layer_idx", False))
    return _assemble(
        "gpt2", layer, n_head, (q, k, v), biases,
        notes=("position embeddings are added to the tokens before the first layer",),
        norm=_norm(tensors, block + "ln_1"),
        factor=1.0 / (layer + 1) if inverse_layer else 1.0,
    )  # fmt: skip


def _thirds(block: str, bias: Array, size: int) -> tuple[Array, Array, Array]:
    if bias.shape != (size,):
        raise InputError(f"{block}attn.c_attn.bias has shape {bias.shape}; expected ({size},)")
    q, k, v = np.split(bias, 3)
    return q, k, v


def _bert(tensors: _Tensors, prefix: str, layer: int, n_head: int | None) -> AttentionWeights:
    block = f"{prefix}encoder.layer.{layer}.attention.self."
    before = (
        f"{prefix}embeddings.LayerNorm"
        if layer == 0
        else f"{prefix}encoder.layer.{layer - 1}.output.LayerNorm"
    )
    kind = tensors.config.get("position_embedding_type", "absolute")
    return _assemble(
        "bert", layer, n_head,
        _three(tensors, block + "{}.weight", ("query", "key", "value")),
        _maybe_three(tensors, block + "{}.bias", ("query", "key", "value")),
        notes=("position embeddings are added to the tokens before the first layer",)
        if kind == "absolute"
        else (f"positions of type {kind!r} enter the scores and are not represented",),
        norm=_norm(tensors, before),
    )  # fmt: skip


def _llama(tensors: _Tensors, prefix: str, layer: int, n_head: int | None) -> AttentionWeights:
    block = f"{prefix}layers.{layer}."
    kind = str(tensors.config.get("model_type", ""))
    notes = []
    if kind not in ("opt", "whisper", "bart"):
        notes.append(
            "rotary position embedding (RoPE) is not represented: W is the score at distance 0"
        )
    if f"{block}self_attn.q_norm.weight" in tensors.names:
        notes.append("the normalisation of queries and keys (q_norm, k_norm) is not represented")
    for entry in ("query_pre_attn_scalar", "attn_logit_softcapping", "sliding_window"):
        if tensors.config.get(entry) is not None:
            notes.append(f"{entry} of config.json is not represented")
    projections = ("q_proj", "k_proj", "v_proj")
    pre = "input_layernorm" if f"{block}input_layernorm.weight" in tensors.names else (
        "self_attn_layer_norm"
    )  # fmt: skip
    return _assemble(
        "llama", layer, n_head,
        _three(tensors, block + "self_attn.{}.weight", projections),
        _maybe_three(tensors, block + "self_attn.{}.bias", projections),
        notes=tuple(notes),
        norm=_norm(tensors, block + pre),
        n_key=tensors.config.get("num_key_value_heads"),
        d_head=tensors.config.get("head_dim"),
    )  # fmt: skip


def _plain(tensors: _Tensors, prefix: str, layer: int, n_head: int | None) -> AttentionWeights:
    q, k = tensors.read("w_q"), tensors.read("w_k")
    if q.ndim == 3:
        if n_head not in (None, q.shape[0]):
            raise InputError(f"w_q has {q.shape[0]} heads, but n_head={n_head} was given")
        n_head = q.shape[0]
    v = tensors.optional("w_v")
    biases = _maybe_three(tensors, "b_{}", ("q", "k", "v"))
    return _assemble(
        "plain", layer, 1 if n_head is None else n_head,
        (_flat(q), _flat(k), None if v is None else _flat(v)),
        tuple(None if bias is None else bias.reshape(-1) for bias in biases),
    )  # fmt: skip


_READERS: dict[str, Callable[[_Tensors, str, int, int | None], AttentionWeights]] = {
    "gpt2": _gpt2,
    "bert": _bert,
    "llama": _llama,
    "plain": _plain,
}


def _assemble(
    layout: str,
    layer: int,
    n_head: int | None,
    weights: tuple[Array | None, ...],
    biases: tuple[Array | None, ...],
    *,
    notes: tuple[str, ...] = (),
    norm: tuple[str | None, Array | None, Array | None] = (None, None, None),
    factor: float = 1.0,
    n_key: int | None = None,
    d_head: int | None = None,
) -> AttentionWeights:
    """Rows (heads d_head) of the projections q, k, v, cut into heads and checked."""
    q, k, v = weights
    if q is None or k is None:
        raise InputError(f"layer {layer} has no key or no query weights")
    if n_head is None:
        raise InputError(
            "the number of heads is not in the weights: pass n_head, or put config.json beside "
            "the file"
        )
    if q.ndim != 2 or k.ndim != 2 or q.shape[1] != k.shape[1]:
        raise InputError(
            f"queries have shape {q.shape} and keys {k.shape}; expected (heads d_head, p) each"
        )
    rows, p = q.shape
    if rows % n_head:
        raise InputError(f"n_head={n_head} does not divide the {rows} rows of the queries")
    width = rows // n_head
    if d_head is not None and d_head != width:
        raise InputError(f"config.json says head_dim={d_head}, the queries say {width}")
    queries, keys = _cut(q, width, p, n_head, None), _cut(k, width, p, n_head, n_key)
    values = None if v is None else _cut(v, width, p, n_head, n_key)
    cut_biases = [
        None if bias is None or weight is None else _cut_bias(bias, weight, width, n_head)
        for bias, weight in zip(biases, weights, strict=True)
    ]
    name, gain, shift = norm
    for part in (gain, shift):
        if part is not None and part.shape != (p,):
            raise InputError(f"{name} has shape {part.shape}; expected ({p},)")
    return AttentionWeights(
        layout=layout,
        layer=layer,
        heads=tuple(range(n_head)),
        n_head=n_head,
        keys=keys,
        queries=queries,
        values=values,
        query_bias=cut_biases[0],
        key_bias=cut_biases[1],
        value_bias=cut_biases[2],
        scale=factor * math.sqrt(p / width),
        norm=name,
        norm_weight=gain,
        norm_bias=shift,
        notes=notes,
    )


def _cut(rows: Array, width: int, p: int, n_head: int, n_key: int | None) -> Array:
    """(key heads d_head, p) -> (n_head, d_head, p), each key head repeated for its query heads."""
    if rows.ndim != 2 or rows.shape[1] != p or rows.shape[0] % width:
        raise InputError(
            f"a projection has shape {rows.shape}; expected (heads {width}, {p}) "
            f"with n_head={n_head}"
        )
    own = rows.shape[0] // width
    if n_head % own or (n_key is not None and n_key != own):
        raise InputError(f"{own} key heads do not fit n_head={n_head} and config.json")
    return np.repeat(rows.reshape(own, width, p), n_head // own, axis=0)


def _cut_bias(bias: Array, weight: Array, width: int, n_head: int) -> Array:
    if bias.shape != (weight.shape[0],):
        raise InputError(f"a bias has shape {bias.shape}; expected ({weight.shape[0]},)")
    own = bias.shape[0] // width
    return np.repeat(bias.reshape(own, width), n_head // own, axis=0)


def _flat(weight: Array) -> Array:
    return weight.reshape(-1, weight.shape[-1]) if weight.ndim == 3 else weight


def _three(tensors: _Tensors, pattern: str, names: tuple[str, ...]) -> tuple[Array | None, ...]:
    for name in names[:2]:
        if pattern.format(name) not in tensors.names:
            raise InputError(f"{tensors.where} has no {pattern.format(name)}")
    return _maybe_three(tensors, pattern, names)


def _maybe_three(
    tensors: _Tensors, pattern: str, names: tuple[str, ...]
) -> tuple[Array | None, ...]:
    return tuple(tensors.optional(pattern.format(name)) for name in names)


def _norm(tensors: _Tensors, name: str) -> tuple[str | None, Array | None, Array | None]:
    gain = tensors.optional(name + ".weight")
    return (None if gain is None else name), gain, tensors.optional(name + ".bias")


def _fold(full: AttentionWeights, kind: str) -> AttentionWeights:
    if full.norm_weight is None:
        raise InputError("there is no normalisation in front of the layer to fold")
    if kind.startswith("gemma"):
        raise UnsupportedError(
            "the gain of this model is 1 + weight; fold it yourself from norm_weight"
        )
    gain, shift = full.norm_weight, full.norm_bias

    def folded(weight: Array | None, bias: Array | None) -> tuple[Array | None, Array | None]:
        if weight is None:
            return None, None
        if shift is not None:
            bias = (0.0 if bias is None else bias) + weight @ shift
        return weight * gain, bias

    keys, key_bias = folded(full.keys, full.key_bias)
    queries, query_bias = folded(full.queries, full.query_bias)
    values, value_bias = folded(full.values, full.value_bias)
    assert keys is not None and queries is not None
    return replace(
        full,
        keys=keys,
        queries=queries,
        values=values,
        key_bias=key_bias,
        query_bias=query_bias,
        value_bias=value_bias,
        norm_folded=True,
    )


def _choose(
    full: AttentionWeights, head: int | None, heads: Sequence[int] | None
) -> AttentionWeights:
    if head is not None and heads is not None:
        raise InputError("pass head or heads, not both")
    if head is None and heads is None:
        return full
    wanted = [head] if head is not None else list(heads or ())
    if not wanted or len(set(wanted)) != len(wanted):
        raise InputError(f"heads={wanted} is empty or repeats a head")
    for number in wanted:
        if _index(number, "head") >= full.n_head:
            raise InputError(
                f"head {number} is not in the layer, which has heads 0 to {full.n_head - 1}"
            )
    chosen = [int(number) for number in wanted]

    def some(part: Array | None) -> Array | None:
        return None if part is None else part[chosen]

    return replace(
        full,
        heads=tuple(chosen),
        keys=full.keys[chosen],
        queries=full.queries[chosen],
        values=some(full.values),
        key_bias=some(full.key_bias),
        query_bias=some(full.query_bias),
        value_bias=some(full.value_bias),
    )


def _project(weight: Array, bias: Array | None, tokens: Array) -> Array:
    return weight @ tokens + (0.0 if bias is None else bias[:, :, None])


def _index(value: Any, name: str, least: int = 0) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise InputError(f"{name}={value!r} is no integer") from error
    if isinstance(value, bool) or number < least:
        raise InputError(f"{name}={value!r}; expected an integer >= {least}")
    return number
