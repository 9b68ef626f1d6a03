"""Standard names of graph collections."""

from __future__ import annotations

from typing import Final


class GraphKeys:
    """The keys that TF1's libraries store things under."""

    GLOBAL_VARIABLES: Final = "variables"
    VARIABLES: Final = "variables"  # the old name of GLOBAL_VARIABLES
    LOCAL_VARIABLES: Final = "local_variables"
    METRIC_VARIABLES: Final = "metric_variables"
    MODEL_VARIABLES: Final = "model_variables"
    TRAINABLE_VARIABLES: Final = "trainable_variables"
    SUMMARIES: Final = "summaries"
    QUEUE_RUNNERS: Final = "queue_runners"
    TABLE_INITIALIZERS: Final = "table_initializer"
    ASSET_FILEPATHS: Final = "asset_filepaths"
    MOVING_AVERAGE_VARIABLES: Final = "moving_average_variables"
    REGULARIZATION_LOSSES: Final = "regularization_losses"
    CONCATENATED_VARIABLES: Final = "concatenated_variables"
    SAVERS: Final = "savers"
    WEIGHTS: Final = "weights"
    BIASES: Final = "biases"
    ACTIVATIONS: Final = "activations"
    UPDATE_OPS: Final = "update_ops"
    LOSSES: Final = "losses"
    SAVEABLE_OBJECTS: Final = "saveable_objects"
    RESOURCES: Final = "resources"
    LOCAL_RESOURCES: Final = "local_resources"
    TRAINABLE_RESOURCE_VARIABLES: Final = "trainable_resource_variables"
    INIT_OP: Final = "init_op"
    LOCAL_INIT_OP: Final = "local_init_op"
    READY_OP: Final = "ready_op"
    READY_FOR_LOCAL_INIT_OP: Final = "ready_for_local_init_op"
    SUMMARY_OP: Final = "summary_op"
    GLOBAL_STEP: Final = "global_step"
    EVAL_STEP: Final = "eval_step"
    TRAIN_OP: Final = "train_op"
    COND_CONTEXT: Final = "cond_context"
    WHILE_CONTEXT: Final = "while_context"
    _SUMMARY_COLLECTION: Final = "_SUMMARY_V2"

    # Collections that hold variables, for code that goes through all of them.
    _VARIABLE_COLLECTIONS: Final = (
        GLOBAL_VARIABLES,
        LOCAL_VARIABLES,
        METRIC_VARIABLES,
        MODEL_VARIABLES,
        TRAINABLE_VARIABLES,
        MOVING_AVERAGE_VARIABLES,
        CONCATENATED_VARIABLES,
        TRAINABLE_RESOURCE_VARIABLES,
    )
