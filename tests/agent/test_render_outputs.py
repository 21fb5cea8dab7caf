"""Outputs as text: what is kept, what is cut, and that every cut says so."""

from __future__ import annotations

import base64
import json
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbinline_agent.render.outputs import CELL_LENGTH, FULL_LENGTH, in_full, summarise

# What pandas 3.1 and polars 2.1 hand to the front end.
BUNDLES: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("frame_bundles.json").read_text(encoding="utf-8")
)


def stream(text: str | list[str], name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def shown(data: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": {}}


def test_nothing_to_say() -> None:
    assert summarise([]) == ""
    assert summarise([stream(""), shown({}), {"output_type": "new-kind"}]) == ""


def test_a_short_stream_is_whole() -> None:
    assert summarise([stream(["one\n", "two\n"])]) == "one\ntwo"


def test_pieces_of_one_stream_are_one_output() -> None:
    pieces = [stream("a"), stream("b\n"), stream("oops\n", "stderr"), stream("c\n")]
    assert summarise(pieces) == "ab\n\n[stderr]\noops\n\nc"


def test_a_long_stream_keeps_head_and_tail_and_says_how_much_is_missing() -> None:
    text = "".join(f"{n}\n" for n in range(2_345))
    lines = summarise([stream(text)]).split("\n")
    assert lines[:10] == [str(n) for n in range(10)]
    assert lines[10] == "[2,325 lines left out]"
    assert lines[11:] == [str(n) for n in range(2_335, 2_345)]


def test_twenty_one_lines_are_not_cut_to_twenty_and_a_note() -> None:
    text = "\n".join(map(str, range(21)))
    assert summarise([stream(text)]) == text


def test_a_long_line_is_cut() -> None:
    assert summarise([stream("x" * 1_000_000)]) == "x" * 400 + " [999,600 characters left out]"


def test_a_progress_bar_shows_its_last_state_and_colours_go() -> None:
    text = "\x1b[32m10%\x1b[0m\r\x1b[32m100%\x1b[0m\ndone\r\n"
    assert summarise([stream(text)]) == "100%\ndone"


ZERO_DIVISION = {
    "output_type": "error",
    "ename": "ZeroDivisionError",
    "evalue": "division by zero",
    "traceback": [
        "\x1b[31m---------------------------------------------------------------------------\x1b[39m",
        "\x1b[31mZeroDivisionError\x1b[39m          Traceback (most recent call last)",
        (
            "\x1b[36mCell\x1b[39m\x1b[36m \x1b[39m\x1b[32mIn[1]\x1b[39m\x1b[32m, line 1\x1b[39m\n"
            "\x1b[32m----> \x1b[39m\x1b[32m1\x1b[39m \x1b[32m1\x1b[39m/\x1b[32m0\x1b[39m\n"
        ),
        "\x1b[31mZeroDivisionError\x1b[39m: division by zero",
    ],
}


def test_an_error_is_its_last_line_and_the_line_of_the_cell() -> None:
    assert summarise([ZERO_DIVISION]) == (
        "Cell In[1], line 1\n----> 1 1/0\nZeroDivisionError: division by zero"
    )


def test_of_a_deep_error_the_last_frame_in_the_cell_counts() -> None:
    trace = [
        "JSONDecodeError   Traceback (most recent call last)",
        "Cell In[2], line 5\n      3 import json\n      4 \n----> 5 f('{')\n",
        "Cell In[2], line 2, in f(x)\n      1 def f(x):\n----> 2     return json.loads(x)\n",
        "File /lib/json/__init__.py:346, in loads(s)\n--> 346     return decode(s)\n",
        "JSONDecodeError: Expecting property name",
    ]
    error = {
        "output_type": "error",
        "ename": "JSONDecodeError",
        "evalue": "Expecting property name",
        "traceback": trace,
    }
    assert summarise([error]) == (
        "Cell In[2], line 2, in f(x)\n"
        "----> 2     return json.loads(x)\n"
        "JSONDecodeError: Expecting property name"
    )
    assert in_full([error]) == "\n".join(trace)


def test_a_syntax_error_shows_the_line_that_was_read() -> None:
    error = {
        "output_type": "error",
        "ename": "SyntaxError",
        "evalue": "incomplete input (3046560625.py, line 1)",
        "traceback": [
            (
                "  \x1b[36mCell\x1b[39m \x1b[32mIn[3]\x1b[39m\x1b[32m, line 1\x1b[39m\n    "
                "x = (\n         ^\n\x1b[31mSyntaxError\x1b[39m: incomplete input\n"
            )
        ],
    }
    assert summarise([error]) == (
        "Cell In[3], line 1\n    x = (\nSyntaxError: incomplete input (3046560625.py, line 1)"
    )


def test_an_error_of_another_kernel_is_its_last_line() -> None:
    error = {"output_type": "error", "ename": "", "evalue": "object 'x' not found", "traceback": []}
    assert summarise([error]) == "Error: object 'x' not found"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "small",
            (
                "[data frame, 3 rows × 5 columns, types as they look]\n"
                "index | city (text) | n (int) | x (float) | ok (bool) | when (datetime)\n"
                "0 | Oslo | 1 | 1.50 | True | 2024-01-02\n"
                "1 | Rome | 2 | NaN | False | 2024-01-03\n"
                "2 | NaN | 3 | 2.25 | True | NaT"
            ),
        ),
        (
            "long",
            (
                "[data frame, 1,000 rows × 2 columns, types as they look]\n"
                "index | a (int) | b (float)\n"
                "0 | 0 | 0.000000\n"
                "1 | 1 | 0.142857\n"
                "2 | 2 | 0.285714\n"
                "3 | 3 | 0.428571\n"
                "4 | 4 | 0.571429\n"
                "[first 5 rows shown]"
            ),
        ),
        (
            "named",
            "[data frame, 2 rows × 1 column, types as they look]\nkey | v (int)\nx | 1\ny | 2",
        ),
        (
            "polars",
            '[data frame, 3 rows × 2 columns]\na (i64) | s (str)\n1 | "x"\n2 | "y"\n3 | null',
        ),
        ("multi", "   a   \n   x  y\n0  1  2\n1  3  4"),
        ("series", "0    1\n1    2\n2    3\nName: s, dtype: int64"),
        ("empty", "Empty DataFrame\nColumns: [a, b]\nIndex: []"),
    ],
)
def test_data_frames(name: str, text: str) -> None:
    assert summarise([shown(dict(BUNDLES[name]))]) == text


