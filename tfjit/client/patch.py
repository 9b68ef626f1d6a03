"""`patch_tensorflow()`: programs that make TensorFlow sessions get tfjit's instead."""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

_HOME: Final = "tensorflow.python.client.session"  # where TensorFlow defines its sessions; everything else takes them from there
_NAMES: Final = ("Session", "InteractiveSession")

_lock: Final = threading.Lock()
_patches = 0
_theirs: Final[dict[str, Any]] = {}  # TensorFlow's classes while they are replaced


class Patch:
    """An active patch. As a context manager it ends with its block; `undo` ends it too. Of several, the last to end restores TensorFlow."""

    def __init__(self) -> None:
        self._active = True

    def undo(self) -> None:
        """End this patch; a second call does nothing."""
        global _patches
        with _lock:
            if not self._active:
                return
            self._active = False
            _patches -= 1
            if _patches:
                return
            if _finder in sys.meta_path:
                sys.meta_path.remove(_finder)
            for name, theirs in _theirs.items():
                _swap(name, _ours()[name], theirs)
            _theirs.clear()

    def __enter__(self) -> Patch:
        return self

    def __exit__(self, *exc: object) -> None:
        self.undo()


def patch_tensorflow() -> Patch:
    """Make `tf.compat.v1.Session` and `InteractiveSession` tfjit's, now or when the process imports TensorFlow.

    Sessions that exist stay what they are. Names that a program took out of TensorFlow's modules before (`from ... import Session`) are
    replaced in TensorFlow's own modules only. Returns the patch, also a context manager:

        with tfjit.patch_tensorflow():
            session = tf.compat.v1.Session()  # a tfjit.Session
    """
    global _patches
    with _lock:
        _patches += 1
        if _patches == 1:
            home = sys.modules.get(_HOME)
            if home is not None:
                _replace(home)
            else:
                sys.meta_path.insert(0, _finder)
    return Patch()


@functools.cache
def _ours() -> dict[str, Any]:
    """tfjit's classes, with TensorFlow's default graph for a session that is given none."""
    module = importlib.import_module("tfjit.client.session")

    def of_default_graph(base: Any) -> Any:
        def __init__(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
            if graph is None:
                graph = sys.modules["tensorflow.python.framework.ops"].get_default_graph()
            base.__init__(self, target, graph, config)

        return type(base.__name__, (base,), {"__init__": __init__, "__module__": base.__module__, "__doc__": base.__doc__})

    return {name: of_default_graph(getattr(module, name)) for name in _NAMES}


def _replace(home: ModuleType) -> None:
    for name, ours in _ours().items():
        _theirs[name] = getattr(home, name)
        _swap(name, _theirs[name], ours)


def _swap(name: str, old: Any, new: Any) -> None:
    """Put `new` wherever one of TensorFlow's modules has `old` under that name."""
    for module_name, module in list(sys.modules.items()):
        if module_name.partition(".")[0] == "tensorflow" and isinstance(module, ModuleType) and vars(module).get(name) is old:
            setattr(module, name, new)


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for TensorFlow's session module and puts tfjit's classes into it before anything takes TensorFlow's from there."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _HOME:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        with _lock:
            if _patches:
                _replace(module)


_finder: Final = _Finder()
