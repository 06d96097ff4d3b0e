"""A GGUF model cut down to its first layer: the same tokens, template and server, for a fraction of the time.

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


@dataclass(frozen=True, slots=True)
class Tensor:
    """An entry of the table of tensors: what stands before its offset, and the place of its data."""

    name: str
    head: bytes
    offset: int


def write_shallow(model: Path, target: Path) -> None:
    """Write a model of one layer, taken from another one."""
    with model.open("rb") as file:
        magic, version, tensor_count, value_count = struct.unpack("<4sIQQ", file.read(24))
        values = b"".join(_value(file) for _ in range(value_count))
        tensors = [_tensor(file) for _ in range(tensor_count)]
        begin = _aligned(file.tell())
        ends = sorted([*(tensor.offset for tensor in tensors), model.stat().st_size - begin])
        kept = [tensor for tensor in tensors if not re.match(r"blk\.[1-9]", tensor.name)]
        table, data = b"", b""
        for tensor in kept:
            table += tensor.head + struct.pack("<Q", len(data))
            file.seek(begin + tensor.offset)
            data += file.read(ends[ends.index(tensor.offset) + 1] - tensor.offset)
    head = struct.pack("<4sIQQ", magic, version, len(kept), value_count) + values + table
    target.write_bytes(head.ljust(_aligned(len(head)), b"\0") + data)


def _value(file: BinaryIO) -> bytes:
    """One of the model's settings as it is written; the number of its layers is 1."""
    begin = file.tell()
    key = file.read(struct.unpack("<Q", file.read(8))[0])
    kind = struct.unpack("<I", file.read(4))[0]
    _pass_over(file, kind)
    size = file.tell() - begin
    file.seek(begin)
    written = file.read(size)
    return written[:-4] + struct.pack("<I", 1) if key.endswith(b".block_count") else written


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
