"""Reading Y updates: which characters they insert. Writing one that deletes them.

The format is the first version of Yjs's update encoding, which is what travels between replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from .vectors import read_integer

HAS_LEFT = 0x80
HAS_RIGHT = 0x40
HAS_KEY = 0x20
CONTENT = 0x1F
SKIPS = frozenset({0, 10})
"""Content numbers of what is collected, and of gaps."""

STRING = 4

Ranges = dict[int, list[tuple[int, int]]]
"""For each client id the rising ranges of its clocks, each from its first to behind its last."""


class _Reader:
    """Walks over the bytes of one update.

    Raises:
        ValueError: From all methods, if the bytes end too soon or make no sense.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def rest(self) -> bytes:
        """What was not read yet."""
        return self._data[self._at :]

    def integer(self) -> int:
        value, self._at = read_integer(self._data, self._at)
        return value

    def byte(self) -> int:
        return self.raw(1)[0]

    def raw(self, length: int) -> bytes:
        part = self._data[self._at : self._at + length]
        if len(part) != length:
            raise ValueError("unexpected end")
        self._at += length
        return part

    def text(self) -> str:
        return self.raw(self.integer()).decode("utf-8", "surrogatepass")

    def signed(self) -> None:
        while self.byte() >= 128:
            pass

    def anything(self) -> None:
        """Pass over a JSON value."""
        kind = self.byte()
        if kind == 125:
            self.signed()
        elif kind in (122, 123):
            self.raw(8)
        elif kind == 124:
            self.raw(4)
        elif kind in (116, 119):
            self.raw(self.integer())
        elif kind == 118:
            for _ in range(self.integer()):
                self.text()
                self.anything()
        elif kind == 117:
            for _ in range(self.integer()):
                self.anything()
        elif kind not in (120, 121, 126, 127):
            raise ValueError("unknown kind of value")

    def several(self, read: Callable[[], object]) -> int:
        count = self.integer()
        for _ in range(count):
            read()
        return count


def _one(*reads: Callable[[], object]) -> int:
    for read in reads:
        read()
    return 1


def _content(reader: _Reader, number: int) -> int:
    """Pass over the content of one struct; returns its length in clocks."""
    if number == STRING:
        return len(reader.text().encode("utf-16-le", "surrogatepass")) // 2
    if number == 1:
        return reader.integer()
    if number == 2:
        return reader.several(reader.text)
    if number == 8:
        return reader.several(reader.anything)
    if number in (3, 5):
        return _one(reader.text if number == 5 else lambda: reader.raw(reader.integer()))
    if number == 6:
        return _one(reader.text, reader.text)
    if number == 7:
        return _one(reader.text) if reader.integer() in (3, 5) else 1
    if number == 9:
        return _one(reader.text, reader.anything)
    raise ValueError("unknown kind of content")


def _structs(update: bytes) -> Iterator[tuple[int, int, int, bool]]:
    """Client, clock and length of all structs, and whether they are characters of a text."""
    yield from _read_structs(_Reader(update))


def _read_structs(reader: _Reader) -> Iterator[tuple[int, int, int, bool]]:
    for _ in range(reader.integer()):
        count, client, clock = reader.integer(), reader.integer(), reader.integer()
        for _ in range(count):
            info = reader.byte()
            number = info & CONTENT
            if number in SKIPS:
                length = reader.integer()
            else:
                _parent(reader, info)
                length = _content(reader, number)
            yield client, clock, length, number == STRING
            clock += length


def _parent(reader: _Reader, info: int) -> None:
    if info & HAS_LEFT:
        reader.integer(), reader.integer()
    if info & HAS_RIGHT:
        reader.integer(), reader.integer()
    if info & (HAS_LEFT | HAS_RIGHT):
        return
    if reader.integer():
        reader.text()
    else:
        reader.integer(), reader.integer()
    if info & HAS_KEY:
        reader.text()


