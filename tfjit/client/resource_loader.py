"""`tfjit.resource_loader`: files beside the module that asks for them."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def _folder_of_caller() -> str:
    """Return the folder of the module that called this one."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return os.path.dirname(frame.f_code.co_filename)


def get_data_files_path() -> str:
    """Return the folder of the calling module."""
    return _folder_of_caller()


def get_path_to_datafile(path: str) -> str:
    """Return the path of a file beside the calling module."""
    return os.path.join(_folder_of_caller(), path)


def load_resource(path: str) -> bytes:
    """Return the contents of a file beside the calling module."""
    return Path(_folder_of_caller(), path).read_bytes()


def get_root_dir_with_all_resources() -> str:
    """Return the root of the data files in a run of Bazel.

    Elsewhere it is the calling module's folder.
    """
    folder = Path(_folder_of_caller())
    for inner, outer in zip([folder, *folder.parents], folder.parents, strict=False):
        if ".runfiles" in outer.name:
            return str(inner)
    return str(folder)


def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """Return the path: no file system here reads ahead by name."""
    return path
