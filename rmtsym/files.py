"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rmtsym.errors import InputError


@contextmanager
def write_whole(path: str | Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """A stream whose content replaces ``path`` when the block ends without an error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with write_whole(Path(folder) / "a.txt", "w") as stream:
    ...         _ = stream.write("whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    target = Path(path).resolve()  # a link stays, what it points to is replaced
    if target.exists() and not target.is_file():
        raise InputError(
            f"cannot write {str(path)!r}: it is a folder or a device, not a regular file"
        )
    encoding = None if "b" in mode else "utf-8"
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, mode, encoding=encoding) as stream:
            yield stream
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, target)
    except OSError as error:
        with suppress(OSError):
            os.unlink(name)
        raise InputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
