"""`tfjit.saved_model`: models in folders, as TensorFlow 1 keeps them.

A folder holds a model with its variables, assets and signatures.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

from tfjit.client.saving.saved_model_builder import Builder, SavedModelBuilder, simple_save
from tfjit.client.saving.saved_model_constants import (
    constants,
    signature_constants,
    tag_constants,
)
from tfjit.client.saving.saved_model_loader import (
    contains_saved_model,
    load,
    maybe_saved_model_directory,
)
from tfjit.client.saving.signature_defs import (
    build_signature_def,
    build_tensor_info,
    classification_signature_def,
    get_tensor_from_tensor_info,
    predict_signature_def,
    regression_signature_def,
)
from tfjit.client.variables.variable_collections import tables_initializer
from tfjit.framework.graphs.operation import Operation


def main_op() -> Operation:
    """Return an operation for `main_op` of a builder.

    It fills the lookup tables of the default graph.
    """
    return tables_initializer()


builder: Final = SimpleNamespace(SavedModelBuilder=Builder)
loader: Final = SimpleNamespace(load=load, maybe_saved_model_directory=maybe_saved_model_directory)
signature_def_utils: Final = SimpleNamespace(
    build_signature_def=build_signature_def,
    classification_signature_def=classification_signature_def,
    predict_signature_def=predict_signature_def,
    regression_signature_def=regression_signature_def,
)
utils: Final = SimpleNamespace(
    build_tensor_info=build_tensor_info, get_tensor_from_tensor_info=get_tensor_from_tensor_info
)

__all__ = [
    "Builder",
    "SavedModelBuilder",
    "build_signature_def",
    "build_tensor_info",
    "builder",
    "classification_signature_def",
    "constants",
    "contains_saved_model",
    "get_tensor_from_tensor_info",
    "load",
    "loader",
    "main_op",
    "maybe_saved_model_directory",
    "predict_signature_def",
    "regression_signature_def",
    "signature_constants",
    "signature_def_utils",
    "simple_save",
    "tag_constants",
    "utils",
]
