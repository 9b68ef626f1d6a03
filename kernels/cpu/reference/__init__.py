"""Compute ops in NumPy, one module an op family.

Importing the room registers all of them.

In: a NodeSpec and the input arrays. Out: the output arrays. They serve first runs, constant folding
and tests. Not in here: Numba, generated text.
"""

import importlib
import pkgutil

# Each module registers its kernels; a new file needs no list to be kept.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
