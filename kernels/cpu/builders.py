"""Imports every module of native builders."""

import importlib
import pkgutil

from tfjit.kernels import cpu


def _import_all(package: str, paths: list[str]) -> None:
    for module in pkgutil.iter_modules(paths):
        if module.name.endswith("_ir") or module.name in ("builders", "reference"):
            continue  # *_ir modules serve generated text, in a process that has Numba
        found = importlib.import_module(f"{package}.{module.name}")
        if module.ispkg:
            _import_all(found.__name__, list(found.__path__))


_import_all(cpu.__name__, list(cpu.__path__))
