"""Section 2.3: the numbers of fields, extension fields and dtypes, and the messages that a session
takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import hardware
from tests.contract.worlds import both, shared_world, world
from tfjit import protos

tf1 = tf.compat.v1

NUMBERS = {
    "ConfigProto": (
        "device_count 1 intra_op_parallelism_threads 2 placement_period 3 device_filters 4 "
        "inter_op_parallelism_threads 5 gpu_options 6 "
        "allow_soft_placement 7 log_device_placement 8 use_per_session_threads 9 graph_options 10 "
        "operation_timeout_in_ms 11 "
        "session_inter_op_thread_pool 12 rpc_options 13 cluster_def 14 isolate_session_state 15 "
        "experimental 16 "
        "share_cluster_devices_in_session 17 session_handle 200 tensor_fuse 201 "
        "global_io_parallelism_threads 202 run_graph_mode 203"
    ),
    "ConfigProto.experimental": (
        "collective_group_leader 1 executor_type 3 recv_buf_max_chunk 4 use_numa_affinity 5 "
        "collective_deterministic_sequential_execution 6 collective_nccl 7 "
        "share_session_state_in_clusterspec_propagation 8 "
        "disable_thread_spinning 9 share_cluster_devices_in_session 10 "
        "session_metadata 11 optimize_for_static_graph 12 disable_output_partition_graphs 14"
    ),
    "GraphOptions": (
        "enable_recv_scheduling 2 optimizer_options 3 build_cost_model 4 infer_shapes 5 "
        "place_pruned_graph 6 enable_bfloat16_sendrecv 7 "
        "timeline_step 8 build_cost_model_after 9 rewrite_options 10"
    ),
    "OptimizerOptions": (
        "do_common_subexpression_elimination 1 do_constant_folding 2 opt_level 3 "
        "do_function_inlining 4 global_jit_level 5 "
        "max_folded_constant_in_bytes 6 cpu_global_jit 7"
    ),
    "GPUOptions": (
        "per_process_gpu_memory_fraction 1 allocator_type 2 deferred_deletion_bytes 3 allow_growth "
        "4 visible_device_list 5 "
        "polling_active_delay_usecs 6 polling_inactive_delay_msecs 7 force_gpu_compatible 8 "
        "experimental 9"
    ),
    "RunOptions": (
        "trace_level 1 timeout_in_ms 2 inter_op_thread_pool 3 output_partition_graphs 5 "
        "debug_options 6 "
        "report_tensor_allocations_upon_oom 7 experimental 8"
    ),
    "CallableOptions": (
        "feed 1 fetch 2 target 3 run_options 4 tensor_connection 5 feed_devices 6 fetch_devices 7 "
        "fetch_skip_sync 8"
    ),
    "ThreadPoolOptionProto": "num_threads 1 global_name 2",
    "RewriterConfig": (
        "layout_optimizer 1 disable_model_pruning 2 constant_folding 3 memory_optimization 4 "
        "arithmetic_optimization 7 "
        "dependency_optimization 8 loop_optimization 9 function_optimization 10 debug_stripper 11 "
        "meta_optimizer_iterations 12 "
        "shape_optimization 13 remapping 14 disable_meta_optimizer 19 meta_optimizer_timeout_ms 20 "
        "common_subgraph_elimination 24 "
        "optimizers 100 custom_optimizers 200"
    ),
    "GraphDef": "node 1 library 2 version 3 versions 4",
    "NodeDef": "name 1 op 2 input 3 device 4 attr 5 experimental_debug_info 6",
    "AttrValue": "list 1 s 2 i 3 f 4 b 5 type 6 shape 7 tensor 8 placeholder 9 func 10",
    "TensorProto": (
        "dtype 1 tensor_shape 2 tensor_content 4 float_val 5 double_val 6 int_val 7 string_val 8 "
        "scomplex_val 9 int64_val 10 bool_val 11 "
        "dcomplex_val 12 half_val 13 resource_handle_val 14 variant_val 15 uint32_val 16 "
        "uint64_val 17 float8_val 18"
    ),
    "TensorShapeProto": "dim 2 unknown_rank 3",
    "VersionDef": "producer 1 min_consumer 2 bad_consumers 3",
    "StepStats": "dev_stats 1",
    "DeviceStepStats": "device 1 node_stats 2 thread_names 3",
    "NodeExecStats": (
        "node_name 1 all_start_micros 2 op_start_rel_micros 3 op_end_rel_micros 4 "
        "all_end_rel_micros 5 memory 6 output 7 timeline_label 8 "
        "scheduled_micros 9 thread_id 10 referenced_tensor 11 memory_stats 12 all_start_nanos 13"
    ),
    "RunMetadata": "step_stats 1 cost_graph 2 partition_graphs 3 function_graphs 4 "
    "session_metadata 5",
}


def descriptor(name: str) -> Any:
    outer, _, inner = name.partition(".")
    found = getattr(protos, outer).DESCRIPTOR
    return found.fields_by_name[inner].message_type if inner else found


@pytest.mark.parametrize("name", NUMBERS)
def test_field_numbers(name: str) -> None:
    words = NUMBERS[name].split()
    fields = descriptor(name).fields_by_name
    for field, number in zip(words[::2], words[1::2], strict=True):
        assert fields[field].number == int(number), field


def test_extension_fields() -> None:
    config = tfjit.ConfigProto(
        session_handle="mine",
        tensor_fuse=True,
        global_io_parallelism_threads=3,
        run_graph_mode=True,
    )
    again = tfjit.ConfigProto.FromString(
        tf1.ConfigProto.FromString(config.SerializeToString()).SerializeToString()
    )
    assert again == config
    assert not [f.number for f in tfjit.ConfigProto.DESCRIPTOR.fields if 204 <= f.number <= 209]
    # 204 and 205, varints
    foreign = config.SerializeToString() + bytes.fromhex("e00c01") + bytes.fromhex("e80c02")
    assert tfjit.ConfigProto.FromString(foreign).global_io_parallelism_threads == 3


def test_dtype_numbers() -> None:
    names = [
        "float32",
        "float64",
        "int32",
        "uint8",
        "int16",
        "int8",
        "string",
        "complex64",
        "int64",
        "bool",
        "qint8",
        "quint8",
        "qint32",
        "bfloat16",
        "qint16",
        "quint16",
        "uint16",
        "complex128",
        "float16",
        "resource",
        "variant",
        "uint32",
        "uint64",
    ]
    for number, name in enumerate(names, 1):
        assert tfjit.as_dtype(name).as_datatype_enum == number
        assert tfjit.as_dtype(number).name == name
        if name not in ("resource", "variant"):
            assert tfjit.as_dtype(number + 100).name == f"{name}_ref"
            assert tfjit.as_dtype(number + 100).base_dtype is tfjit.as_dtype(name)
    for number, name in enumerate(
        [
            "float8_e5m2",
            "float8_e4m3fn",
            "float8_e4m3fnuz",
            "float8_e4m3b11fnuz",
            "float8_e5m2fnuz",
            "int4",
            "uint4",
        ],
        24,
    ):
        assert tfjit.as_dtype(number).name == name


@both
def test_producer(front: str) -> None:
    w = world(front, lambda api: {"a": api.constant(1.0)})
    assert w.graph.as_graph_def().versions.producer == tf1.Graph().as_graph_def().versions.producer
    assert w.graph.graph_def_versions.producer >= 2474


def build(api: Any) -> dict[str, Any]:
    return {"a": api.constant([1.0, 2.0])}


@both
def test_a_config_of_either_package(front: str) -> None:
    w = shared_world(front, build)
    theirs = tf1.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
    for config in (
        theirs,
        tfjit.ConfigProto.FromString(theirs.SerializeToString()),
        theirs.SerializeToString(),
    ):
        with tfjit.Session(graph=w.graph, config=config) as session:
            assert len(session.list_devices()) == 2 + hardware.gpu_count()
            for options, metadata in (
                (tf1.RunOptions(trace_level=3), tf1.RunMetadata()),
                (tfjit.RunOptions(trace_level=3), tfjit.RunMetadata()),
            ):
                np.testing.assert_array_equal(
                    session.run(w.a, options=options, run_metadata=metadata), [1, 2]
                )
                assert metadata.step_stats.dev_stats
