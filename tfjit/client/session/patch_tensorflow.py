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

# TensorFlow defines its sessions there; all other modules take them from there
_HOME: Final = "tensorflow.python.client.session"
_NAMES: Final = ("Session", "InteractiveSession")

_lock: Final = threading.Lock()
_patches = 0
_theirs: Final[dict[str, Any]] = {}  # TensorFlow's classes while they are replaced


class Patch:
    """An active patch.

    As a context manager it ends with its block; `undo` ends it too. Of several, the last to end
    restores TensorFlow.
    """

    def __init__(self) -> None:
        self._active = True

    def undo(self) -> None:
        """End this patch; a second call does nothing."""
        global _patches
        with _lock:
            if not self._active:
                return
            if _patches == 1:
                if _theirs:
                    _swap([(name, _ours()[name], theirs) for name, theirs in _theirs.items()])
                    _theirs.clear()
                if _finder in sys.meta_path:
                    sys.meta_path.remove(_finder)
            self._active = False
            _patches -= 1

    def __enter__(self) -> Patch:
        return self

    def __exit__(self, *exc: object) -> None:
        self.undo()


def patch_tensorflow() -> Patch:
    """Replace TensorFlow's Session and InteractiveSession by tfjit's.

    The replacement happens now or when the process imports TensorFlow, in `tf.compat.v1`. Sessions
    that exist stay as they are. Names that a program took out of TensorFlow's modules before (`from
    ... import Session`) are replaced in TensorFlow's own modules only. Returns the patch, also a
    context manager:

        with tfjit.patch_tensorflow():
            session = tf.compat.v1.Session()  # a tfjit.Session
    """
    global _patches
    # not under the lock: it may wait for others
    importlib.import_module("tfjit.client.session.session")
    while True:
        if _HOME in sys.modules:
            home = importlib.import_module(_HOME)  # waits for a thread that is importing it
            if not all(hasattr(home, name) for name in _NAMES):
                raise ImportError(
                    "patch_tensorflow() was called in the middle of this thread's import of "
                    f"{_HOME}: "
                    "call it before or after `import tensorflow`"
                )
        with _lock:
            if not _patches:
                loaded = sys.modules.get(_HOME)
                if loaded is None:
                    sys.meta_path.insert(0, _finder)
                elif all(hasattr(loaded, name) for name in _NAMES):
                    _replace(loaded)
                else:
                    continue  # another thread has begun to import it meanwhile
            _patches += 1
            return Patch()


@functools.cache
def _ours() -> dict[str, Any]:
    """Return tfjit's classes, made over TensorFlow's default graph. Called under `_lock`."""
    module = importlib.import_module("tfjit.client.session.session")

    def of_default_graph(base: Any) -> Any:
        def __init__(self: Any, target: str = "", graph: Any = None, config: object = None) -> None:
            if graph is None:
                graph = sys.modules["tensorflow.python.framework.ops"].get_default_graph()
            base.__init__(self, target, graph, config)

        return type(
            base.__name__,
            (base,),
            {"__init__": __init__, "__module__": base.__module__, "__doc__": base.__doc__},
        )

    return {name: of_default_graph(getattr(module, name)) for name in _NAMES}


def _replace(home: ModuleType) -> None:
    """Put tfjit's classes in the place of TensorFlow's, which `_theirs` keeps."""
    theirs = {name: getattr(home, name) for name in _NAMES}
    _swap([(name, theirs[name], ours) for name, ours in _ours().items()])
    _theirs.update(theirs)


def _swap(changes: Sequence[tuple[str, Any, Any]]) -> None:
    """Replace the old classes in TensorFlow's modules; all or none.

    changes: (name, old class, new class). The defining module comes first, and the search is
    repeated until it finds nothing: another thread may meanwhile import modules that take the class
    over.
    """
    done: list[tuple[ModuleType, str, Any, Any]] = []
    try:
        for name, old, new in changes:
            holders = _holders(name, old)
            while holders:
                for module in holders:
                    done.append((module, name, old, new))
                    setattr(module, name, new)
                changed = {id(module) for module, changed_name, *_ in done if changed_name == name}
                holders = [module for module in _holders(name, old) if id(module) not in changed]
    except BaseException:
        for module, name, old, new in reversed(done):
            if vars(module).get(name) is new:  # the failed module may be this one
                setattr(module, name, old)
        raise


def _holders(name: str, value: object) -> list[ModuleType]:
    """Return TensorFlow's modules that have the value under the name.

    The defining one comes first. Other threads import while this runs. `dict.copy` makes one table
    in one call that runs no Python code, so that no other thread can change the dictionary in it.
    `list(items())` makes a tuple for each module; that may start a garbage collection, and
    finalizers let others run.
    """
    modules = sys.modules.copy()
    names = [
        _HOME,
        *(found for found in modules if found.partition(".")[0] == "tensorflow" and found != _HOME),
    ]
    found = (modules.get(each) for each in names)
    return [m for m in found if isinstance(m, ModuleType) and vars(m).get(name) is value]


class _Finder(importlib.abc.MetaPathFinder):
    """Puts tfjit's classes into TensorFlow's session module at its import.

    This happens before any other module takes TensorFlow's classes from there.
    """

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
