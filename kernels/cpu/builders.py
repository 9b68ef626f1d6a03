"""Imports every module of native builders."""

import importlib
import pkgutil

from tfjit.kernels import cpu

_NOT_BUILDERS = {"builders", *cpu.REFERENCES}

for _module in pkgutil.iter_modules(cpu.__path__):
    if _module.name not in _NOT_BUILDERS and not _module.name.endswith("_ir"):  # those are for generated text, where Numba is
        importlib.import_module(f"{cpu.__name__}.{_module.name}")
