"""Compute ops in NumPy, in the rooms and families of `tfjit/ops/`.

Importing the room registers all of them. Beside the rooms: checks of inputs, and the references of
fused groups and loop programs.

In: a NodeSpec and the input arrays. Out: the output arrays. They serve first runs, constant folding
and tests. Not in here: Numba, generated text.
"""

import importlib
import pkgutil

# Each module registers its kernels; a new file needs no list to be kept.
for _found in pkgutil.iter_modules(__path__):
    _package = importlib.import_module(f"{__name__}.{_found.name}")
    for _module in pkgutil.iter_modules(getattr(_package, "__path__", ())):
        importlib.import_module(f"{_package.__name__}.{_module.name}")
