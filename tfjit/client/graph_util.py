"""`tfjit.graph_util`: parts of GraphDefs, constants in place of variables."""

from __future__ import annotations

from tfjit.client.saving.frozen_graph import convert_variables_to_constants
from tfjit.client.saving.sub_graph import (
    extract_sub_graph,
    must_run_on_cpu,
    remove_training_nodes,
    tensor_shape_from_node_def_name,
)
from tfjit.framework.graphs.graph_def import import_graph_def

__all__ = [
    "convert_variables_to_constants",
    "extract_sub_graph",
    "import_graph_def",
    "must_run_on_cpu",
    "remove_training_nodes",
    "tensor_shape_from_node_def_name",
]
