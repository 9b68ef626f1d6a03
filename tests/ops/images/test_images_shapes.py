"""Shape rules of images, boxes and audio against TensorFlow's static shape inference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.ops.shape_cases import Case, expand, ints, ours, scalar, theirs

pytest.importorskip("tensorflow")

F, I = "float32", "int32"


def resizes() -> Iterator[Case]:
    images = (2, 5, 6, 3)
    for op in (
        "ResizeArea",
        "ResizeBicubic",
        "ResizeBilinear",
        "ResizeNearestNeighbor",
        "ResizeNearestNeighborGrad",
    ):
        for size in (
            ints(7, 8),
            ints(7),
            ints(0, 3),
            ints(-1, 3),
            ints(7, 8)[None],
            (2,),
            (3,),
            (),
        ):
            yield from expand(op, [images, size], [F, I])
        yield from expand(op, [images[1:], ints(7, 8)], [F, I])
    for op in ("ResizeBilinearGrad", "ResizeBicubicGrad"):
        yield from expand(op, [images, (2, 3, 4, 3)])
        yield from expand(op, [images, (3,)])
    yield from expand("ScaleAndTranslate", [images, ints(7, 8), (2,), (2,)], [F, I, F, F])
    yield from expand("ScaleAndTranslateGrad", [images, (2, 3, 4, 3), (2,), (2,)])
    yield from expand("QuantizedResizeBilinear", [images, ints(7, 8), (), ()], [F, I, F, F])
    yield from expand("QuantizedResizeBilinear", [images, ints(7, 8), (1,), ()], [F, I, F, F])


def adjustments() -> Iterator[Case]:
    for op in ("AdjustContrastv2", "AdjustHue", "AdjustSaturation"):
        for images in ((2, 5, 6, 3), (5, 6, 4), (5, 3)):
            yield from expand(op, [images, ()])
        yield from expand(op, [(5, 6, 3), (1,)])
    for op in ("RGBToHSV", "HSVToRGB"):
        for images in ((5, 6, 3), (3,), (2, 4), ()):
            yield from expand(op, [images])
    for images, boxes in (((2, 5, 6, 3), (2, 7, 4)), ((2, 5, 6, 3), (7, 5)), ((5, 6), (1, 4))):
        yield from expand("DrawBoundingBoxes", [images, boxes])
        yield from expand("DrawBoundingBoxesV2", [images, boxes, (1, 3)])


def pieces() -> Iterator[Case]:
    images = (2, 5, 6, 3)
    for boxes, index, size in (
        ((7, 4), (7,), ints(2, 3)),
        ((7, 3), (7,), ints(2, 3)),
        ((7, 4), (6,), (2,)),
        ((7,), (7,), ints(2)),
        ((7, 4), (), ints(0, 1)),
    ):
        yield from expand("CropAndResize", [images, boxes, index, size], [F, F, I, I])
        yield from expand(
            "CropAndResizeGradBoxes", [(7, 2, 3, 3), images, boxes, index], [F, F, F, I]
        )
    for size in (ints(2, 5, 6, 3), (4,), ints(2, 3)):
        yield from expand(
            "CropAndResizeGradImage", [(7, 2, 3, 3), (7, 4), (7,), size], [F, F, I, I], T=1
        )
    for op in ("ExtractGlimpse", "ExtractGlimpseV2"):
        for size, offsets in (
            (ints(2, 3), (2, 2)),
            ((2,), (2, 2)),
            (ints(2, 3), (3, 2)),
            (ints(2, 3), (2, 3)),
            (ints(2), (2, 2)),
            (ints(-1, 1), (2, 2)),
        ):
            yield from expand(op, [images, size, offsets], [F, I, F])
        yield Case(op, [images, ints(2, 3), (2, 2)], {"noise": "zero"}, [F, I, F])
    for size in (ints(4, 5), (2,), ints(4), ints(-1, 2)):
        yield from expand(
            "ImageProjectiveTransformV2", [images, (2, 8), size], [F, F, I], interpolation="NEAREST"
        )
        yield from expand(
            "ImageProjectiveTransformV3",
            [images, (2, 8), size, ()],
            [F, F, I, F],
            interpolation="NEAREST",
        )
    for padding in ("SAME", "VALID"):
        for sizes, strides, rates in (
            ([1, 2, 3, 1], [1, 1, 2, 1], [1, 1, 1, 1]),
            ([1, 3, 3, 1], [1, 2, 2, 1], [1, 2, 3, 1]),
            ([1, 9, 9, 1], [1, 1, 1, 1], [1, 1, 1, 1]),
        ):
            yield from expand(
                "ExtractImagePatches",
                [images],
                ksizes=sizes,
                strides=strides,
                rates=rates,
                padding=padding,
            )
        yield from expand(
            "ExtractImagePatches",
            [images],
            ksizes=[1, 2, 3, 1, 1],
            strides=[1] * 4,
            rates=[1] * 4,
            padding=padding,
        )
        # with a size unknown TensorFlow says four axes
        yield Case(
            "ExtractVolumePatches",
            [(2, 4, 5, 6, 3)],
            {"ksizes": [1, 2, 3, 1, 1], "strides": [1, 1, 2, 3, 1], "padding": padding},
        )


def suppressions() -> Iterator[Case]:
    for boxes, scores in (
        ((7, 4), (7,)),
        ((7, 3), (7,)),
        ((7, 4), (6,)),
        ((7,), (7,)),
        ((7, 4), (7, 1)),
    ):
        for size in (scalar(3), (), (1,)):
            yield from expand("NonMaxSuppression", [boxes, scores, size], [F, F, I])
            yield from expand("NonMaxSuppressionV2", [boxes, scores, size, ()], [F, F, I, F])
            yield from expand("NonMaxSuppressionV3", [boxes, scores, size, (), ()], [F, F, I, F, F])
            for pad in (False, True):
                attrs = {"pad_to_max_output_size": pad}
                yield from expand(
                    "NonMaxSuppressionV4", [boxes, scores, size, (), ()], [F, F, I, F, F], **attrs
                )
                yield from expand(
                    "NonMaxSuppressionV5",
                    [boxes, scores, size, (), (), ()],
                    [F, F, I, F, F, F],
                    **attrs,
                )
    for overlaps in ((7, 7), (7, 6)):
        yield from expand(
            "NonMaxSuppressionWithOverlaps", [overlaps, (7,), scalar(3), (), ()], [F, F, I, F, F]
        )
    for boxes, scores in (
        ((2, 7, 1, 4), (2, 7, 3)),
        ((2, 7, 3, 4), (2, 7, 3)),
        ((2, 7, 2, 4), (2, 7, 3)),
        ((2, 7, 1, 3), (2, 7, 3)),
        ((1, 7, 1, 4), (2, 7, 3)),
    ):
        for each, total in (
            (scalar(2), scalar(4)),
            ((), scalar(4)),
            (scalar(2), ()),
            (scalar(9), scalar(100)),
            (scalar(2), scalar(0)),
        ):
            for pad in (False, True):
                yield from expand(
                    "CombinedNonMaxSuppression",
                    [boxes, scores, each, total, (), ()],
                    [F, F, I, I, F, F],
                    pad_per_class=pad,
                )


def audio() -> Iterator[Case]:
    for samples in ((1000, 2), (100, 1), (3,)):
        for window, stride in ((400, 160), (256, 256), (100, 1), (1, 3)):
            yield from expand("AudioSpectrogram", [samples], window_size=window, stride=stride)
    yield from expand("Mfcc", [(2, 10, 129), ()], [F, I])
    yield from expand("Mfcc", [(10, 129), ()], [F, I], dct_coefficient_count=7)


def files() -> Iterator[Case]:
    text, byte = "string", "uint8"
    for op in ("DecodeBmp", "DecodeImage", "DecodeJpeg", "DecodeJxl", "DecodePng", "DecodeWebP"):
        for channels in (0, 3, -1):
            yield from expand(op, [()], text, channels=channels)
        yield from expand(op, [(1,)], text)
    yield from expand("DecodeImage", [()], text, channels=3, expand_animations=False)
    for contents in ((), (1,)):
        yield from expand("DecodeGif", [contents], text)
        yield from expand("ExtractJpegShape", [contents], text, output_type=9)
    for window in (ints(0, 0, 3, 4), (4,), (3,), (2, 2), ints(0, 0, 0, 4)):
        yield from expand("DecodeAndCropJpeg", [(), window], [text, I], channels=1)
    for image in ((4, 5, 3), (4, 5), (2, 4, 5, 3)):
        yield from expand("EncodeJpeg", [image], byte)
        yield from expand("EncodePng", [image], byte)
        for quality in ((), (1,)):
            yield from expand("EncodeJpegVariableQuality", [image, quality], [byte, I])


def proposed() -> Iterator[Case]:
    for size, boxes, least, seed in (
        ((3,), (1, 2, 4), (), (2,)),
        ((2,), (1, 2, 4), (), (2,)),
        ((3,), (4,), (), (2,)),
        ((3,), (1, 2, 3), (1,), (3,)),
    ):
        yield from expand("SampleDistortedBoundingBox", [size, boxes], [I, F])
        yield from expand("SampleDistortedBoundingBoxV2", [size, boxes, least], [I, F, F])
        yield from expand(
            "StatelessSampleDistortedBoundingBox", [size, boxes, least, seed], [I, F, F, I]
        )
    for scores, info, anchors, scalars in (
        ((2, 3, 4, 5), (2, 5), (3, 4, 20), ()),
        ((2, 3), (2, 5), (3, 4, 20), ()),
        ((2, 3, 4, 5), (2, 4), (5, 4), ()),
        ((2, 3, 4, 5), (3, 5), (9, 9, 9), (1,)),
    ):
        inputs = [scores, (2, 3, 4, 20), info, anchors, scalars, scalars, scalars]
        for count in (7, -1):
            yield from expand(
                "GenerateBoundingBoxProposals", inputs, [F] * 5 + [I, F], post_nms_topn=count
            )


CASES = [resizes, adjustments, pieces, suppressions, audio, files, proposed]


@pytest.mark.parametrize("cases", CASES, ids=lambda cases: cases.__name__)
def test_shapes_equal_tensorflow(cases: Any) -> None:
    wrong = []
    for case in cases():
        attrs, expected, reason = theirs(case)
        found, message = ours(case, attrs)
        if found != expected:
            wrong.append(f"{case}: TensorFlow {expected or reason}, here {found or message}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:60])
