"""Answers for the benches: rich Markdown in small deltas, each with a word of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice


def word(number: int) -> str:
    """The word that stands in one delta only."""
    return f"w{number:04d}x"


def rich_deltas(amount: int) -> list[str]:
    """Deltas of about 15 characters: headings, prose, a table, a fence, lists and formulas."""
    return list(islice(_endless(), amount))


def _endless() -> Iterator[str]:
    words = count()

    def next_word() -> str:
        return word(next(words))

    for section in count(1):
        yield f"## {next_word()} part {section}\n\n"
        for _ in range(12):
            yield f"{next_word()} **b** c "
        yield f"{next_word()} stop.\n\n"
        yield f"| {next_word()} | n |\n|---|---|\n"
        for row in range(5):
            yield f"| {next_word()} | {row} |\n"
        yield f"\n{next_word()} code:\n\n"
        yield f"```python\n{next_word()} = 0\n"
        for line in range(5):
            yield f"{next_word()} = {line}\n"
        yield f"```\n\n{next_word()} math "
        yield f"$a^2_{section}$ {next_word()} "
        yield f"{next_word()}:\n\n$$\n\\int_0^1 x\n$$\n\n"
        for item in range(4):
            yield f"- {next_word()} `i{item}`\n"
        yield f"\n> {next_word()} quoted\n\n"
