"""NumPy kernels of the CPU, one module an op family. Importing this package registers them all.

In: a NodeSpec and the input arrays. Out: the output arrays. They serve first runs, constant folding and tests.
No Numba and no generated text belongs in here.
"""

import importlib
import pkgutil

# Each module registers its kernels; a new file needs no list to be kept.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
