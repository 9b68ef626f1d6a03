"""Compute ops in NumPy, in the rooms and families of `tfjit/ops/`.

`load` registers the kernels of one family. Beside the rooms: checks of inputs, and the references
of fused groups and loop programs.

In: a NodeSpec and the input arrays. Out: the output arrays. They serve first runs, constant folding
and tests. Not in here: Numba, generated text.
"""

import importlib
import importlib.util
import pkgutil
from typing import Final

_OTHER_MODULES: Final = {
    "layers.activation": "arithmetic.elementwise",  # rows of one table
    "_Fused": "fused",
    "_Loop": "loop_program",
}


def load(family: str) -> None:
    """Import the references of an op family, `_Fused` or `_Loop`."""
    module = f"{__name__}.{_OTHER_MODULES.get(family, family)}"
    package = module.rpartition(".")[0]
    if (
        importlib.util.find_spec(package) is not None
        and importlib.util.find_spec(module) is not None
    ):
        importlib.import_module(module)


def load_all() -> None:
    """Import every reference: a new file needs no list to be kept."""
    for found in pkgutil.iter_modules(__path__):
        package = importlib.import_module(f"{__name__}.{found.name}")
        for module in pkgutil.iter_modules(getattr(package, "__path__", ())):
            importlib.import_module(f"{package.__name__}.{module.name}")


__all__ = ["load", "load_all"]
