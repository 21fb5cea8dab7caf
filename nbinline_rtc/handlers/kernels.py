"""The route by which people have their own code cells run on the server."""

from __future__ import annotations

from jupyter_server.auth.decorator import authorized
from tornado import web

from nbinline_agent.ids import CellId
from nbinline_rtc import wire
from nbinline_rtc.cell_runs import RunCell

from .base import NbinlineHandler


class ExecuteCellHandler(NbinlineHandler):
    """Run one code cell in a kernel."""

    auth_resource = "kernels"

    @web.authenticated
    @authorized(action="execute")
    async def post(self, kernel_id: str) -> None:
        """``POST api/kernels/{id}/execute``: answers when the cell has run.

        The address and the body are those of jupyter-collaboration's executor, which takes any
        answer below 300 for success of the cell.
        """
        if not self.settings["jupyter_server_ydoc"].server_side_execution:
            raise web.HTTPError(404)
        body = self.body()
        host = await self.host()
        document = wire.text_of(body, "document_id", wire.MAX_ID)
        cell = wire.text_of(body, "cell_id", wire.MAX_ID)
        assert document is not None
        assert cell is not None
        execution = await host.cell_runs.run(
            RunCell(
                kernel_id=kernel_id,
                path=host.cell_runs.path_of(document),
                cell_id=CellId(cell),
                author=self.author,
                source_sha256=wire.source_hash_of(body),
            )
        )
        self.reply(200, {"status": execution.status, "execution_count": execution.execution_count})
