"""Name the tags, signatures, collections and files of SavedModels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

SCHEMA_VERSION: Final = 1
MAIN_OP: Final = "saved_model_main_op"
LEGACY_INIT_OP: Final = "legacy_init_op"
INIT_SIGNATURE: Final = "__saved_model_init_op"
TRAIN_SIGNATURE: Final = "__saved_model_train_op"

tag_constants: Final = SimpleNamespace(
    SERVING="serve", TRAINING="train", EVAL="eval", GPU="gpu", TPU="tpu"
)
signature_constants: Final = SimpleNamespace(
    DEFAULT_SERVING_SIGNATURE_DEF_KEY="serving_default",
    CLASSIFY_INPUTS="inputs",
    CLASSIFY_METHOD_NAME="tensorflow/serving/classify",
    CLASSIFY_OUTPUT_CLASSES="classes",
    CLASSIFY_OUTPUT_SCORES="scores",
    PREDICT_INPUTS="inputs",
    PREDICT_METHOD_NAME="tensorflow/serving/predict",
    PREDICT_OUTPUTS="outputs",
    REGRESS_INPUTS="inputs",
    REGRESS_METHOD_NAME="tensorflow/serving/regress",
    REGRESS_OUTPUTS="outputs",
)
constants: Final = SimpleNamespace(
    ASSETS_DIRECTORY="assets",
    ASSETS_KEY="saved_model_assets",
    DEBUG_DIRECTORY="debug",
    DEBUG_INFO_FILENAME_PB="saved_model_debug_info.pb",
    LEGACY_INIT_OP_KEY=LEGACY_INIT_OP,
    MAIN_OP_KEY=MAIN_OP,
    SAVED_MODEL_FILENAME_PB="saved_model.pb",
    SAVED_MODEL_FILENAME_PBTXT="saved_model.pbtxt",
    SAVED_MODEL_SCHEMA_VERSION=SCHEMA_VERSION,
    VARIABLES_DIRECTORY="variables",
    VARIABLES_FILENAME="variables",
)
