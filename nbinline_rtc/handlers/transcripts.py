"""Routes of transcripts: one run's, or an export of many."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_server.auth.decorator import authorized
from tornado import web

from nbinline_agent.errors import BadRequest, NotAllowed, UnknownRun
from nbinline_agent.journal import RunRecord
from nbinline_rtc import wire
from nbinline_rtc.transcripts import FORMATS, MOST_RUNS, as_file, transcripts
from nbinline_rtc.watching import TRANSCRIPT

from .base import NbinlineHandler


class _TranscriptHandler(NbinlineHandler):
    """What both routes share."""

    async def send(self, records: Sequence[RunRecord], name: str) -> None:
        """Send transcripts in the form that the query names, and note who read them."""
        form = self.get_query_argument("format", "json")
        if form not in FORMATS:
            raise BadRequest(f"The argument 'format' must be one of {', '.join(FORMATS)}.")
        host = await self.host()
        # First, so that nobody reads what cannot be noted, and the note stands in the transcript.
        await host.watching.note(records, self.author, TRANSCRIPT)
        found = await transcripts(records, host.journal, self.contents_manager)
        ending = "md" if form == "markdown" else form
        self.set_header("Content-Disposition", f'attachment; filename="{name}.{ending}"')
        self.set_header("Content-Type", FORMATS[form])
        self.set_header("Cache-Control", "no-store")
        self.finish(as_file(found, form))


class TranscriptHandler(_TranscriptHandler):
    """One run's."""

    @web.authenticated
    @authorized(action="read")
    async def get(self, run_id: str) -> None:
        """``GET runs/{id}/transcript?format=json``: one's own, or where one may watch."""
        host = await self.host()
        record = await host.journal.run(wire.run_id_of(run_id))
        if record is None:
            raise UnknownRun
        if not (await self.sees())(record):
            raise NotAllowed("This is somebody else's run.")
        await self.send([record], f"run-{record.run_id}")


class TranscriptsHandler(_TranscriptHandler):
    """Many runs'."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """``GET transcripts?path=&username=&format=json``: newest first, as far as one may see."""
        host = await self.host()
        sees = await self.sees()
        path = self.get_query_argument("path", "").strip("/")
        username = self.get_query_argument("username", "") or None
        records = await host.journal.runs(username=username, limit=MOST_RUNS + 1)
        if len(records) > MOST_RUNS:
            self.set_header("Nbinline-Older-Runs", "left-out")
        wanted = [
            record
            for record in records[:MOST_RUNS]
            if sees(record)
            and (not path or record.path == path or record.path.startswith(f"{path}/"))
        ]
        await self.send(wanted, "ai-runs")
