"""A key never comes out of the log, whichever way it went in."""

import io
import json
import logging

import pytest
import structlog

from nbinline_agent.ids import CellId, FileId, NotebookPath, RunId
from nbinline_agent.journal import Author, RunRecord, RunStatus
from nbinline_agent.messages import Usage
from nbinline_rtc.logs import HIDDEN, Redactor, log_run, logging_to, run_context

STORED = "plain+looking/value=of?a*key"
OPENAI = "sk-proj-AbCdEf0123456789_-xyz"
ANTHROPIC = "sk-ant-api03-AbCdEf0123456789-_xyzAA"


@pytest.fixture
def log():
    """A logger as a server has it: a stream handler with a formatter, and nothing above."""
    stream = io.StringIO()
    logger = logging.Logger("server", logging.DEBUG)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    return logger, stream


@pytest.fixture
def redactor():
    redactor = Redactor()
    redactor.register(STORED)
    return redactor


class Leaky:
    def __repr__(self):
        return f"Leaky({OPENAI})"


LEAKS = [
    {"text": f"key {STORED} here"},
    {"text": f"Incorrect API key provided: {OPENAI}."},
    {"nested": {"list": [1, {"deep": (ANTHROPIC, None)}]}},
    {"headers": {"Authorization": "Bearer abcdefghijklmnop", "x-api-key": "0123456789"}},
    {"line": "authorization: bearer abcdefghijklmnop"},
    {"object": Leaky()},
    {"raw": STORED.encode()},
    {f"name-{STORED}": 1},
    {"api_key": "short"},
]
PIECES = [STORED, OPENAI, ANTHROPIC, "abcdefghijklmnop", "0123456789", "short"]


def assert_clean(text):
    assert text
    for piece in PIECES:
        assert piece not in text, text


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("fields", LEAKS)
def test_no_key_in_a_line(log, redactor, as_json, fields):
    logger, stream = log
    with logging_to(logger, redactor, as_json=as_json):
        structlog.get_logger().warning(f"event with {OPENAI}", **fields)
    assert HIDDEN in stream.getvalue()
    assert_clean(stream.getvalue())


@pytest.mark.parametrize("as_json", [False, True])
def test_no_key_in_a_traceback(log, redactor, as_json):
    logger, stream = log

    def fail():
        try:
            raise ValueError(f"refused {STORED}")
        except ValueError as error:
            raise RuntimeError(f"and {ANTHROPIC}") from error

    with logging_to(logger, redactor, as_json=as_json):
        try:
            fail()
        except RuntimeError:
            structlog.get_logger().exception("failed")
            logger.exception("failed as other packages log, with %s", OPENAI)
    text = stream.getvalue()
    assert text.count("Traceback") >= 2
    assert "refused" in text
    assert_clean(text)


def test_lines_of_other_packages_on_the_same_handlers_are_clean(log, redactor):
    logger, stream = log
    with logging_to(logger, redactor):
        logger.info("request with %s and %r", STORED, {"Authorization": f"Bearer {OPENAI}"})
        logger.warning("a broken %d format %s", STORED)
    assert_clean(stream.getvalue())
    assert "request with" in stream.getvalue()


def test_ordinary_text_passes_and_urls_with_the_servers_token_stay_usable(log, redactor):
    logger, stream = log
    line = "http://localhost:8888/lab?token=0123abcd0123abcd task-list desk-top risk-free-choices"
    with logging_to(logger, redactor):
        logger.info(line)
    assert line in stream.getvalue()


def test_the_context_of_a_run_is_on_every_line(log, redactor):
    logger, stream = log
    with logging_to(logger, redactor, as_json=True):
        with run_context(run="r1", notebook="a/b.ipynb", cell="c1"):
            structlog.get_logger().info("step", number=1)
        structlog.get_logger().info("after")
    first, second = (
        json.loads(line.removeprefix("INFO ")) for line in stream.getvalue().splitlines()
    )
    assert first == {
        "event": "step",
        "number": 1,
        "level": "info",
        "run": "r1",
        "notebook": "a/b.ipynb",
        "cell": "c1",
    }
    assert "run" not in second


def test_an_ended_run_is_one_line_with_what_it_cost(log, redactor):
    logger, stream = log
    record = RunRecord(
        run_id=RunId("r1"),
        path=NotebookPath("a.ipynb"),
        file_id=FileId("f"),
        prompt_cell_id=CellId("c1"),
        answer_cell_id=CellId("c2"),
        status=RunStatus.ERROR,
        author=Author("ada", "Ada"),
        connection="local",
        model="tiny",
        created_at=10.0,
        started_at=10.5,
        ended_at=12.0,
        usage=Usage(7, 5, 3, 2),
        steps=1,
        error_code="rate-limited",
        error_message=f"said {OPENAI}",
    )
    with logging_to(logger, redactor, as_json=True):
        log_run(record)
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line.removeprefix("INFO ")) == {
        "event": "run",
        "level": "info",
        "run": "r1",
        "notebook": "a.ipynb",
        "cell": "c1",
        "status": "error",
        "connection": "local",
        "model": "tiny",
        "author": "ada",
        "queued_ms": 500,
        "duration_ms": 1500,
        "steps": 1,
        "input_tokens": 7,
        "output_tokens": 5,
        "cached_input_tokens": 3,
        "thinking_tokens": 2,
        "error": "rate-limited",
    }


def test_levels_of_the_server_hold_and_the_handlers_are_left_as_they_were(log, redactor):
    logger, stream = log
    logger.setLevel(logging.WARNING)
    with logging_to(logger, redactor):
        structlog.get_logger().info("too low")
    assert stream.getvalue() == ""
    assert logger.handlers[0].filters == []


def test_the_redactor_tells_no_key_and_takes_no_short_one(redactor):
    redactor.register("the")
    assert redactor.text("the end") == "the end"
    assert STORED not in repr(redactor)
