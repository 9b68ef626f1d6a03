"""Kernels of the CPU. Importing this package registers every reference kernel and native builder; Numba is not needed for that."""

import importlib
import pkgutil

# Each module registers what it holds; none is found by name elsewhere, so that a new file needs no list to be kept.
for _module in pkgutil.iter_modules(__path__):
    if _module.name not in ("vector_ir",):  # imported by generated text only: it needs Numba
        importlib.import_module(f"{__name__}.{_module.name}")
