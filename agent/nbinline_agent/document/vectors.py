"""Y state vectors: how much of each author's writing a document holds."""

from __future__ import annotations

from collections.abc import Mapping

LONGEST_INTEGER = 10
"""Bytes of the longest integer Yjs encodes."""


def read_vector(encoded: bytes) -> Mapping[int, int]:
    """Decode a state vector.

    Args:
        encoded: As ``Y.encodeStateVector`` gives it.

    Returns:
        For each client id the number of its operations that are held.

    Raises:
        ValueError: It is cut off, or goes on after its end.
    """
    count, at = read_integer(encoded, 0)
    vector: dict[int, int] = {}
    for _ in range(count):
        client, at = read_integer(encoded, at)
        vector[client], at = read_integer(encoded, at)
    if at != len(encoded):
        raise ValueError("bytes behind the state vector")
    return vector


def read_integer(encoded: bytes, at: int) -> tuple[int, int]:
    """Decode an unsigned integer at a byte position; returns it and the position behind it.

    Raises:
        ValueError: The bytes end before it does, or it is longer than any Yjs writes.
    """
    value = 0
    for shift in range(LONGEST_INTEGER):
        if at >= len(encoded):
            raise ValueError("unexpected end")
        value |= (encoded[at] & 127) << (7 * shift)
        at += 1
        if encoded[at - 1] < 128:
            return value, at
    raise ValueError("integer too long")


def covers(state: bytes, wanted: Mapping[int, int]) -> bool:
    """Whether a document of the encoded state holds everything that ``wanted`` counts."""
    held = read_vector(state)
    return all(held.get(client, 0) >= clock for client, clock in wanted.items())
