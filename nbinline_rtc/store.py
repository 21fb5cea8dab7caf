"""The update store our server config switches on: whole, healing, and cheap under load.

What it does beside ``jupyter_server_ydoc``'s SQLite store, whose tables it shares:

* a document's history is complete from the first operation, so that Yjs can integrate it;
* a history with holes is set aside as a notebook and forgotten, and the file is loaded instead;
* updates of all rooms are committed in groups by one thread, and old ones are merged;
* one document has one store file, whoever opened its room;
* it knows which documents were open when a server died (``reconcile_after_crash``).

``squash_after_inactivity_of``, ``document_ttl`` and checkpoints of the stock store have no effect
here: squashing by them loses documents, and bucketed rows need no checkpoint.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from jupyter_core.paths import jupyter_data_dir
from jupyter_server.serverapp import ServerApp
from jupyter_server_ydoc.stores import SQLiteYStore
from pycrdt import Doc
from pycrdt.store import BaseYStore, YDocNotFound
from traitlets import Unicode, default
from traitlets.config import Config

from . import store_tables as tables
from .store_recovery import Reconciled, reconcile, rescue, rescued_folder
from .store_writer import StoreWriter, close_writers, keep_marks, writer_of

__all__ = [
    "SafeSQLiteYStore",
    "close_writers",
    "default_database",
    "keep_marks",
    "reconcile_after_crash",
]


def default_database() -> str:
    """The store file where none is configured: ``nbinline/ystore.db`` in the data directory."""
    return os.path.join(jupyter_data_dir(), "nbinline", "ystore.db")


class SafeSQLiteYStore(SQLiteYStore):  # type: ignore[misc]
    """Y updates of one document, in a SQLite file that all documents of a server share.

    ``write`` returns before the update is committed: it is on its way to every client already
    when it comes here, and is in the file within about 50 ms, also when the process is asked to
    stop. ``flush`` waits for it.

    Args:
        path: The document's name in the store, ``.<type>:<file id>.y``.
        metadata_callback: Gives the bytes stored beside each update.
        log: The server's log.
        **traits: ``config`` or ``parent``, and traits by name. Without ``config``, as
            ``get_document(create=True)`` builds its store, the running server's is taken, so that
            a document does not get two stores.
    """

    db_initialized: anyio.Event | None

    db_path = Unicode(
        config=True,
        help="""The SQLite file of Y updates. Defaults to nbinline/ystore.db in the Jupyter data
        directory. It should lie on a local disk.""",
    )

    @default("db_path")
    def _default_db_path(self) -> str:
        return default_database()

    def __init__(
        self, path: str, metadata_callback: Any = None, log: Any = None, **traits: Any
    ) -> None:
        if "config" not in traits and "parent" not in traits:
            traits["config"] = _config_of_server()
        if log is not None:
            traits["log"] = log
        super().__init__(path=path, metadata_callback=metadata_callback, **traits)
        self._writer: StoreWriter = writer_of(self.db_path)
        self._stored: bytes | None = None
        self._token = uuid4().hex

    async def start(
        self,
        *,
        task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
        from_context_manager: bool = False,
    ) -> None:
        """Be ready; the file itself is opened by the writing thread when it is needed."""
        self.db_initialized = anyio.Event()
        self.db_initialized.set()
        task_status.started()
        self.started.set()

    async def stop(self) -> None:
        """Commit what was written."""
        await self.flush()
        if self._task_group is not None:
            await BaseYStore.stop(self)

    async def flush(self) -> None:
        """Return when all that was written is committed."""
        await asyncio.wrap_future(self._writer.flush())

    async def write(self, data: bytes) -> None:
        """Take an update to be committed with the next group.

        Args:
            data: The update.
        """
        metadata = await self.get_metadata() if self.metadata_callback is not None else b""
        self._writer.put(self.path, data, metadata)

    async def encode_state_as_update(self, ydoc: Doc[Any]) -> None:
        """Store what the document holds beyond the stored history.

        Args:
            ydoc: The document.
        """
        update = ydoc.get_update(self._stored) if self._stored else ydoc.get_update()
        self._writer.put(self.path, update, whole=True)
        self._stored = ydoc.get_state()

    async def read(self) -> AsyncIterator[tuple[bytes, bytes, float]]:
        """Update, metadata and time of each stored row, oldest first.

        Raises:
            YDocNotFound: Nothing is stored of the document.
        """
        path = self.path
        rows = await asyncio.wrap_future(self._writer.call(lambda db: tables.read(db, path)))
        if not rows:
            raise YDocNotFound
        for row in rows:
            yield row

    async def apply_updates(self, ydoc: Doc[Any]) -> None:
        """Bring the stored history into a room's document, and the document's own start into it.

        Args:
            ydoc: The document; what it holds already (the room's first operation) is stored.

        Raises:
            YDocNotFound: Nothing is stored, or it has holes or cannot be read. Then it was set
                aside under ``nbinline/rescued`` and forgotten.
        """
        self._stored = None
        history = await self._load_whole()
        self._writer.mark(self.path, self._token)
        # A room does not stop its store; when both are gone the document is closed.
        weakref.finalize(self, self._writer.unmark, self.path, self._token).atexit = False
        if history is None:
            raise YDocNotFound
        ydoc.apply_update(history.update)
        self._writer.put(self.path, ydoc.get_update(history.state), whole=True)
        self._stored = ydoc.get_state()

    async def _load_whole(self) -> tables.History | None:
        try:
            history = await asyncio.wrap_future(self._writer.load(self.path))
        except Exception as error:
            self.log.error("The stored history of %s cannot be read: %s", self.path, error)
            await self._set_aside()
            return None
        if history is not None and history.holed:
            self.log.warning("The stored history of %s has holes; the file is loaded", self.path)
            await self._set_aside()
            return None
        return history

    async def _set_aside(self) -> None:
        """Forget the history, if a copy of it could be kept."""
        path, folder = self.path, rescued_folder()

        def work(connection: Any) -> None:
            rows = tables.rows_of(connection, path)
            if rows:
                rescue(folder, path, [row.update for row in rows])
            tables.forget(connection, path)

        try:
            await asyncio.wrap_future(self._writer.call(work))
        except Exception as error:
            self.log.error("The stored history of %s could not be set aside: %s", path, error)


def _config_of_server() -> Config:
    """What the collaboration extension of the running server gives its own stores."""
    if not ServerApp.initialized():
        return Config()
    serverapp = ServerApp.instance()
    web_app = getattr(serverapp, "web_app", None)
    extension = web_app.settings.get("jupyter_server_ydoc") if web_app is not None else None
    config: Config = (extension or serverapp).config
    return config


def reconcile_after_crash(serverapp: Any) -> list[Reconciled]:
    """Bring files up to the stored documents that a dead server left ahead of them.

    To be called once, after the extensions ``jupyter_server_fileid`` and ``jupyter_server_ydoc``
    are initialised and before the server answers: a page that reconnects first would make the
    room load the old file. It blocks. A file that somebody else changed is left as it is, and the
    stored document is exported to ``nbinline/rescued`` in the data directory.

    Args:
        serverapp: The ``ServerApp``.

    Returns:
        What was done, for each document. Empty unless this is the store in use.
    """
    extension = serverapp.web_app.settings.get("jupyter_server_ydoc")
    store_class = getattr(extension, "ystore_class", None)
    if not (isinstance(store_class, type) and issubclass(store_class, SafeSQLiteYStore)):
        return []
    database: str = store_class(path="", config=extension.config).db_path
    return reconcile(serverapp, database) if os.path.isfile(database) else []
