"""What the fake vendor is told to do: one JSON object a request.

A script is given in the prompt itself (``{"vendor": {...}}`` anywhere in the last user message)
or beforehand with ``POST /script``. Every key is optional::

    deltas: 20 | ["a", "b"]   how many generated pieces, or the pieces themselves
    text: "…"                 instead of deltas: cut into words
    style: "plain"            plain, rich (tables, fences, math, lists), unicode, code
    seed: 0                   of the generated text
    rate: 0                   pieces a second; 0 as fast as possible
    burst: 1                  pieces sent together (the rate stays)
    stamps: false             put <t=1764555555.123456> (the time it is sent) into each piece
    header_delay, delay: 0    seconds before the headers, before the first event
    thinking: 0               pieces of reasoning before the answer
    thinking_pause: 0         seconds of silence while reasoning
    tools: [{name, arguments, id?}]   calls after the text
    turns: [{...}, {...}]     what else holds by rounds of tool calls so far; the last one for all
                              further rounds
    refusal: "…"              the vendor's way of declining
    finish: "…" | null        instead of the vendor's word for a good end; null leaves it out
    usage: {input, output, cached, thinking} | false
    begin: true               send the vendor's first events
    terminal: true            send the vendor's last event
    done: true                chat only: send [DONE]
    hang_up: false            close the connection instead of answering
    status, headers, body, error {message, type, code}   an HTTP error instead of an answer
    error_event: {after, message, type, code}            an error inside the stream
    stall, drop, cut, garbage: {after, ...}              after that many pieces: say nothing for
                              ever (with ping: seconds between signs of life); break the
                              connection; end the response; send `bytes` (latin-1) and go on
    chunks: [1, 7]            cut the bytes of the answer into pieces of these sizes, in a cycle
    crlf: false               end lines as Windows does
    times: n                  the trouble above holds for the first n requests with this `key`
    key: "…"                  see times; the script itself by default
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

TROUBLE = ("hang_up", "status", "error_event", "stall", "drop", "cut", "garbage")

_WORDS = (
    "the notebook cell frame column value mean model data plot index row series group filter join "
    "result kernel shape sample variance figure axis label score train test split merge sort count"
).split()

_RICH = (
    """\
## Result {n}

The *mean* of `column_{n}` is **{n}.5**, see [the docs](https://example.org).

""",
    """\
| name | value | share |
|---|---:|---:|
| alpha | {n} | 0.25 |
| beta | {n}7 | 0.75 |

""",
    """\
```python
import pandas as pd

frame = pd.DataFrame({{'a': range({n})}})
print(frame.head())
```

""",
    """\
Inline $a^2 + b^2 = c^2$ and displayed:

$$
\\int_0^{n} x^2 \\, dx = \\frac{{{n}^3}}{{3}}
$$

""",
    """\
1. first step
2. second step with `code`
   - nested point
   - another one
3. last step

""",
    """\
> A quoted remark, followed by plain text that goes on for a while and then stops.

""",
)

_UNICODE = (
    "naïve ",
    "Größe ",
    "数据 ",
    "模型🙂 ",
    "👩‍👩‍👧‍👦 ",
    "e\u0301 ",
    "العربية ",
    "🇩🇪 ",
    "𝛼𝛽 ",
    "\u200b|",
)

_CODE = (
    "```python\ndef function_{n}(x: int) -> int:\n    return x * {n}\n\n\nfunction_{n}(2)\n```\n\n"
)


def find(text: str) -> dict[str, Any] | None:
    """The script inside a prompt, or None."""
    place = text.find('"vendor"')
    while place >= 0:
        start = text.rfind("{", 0, place)
        if start >= 0:
            try:
                found, _ = json.JSONDecoder().raw_decode(text, start)
            except ValueError:
                found = None
            if isinstance(found, dict) and isinstance(found.get("vendor"), dict):
                return dict(found["vendor"])
        place = text.find('"vendor"', place + 1)
    return None


def turn(script: dict[str, Any], rounds: int) -> dict[str, Any]:
    """The script as it holds after some rounds of tool calls."""
    turns = script.get("turns")
    if not turns:
        return script
    rest = {key: value for key, value in script.items() if key != "turns"}
    return {**rest, **turns[min(rounds, len(turns) - 1)]}


def pieces(script: dict[str, Any]) -> list[str]:
    """The answer's pieces, the same for the same script."""
    if "text" in script:
        return _words(str(script["text"]))
    wanted = script.get("deltas", 20)
    if isinstance(wanted, list):
        return [str(each) for each in wanted]
    return _generated(int(wanted), script.get("style", "plain"), int(script.get("seed", 0)))


def stamped(piece: str, script: dict[str, Any]) -> str:
    """The piece as it goes out now."""
    return f"<t={time.time():.6f}> {piece}" if script.get("stamps") else piece


def usage(script: dict[str, Any], prompt: str, sent: int) -> dict[str, int] | None:
    """Tokens to report, or None to stay silent."""
    said = script.get("usage", {})
    if said is False or said is None:
        return None
    return {
        "input": said.get("input", len(prompt) // 4),
        "output": said.get("output", sent),
        "cached": said.get("cached", 0),
        "thinking": said.get("thinking", script.get("thinking", 0)),
    }


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:]


def _generated(count: int, style: str, seed: int) -> list[str]:
    source = random.Random(seed)
    made: list[str] = []
    while len(made) < count:
        made.extend(_paragraph(style, source, len(made)))
    return made[:count]


def _paragraph(style: str, source: random.Random, place: int) -> Iterator[str]:
    match style:
        case "rich":
            yield from _tokens(_RICH[source.randrange(len(_RICH))].format(n=place % 90 + 10))
        case "unicode":
            yield source.choice(_UNICODE)
        case "code":
            yield from _tokens(_CODE.format(n=source.randrange(10, 1000)))
        case _:
            for _ in range(source.randint(6, 14)):
                yield source.choice(_WORDS) + " "
            yield "stop.\n\n"


def _tokens(text: str) -> list[str]:
    """Pieces of about four characters that break words, as real ones do."""
    return [text[start : start + 4] for start in range(0, len(text), 4)]
