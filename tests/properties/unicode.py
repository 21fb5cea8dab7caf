"""Text of every kind, in two alphabets that can be told apart again."""

from hypothesis import strategies as st

PEOPLE = "αβγ🦊שלום\u0301\u200f𝄞"
"""What only people type here: Greek, an emoji, Hebrew, a combining mark, a direction mark."""

FAMILIES = [
    "👨\u200d👩\u200d👧\u200d👦",
    "🏳️\u200d🌈",
    "e\u0302\u0323",
    "नमस्ते",
    "مرحبا",
    "a\u2028b\u2029c",
    "\r\n",
    "\t",
    "🇫🇷🇩🇪",
    "\x00",
    "ﬁ",
    "x" * 200,
    "| a | b |\n|---|---|\n",
]

words = st.one_of(
    st.sampled_from(FAMILIES),
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters=PEOPLE), min_size=1, max_size=12
    ),
)
"""What a model writes: anything but the characters of ``PEOPLE``."""

typed = st.text(st.sampled_from(PEOPLE), min_size=1, max_size=5)
"""What people type."""


def of_people(text: str) -> str:
    """The characters of a text that people typed."""
    return "".join(character for character in text if character in PEOPLE)


def of_the_answer(text: str) -> str:
    """The characters of a text that a model wrote."""
    return "".join(character for character in text if character not in PEOPLE)
