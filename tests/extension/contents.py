"""A contents manager with a read-only file, also where tests run as root."""

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

LOCKED = "locked.ipynb"


class LockingContents(AsyncLargeFileManager):  # type: ignore[misc]
    """Files of one name may not be written."""

    def is_writable(self, path: str) -> bool:
        """Whether the file at an API path may be written."""
        return not path.endswith(LOCKED) and bool(super().is_writable(path))