def add_characters(ranges: Ranges, update: bytes) -> None:
    """Note which characters of texts an update inserts.

    Raises:
        ValueError: It is not an update.
    """
    for client, clock, length, is_text in _structs(update):
        if is_text and length:
            known = ranges.setdefault(client, [])
            if known and known[-1][1] == clock:
                known[-1] = (known[-1][0], clock + length)
            else:
                known.append((clock, clock + length))


def merged(ranges: Mapping[int, Sequence[tuple[int, int]]]) -> Ranges:
    """The same ranges in order, without overlaps."""
    result: Ranges = {}
    for client, several in ranges.items():
        kept: list[tuple[int, int]] = []
        for start, stop in sorted(several):
            if kept and start <= kept[-1][1]:
                kept[-1] = (kept[-1][0], max(stop, kept[-1][1]))
            else:
                kept.append((start, stop))
        result[client] = kept
    return result


def deletion(ranges: Mapping[int, Sequence[tuple[int, int]]]) -> bytes:
    """An update that deletes what has these ids and does nothing else."""
    parts = [_integer(0), _integer(len(ranges))]
    for client, several in ranges.items():
        parts += [_integer(client), _integer(len(several))]
        for start, stop in several:
            parts += [_integer(start), _integer(stop - start)]
    assert all(a[1] <= b[0] for each in ranges.values() for a, b in pairwise(each))
    return b"".join(parts)


def read_deletions(encoded: bytes) -> Ranges:
    """What a set of deletions names.

    Raises:
        ValueError: It is none.
    """
    reader = _Reader(encoded)
    ranges: Ranges = {}
    for _ in range(reader.integer()):
        client = reader.integer()
        for _ in range(reader.integer()):
            clock = reader.integer()
            ranges.setdefault(client, []).append((clock, clock + reader.integer()))
    return merged(ranges)


def born_deleted(update: bytes, deletions: bytes) -> Ranges:
    """What a transaction brought and deleted at once, since it belongs to what is gone already.

    Args:
        update: Of the transaction.
        deletions: What it deleted.

    Raises:
        ValueError: They cannot be read.
    """
    gone = read_deletions(deletions)
    found: Ranges = {}
    for client, clock, length, _ in _structs(update):
        for start, stop in gone.get(client, []):
            first, last = max(start, clock), min(stop, clock + length)
            if first < last:
                found.setdefault(client, []).append((first, last))
    return merged(found)


def with_less_deleted(update: bytes, spared: Ranges) -> bytes:
    """An update that deletes nothing of what is to be spared.

    If it deletes some of that, whoever made it knows of the deletion; so what it brings deleted
    from the start is spared as well: its author typed it before they knew.

    Args:
        update: Any update.
        spared: Ids, in order and without overlaps.

    Raises:
        ValueError: It is not an update.
    """
    reader = _Reader(update)
    for _ in _read_structs(reader):
        pass
    deletions = read_deletions(reader.rest)
    if not any(client in spared for client in deletions):
        return update
    early = born_deleted(update, reader.rest)
    clients = {*spared, *early}
    spared = merged({each: [*spared.get(each, []), *early.get(each, [])] for each in clients})
    kept = {
        client: list(_outside(ranges, spared.get(client, [])))
        for client, ranges in deletions.items()
    }
    left = {client: ranges for client, ranges in kept.items() if ranges}
    return update[: len(update) - len(reader.rest)] + deletion(left)[1:]


def _outside(
    ranges: Sequence[tuple[int, int]], spared: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    for start, stop in ranges:
        for first, last in spared:
            if last <= start or first >= stop:
                continue
            if first > start:
                yield start, first
            start = last
        if start < stop:
            yield start, stop


def without_deletions(update: bytes, deletions: bytes) -> bytes:
    """An update of one transaction without what it deleted."""
    return update[: len(update) - len(deletions)] + b"\x00"


def _integer(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
