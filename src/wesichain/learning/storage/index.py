"""The index: FAISS over the intents of a domain's bullets. It can always be rebuilt from the log.

Stored vectors are keyed by the hash of their text. A cache that is missing, damaged or outdated therefore
costs time, but never gives a wrong result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from wesichain.core.internal import dump_json, is_object, parse_json
from wesichain.errors import CodecError, MissingDependencyError
from wesichain.learning.embedders import Embedder, Vectors
from wesichain.learning.entities.bullets import PlaybookBullet

try:
    import faiss
except ImportError as error:
    raise MissingDependencyError("a playbook's index", package="faiss-cpu", extra="learning") from error

_faiss: Any = faiss  # its stubs speak of torch, which is not installed
_KEY = 16  # bytes of a text's hash
_BATCH = 256
_ALONE = 10_000  # below this number of vectors, one thread is faster than several


class VectorIndex:
    """The vectors of one domain's bullets. A text is embedded when its vector is first needed."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._vectors: Any = _faiss.IndexFlatIP(embedder.dimension)
        self._keys: dict[str, bytes] = {}  # the hash of each bullet's text, by the bullet's id
        self._waiting: dict[str, str] = {}  # texts to embed, by the bullet's id
        self._rows: dict[str, int] = {}  # of the vectors in FAISS, by the bullet's id, in their order
        self._names: list[str] = []  # the ids of the bullets, by row
        self._unsaved: set[str] = set()

    @property
    def unsaved(self) -> int:
        """The number of vectors that are not in the cache."""
        return len(self._unsaved)

    def put(self, bullet: PlaybookBullet) -> None:
        """Add a bullet, or replace one whose text has changed."""
        key = text_key(bullet.intent)
        if self._keys.get(bullet.id) != key:
            self.drop([bullet.id])
            self._keys[bullet.id], self._waiting[bullet.id] = key, bullet.intent

    def drop(self, ids: Collection[str]) -> None:
        """Remove bullets and their vectors."""
        for name in ids:
            self._keys.pop(name, None)
            self._waiting.pop(name, None)
        gone = [self._rows.pop(name) for name in ids if name in self._rows]
        self._unsaved.difference_update(ids)
        if gone:
            self._vectors.remove_ids(np.array(gone, dtype=np.int64))
            self._names = [*self._rows]
            self._rows = {name: row for row, name in enumerate(self._names)}

    def sync(self, bullets: Iterable[PlaybookBullet]) -> None:
        """Make the index contain exactly these bullets."""
        wanted = {bullet.id: bullet for bullet in bullets}
        self.drop([name for name in self._keys if name not in wanted])
        for bullet in wanted.values():
            self.put(bullet)

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """Return one row for each of these bullets."""
        self._embed_waiting()
        if not ids:
            return np.empty((0, self.embedder.dimension), dtype=np.float32)
        rows = np.array([self._rows[name] for name in ids], dtype=np.int64)
        found: Vectors = self._vectors.reconstruct_batch(rows)
        return found

    def search(self, vector: Vectors, *, k: int) -> list[tuple[str, float]]:
        """Return the k most similar bullets: ids and cosines, best first."""
        self._embed_waiting()
        count = min(k, len(self._rows))
        if count == 0:
            return []
        query = np.ascontiguousarray(vector.reshape(1, -1), dtype=np.float32)
        threads = _faiss.omp_get_max_threads()
        if len(self._rows) < _ALONE:
            _faiss.omp_set_num_threads(1)  # for this thread: with more, all but one of them only spin
        try:
            scores, rows = self._vectors.search(query, count)
        finally:
            _faiss.omp_set_num_threads(threads)
        names, nearest = self._names, list[int](rows[0].tolist())
        return list(zip([names[row] for row in nearest], scores[0].clip(-1.0, 1.0).tolist(), strict=True))

    # --- the cache ---

    def supply(self, known: Mapping[bytes, Vectors]) -> None:
        """Use known vectors for texts that are not embedded yet."""
        ids = [name for name in self._waiting if self._keys[name] in known]
        if ids:
            self._add(ids, np.stack([known[self._keys[name]] for name in ids]))

    def waiting(self) -> list[bytes]:
        """Return the hashes of the texts that are not embedded yet."""
        return [self._keys[name] for name in self._waiting]

    def save(self, *, everything: bool) -> tuple[list[bytes], Vectors]:
        """Return the hashes and vectors of the unsaved texts, or of all, and mark them as saved."""
        self._embed_waiting()
        ids = list(self._rows if everything else self._unsaved)
        self._unsaved.clear()
        return [self._keys[name] for name in ids], self.vectors(ids)

    def _embed_waiting(self) -> None:
        waiting = list(self._waiting.items())
        for start in range(0, len(waiting), _BATCH):
            batch = waiting[start : start + _BATCH]
            ids = [name for name, _ in batch]
            self._add(ids, self.embedder.embed([text for _, text in batch]))
            self._unsaved.update(ids)

    def _add(self, ids: Sequence[str], vectors: Vectors) -> None:
        self._vectors.add(vectors)
        for name in ids:
            self._rows[name] = len(self._rows)
            self._names.append(name)
            del self._waiting[name]


def pack(embedder: Embedder, keys: Sequence[bytes], vectors: Vectors) -> list[bytes | memoryview]:
    """Return the parts of a cache file: a line that describes it, the hashes, a FAISS index."""
    index = _faiss.IndexFlatIP(embedder.dimension)
    index.add(vectors)
    hashes, rows = b"".join(keys), memoryview(_faiss.serialize_index(index))
    head = {
        "embedder": embedder.name,
        "dimension": embedder.dimension,
        "count": len(keys),
        "sha256": _digest(hashes, rows),
    }
    return [dump_json(head).encode() + b"\n", hashes, rows]


def unpack(embedder: Embedder, saved: bytes) -> dict[bytes, Vectors]:
    """Return the vectors of a cache file by the hash of their text; none if the file is damaged."""
    head_line, _, rest = saved.partition(b"\n")
    try:
        head: Any = parse_json(head_line)
    except CodecError:
        return {}
    count = head.get("count") if is_object(head) else None
    if not isinstance(count, int) or not 0 < count * _KEY <= len(rest):
        return {}
    hashes, rows = rest[: count * _KEY], memoryview(rest)[count * _KEY :]
    mine = {"embedder": embedder.name, "dimension": embedder.dimension, "sha256": _digest(hashes, rows)}
    if any(head.get(name) != value for name, value in mine.items()):
        return {}
    index = _faiss.deserialize_index(np.frombuffer(rows, dtype=np.uint8))
    keys = [hashes[at : at + _KEY] for at in range(0, len(hashes), _KEY)]
    # files of 0.2.0 have hashes of zeros where a bullet was dropped, without a vector
    return {key: index.reconstruct(number) for number, key in enumerate(keys) if any(key)}


def text_key(text: str) -> bytes:
    """Return the key of a text's vector: a hash."""
    return sha256(text.encode()).digest()[:_KEY]


def _digest(*parts: bytes | memoryview) -> str:
    digest = sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))  # so that moving a boundary changes the digest
        digest.update(part)
    return digest.hexdigest()
