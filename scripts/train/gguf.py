"""Writing and reading GGUF files: the standard keys and tensor names, in F32, F16, Q8_0 or Q4_0."""

import struct

import numpy

import tokenizer as vocabulary

ALIGNMENT = 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
# name: (number of the tensor type, general.file_type)
TYPES = {"F32": (0, 0), "F16": (1, 1), "Q4_0": (2, 2), "Q8_0": (8, 7)}
NORMAL, CONTROL = 1, 3
GROUP = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pack_value(value):
    """A key's type number and bytes; lists are arrays of strings or of 32-bit integers."""
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + text(value)
    if value and isinstance(value[0], str):
        body = b"".join(text(v) for v in value)
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + body
    body = struct.pack(f"<{len(value)}i", *value)
    return struct.pack("<IIQ", ARRAY, I32, len(value)) + body


def q8_0(rows):
    """Groups of 32: a half-precision scale, then 32 signed bytes."""
    groups = rows.reshape(-1, GROUP)
    scale = numpy.abs(groups).max(1, keepdims=True) / 127
    inverse = numpy.divide(1, scale, out=numpy.zeros_like(scale), where=scale > 0)
    codes = numpy.rint(groups * inverse).astype(numpy.int8)
    return numpy.hstack([scale.astype("<f2").view(numpy.uint8), codes.view(numpy.uint8)]).tobytes()


