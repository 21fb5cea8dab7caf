"""Routes of runs: start, look at, stop, go on."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from nbinline_agent.errors import UnknownRun
from nbinline_rtc import wire
from nbinline_rtc.people import answers_for_all, owns_server

from .base import MAX_WAIT, NbinlineHandler


class RunsHandler(NbinlineHandler):
    """Start a run; list runs."""

    @web.authenticated
    @authorized(action="read")
    async def get(self) -> None:
        """``GET runs?path=``: of one notebook, or the asker's own everywhere."""
        host = await self.host()
        path = self.get_query_argument("path", "")
        if path:
            records = await host.journal.runs(path=wire.path_of(path))
        else:
            records = await host.journal.runs(username=self.author.username)
        self.reply(200, {"runs": [wire.run_json(record) for record in records]})

    @web.authenticated
    @authorized(action="execute")
    async def post(self) -> None:
        """``POST runs``."""
        start = await self.asked()
        host = await self.host()
        record = await host.runtime.submit(start)
        self.reply(202, wire.accepted_json(record))


class RunHandler(NbinlineHandler):
    """One run: look at it, or stop it."""

    @web.authenticated
    @authorized(action="read")
    async def get(self, run_id: str) -> None:
        """``GET runs/{id}``."""
        host = await self.host()
        record = await host.journal.run(wire.run_id_of(run_id))
        if record is None:
            raise UnknownRun
        runtime = host.runtime
        asked = await runtime.approvals(record.run_id)
        me = self.author.username
        self.reply(
            200,
            {
                **wire.run_json(record),
                "live": runtime.live(record.run_id),
                "approvals": wire.approvals_json(asked),
                "may_answer": record.author.username == me or answers_for_all(me),
                "activity": runtime.activity(record.run_id),
            },
        )

    @web.authenticated
    @authorized(action="execute")
    async def delete(self, run_id: str) -> None:
        """``DELETE runs/{id}``: a run that has ended stays as it is."""
        host = await self.host()
        record = await host.runtime.cancel(wire.run_id_of(run_id), self.author)
        self.reply(202, wire.accepted_json(record))


class EventsHandler(NbinlineHandler):
    """The journal of one run."""

    @web.authenticated
    @authorized(action="read")
    async def get(self, run_id: str) -> None:
        """``GET runs/{id}/events?after=N&wait=25``."""
        host = await self.host()
        key = wire.run_id_of(run_id)
        if await host.journal.run(key) is None:
            raise UnknownRun
        after = int(self.number("after"))
        wait = min(self.number("wait"), MAX_WAIT)
        page = await host.runtime.events(key, after, wait)
        self.reply(200, wire.events_json(page))


class ContinueHandler(NbinlineHandler):
    """Go on from a partial answer."""

    @web.authenticated
    @authorized(action="execute")
    async def post(self, run_id: str) -> None:
        """``POST runs/{id}/continue``."""
        host = await self.host()
        record = await host.runtime.continue_run(
            wire.run_id_of(run_id),
            self.author,
            may_use_kernels=await self.may_use_kernels(),
            owner=owns_server(self.author.username),
        )
        self.reply(202, wire.accepted_json(record))


class RevertHandler(NbinlineHandler):
    """Take back what a run changed."""

    @web.authenticated
    @authorized(action="execute")
    async def post(self, run_id: str) -> None:
        """``POST runs/{id}/revert``: by the person who asked, or the server's owner."""
        key = wire.run_id_of(run_id)
        dry_run = wire.dry_run(self.body() if self.request.body else {})
        host = await self.host()
        reverted = await host.runtime.revert(
            key, self.author, dry_run=dry_run, owner=answers_for_all(self.author.username)
        )
        self.reply(200, wire.reverted_json(reverted))


class ApprovalHandler(NbinlineHandler):
    """Let a call of a tool through, or not."""

    @web.authenticated
    @authorized(action="execute")
    async def post(self, run_id: str, approval_id: str) -> None:
        """``POST runs/{id}/approvals/{approval_id}``: by the person who asked, once."""
        key = wire.run_id_of(run_id)
        allow, remember = wire.approval_answer(self.body())
        host = await self.host()
        await host.runtime.approve(
            key,
            approval_id,
            self.author,
            allow=allow,
            remember=remember,
            owner=answers_for_all(self.author.username),
        )
        self.reply(202, {"approval_id": approval_id, "allow": allow})
