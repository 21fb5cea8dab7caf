"""Routes for those who look after runs: the feed, and pauses."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from nbinline_agent.errors import NotAllowed
from nbinline_agent.journal import RunRecord
from nbinline_agent.messages import JsonValue
from nbinline_rtc import wire
from nbinline_rtc.activity import Sees
from nbinline_rtc.watching import AT_ONCE, LIVE

from .base import MAX_WAIT, NbinlineHandler

MAX_REASON = 200
"""Characters that somebody may give as the reason of a pause."""


class ActivityHandler(NbinlineHandler):
    """What happens in the runs of this server, as far as the person may see."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """``GET activity?after=N&wait=25&path=``; without ``after`` the runs as they stand."""
        host = await self.host()
        watching, feed = host.watching, host.watching.feed
        sees = self._within(await self.sees())
        start = not self.get_query_argument("after", "")
        if start:
            page = feed.page(feed.last_seq, sees)
        else:
            wait = min(self.number("wait"), MAX_WAIT)
            page = await feed.wait(int(self.number("after")), sees, wait)
        told: dict[str, JsonValue] = {
            "events": [entry.to_json() for entry in page.entries],
            "last_seq": page.last_seq,
            "gap": page.gap,
        }
        shown = [entry.record for entry in page.entries if entry.record is not None]
        if start or page.gap:
            runs = feed.runs(sees)[:AT_ONCE]
            shown += runs
            told["runs"] = [
                {**wire.run_json(each), "report": None, "live": host.runtime.live(each.run_id)}
                for each in runs
            ]
            told["pauses"] = [pause.to_json() for pause in watching.pauses.all()]
        self.reply(200, told)
        await watching.note(shown, self.author, LIVE)

    def _within(self, sees: Sees) -> Sees:
        """The same, below the path of the query."""
        path = self.get_query_argument("path", "").strip("/")
        if not path:
            return sees

        def seen(record: RunRecord) -> bool:
            inside = record.path == path or record.path.startswith(f"{path}/")
            return inside and sees(record)

        return seen


class PausesHandler(NbinlineHandler):
    """Pause AI in a notebook, a folder or on the server, and resume it."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """``GET pauses``."""
        host = await self.host()
        self.reply(200, {"pauses": [pause.to_json() for pause in host.watching.pauses.all()]})

    @web.authenticated
    @authorized(action="execute")
    async def put(self) -> None:
        """``PUT pauses {path, reason?, stop?}``; ``stop: true`` ends the runs there as well."""
        host = await self.host()
        fields = self.body()
        reason = wire.text_of(fields, "reason", MAX_REASON, required=False) or ""
        path, file_id = _place(fields.get("path", "")), ""
        if path.endswith(".ipynb"):
            path, file_id = await host.runtime.resolve(wire.path_of(path))
        await self._check(path)
        watching, me = host.watching, self.author
        pause = await watching.pauses.pause(path, file_id, me.username, me.display_name, reason)
        stopped: list[JsonValue] = []
        if fields.get("stop") is True:
            for record in watching.live_runs(path, file_id):
                await host.runtime.cancel(record.run_id, me)
                stopped.append(record.run_id)
        watching.feed.add("paused", pause.to_json())
        self.reply(200, {"pause": pause.to_json(), "stopped": stopped})

    @web.authenticated
    @authorized(action="execute")
    async def delete(self) -> None:
        """``DELETE pauses?path=``: the pause of this very path; none is no error."""
        host = await self.host()
        path = _place(self.get_query_argument("path", ""))
        await self._check(path)
        watching = host.watching
        ended = await watching.pauses.resume(path)
        if ended is not None:
            watching.feed.add("resumed", {**ended.to_json(), "resumed_by": self.author.username})
        self.reply(200, {"pauses": [pause.to_json() for pause in watching.pauses.all()]})

    async def _check(self, path: str) -> None:
        if not (await self.watches())(path):
            raise NotAllowed("Only an instructor, or the owner of the server, may pause AI here.")


def _place(path: JsonValue) -> str:
    """A notebook or folder below the server's root; empty for the root itself.

    Raises:
        BadRequest: It is no such path.
    """
    return wire.path_of(path) if path not in ("", "/") else ""
