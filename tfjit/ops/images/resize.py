"""Images, boxes and audio."""

from __future__ import annotations

from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import same_as_input, unchanged_of_rank_at_least
from tfjit.ops.core.type_lists import HALF_TO_DOUBLE
from tfjit.ops.images.image_shapes import (
    adjusted,
    colors,
    combined_suppression,
    crops,
    drawn,
    glimpses,
    patches,
    projected,
    quantized_resized,
    resized,
    shape_of_input,
    spectrogram,
    suppression,
)
from tfjit.ops.layers.layer_shapes import mirrored_conv

register_op(
    "AdjustContrast",
    inputs=("images: T", "contrast_factor: float", "min_value: float", "max_value: float"),
    outputs=("output: float",),
    attrs=("T: {uint8, int8, int16, int32, int64, float, double}",),
    deprecated=(2, "Use AdjustContrastv2 instead"),
    shape=adjusted,
)
register_op(
    "AdjustContrastv2",
    inputs=("images: T", "contrast_factor: float"),
    outputs=("output: T",),
    attrs=("T: {half, float} = DT_FLOAT",),
    shape=adjusted,
)
register_op(
    "AdjustHue",
    inputs=("images: T", "delta: float"),
    outputs=("output: T",),
    attrs=("T: {half, float} = DT_FLOAT",),
    shape=unchanged_of_rank_at_least(3),
)
register_op(
    "AdjustSaturation",
    inputs=("images: T", "scale: float"),
    outputs=("output: T",),
    attrs=("T: {half, float} = DT_FLOAT",),
    shape=unchanged_of_rank_at_least(3),
)
register_op(
    "AudioSpectrogram",
    inputs=("input: float",),
    outputs=("spectrogram: float",),
    attrs=("window_size: int", "stride: int", "magnitude_squared: bool = false"),
    shape=spectrogram,
)
register_op(
    "CombinedNonMaxSuppression",
    inputs=(
        "boxes: float",
        "scores: float",
        "max_output_size_per_class: int32",
        "max_total_size: int32",
        "iou_threshold: float",
        "score_threshold: float",
    ),
    outputs=(
        "nmsed_boxes: float",
        "nmsed_scores: float",
        "nmsed_classes: float",
        "valid_detections: int32",
    ),
    attrs=("pad_per_class: bool = false", "clip_boxes: bool = true"),
    shape=combined_suppression,
)
register_op(
    "CropAndResize",
    inputs=("image: T", "boxes: float", "box_ind: int32", "crop_size: int32"),
    outputs=("crops: float",),
    attrs=(
        "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}",
        "method: {'bilinear', 'nearest'} = 'bilinear'",
        "extrapolation_value: float = 0.0",
    ),
    shape=crops,
)
register_op(
    "CropAndResizeGradBoxes",
    inputs=("grads: float", "image: T", "boxes: float", "box_ind: int32"),
    outputs=("output: float",),
    attrs=(
        "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}",
        "method: {'bilinear'} = 'bilinear'",
    ),
    shape=same_as_input(2),
)
register_op(
    "CropAndResizeGradImage",
    inputs=("grads: float", "boxes: float", "box_ind: int32", "image_size: int32"),
    outputs=("output: T",),
    attrs=("T: {float, half, double}", "method: {'bilinear', 'nearest'} = 'bilinear'"),
    shape=shape_of_input(3, 4),
)
register_op(
    "DrawBoundingBoxes",
    inputs=("images: T", "boxes: float"),
    outputs=("output: T",),
    attrs=("T: {float, half} = DT_FLOAT",),
    shape=drawn,
)
register_op(
    "DrawBoundingBoxesV2",
    inputs=("images: T", "boxes: float", "colors: float"),
    outputs=("output: T",),
    attrs=("T: {float, half} = DT_FLOAT",),
    shape=drawn,
)
register_op(
    "ExtractGlimpse",
    inputs=("input: float", "size: int32", "offsets: float"),
    outputs=("glimpse: float",),
    attrs=(
        "centered: bool = true",
        "normalized: bool = true",
        "uniform_noise: bool = true",
        "noise: string = 'uniform'",
    ),
    shape=glimpses,
)
register_op(
    "ExtractGlimpseV2",
    inputs=("input: float", "size: int32", "offsets: float"),
    outputs=("glimpse: float",),
    attrs=(
        "centered: bool = true",
        "normalized: bool = true",
        "uniform_noise: bool = true",
        "noise: string = 'uniform'",
    ),
    shape=glimpses,
)
register_op(
    "ExtractImagePatches",
    inputs=("images: T",),
    outputs=("patches: T",),
    attrs=(
        "ksizes: list(int) >= 4",
        "strides: list(int) >= 4",
        "rates: list(int) >= 4",
        (
            "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, "
            "uint64, complex64, complex128, bool}"
        ),
        "padding: {'SAME', 'VALID'}",
    ),
    shape=patches,
)
register_op(
    "ExtractVolumePatches",
    inputs=("input: T",),
    outputs=("patches: T",),
    attrs=(
        "ksizes: list(int) >= 5",
        "strides: list(int) >= 5",
        "T: realnumbertype",
        "padding: {'SAME', 'VALID'}",
    ),
    shape=patches,
)
register_op(
    "FusedResizeAndPadConv2D",
    inputs=("input: T", "size: int32", "paddings: int32", "filter: T"),
    outputs=("output: T",),
    attrs=(
        "T: {half, float, double}",
        "resize_align_corners: bool = false",
        "mode: {'REFLECT', 'SYMMETRIC'}",
        "strides: list(int)",
        "padding: {'SAME', 'VALID'}",
    ),
    shape=mirrored_conv,
)
register_op(
    "HSVToRGB",
    inputs=("images: T",),
    outputs=("output: T",),
    attrs=(f"T: {HALF_TO_DOUBLE} = DT_FLOAT",),
    shape=colors,
)
register_op(
    "ImageProjectiveTransformV2",
    inputs=("images: dtype", "transforms: float", "output_shape: int32"),
    outputs=("transformed_images: dtype",),
    attrs=(
        "dtype: {uint8, int32, int64, half, bfloat16, float, double}",
        "interpolation: string",
        "fill_mode: string = 'CONSTANT'",
    ),
    shape=projected,
)
register_op(
    "ImageProjectiveTransformV3",
    inputs=("images: dtype", "transforms: float", "output_shape: int32", "fill_value: float"),
    outputs=("transformed_images: dtype",),
    attrs=(
        "dtype: {uint8, int32, int64, half, bfloat16, float, double}",
        "interpolation: string",
        "fill_mode: string = 'CONSTANT'",
    ),
    shape=projected,
)
register_op(
    "NonMaxSuppression",
    inputs=("boxes: float", "scores: float", "max_output_size: int32"),
    outputs=("selected_indices: int32",),
    attrs=("iou_threshold: float = 0.5",),
    shape=suppression(1),
)
register_op(
    "NonMaxSuppressionV2",
    inputs=("boxes: T", "scores: T", "max_output_size: int32", "iou_threshold: T_threshold"),
    outputs=("selected_indices: int32",),
    attrs=("T: {half, float} = DT_FLOAT", "T_threshold: {half, float} = DT_FLOAT"),
    shape=suppression(2),
)
register_op(
    "NonMaxSuppressionV3",
    inputs=(
        "boxes: T",
        "scores: T",
        "max_output_size: int32",
        "iou_threshold: T_threshold",
        "score_threshold: T_threshold",
    ),
    outputs=("selected_indices: int32",),
    attrs=("T: {half, float} = DT_FLOAT", "T_threshold: {half, float} = DT_FLOAT"),
    shape=suppression(3),
)
register_op(
    "NonMaxSuppressionV4",
    inputs=(
        "boxes: T",
        "scores: T",
        "max_output_size: int32",
        "iou_threshold: T_threshold",
        "score_threshold: T_threshold",
    ),
    outputs=("selected_indices: int32", "valid_outputs: int32"),
    attrs=(
        "T: {half, float} = DT_FLOAT",
        "T_threshold: {half, float} = DT_FLOAT",
        "pad_to_max_output_size: bool = false",
    ),
    shape=suppression(3, padded=True),
)
register_op(
    "NonMaxSuppressionV5",
    inputs=(
        "boxes: T",
        "scores: T",
        "max_output_size: int32",
        "iou_threshold: T",
        "score_threshold: T",
        "soft_nms_sigma: T",
    ),
    outputs=("selected_indices: int32", "selected_scores: T", "valid_outputs: int32"),
    attrs=("T: {half, float} = DT_FLOAT", "pad_to_max_output_size: bool = false"),
    shape=suppression(4, padded=True),
)
register_op(
    "NonMaxSuppressionWithOverlaps",
    inputs=(
        "overlaps: float",
        "scores: float",
        "max_output_size: int32",
        "overlap_threshold: float",
        "score_threshold: float",
    ),
    outputs=("selected_indices: int32",),
    shape=suppression(3, overlaps=True),
)
register_op(
    "QuantizedResizeBilinear",
    inputs=("images: T", "size: int32", "min: float", "max: float"),
    outputs=("resized_images: T", "out_min: float", "out_max: float"),
    attrs=(
        "T: {quint8, qint32, float}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ),
    shape=quantized_resized,
)
register_op(
    "ResizeArea",
    inputs=("images: T", "size: int32"),
    outputs=("resized_images: float",),
    attrs=(
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}",
        "align_corners: bool = false",
    ),
    shape=resized,
)
register_op(
    "ResizeBicubic",
    inputs=("images: T", "size: int32"),
    outputs=("resized_images: float",),
    attrs=(
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ),
    shape=resized,
)
register_op(
    "ResizeBicubicGrad",
    inputs=("grads: float", "original_image: T"),
    outputs=("output: T",),
    attrs=("T: {float, double}", "align_corners: bool = false", "half_pixel_centers: bool = false"),
    shape=same_as_input(1),
)
register_op(
    "ResizeBilinear",
    inputs=("images: T", "size: int32"),
    outputs=("resized_images: float",),
    attrs=(
        "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double, bfloat16}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ),
    shape=resized,
)
register_op(
    "ResizeBilinearGrad",
    inputs=("grads: float", "original_image: T"),
    outputs=("output: T",),
    attrs=(
        "T: {float, bfloat16, half, double}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ),
    shape=same_as_input(1),
)
register_op(
    "ResizeNearestNeighbor",
    inputs=("images: T", "size: int32"),
    outputs=("resized_images: T",),
    attrs=(
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ),
    shape=resized,
)
register_op(
    "ResizeNearestNeighborGrad",
    inputs=("grads: T", "size: int32"),
    outputs=("output: T",),
    attrs=(
        "T: {uint8, int8, int32, half, float, double, bfloat16}",
        "align_corners: bool = false",
        "half_pixel_centers: bool = false",
    ),
    shape=resized,
)
register_op(
    "RGBToHSV",
    inputs=("images: T",),
    outputs=("output: T",),
    attrs=(f"T: {HALF_TO_DOUBLE} = DT_FLOAT",),
    shape=colors,
)
register_op(
    "ScaleAndTranslate",
    inputs=("images: T", "size: int32", "scale: float", "translation: float"),
    outputs=("resized_images: float",),
    attrs=(
        "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}",
        "kernel_type: string = 'lanczos3'",
        "antialias: bool = true",
    ),
    shape=resized,
)
register_op(
    "ScaleAndTranslateGrad",
    inputs=("grads: T", "original_image: T", "scale: float", "translation: float"),
    outputs=("output: T",),
    attrs=("T: {float}", "kernel_type: string = 'lanczos3'", "antialias: bool = true"),
    shape=same_as_input(1),
)
