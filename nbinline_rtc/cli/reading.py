"""Commands that read notebooks: text, inspect, search, get, tokens."""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nbinline_agent.render.outputs import in_brief, in_full, summarise
from nbinline_agent.render.text import (
    DEFAULT_BUDGET,
    Mode,
    NotebookText,
    TextCell,
    TextOptions,
    headings,
    notebook_text,
)
from nbinline_agent.render.tokens import DEFAULT, Tokenizer, UnknownTokenizer, tokenizer

from .commands import Command, CommandFailed, ExitCode, json_argument, print_json
from .notebooks import Source, hidden_argument, notebook_arguments, read_source
from .progress import followed
from .servers import server_arguments


def run_text(arguments: argparse.Namespace) -> int:
    """Print a notebook as text for a model."""
    source = read_source(arguments)
    cells = source.cells(show_hidden=arguments.show_hidden)
    budgeted = arguments.budget is not None
    options = TextOptions(
        mode=Mode(arguments.mode or (Mode.TOKEN_BUDGET if budgeted else Mode.STANDARD)),
        budget=arguments.budget if budgeted else DEFAULT_BUDGET,
        counter=_counter(arguments),
        summarize_outputs=arguments.summarize_outputs,
        focus=None if arguments.focus is None else _find(cells, arguments.focus, source).number,
        title=source.title,
    )
    if budgeted and options.mode is not Mode.TOKEN_BUDGET:
        raise CommandFailed("--budget belongs to --mode token-budget.", ExitCode.USAGE)
    text = notebook_text(cells, options)
    if arguments.json:
        print_json(_text_json(text, source, options))
    else:
        sys.stdout.write(text.text)
    return ExitCode.OK


def _text_json(text: NotebookText, source: Source, options: TextOptions) -> dict[str, Any]:
    return {
        "notebook": source.title,
        "from": source.where,
        "mode": options.mode.value,
        "budget": options.budget if options.mode is Mode.TOKEN_BUDGET else None,
        "tokens": text.tokens,
        "tokenizer": text.counter,
        "cells": text.cells,
        "left_out": [asdict(each) for each in text.left_out],
        "text": text.text,
    }


def _text_arguments(parser: argparse.ArgumentParser) -> None:
    notebook_arguments(parser)
    parser.add_argument(
        "--mode",
        choices=[mode.value for mode in Mode],
        help="how much is told (default: standard, or token-budget where --budget is given)",
    )
    parser.add_argument(
        "--budget", type=_natural, metavar="TOKENS", help="tokens that the whole text may have"
    )
    parser.add_argument(
        "--focus", metavar="CELL", help="the cell that matters most: its id or its number"
    )
    outputs = parser.add_mutually_exclusive_group()
    outputs.add_argument(
        "--summarize-outputs",
        action="store_true",
        default=None,
        help="summaries of outputs, whatever the mode",
    )
    outputs.add_argument(
        "--whole-outputs",
        dest="summarize_outputs",
        action="store_false",
        default=None,
        help="whole outputs, as far as they fit",
    )
    _tokenizer_argument(parser)
    hidden_argument(parser)
    json_argument(parser)


def _tokenizer_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokenizer",
        default=DEFAULT,
        metavar="NAME",
        help="what counts tokens: estimate, estimate:BYTES, characters, or a model's id "
        "(default: %(default)s)",
    )


def _counter(arguments: argparse.Namespace) -> Tokenizer:
    try:
        return tokenizer(arguments.tokenizer)
    except UnknownTokenizer as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from None


