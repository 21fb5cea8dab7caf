"""Notebooks as text: what each mode tells, and what a budget leaves out and says."""

from __future__ import annotations

import base64
import json
import os
import struct
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest

from nbinline_agent.context.choices import Policy
from nbinline_agent.context.told import visible_cells
from nbinline_agent.providers import catalog
from nbinline_agent.render.frames import table_from_text
from nbinline_agent.render.outputs import in_brief, summarise
from nbinline_agent.render.text import (
    Mode,
    NotebookText,
    Part,
    TextCell,
    TextOptions,
    cells_of,
    headings,
    notebook_text,
)
from nbinline_agent.render.tokens import UnknownTokenizer, tokenizer

SHARED = os.environ.get("NBINLINE_CASES", Path(__file__).parents[3] / "shared" / "cases")
CASES = sorted(Path(SHARED, "notebooks").glob("*.ipynb"))
PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\0" * 30_000
).decode()


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def shown(**data: str) -> dict[str, Any]:
    return {
        "output_type": "display_data",
        "data": {key.replace("_", "/"): text for key, text in data.items()},
    }


def notebook() -> list[TextCell]:
    return [
        TextCell(1, "markdown", "# Analysis\n\nWhat this is about.", "intro"),
        TextCell(2, "code", "import pandas as pd\ndf = load()", "load", 1, [stream("loaded\n")]),
        TextCell(3, "code", "plot(df)", "plot", 2, [shown(image_png=PNG)]),
        TextCell(4, "markdown", "## Result\n\nIt works.", "result"),
    ]


def text_of(cells: list[TextCell], mode: Mode = Mode.STANDARD, **wishes: Any) -> NotebookText:
    return notebook_text(cells, TextOptions(mode, **wishes))


def test_the_standard_text_has_ids_numbers_and_summaries() -> None:
    assert text_of(notebook(), title="a.ipynb").text == (
        "# a.ipynb: 4 cells\n"
        "\n# %% 1 [markdown] id=intro\n# Analysis\n\nWhat this is about.\n"
        "\n# %% 2 [code] In [1] id=load\nimport pandas as pd\ndf = load()\n"
        "# outputs\nloaded\n"
        "\n# %% 3 [code] In [2] id=plot\nplot(df)\n# outputs\n[image/png 640×480, 30 kB]\n"
        "\n# %% 4 [markdown] id=result\n## Result\n\nIt works.\n"
    )


def test_the_minimal_text_has_sources_only() -> None:
    text = text_of(notebook(), Mode.MINIMAL).text
    assert "plot(df)" in text
    assert "outputs" not in text
    assert "id=" not in text


def test_outputs_follow_the_wish_in_every_mode() -> None:
    cells = [TextCell(1, "code", "x", "a", 1, [stream("".join(f"{n}\n" for n in range(90)))])]
    whole, short = "\n45\n", "[70 lines left out]"
    assert whole in text_of(cells, Mode.FULL).text
    assert short in text_of(cells, Mode.STANDARD).text
    assert short in text_of(cells, Mode.FULL, summarize_outputs=True).text
    assert short in text_of(cells, Mode.MINIMAL, summarize_outputs=True).text
    assert whole in text_of(cells, Mode.STANDARD, summarize_outputs=False).text
    assert whole in text_of(cells, Mode.TOKEN_BUDGET, summarize_outputs=False).text
    assert short in text_of(cells, Mode.TOKEN_BUDGET).text


def test_a_budget_takes_outputs_first_and_says_so() -> None:
    cells = [
        TextCell(n, "code", f"step({n})", f"c{n}", n, [stream("x" * 300)]) for n in range(1, 9)
    ]
    whole = text_of(cells, Mode.TOKEN_BUDGET, budget=100_000)
    assert whole.left_out == ()
    assert "left out" not in whole.text
    text = text_of(cells, Mode.TOKEN_BUDGET, budget=500)
    assert text.tokens <= 500
    [outputs] = text.left_out
    assert outputs.part is Part.OUTPUTS
    assert outputs.gone == tuple(range(1, 1 + len(outputs.gone)))
    assert f"# Outputs: left out in {len(outputs.gone)} cells (1–{len(outputs.gone)})" in text.text
    assert all(f"step({n})" in text.text for n in range(1, 9))


