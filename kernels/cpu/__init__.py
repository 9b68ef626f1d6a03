"""Kernels of the CPU. Importing this package registers the reference kernels; `builders` registers the native ones. Neither needs Numba."""

import importlib
import pkgutil

REFERENCES = tuple(
    sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name.startswith("reference_") or m.name.endswith("_reference"))
)

# Each module registers what it holds; a new file needs no list to be kept.
for _name in REFERENCES:
    importlib.import_module(f"{__name__}.{_name}")
