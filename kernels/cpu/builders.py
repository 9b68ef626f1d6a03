"""Imports every module of native builders."""

import importlib
import pkgutil

from tfjit.kernels import cpu

_NOT_BUILDERS = {"builders", "vector_ir", *cpu.REFERENCES}  # vector_ir is imported by generated text, where Numba is

for _module in pkgutil.iter_modules(cpu.__path__):
    if _module.name not in _NOT_BUILDERS:
        importlib.import_module(f"{cpu.__name__}.{_module.name}")