def _natural(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 at least")
    return number


def _find(cells: Sequence[TextCell], wanted: str, source: Source) -> TextCell:
    """A cell by its id, or by its number as people count."""
    for cell in cells:
        if cell.id == wanted:
            return cell
    for cell in cells:
        if wanted.isdecimal() and cell.number == int(wanted):
            return cell
    raise CommandFailed(
        f"There is no cell {wanted!r} in {source.title}. inspect lists them.", ExitCode.NOT_FOUND
    )


def run_inspect(arguments: argparse.Namespace) -> int:
    """Print what a notebook is made of, a line a cell."""
    source = read_source(arguments)
    cells = source.cells(show_hidden=arguments.show_hidden)
    told = _inspected(source, cells)
    if arguments.json:
        print_json(told)
        return ExitCode.OK
    fit = _fit_to_terminal()
    kernel = f"{told['kernel'] or 'no kernel named'}, nbformat {told['nbformat']}"
    print(f"{source.title} ({source.where}): {len(cells)} cells, {kernel}")
    for cell in told["cells"]:
        count = "" if cell["execution_count"] is None else f"In [{cell['execution_count']}]"
        outputs = f"→ {len(cell['outputs'])} outputs" if cell["outputs"] else ""
        parts = (cell["kind"], count, cell["first_line"], outputs)
        print(
            fit(f"{cell['number']:>4}  {cell['id'] or '-':<12}  {'  '.join(filter(None, parts))}")
        )
    return ExitCode.OK


def _inspected(source: Source, cells: Sequence[TextCell]) -> dict[str, Any]:
    notebook = source.notebook
    metadata = notebook.get("metadata")
    spec = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    return {
        "notebook": source.title,
        "from": source.where,
        "nbformat": f"{notebook.get('nbformat', '?')}.{notebook.get('nbformat_minor', '?')}",
        "kernel": spec.get("name") if isinstance(spec, dict) else None,
        "cells": [
            {
                "number": cell.number,
                "id": cell.id,
                "kind": cell.kind,
                "execution_count": cell.execution_count,
                "lines": cell.source.count("\n") + 1 if cell.source else 0,
                "first_line": _first_line(cell.source),
                "headings": headings(cell.source) if cell.kind == "markdown" else [],
                "outputs": in_brief(cell.outputs).splitlines(),
            }
            for cell in cells
        ],
    }


def _first_line(source: str) -> str:
    return next((line.strip() for line in source.splitlines() if line.strip()), "")


def _fit_to_terminal() -> Callable[[str], str]:
    """Cuts lines at the terminal's edge; what goes into a pipe stays whole."""
    if not sys.stdout.isatty():
        return str
    width = shutil.get_terminal_size().columns

    def cut(line: str) -> str:
        return line if len(line) <= width else f"{line[: width - 1]}…"

    return cut


def _inspect_arguments(parser: argparse.ArgumentParser) -> None:
    notebook_arguments(parser)
    hidden_argument(parser)
    json_argument(parser)


def run_search(arguments: argparse.Namespace) -> int:
    """Print the lines of notebooks in which a text stands."""
    try:
        wanted = re.compile(
            arguments.query if arguments.regex else re.escape(arguments.query),
            0 if arguments.case else re.IGNORECASE,
        )
    except re.error as error:
        raise CommandFailed(f"That is no regular expression: {error}.", ExitCode.USAGE) from None
    hits: list[dict[str, Any]] = []
    names = list(_notebooks_below(arguments.notebooks))
    for name in followed(names, "Searching", enabled=len(names) > 1):
        arguments.notebook = name
        hits += _hits(read_source(arguments), wanted, arguments)
    if arguments.json:
        print_json({"query": arguments.query, "hits": hits})
    fit = _fit_to_terminal()
    for hit in () if arguments.json else hits:
        place = f"{hit['notebook']}:{hit['number']}:{hit['in']}:{hit['line']}"
        print(fit(f"{place}: {hit['text']}"))
    return ExitCode.OK if hits else ExitCode.FAILED


def _notebooks_below(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if not Path(name).is_dir():
            yield name
            continue
        for path in sorted(Path(name).rglob("*.ipynb")):
            if not any(part.startswith(".") for part in path.relative_to(name).parts):
                yield str(path)


def _hits(
    source: Source, wanted: re.Pattern[str], arguments: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    for cell in source.cells(show_hidden=arguments.show_hidden):
        if arguments.kind and cell.kind != arguments.kind:
            continue
        texts = {"source": cell.source}
        if arguments.outputs:
            texts["outputs"] = in_full(cell.outputs)
        for place, text in texts.items():
            for number, line in enumerate(text.splitlines(), 1):
                if wanted.search(line):
                    yield {
                        "notebook": source.title,
                        "from": source.where,
                        "number": cell.number,
                        "id": cell.id,
                        "kind": cell.kind,
                        "in": place,
                        "line": number,
                        "text": line,
                    }


def _search_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", help="the text that is looked for")
    parser.add_argument("notebooks", nargs="+", help="notebooks, and folders with notebooks")
    parser.add_argument("--regex", action="store_true", help="the query is a regular expression")
    parser.add_argument("--case", action="store_true", help="upper and lower case matter")
    parser.add_argument("--kind", choices=["code", "markdown", "raw"], help="only these cells")
    parser.add_argument("--outputs", action="store_true", help="look into outputs as well")
    parser.add_argument("--saved", action="store_true", help="read the files as they are saved")
    server_arguments(parser)
    hidden_argument(parser)
    json_argument(parser)


def run_get(arguments: argparse.Namespace) -> int:
    """Print cells as they stand there."""
    source = read_source(arguments)
    cells = source.cells(show_hidden=arguments.show_hidden)
    found = [_find(cells, wanted, source) for wanted in arguments.cells]
    render = {"none": None, "summary": summarise, "full": in_full}[arguments.outputs]
    if arguments.json:
        print_json(
            {
                "notebook": source.title,
                "from": source.where,
                "cells": [asdict(cell) | {"outputs": list(cell.outputs)} for cell in found],
            }
        )
        return ExitCode.OK
    for at, cell in enumerate(found):
        if at:
            print()
        print(cell.source.rstrip("\n"))
        if render is not None and (text := render(cell.outputs)):
            print(f"\n# outputs\n{text}")
    return ExitCode.OK


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    notebook_arguments(parser)
    parser.add_argument("cells", nargs="+", help="cells, by id or by number from 1")
    parser.add_argument(
        "--outputs",
        choices=["none", "summary", "full"],
        default="none",
        help="what of their outputs is printed (default: %(default)s)",
    )
    hidden_argument(parser)
    json_argument(parser)


def run_tokens(arguments: argparse.Namespace) -> int:
    """Print how many tokens a notebook has, and where they are."""
    source = read_source(arguments)
    cells = source.cells(show_hidden=arguments.show_hidden)
    counter = _counter(arguments)
    modes = {
        mode.value: notebook_text(cells, TextOptions(mode, counter=counter)).tokens
        for mode in (Mode.MINIMAL, Mode.STANDARD, Mode.FULL)
    }
    told: dict[str, Any] = {
        "notebook": source.title,
        "from": source.where,
        "tokenizer": counter.name,
        "tokens": modes,
    }
    if arguments.breakdown:
        told["cells"] = [_priced(cell, counter) for cell in cells]
    if arguments.json:
        print_json(told)
        return ExitCode.OK
    print(f"{source.title} ({source.where}), by {counter.name}")
    for mode, number in modes.items():
        print(f"{number:>10,}  {mode}")
    for cell in sorted(told.get("cells", ()), key=lambda each: -each["tokens"]):
        print(
            f"{cell['tokens']:>10,}  cell {cell['number']} ({cell['kind']}, {cell['id'] or '-'}): "
            f"source {cell['source']:,}, outputs {cell['outputs']:,}, "
            f"summarized {cell['outputs_summarized']:,}"
        )
    return ExitCode.OK


def _priced(cell: TextCell, counter: Tokenizer) -> dict[str, Any]:
    source = counter.count(cell.source)
    outputs = counter.count(in_full(cell.outputs))
    return {
        "number": cell.number,
        "id": cell.id,
        "kind": cell.kind,
        "tokens": source + outputs,
        "source": source,
        "outputs": outputs,
        "outputs_summarized": counter.count(summarise(cell.outputs)),
    }


def _tokens_arguments(parser: argparse.ArgumentParser) -> None:
    notebook_arguments(parser)
    parser.add_argument("--breakdown", action="store_true", help="cell by cell, the largest first")
    _tokenizer_argument(parser)
    hidden_argument(parser)
    json_argument(parser)


COMMANDS = (
    Command(("text",), "print a notebook as text for a model", run_text, _text_arguments),
    Command(("inspect",), "list a notebook's cells", run_inspect, _inspect_arguments),
    Command(("search",), "search notebooks", run_search, _search_arguments),
    Command(("get",), "print cells of a notebook", run_get, _get_arguments),
    Command(("tokens",), "count a notebook's tokens", run_tokens, _tokens_arguments),
)
"""The rows of this family."""
