"""The index: FAISS over the intents of a domain's bullets, derived from the log and always rebuildable.

Every bullet has a slot: its number in FAISS and its row in the columns that filters read. On disk the
index is a cache of vectors, each under the hash of the text it was made from, so that a file that is
missing, damaged, behind the log or from elsewhere costs time and never gives a wrong answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from math import isqrt
from typing import Any

import numpy as np

from wesichain.core.internal import dump_json, is_object, parse_json
from wesichain.errors import CodecError, MissingDependencyError
from wesichain.learning.embedders import Embedder, Vectors, rows_for
from wesichain.learning.entities import PlaybookBullet

from .filters import Columns, Condition

try:
    import faiss
except ImportError as error:
    raise MissingDependencyError("a playbook's index", package="faiss-cpu", extra="learning") from error

_faiss: Any = faiss  # its stubs speak of torch, which is not installed
_KEY = 16  # bytes of a text's hash
_BATCH = 256
_ALONE = 10_000  # vectors, below which one thread finds the nearest sooner than several


class VectorIndex:
    """Slots, columns and vectors of one domain. `ivf_above`: the size from which a search is approximate."""

    def __init__(self, embedder: Embedder, *, domain: str, ivf_above: int = 100_000) -> None:
        self._embedder = embedder
        self._domain = domain
        self._ivf_above = ivf_above
        self._slots: dict[str, int] = {}
        self._names: list[str] = []  # by slot; "" where the vector belongs to no bullet
        self._keys: list[bytes] = []  # by slot
        self._pending: dict[int, str] = {}  # slots whose text is not embedded yet
        self._columns = Columns()
        self._vectors: Any = _flat(embedder.dimension)
        self._trained_at = 0
        self._fresh: set[int] = set()  # slots with vectors that are not saved

    @property
    def unsaved(self) -> int:
        return len(self._fresh)

    def put(self, bullet: PlaybookBullet) -> None:
        """Add a bullet, or take over its new counters; a new text is embedded when it is first needed."""
        intent = bullet.intent
        slot = self._slots.get(bullet.id)
        if slot is None or self._keys[slot] != text_key(intent):
            self.drop(bullet.id)
            slot = self._new_slot(bullet.id, text_key(intent))
            self._pending[slot] = intent
        self._columns.set(slot, bullet)

    def drop(self, id: str) -> None:
        slot = self._slots.pop(id, None)
        if slot is not None:
            self._names[slot] = ""
            self._columns.clear(slot)
            self._fresh.discard(slot)
            if self._pending.pop(slot, None) is not None:
                self._keys[slot] = bytes(_KEY)  # the slot never gets a vector: nobody may claim it by its key

    def sync(self, bullets: Iterable[PlaybookBullet]) -> None:
        """Hold exactly these bullets."""
        gone = set(self._slots)
        for bullet in bullets:
            self.put(bullet)
            gone.discard(bullet.id)
        for name in gone:
            self.drop(name)
        if gone:  # others have taken them out, perhaps to forget them: their vectors go as well
            self.purge()

    def purge(self) -> None:
        """Keep no vector of a bullet that is gone."""
        self._embed_pending()
        self._rebuild()

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """One row for each of these bullets."""
        self._embed_pending()
        return self._rows(ids)

    def meeting(self, ids: Sequence[str], conditions: Sequence[Condition]) -> set[str]:
        """Those of these bullets that meet the conditions."""
        chosen = self._columns.chosen(len(self._names), conditions, domain=self._domain)
        return {name for name in ids if chosen[self._slots[name]]}

    def search(
        self, vector: Vectors, *, k: int, conditions: Sequence[Condition] = ()
    ) -> list[tuple[str, float]]:
        """The k most similar bullets that meet the conditions: ids and cosines, best first."""
        self._embed_pending()
        chosen = self._columns.chosen(len(self._names), conditions, domain=self._domain)
        count = min(k, int(np.count_nonzero(chosen)))
        if count == 0:
            return []
        selector = None if chosen.all() else _faiss.IDSelectorBitmap(np.packbits(chosen, bitorder="little"))
        query = np.ascontiguousarray(vector.reshape(1, -1), dtype=np.float32)
        threads = _faiss.omp_get_max_threads()
        if len(self._names) < _ALONE:
            _faiss.omp_set_num_threads(1)  # for this thread: with more, all but one of them only spin
        try:
            scores, slots = self._vectors.search(query, count, params=self._parameters(selector))
        finally:
            _faiss.omp_set_num_threads(threads)
        found = zip(slots[0].tolist(), scores[0].tolist(), strict=True)
        return [(self._names[slot], min(1.0, max(-1.0, score))) for slot, score in found if slot >= 0]

    # --- on disk ---

    def dump(self) -> list[bytes | memoryview]:
        """The vectors as parts of a file, so that the next process need not embed the texts again."""
        self._embed_pending()
        keys = b"".join(self._keys)
        vectors = memoryview(_faiss.serialize_index(self._vectors))
        head = {
            "embedder": self._embedder.name,
            "dimension": self._embedder.dimension,
            "count": len(self._keys),
            "trained_at": self._trained_at,
            "sha256": _digest(keys, vectors),
        }
        self._fresh.clear()
        return [dump_json(head).encode() + b"\n", keys, vectors]

    def restore(self, saved: bytes, bullets: Iterable[PlaybookBullet]) -> None:
        """Hold these bullets, with whatever vectors a dump can give; any bytes will do, or none."""
        known = self._adopt(saved)
        for bullet in bullets:
            key = text_key(bullet.intent)
            slots = known.get(key)
            if slots:
                slot = slots.pop()
                self._slots[bullet.id], self._names[slot] = slot, bullet.id
            self.put(bullet)

    def fresh(self) -> list[tuple[bytes, Vectors]]:
        """The vectors since the last dump or call of this, each under the hash of its text."""
        self._embed_pending()
        found = [(self._keys[slot], self._vectors.reconstruct(slot)) for slot in self._fresh]
        self._fresh.clear()
        return found

    def supply(self, known: Mapping[bytes, Vectors]) -> None:
        """Use vectors that are known already for texts that wait to be embedded."""
        slots = [slot for slot in self._pending if self._keys[slot] in known]
        if slots:
            self._add(slots, np.stack([known[self._keys[slot]] for slot in slots]))

    def waiting(self) -> list[bytes]:
        """The hashes of the texts that are not embedded yet."""
        return [self._keys[slot] for slot in self._pending]

    def _adopt(self, saved: bytes) -> dict[bytes, list[int]]:
        """Take over the vectors of a dump; the slots under the hash of each text."""
        head_line, _, rest = saved.partition(b"\n")
        try:
            head: Any = parse_json(head_line)
        except CodecError:
            return {}
        count = head.get("count") if is_object(head) else None
        if not isinstance(count, int) or not 0 < count * _KEY <= len(rest):
            return {}
        keys, vectors = rest[: count * _KEY], memoryview(rest)[count * _KEY :]
        mine = {"embedder": self._embedder.name, "dimension": self._embedder.dimension}
        mine["sha256"] = _digest(keys, vectors)
        if any(head.get(name) != value for name, value in mine.items()):
            return {}
        self._vectors = _faiss.deserialize_index(np.frombuffer(vectors, dtype=np.uint8))
        self._trained_at = head.get("trained_at", 0)
        self._keys = [keys[at : at + _KEY] for at in range(0, len(keys), _KEY)]
        self._names = [""] * count
        known: dict[bytes, list[int]] = {}
        for slot in reversed(range(count)):
            known.setdefault(self._keys[slot], []).append(slot)
        return known

    # --- vectors ---

    def _new_slot(self, id: str, key: bytes) -> int:
        slot = len(self._names)
        self._slots[id] = slot
        self._names.append(id)
        self._keys.append(key)
        return slot

    def _rows(self, ids: Sequence[str]) -> Vectors:
        found = np.empty((len(ids), self._embedder.dimension), dtype=np.float32)
        for row, name in enumerate(ids):
            found[row] = self._vectors.reconstruct(self._slots[name])
        return found

    def _embed_pending(self) -> None:
        waiting = list(self._pending.items())
        for start in range(0, len(waiting), _BATCH):
            batch = waiting[start : start + _BATCH]
            vectors = rows_for(self._embedder, [text for _, text in batch])
            self._add([slot for slot, _ in batch], vectors)
            self._fresh.update(slot for slot, _ in batch)
        size = len(self._slots)
        is_full_of_holes = len(self._names) > 1024 and size < len(self._names) // 2
        needs_training = size > self._ivf_above and size > 2 * self._trained_at
        if is_full_of_holes or needs_training:
            self._rebuild()

    def _add(self, slots: Sequence[int], vectors: Vectors) -> None:
        self._vectors.add_with_ids(vectors, np.array(slots, dtype=np.int64))
        for slot in slots:
            del self._pending[slot]

    def _rebuild(self) -> None:
        """Lay the slots out anew: without holes, and in clusters once there are many."""
        order = sorted(self._slots, key=self._slots.__getitem__)
        vectors = self._rows(order)
        columns = self._columns.reordered([self._slots[name] for name in order])
        self._keys = [self._keys[self._slots[name]] for name in order]
        self._names, self._columns = order, columns
        self._slots = {name: slot for slot, name in enumerate(order)}
        size, dimension = vectors.shape
        self._vectors, self._trained_at = _flat(dimension), 0
        if size > self._ivf_above:
            self._vectors, self._trained_at = _clustered(vectors), size
        self._vectors.add_with_ids(vectors, np.arange(size, dtype=np.int64))
        self._fresh = set(range(size))

    def _parameters(self, selector: Any) -> Any:
        if self._trained_at:
            return _faiss.SearchParametersIVF(sel=selector, nprobe=max(8, isqrt(self._trained_at) // 10))
        return _faiss.SearchParameters(sel=selector) if selector else None


def _flat(dimension: int) -> Any:
    return _faiss.IndexIDMap2(_faiss.IndexFlatIP(dimension))


def _clustered(vectors: Vectors) -> Any:
    size, dimension = vectors.shape
    quantizer = _faiss.IndexFlatIP(dimension)
    index = _faiss.IndexIVFFlat(quantizer, dimension, isqrt(size), _faiss.METRIC_INNER_PRODUCT)
    index.cp.max_points_per_centroid = 64  # enough for good clusters; training takes seconds, not minutes
    index.train(vectors)
    index.set_direct_map_type(_faiss.DirectMap.Hashtable)  # for reconstruct
    return index


def text_key(text: str) -> bytes:
    """The hash that the vector of a text is kept under."""
    return sha256(text.encode()).digest()[:_KEY]


def _digest(*parts: bytes | memoryview) -> str:
    digest = sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))  # where one ends and the next begins is vouched for too
        digest.update(part)
    return digest.hexdigest()
