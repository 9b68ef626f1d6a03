"""tfjit runs TensorFlow 1 graphs, compiled with Numba. `import tfjit as tf` gives the TF1-style names.

The names are fetched from the layers below when they are first used: `import tfjit` loads neither Numba nor networkx.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# public name -> module that has it; "*" modules are searched in order for what is not listed
_NAMES = {
    "Session": "tfjit.client.session",
    "BaseSession": "tfjit.client.session",
    "InteractiveSession": "tfjit.client.session",
    "get_default_session": "tfjit.client.session",
    "register_session_run_conversion_functions": "tfjit.client.fetches",
    "SessionFactory": "tfjit.runtime.factory",
    "SessionOptions": "tfjit.runtime.factory",
    "new_session": "tfjit.runtime.factory",
    "try_new_session": "tfjit.runtime.factory",
    "Graph": "tfjit.framework.graph",
    "Operation": "tfjit.framework.operation",
    "Tensor": "tfjit.framework.operation",
    "GraphKeys": "tfjit.framework.graph_keys",
    "DeviceSpec": "tfjit.framework.device_spec",
    "TensorShape": "tfjit.framework.shape",
    "Dimension": "tfjit.framework.shape",
    "DType": "tfjit.framework.dtypes",
    "as_dtype": "tfjit.framework.dtypes",
    "import_graph_def": "tfjit.framework.graph_def",
    "make_tensor_proto": "tfjit.framework.tensors",
    "make_ndarray": "tfjit.framework.tensors",
    "OpError": "tfjit.framework.errors",
    "set_random_seed": "tfjit.framework.random_seed",
    "get_seed": "tfjit.framework.random_seed",
}
_MODULES = {"errors": "tfjit.framework.errors", "dtypes": "tfjit.framework.dtypes"}
_SUBMODULES = frozenset(
    {"cli", "client", "demo", "framework", "inspection", "kernels", "model_file", "ops", "passes", "progress", "protos", "runtime", "timeline"}
)
_MESSAGES = frozenset(
    {
        "ConfigProto",
        "GPUOptions",
        "GraphDef",
        "GraphOptions",
        "MetaGraphDef",
        "NodeDef",
        "OptimizerOptions",
        "RunMetadata",
        "RunOptions",
        "SavedModel",
        "TensorProto",
    }
)
_SEARCHED = ("tfjit.framework.dtypes", "tfjit.framework.default_graph", "tfjit.ops", "tfjit.client.variables")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'tfjit' has no attribute {name!r}")
    value: Any
    if name in _SUBMODULES:
        return importlib.import_module(f"tfjit.{name}")
    if name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    elif name in _NAMES:
        value = getattr(importlib.import_module(_NAMES[name]), name)
    elif name in _MESSAGES:
        value = getattr(importlib.import_module("tfjit.protos"), name)
    else:
        for module in _SEARCHED:
            value = getattr(importlib.import_module(module), name, None)
            if value is not None:
                break
        else:
            raise AttributeError(f"module 'tfjit' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    names = {*globals(), *_NAMES, *_MODULES, *_MESSAGES}
    for module in _SEARCHED:
        names.update(n for n in dir(importlib.import_module(module)) if not n.startswith("_"))
    return sorted(names)