def test_then_code_far_from_the_focus_goes() -> None:
    cells = [TextCell(0 + n, "code", f"step{n}()\n" * 9, f"c{n}") for n in range(1, 31)]
    cells.append(TextCell(31, "markdown", "# End\ntext"))
    text = text_of(cells, Mode.TOKEN_BUDGET, budget=600, focus=15)
    assert "step15()\nstep15()" in text.text
    assert "step1()" not in text.text
    assert "step30()" not in text.text
    assert "# End\ntext" in text.text
    [code] = text.left_out
    assert code.part is Part.CODE
    assert "# Code: left out in" in text.text


def test_headings_of_markdown_go_last() -> None:
    cells = [
        TextCell(n, "markdown", f"# Part {n}\n\n{'words ' * 200}", f"m{n}") for n in range(1, 6)
    ]
    text = text_of(cells, Mode.TOKEN_BUDGET, budget=300)
    assert all(f"# Part {n}" in text.text for n in range(1, 6))
    assert "words" not in text.text
    assert text.left_out[0].shortened == (1, 2, 3, 4, 5)


@pytest.mark.parametrize("budget", [1, 5, 12, 30])
def test_a_budget_too_small_for_anything_still_holds(budget: int) -> None:
    text = text_of(notebook(), Mode.TOKEN_BUDGET, budget=budget)
    assert tokenizer().count(text.text) <= budget
    assert text.left_out


def test_headings_are_those_outside_fences() -> None:
    assert headings("# A\n```\n# no\n```\n## B #\nTitle\n=====\n#no") == ["# A", "## B #", "Title"]


def test_a_damaged_notebook_gives_the_cells_it_has() -> None:
    cells = cells_of(
        {
            "cells": [
                {"cell_type": "code", "source": ["a\n", "b", 3], "outputs": [7, stream("x")]},
                "no cell",
                {"cell_type": None, "source": None, "id": 5, "execution_count": True},
            ]
        }
    )
    assert [(cell.number, cell.kind, cell.source) for cell in cells] == [
        (1, "code", "a\nb"),
        (3, "raw", ""),
    ]
    assert len(cells[0].outputs) == 1
    assert cells_of({"cells": {}}) == []


def test_pictures_inside_markdown_are_named() -> None:
    source = f"See ![plot](data:image/png;base64,{PNG}) here."
    text = text_of([TextCell(1, "markdown", source)]).text
    assert "See ![plot]([image/png 640×480, 30 kB]) here." in text


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ("10%\r50%\r100%\n", "100%"),
        ("loading\r\x1b[Kdone\n", "done"),
        ("loading\x1b[2K\rdone\n", "done"),
        ("abcdef\rXY\n", "XYcdef"),
        ("\x1b[31mred\x1b[0m\n", "red"),
        ("ab\bc\n", "ac"),
        ("one\r\ntwo\r\n", "one\ntwo"),
    ],
)
def test_a_stream_is_what_a_terminal_would_show(printed: str, seen: str) -> None:
    assert summarise([stream(printed)]) == seen


def test_brief_outputs_are_one_line_each() -> None:
    trace = ["Traceback …", "Cell In[3], line 1\n----> 1 boom()", "ValueError: \x1b[31mbad\x1b[0m"]
    error = {"output_type": "error", "ename": "ValueError", "evalue": "bad", "traceback": trace}
    outputs = [stream("".join(f"line {n}\n" for n in range(1_000))), shown(image_png=PNG), error]
    assert in_brief(outputs).split("\n") == [
        "line 0 [999 more lines left out]",
        "[image/png 640×480, 30 kB]",
        "ValueError: bad",
    ]
    assert summarise([error]) == "Cell In[3], line 1\n----> 1 boom()\nValueError: bad"


