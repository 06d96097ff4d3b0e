"""A GGUF model cut down to its first layer and tokens: the same template and server, for a fraction of the time.

What it says makes no sense. It is for tests whose subject is how a model is loaded, asked, bounded by a grammar
and stopped; tests of what a real one says are marked `model`.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a value, by its type
STRING, ARRAY = 8, 9
ALIGNMENT = 32
TOKENS = 4096  # the special ones and the most common: each is made of earlier ones
WITHOUT_MERGE = 252  # the special ones and the bytes
NUMBERS = {b"llama.block_count": 1, b"llama.vocab_size": TOKENS}


@dataclass(frozen=True, slots=True)
class Tensor:
    """An entry of the table of tensors: what stands before its offset, and the place of its data."""

    name: str
    head: bytes
    offset: int


def write_shallow(model: Path, target: Path) -> None:
    """Write a model of one layer and few tokens, taken from another one."""
    with model.open("rb") as file:
        magic, version, tensor_count, value_count = struct.unpack("<4sIQQ", file.read(24))
        values = b"".join(_value(file) for _ in range(value_count))
        tensors = [_tensor(file) for _ in range(tensor_count)]
        begin = _aligned(file.tell())
        ends = sorted([*(tensor.offset for tensor in tensors), model.stat().st_size - begin])
        kept = [tensor for tensor in tensors if not re.match(r"blk\.[1-9]", tensor.name)]
        table, data = b"", b""
        for tensor in kept:
            head, size = tensor.head, ends[ends.index(tensor.offset) + 1] - tensor.offset
            if tensor.name == "token_embd.weight":  # a row for each token; its number stands before the type
                size = size // struct.unpack("<Q", head[-12:-4])[0] * TOKENS
                head = head[:-12] + struct.pack("<Q", TOKENS) + head[-4:]
            table += head + struct.pack("<Q", len(data))
            file.seek(begin + tensor.offset)
            data += file.read(size)
    head = struct.pack("<4sIQQ", magic, version, len(kept), value_count) + values + table
    target.write_bytes(head.ljust(_aligned(len(head)), b"\0") + data)


def _value(file: BinaryIO) -> bytes:
    """One of the model's settings as it is written, for one layer and the first tokens."""
    begin = file.tell()
    key = file.read(struct.unpack("<Q", file.read(8))[0])
    kind = struct.unpack("<I", file.read(4))[0]
    inside = file.tell()
    if key in (b"tokenizer.ggml.tokens", b"tokenizer.ggml.token_type", b"tokenizer.ggml.merges"):
        return _read(file, begin, inside) + _first_items(file, key)
    _pass_over(file, kind)
    written = _read(file, begin, file.tell())
    return written[:-4] + struct.pack("<I", NUMBERS[key]) if key in NUMBERS else written


def _first_items(file: BinaryIO, key: bytes) -> bytes:
    """As much of an array as the first tokens need: a merge makes one token, in their order."""
    inner, count = struct.unpack("<IQ", file.read(12))
    begin = end = file.tell()
    kept = TOKENS - WITHOUT_MERGE if key.endswith(b"merges") else TOKENS
    for number in range(count):
        _pass_over(file, inner)
        if number == kept - 1:
            end = file.tell()
    behind = file.tell()
    items = _read(file, begin, end)
    file.seek(behind)
    return struct.pack("<IQ", inner, kept) + items


def _read(file: BinaryIO, begin: int, end: int) -> bytes:
    file.seek(begin)
    return file.read(end - begin)


def _pass_over(file: BinaryIO, kind: int) -> None:
    if kind == STRING:
        file.seek(struct.unpack("<Q", file.read(8))[0], 1)
    elif kind == ARRAY:
        inner, count = struct.unpack("<IQ", file.read(12))
        if inner in SIZES:
            file.seek(SIZES[inner] * count, 1)
        else:
            for _ in range(count):
                _pass_over(file, inner)
    else:
        file.seek(SIZES[kind], 1)


def _tensor(file: BinaryIO) -> Tensor:
    begin = file.tell()
    name = file.read(struct.unpack("<Q", file.read(8))[0]).decode()
    (dimensions,) = struct.unpack("<I", file.read(4))
    file.seek(8 * dimensions + 4, 1)
    size = file.tell() - begin
    file.seek(begin)
    head = file.read(size)
    return Tensor(name, head, struct.unpack("<Q", file.read(8))[0])


def _aligned(place: int) -> int:
    return -(-place // ALIGNMENT) * ALIGNMENT