def q4_0(rows):
    """Groups of 32: a half-precision scale, then 16 bytes of two 4-bit codes each.

    The element of largest magnitude gets code 0 (-8), as GGUF's readers expect of the format.
    """
    groups = rows.reshape(-1, GROUP)
    most = numpy.take_along_axis(groups, numpy.abs(groups).argmax(1)[:, None], 1)
    scale = most / -8
    inverse = numpy.divide(1, scale, out=numpy.zeros_like(scale), where=scale != 0)
    codes = numpy.clip(numpy.floor(groups * inverse + 8.5), 0, 15).astype(numpy.uint8)
    packed = codes[:, : GROUP // 2] | codes[:, GROUP // 2 :] << 4
    return numpy.hstack([scale.astype("<f2").view(numpy.uint8), packed]).tobytes()


def encode(values, kind):
    values = numpy.ascontiguousarray(values, dtype=numpy.float32)
    if kind == "F32":
        return values.astype("<f4").tobytes()
    if kind == "F16":
        return values.astype("<f2").tobytes()
    return (q8_0 if kind == "Q8_0" else q4_0)(values)


def write(path, keys, tensors):
    """tensors: list of (name, array of one or two dimensions [rows, columns], type name)."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    for key, value in keys.items():
        head += text(key) + pack_value(value)
    offset, bodies = 0, []
    for name, values, kind in tensors:
        body = encode(values, kind)
        shape = values.shape[::-1]  # the fastest dimension comes first
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += struct.pack("<IQ", TYPES[kind][0], offset)
        body += bytes(-len(body) % ALIGNMENT)
        bodies.append(body)
        offset += len(body)
    head += bytes(-len(head) % ALIGNMENT)
    partial = path.with_suffix(".partial")
    partial.write_bytes(head + b"".join(bodies))
    partial.replace(path)


class Reader:
    """What `write` wrote."""

    def __init__(self, path):
        self.data, self.at = path.read_bytes(), 0
        magic, version, tensors, keys = self.take("<4sIQQ")
        if magic != b"GGUF" or version != 3:
            raise ValueError(f"{path} is no GGUF file of version 3")
        self.keys = {self.text(): self.value() for _ in range(keys)}
        table = [self.tensor() for _ in range(tensors)]
        base = self.at + -self.at % ALIGNMENT
        self.tensors = {name: self.decode(base + at, dims, kind) for name, dims, kind, at in table}

    def take(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def text(self):
        (size,) = self.take("<Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def value(self, kind=None):
        if kind is None:
            (kind,) = self.take("<I")
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            kind, count = self.take("<IQ")
            return [self.value(kind) for _ in range(count)]
        return self.take({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind])[0]

    def tensor(self):
        name = self.text()
        (dims,) = self.take("<I")
        shape = self.take(f"<{dims}Q")
        return name, shape[::-1], *self.take("<IQ")

    def decode(self, at, shape, kind):
        """float32 values of a tensor."""
        count = int(numpy.prod(shape))
        if kind < 2:
            form = "<f2" if kind else "<f4"
            values = numpy.frombuffer(self.data, form, count, at)
        else:
            size = {2: 18, 8: 34}[kind]
            groups = numpy.frombuffer(self.data, numpy.uint8, count // GROUP * size, at)
            groups = groups.reshape(-1, size)
            scale = groups[:, :2].copy().view("<f2").astype(numpy.float32)
            codes = groups[:, 2:].copy()
            if kind == 8:
                values = codes.view(numpy.int8) * scale
            else:
                values = (numpy.hstack([codes & 15, codes >> 4]).astype(numpy.float32) - 8) * scale
        return values.astype(numpy.float32).reshape(shape)


# phi-3's, whose turns end in the vocabulary's own end
CHAT_TEMPLATE = "{% for message in messages %}" + "".join(
    f"{{% {word} message['role'] == '{role}' %}}"
    f"{{{{ '<|{role}|>\\n' + message['content'] + '<|end|>\\n' }}}}"
    for word, role in (("if", "system"), ("elif", "user"), ("elif", "assistant"))
) + "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"


def tokenizer_keys(tokenizer):
    tokens = tokenizer.tokens
    control = len(vocabulary.CONTROL)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": vocabulary.PRE,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL] * control + [NORMAL] * (len(tokens) - control),
        "tokenizer.ggml.merges": [f"{a} {b}" for a, b in tokenizer.merges],
        "tokenizer.ggml.bos_token_id": vocabulary.START,
        "tokenizer.ggml.eos_token_id": vocabulary.END,
        "tokenizer.ggml.padding_token_id": vocabulary.PAD,
        "tokenizer.ggml.mask_token_id": vocabulary.MASK,
        "tokenizer.ggml.add_bos_token": True,
    }


def model_keys(shape, name, kind, license_name="MIT"):
    arch = "llama" if shape.causal else "llada"
    keys = {
        "general.architecture": arch,
        "general.type": "model",
        "general.name": name,
        "general.license": license_name,
        "general.file_type": TYPES[kind][1],
        "general.quantization_version": 2,
        f"{arch}.block_count": shape.block_count,
        f"{arch}.context_length": shape.context_length,
        f"{arch}.embedding_length": shape.embedding_length,
        f"{arch}.feed_forward_length": shape.feed_forward_length,
        f"{arch}.attention.head_count": shape.head_count,
        f"{arch}.attention.head_count_kv": shape.head_count_kv,
        f"{arch}.attention.layer_norm_rms_epsilon": shape.rms_epsilon,
        f"{arch}.rope.dimension_count": shape.head_length,
        f"{arch}.rope.freq_base": shape.rope_freq_base,
        f"{arch}.vocab_size": shape.vocab_size,
    }
    if not shape.causal:
        keys[f"{arch}.attention.causal"] = False
        keys["diffusion.shift_logits"] = shape.shift_logits
    if shape.block_length:
        keys["diffusion.block_length"] = shape.block_length
    return keys


# the end of a parameter's name in model.py, and its name in GGUF
NAMES = {
    "attn_norm": "attn_norm",
    "attn.q": "attn_q",
    "attn.k": "attn_k",
    "attn.v": "attn_v",
    "attn.output": "attn_output",
    "ffn_norm": "ffn_norm",
    "ffn.gate": "ffn_gate",
    "ffn.up": "ffn_up",
    "ffn.down": "ffn_down",
}


def block_tensors(weights, layers, kind):
    """The tensors of these blocks, of a state's arrays; norms stay in F32."""
    for layer in layers:
        for ours, standard in NAMES.items():
            values = weights[f"blocks.{layer}.{ours}.weight"]
            yield f"blk.{layer}.{standard}.weight", values, kind if values.ndim == 2 else "F32"


def write_model(path, model, tokenizer, name, kind, embedding=None, keys=None):
    """Export a model; norms stay in F32, matrices become `kind`, the embedding `embedding`.
    `keys` are further keys of the file."""
    weights = {n: p.detach().float().cpu().numpy() for n, p in model.named_parameters()}
    tensors = [("token_embd.weight", weights["token_embd.weight"], embedding or kind)]
    tensors += block_tensors(weights, range(model.shape.block_count), kind)
    tensors.append(("output_norm.weight", weights["output_norm.weight"], "F32"))
    keys = model_keys(model.shape, name, kind) | tokenizer_keys(tokenizer) | (keys or {})
    if model.shape.causal:
        keys["tokenizer.chat_template"] = CHAT_TEMPLATE
    write(path, keys, tensors)


def read_model(path):
    """(shape fields, state) of a model that `write_model` wrote."""
    file = Reader(path)
    arch = file.keys["general.architecture"]

    def key(name):
        return file.keys[f"{arch}.{name}"]

    shape = {
        "embedding_length": key("embedding_length"),
        "block_count": key("block_count"),
        "feed_forward_length": key("feed_forward_length"),
        "head_count": key("attention.head_count"),
        "head_count_kv": key("attention.head_count_kv"),
        "vocab_size": key("vocab_size"),
        "context_length": key("context_length"),
        "causal": arch == "llama",
        "block_length": file.keys.get("diffusion.block_length", 0),
        "shift_logits": file.keys.get("diffusion.shift_logits", False),
        "rope_freq_base": key("rope.freq_base"),
        "rms_epsilon": key("attention.layer_norm_rms_epsilon"),
    }
    ours = {standard: name for name, standard in NAMES.items()}
    state = {}
    for name, values in file.tensors.items():
        part = name.split(".")
        if part[0] == "blk":
            name = f"blocks.{part[1]}.{ours[part[2]]}.weight"
        state[name] = values
    return shape, state