def test_frames_printed_by_pandas() -> None:
    frame = pandas.DataFrame({"age": range(1_000), "annual income": 1.5, "city": "Rome"})
    for text in (repr(frame), f"{frame}\n"):
        lines = table_from_text(text).split("\n")
        assert lines[0] == "[data frame, 1,000 rows × 3 columns]"
        assert lines[1] == "index | age | annual income | city"
        assert lines[2] == "0 | 0 | 1.5 | Rome"
    assert "annual income" in summarise([stream(f"{frame}\n")])
    named = table_from_text(repr(frame.set_index("city"))).split("\n")
    assert named[1] == "city | age | annual income"
    assert named[2] == "Rome | 0 | 1.5"
    wide = pandas.DataFrame({f"column_{n}": range(100) for n in range(25)})
    with pandas.option_context("display.max_columns", None, "display.width", 80):
        found = table_from_text(repr(wide)).split("\n")
    assert found[1] == " | ".join(["index", *(f"column_{n}" for n in range(25))])


def test_frames_printed_by_polars() -> None:
    text = str(polars.DataFrame({"age": range(1_000), "home town": ["Rome"] * 1_000}))
    lines = table_from_text(text).split("\n")
    assert lines[0] == "[data frame, 1,000 rows × 2 columns]"
    assert lines[1] == "age (i64) | home town (str)"
    assert lines[2] == "0 | Rome"


def test_what_only_looks_like_a_frame_stays_as_it_is() -> None:
    for text in ("", "[3 rows x 2 columns]", "shape: (3, 2)\nno box", "a\n\nb"):
        assert table_from_text(text) == ""


def test_tokenizers_have_names() -> None:
    assert tokenizer("characters").count("äb") == 2
    assert tokenizer("estimate:4").count("abcde") == 2
    assert tokenizer("estimate:2").name == "estimate of 2 bytes a token"
    model = catalog.CONNECTIONS["openai_api"].default_model
    assert tokenizer(model).name.endswith(f"a token for {model}")
    for name in ("estimate:0", "estimate:x", "nobody"):
        with pytest.raises(UnknownTokenizer, match=r"3\.5"):
            tokenizer(name)


def test_what_a_course_hides_is_not_told() -> None:
    cells = [
        {"cell_type": "code", "source": "a = 1\n### BEGIN SOLUTION\nsecret\n### END SOLUTION\n"},
        {"cell_type": "code", "source": "### BEGIN HIDDEN TESTS\nx\n### END HIDDEN TESTS"},
        {"cell_type": "markdown", "source": "teacher", "metadata": {"tags": ["teacher"]}},
        {"cell_type": "markdown", "source": "seen", "metadata": {"tags": 3}},
    ]
    found = visible_cells({"cells": cells}, Policy(True, frozenset({"teacher"})))
    assert [cell.number for cell in found] == [1, 4]
    assert "secret" not in found[0].source
    assert len(visible_cells({"cells": cells}, Policy(False))) == 4


@pytest.mark.skipif(not CASES, reason="the shared cases are not beside this checkout")
@pytest.mark.parametrize("budget", [40, 400, 4_000])
def test_real_notebooks_in_every_mode(budget: int) -> None:
    for path in CASES:
        found = json.loads(path.read_text(encoding="utf-8"))
        cells = visible_cells(found, Policy())
        text = notebook_text(cells, TextOptions(Mode.TOKEN_BUDGET, budget=budget))
        assert text.tokens <= budget, path.name
        whole = notebook_text(cells, TextOptions(Mode.FULL)).text
        assert "BEGIN SOLUTION" not in whole
        assert "BEGIN HIDDEN" not in whole
        assert "base64" not in whole or "import base64" in whole