def test_a_wide_data_frame_says_how_many_columns_are_missing() -> None:
    head, names, row = summarise([shown(dict(BUNDLES["wide"]))]).split("\n")
    assert head == "[data frame, 1 row × 40 columns, types as they look]"
    assert names.endswith("c29 (int) | [10 more columns]")
    assert row.endswith(" | 29")


def test_a_huge_table_is_quick() -> None:
    row = "<tr><th>0</th><td>1</td></tr>"
    html = (
        '<table class="dataframe"><thead><tr><th></th><th>a</th></tr></thead><tbody>'
        f"{row * 1_000_000}</tbody></table>"
    )
    started = time.perf_counter()
    text = summarise([shown({"text/html": html, "text/plain": "…"})])
    assert time.perf_counter() - started < 1.0
    assert text.startswith("[data frame, 1,000,000 rows × 1 column")


def test_other_html_gives_way_to_its_plain_text() -> None:
    assert summarise([shown({"text/html": "<b>hi</b>", "text/plain": "hi"})]) == "hi"
    assert summarise([shown({"text/html": "<b>hi</b>"})]) == "[text/html]"


def png(width: int, height: int) -> str:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    data = (
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    )
    return base64.b64encode(data + b"\0" * 42_000).decode()


def jpeg(width: int, height: int) -> str:
    data = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width)
    return base64.encodebytes(data + b"\0" * 20).decode()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"image/png": png(640, 480), "text/plain": "<Figure>"}, "[image/png 640×480, 42 kB]"),
        ({"image/jpeg": jpeg(500, 373)}, "[image/jpeg 500×373, 37 bytes]"),
        (
            {"image/gif": base64.b64encode(b"GIF89a\x0a\x00\x14\x00" + b"\0" * 2).decode()},
            "[image/gif 10×20, 12 bytes]",
        ),
        ({"image/svg+xml": ["<svg>", "</svg>"]}, "[image/svg+xml, 11 bytes]"),
        ({"image/png": "no base64 é"}, "[image/png, 6 bytes]"),
        ({"image/png": None}, "[image/png, 0 bytes]"),
        ({"application/vnd.jupyter.widget-view+json": {}, "text/plain": "IntSlider(value=7)"},
         "[widget: IntSlider(value=7)]"),
        ({"text/latex": ["$$", "x$$"], "text/plain": "<Latex>"}, "$$x$$"),
        ({"application/json": {"a": 1}}, "[application/json]"),
    ],
)  # fmt: skip
def test_rich_outputs_are_a_line(data: dict[str, Any], text: str) -> None:
    assert summarise([shown(data)]) == text
    assert in_full([shown(data)]) == text


def test_many_outputs_are_counted() -> None:
    text = summarise([shown({"text/plain": f"{n} " + "x" * 300}) for n in range(100)])
    assert len(text) < CELL_LENGTH + 100
    assert text.endswith("more outputs left out]")


def test_full_outputs_are_whole_up_to_a_bound() -> None:
    text = "\n".join(map(str, range(5_000)))
    assert in_full([stream(text)]) == text
    huge = in_full([stream("x" * 30_000_000)])
    assert len(huge) < FULL_LENGTH + 100
    assert "[29,900,000 characters left out]" in huge


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
ODD = st.fixed_dictionaries(
    {"output_type": st.sampled_from(["stream", "error", "display_data", "execute_result", "x"])},
    optional={
        "text": VALUES,
        "name": VALUES,
        "ename": VALUES,
        "evalue": VALUES,
        "traceback": VALUES,
        "data": st.dictionaries(
            st.sampled_from(["text/plain", "text/html", "image/png", "image/jpeg", "text/latex"]),
            VALUES,
        )
        | VALUES,
    },
)


@given(st.lists(ODD | VALUES, max_size=5))
def test_damaged_outputs_never_raise(outputs: list[Any]) -> None:
    assert isinstance(summarise(outputs), str)
    assert isinstance(in_full(outputs), str)


HTML = st.lists(
    st.sampled_from(
        ["<table class='dataframe'>", "<thead>", "<tbody>", "<tr>", "<th>", "</th>", "<td>", "a",
         "</td>", "</tr>", "</table>", "<th colspan=2>", "12", "...", "&amp;", "<", "<!--", "<![",
         "-->"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@given(HTML)
def test_damaged_tables_never_raise(html: str) -> None:
    assert isinstance(summarise([shown({"text/html": html, "text/plain": "plain"})]), str)
