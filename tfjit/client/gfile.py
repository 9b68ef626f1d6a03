"""`tfjit.gfile`: files and folders under TensorFlow 1's names.

A missing file or folder is a NotFoundError.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfjit.framework import errors

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import PathLike


@contextlib.contextmanager
def _op_errors(path: object) -> Iterator[None]:
    """Raise the operating system's errors as TensorFlow's classes."""
    try:
        yield
    except FileNotFoundError:
        raise errors.NotFoundError(None, None, f"{path}; No such file or directory") from None
    except FileExistsError:
        raise errors.AlreadyExistsError(None, None, f"{path}; File exists") from None
    except PermissionError:
        raise errors.PermissionDeniedError(None, None, f"{path}; Permission denied") from None
    except OSError as error:
        raise errors.FailedPreconditionError(None, None, f"{path}; {error.strerror}") from None


def _text(path: Any) -> str:
    return path.decode() if isinstance(path, bytes) else os.fspath(path)


class GFile:
    """A file: read, written or appended to.

    Its data is text or (mode with "b") bytes. The first use opens it.
    """

    def __init__(self, name: object, mode: str = "r") -> None:
        self.name, self.mode = name, mode
        self._file: Any = None

    def _opened(self) -> Any:
        if self._file is None:
            with _op_errors(self.name):
                self._file = open(_text(self.name), self.mode)  # noqa: SIM115  closed by close
        return self._file

    def read(self, n: int = -1) -> Any:
        """Read `n` characters or bytes; all of the rest by default."""
        return self._opened().read(n)

    def readline(self) -> Any:
        """Return the next line, with its end."""
        return self._opened().readline()

    def readlines(self) -> list[str | bytes]:
        """Return all lines that are left."""
        return list(self._opened())

    def write(self, file_content: Any) -> None:
        """Append to the file."""
        self._opened().write(file_content)

    def seek(self, offset: int = 0, whence: int = 0) -> None:
        """Go to a place in the file."""
        self._opened().seek(offset, whence)

    def tell(self) -> int:
        """Return the place in the file."""
        return int(self._opened().tell())

    def size(self) -> int:
        """Return the size in bytes."""
        with _op_errors(self.name):
            return os.path.getsize(_text(self.name))

    def flush(self) -> None:
        """Hand all data to the operating system."""
        self._opened().flush()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __iter__(self) -> Iterator[str | bytes]:
        return iter(self._opened())

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


FastGFile = Open = GFile


def Exists(filename: PathLike) -> bool:
    """Tell whether there is a file or folder."""
    return os.path.exists(_text(filename))


def IsDirectory(dirname: PathLike) -> bool:
    """Return whether there is such a folder."""
    return os.path.isdir(_text(dirname))


def Glob(filename: PathLike) -> list[str]:
    """Return the paths that a pattern, or any of several, matches."""
    patterns: Sequence[Any] = filename if isinstance(filename, (list, tuple)) else [filename]
    return [path for pattern in patterns for path in sorted(glob.glob(_text(pattern)))]


def ListDirectory(dirname: PathLike) -> list[str]:
    """Return the names in a folder."""
    with _op_errors(dirname):
        return os.listdir(_text(dirname))


def MkDir(dirname: PathLike) -> None:
    """Make a folder. Its parent must be there."""
    with _op_errors(dirname):
        os.mkdir(_text(dirname))


def MakeDirs(dirname: PathLike) -> None:
    """Make a folder and its missing parents."""
    with _op_errors(dirname):
        os.makedirs(_text(dirname), exist_ok=True)


def Remove(filename: PathLike) -> None:
    """Delete a file."""
    with _op_errors(filename):
        os.unlink(_text(filename))


def DeleteRecursively(dirname: PathLike) -> None:
    """Delete a folder with all in it."""
    with _op_errors(dirname):
        shutil.rmtree(_text(dirname))


def Copy(oldpath: PathLike, newpath: Any, overwrite: bool = False) -> None:
    """Copy a file. Raises AlreadyExistsError where there is one, unless `overwrite`."""
    if not overwrite and Exists(newpath):
        raise errors.AlreadyExistsError(None, None, f"file already exists: {newpath}")
    with _op_errors(oldpath):
        shutil.copyfile(_text(oldpath), _text(newpath))


def Rename(oldname: PathLike, newname: Any, overwrite: bool = False) -> None:
    """Give a file another name.

    Raises AlreadyExistsError where there is one, unless `overwrite`.
    """
    if not overwrite and Exists(newname):
        raise errors.AlreadyExistsError(None, None, f"file already exists: {newname}")
    with _op_errors(oldname):
        os.replace(_text(oldname), _text(newname))


def Stat(filename: PathLike) -> Any:
    """Return the operating system's facts of a file; `length` is its size."""
    with _op_errors(filename):
        found = os.stat(_text(filename))
    return _Stat(found.st_size, found.st_mtime_ns, Path(_text(filename)).is_dir())


class _Stat:
    def __init__(self, length: int, mtime_nsec: int, is_directory: bool) -> None:
        self.length, self.mtime_nsec, self.is_directory = length, mtime_nsec, is_directory


def Walk(top: PathLike, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (folder, folders in it, files in it) of a folder tree.

    The folder itself comes first, or (not in_order) last.
    """
    yield from os.walk(_text(top), topdown=in_order)
