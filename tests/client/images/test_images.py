"""tf.image: graphs, values, random values, static shapes and errors are TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.client.evaluation.batches import error_of, tensorflow_one, tf1
from tests.client.variables.same_graphs import nodes

Feeds = dict[str, Any]
Program = Callable[[Any, Feeds], Any]

RNG = np.random.default_rng(3)
# images of known shape, in batches, of unknown rank and sizes, of bytes; small and large ones
PLACEHOLDERS: dict[str, tuple[str, Any]] = {
    "x": ("float32", [5, 6, 3]),
    "b": ("float32", [None, 7, 4, 3]),
    "u": ("float32", None),
    "i": ("uint8", [4, 5, 3]),
    "p": ("float32", [None, None, 3]),
    "g": ("float32", [None, 3, 1]),
    "big": ("float32", [2, 23, 25, 2]),
    "n": ("int32", []),
    "f": ("float64", []),
}
VALUES = {
    "x": RNG.random((5, 6, 3)),
    "b": RNG.random((2, 7, 4, 3)),
    "u": RNG.random((4, 5, 2)),
    "i": RNG.integers(0, 256, (4, 5, 3)),
    "p": RNG.random((3, 4, 3)),
    "g": RNG.random((2, 3, 1)),
    "big": RNG.random((2, 23, 25, 2)),
    "n": 3,
    "f": 0.6,
}
BOXES = np.array(
    [
        *([0.1, 0.03, 0.7, 0.83], [0.2, 0.3, 1.2, 0.8], [0.15, 0.05, 0.7, 0.8]),
        *([0.5, 0.5, 0.9, 0.9], [0.52, 0.5, 0.9, 0.9]),
    ],
    np.float32,
)
SCORES = np.array([0.4, 0.9, 0.6, 0.3, 0.8], np.float32)

# of each image of "xbip"
OF_IMAGES: dict[str, Program] = {
    "central_crop": lambda m, f: [
        m.central_crop(f["image"], 0.5),
        m.central_crop(f["image"], 1.0),
        m.central_crop(f["image"], f["f"]),
    ],
    "crop": lambda m, f: [
        m.crop_to_bounding_box(f["image"], 1, 0, 2, 3),
        m.crop_to_bounding_box(f["image"], 0, 1, f["n"], 2),
    ],
    "pad": lambda m, f: [
        m.pad_to_bounding_box(f["image"], 1, 0, 9, 9),
        m.pad_to_bounding_box(f["image"], f["n"], 1, 12, 9),
    ],
    "crop or pad": lambda m, f: [
        m.resize_image_with_crop_or_pad(f["image"], 4, 7),
        m.resize_with_crop_or_pad(f["image"], f["n"], 9),
    ],
    "resize": lambda m, f: [
        m.resize_images(f["image"], [5, 6], k, align_corners=k != 3, preserve_aspect_ratio=k > 1)
        for k in range(4)
    ],
    "resize to a tensor": lambda m, f: [
        m.resize(f["image"], [f["n"], 6], "bicubic"),
        m.resize(f["image"], [f["n"], 6], preserve_aspect_ratio=True),
    ],
    "resize with pad": lambda m, f: [
        m.resize_image_with_pad(f["image"], 9, 6),
        m.resize_image_with_pad(f["image"], f["n"], 6, m.ResizeMethod.NEAREST_NEIGHBOR, True),
    ],
    "contrast": lambda m, f: [
        m.adjust_contrast(f["image"], 1.7),
        m.random_contrast(f["image"], 0.5, 1.5, seed=2),
    ],
    "brightness": lambda m, f: [
        m.adjust_brightness(f["image"], 0.3),
        m.random_brightness(f["image"], 0.3),
    ],
    "gamma": lambda m, f: m.adjust_gamma(f["image"], 1.3, 0.9),
    "hue": lambda m, f: [
        m.adjust_hue(f["image"], 0.3),
        m.random_hue(f["image"], 0.3, seed=2),
    ],
    "saturation": lambda m, f: [
        m.adjust_saturation(f["image"], 1.3),
        m.random_saturation(f["image"], 0.3, 1.8, seed=2),
    ],
    "rotate": lambda m, f: [m.rot90(f["image"], f["n"]), m.rot90(f["image"], 2)],
    "flip": lambda m, f: [m.flip_left_right(f["image"]), m.flip_up_down(f["image"])],
    "random flip": lambda m, f: [
        m.random_flip_left_right(f["image"], seed=4),
        m.random_flip_up_down(f["image"]),
    ],
    "transpose": lambda m, f: m.transpose_image(f["image"]),
    "standardize": lambda m, f: m.per_image_standardization(f["image"]),
}
OTHERS: dict[str, Program] = {
    "unknown rank": lambda m, f: [
        m.flip_left_right(f["u"]),
        m.random_flip_up_down(f["u"], seed=4),
        m.rot90(f["u"], f["n"]),
        m.pad_to_bounding_box(f["u"], 1, 1, 8, 9),
    ],
    "random crop": lambda m, f: [
        m.random_crop(f["b"], [1, 2, 3, 3], seed=7),
        m.random_crop(f["p"], [2, 2, 3]),
    ],
    "to rgb": lambda m, f: m.grayscale_to_rgb(f["g"]),
    "psnr": lambda m, f: [
        m.psnr(f["b"], f["b"] * 0.9 + 0.02, 1.0),
        m.psnr(f["i"], f["i"][::-1], 255),
    ],
    "ssim": lambda m, f: [
        m.ssim(f["big"], f["big"] * 0.9 + 0.02, 1.0),
        m.ssim(f["big"], f["big"] ** 2, 1.0, 5, 1.1, 0.02, 0.04, return_index_map=True),
        m.ssim(f["i"], f["i"][::-1], 255, 3),
    ],
    "ssim of scales": lambda m, f: m.ssim_multiscale(
        f["big"], f["big"] * 0.9 + 0.02, 1.0, [0.3, 0.7], filter_size=5
    ),
    "edges": lambda m, f: [*m.image_gradients(f["b"]), m.sobel_edges(f["b"])],
    "variation": lambda m, f: [m.total_variation(f["b"]), m.total_variation(f["x"])],
    "glimpse": lambda m, f: m.extract_glimpse(f["b"], [3, 2], np.zeros([2, 2], np.float32)),
    "patches": lambda m, f: [
        m.extract_patches(f["b"], [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "SAME"),
        m.extract_image_patches(f["b"], [1, 2, 3, 1], [1] * 4, [1] * 4, "SAME"),
    ],
    "crops": lambda m, f: [
        m.crop_and_resize(f["b"], BOXES[:2], [0, 1], [3, 4]),
        m.crop_and_resize(f["b"], BOXES[:2], box_indices=[0, 1], crop_size=[3, 4]),
    ],
    "is_jpeg": lambda m, f: m.is_jpeg([b"\xff\xd8\xff1", b"abcd"]),
    "old resizes": lambda m, f: [
        m.resize_bilinear(f["b"], [7, 4], half_pixel_centers=True),
        m.resize_nearest_neighbor(f["b"], [7, 4], align_corners=True),
        m.resize_bicubic(f["b"], [7, 4]),
        m.resize_area(f["b"], [2, 4]),
    ],
    "suppression": lambda m, f: [
        m.non_max_suppression(BOXES, SCORES, 3, 0.4),
        *m.non_max_suppression_with_scores(BOXES, SCORES, 3, soft_nms_sigma=0.3),
        m.non_max_suppression_overlaps(np.eye(3, dtype="f4") + 0.3, SCORES[:3], 3, 0.2),
        *m.combined_non_max_suppression(BOXES[None, :, None], SCORES[None, :, None], 2, 4),
    ],
    "hsv": lambda m, f: m.hsv_to_rgb(m.rgb_to_hsv(f["b"])),
    "frames": lambda m, f: m.draw_bounding_boxes(f["b"], np.stack([BOXES] * 2), colors=[[0.5] * 3]),
    "distorted box": lambda m, f: list(
        m.sample_distorted_bounding_box([50, 60, 3], BOXES[None, 2:], seed=3, seed2=5)
    ),
    "files": lambda m, f: [
        m.decode_image(m.encode_png(f["i"]), 3, f["float32"], expand_animations=False),
        m.decode_image(m.encode_png(f["i"]), dtype=f["int32"]),
        m.decode_png(m.encode_png(f["i"]), 1),
        m.decode_gif(m.encode_png(f["i"])),
        m.extract_jpeg_shape(m.encode_jpeg(f["i"], quality=80)),
        m.decode_and_crop_jpeg(
            m.encode_jpeg(f["i"], chroma_downsampling=False),
            [1, 0, 2, 3],
            dct_method="INTEGER_ACCURATE",
        ),
        m.adjust_jpeg_quality(f["x"], 70, "INTEGER_ACCURATE"),
    ],
    **{
        f"{kind} to {other}": lambda m, f, kind=kind, other=other: [
            m.convert_image_dtype(f[f"x as {kind}"], f[other], saturate)
            for saturate in (False, True)
        ]
        for kind, other in (
            *(("uint8", "float32"), ("uint8", "int32"), ("uint16", "uint8")),
            *(("float32", "uint8"), ("float16", "uint16"), ("float32", "float16")),
        )
    },
}
# Functions of others have other nodes than TensorFlow's: sums of products, functions of the graph.
VALUES_ALONE: dict[str, Program] = {
    "gray": lambda m, f: [m.rgb_to_grayscale(f[k]) for k in "xi"],
    "spaces": lambda m, f: [
        getattr(m, name)(f[k])
        for name in ("rgb_to_yiq", "yiq_to_rgb", "rgb_to_yuv", "yuv_to_rgb")
        for k in "xb"
    ],
    "padded suppression": lambda m, f: [
        value
        for options in (
            {},
            {"pad_to_max_output_size": True, "tile_size": 2},
            {"score_threshold": 0.5, "canonicalized_coordinates": True},
        )
        for value in m.non_max_suppression_padded(f["boxes"], f["scores"], 3, 0.4, **options)
    ],
    "padded suppression of a batch": lambda m, f: m.non_max_suppression_padded(
        f["batch of boxes"], f["batch of scores"], 7, 0.4, pad_to_max_output_size=True, tile_size=3
    ),
}


def cases() -> dict[str, Program]:
    """Return every case by name."""
    of_images = {
        f"{name} {key}": lambda m, f, program=program, key=key: program(m, {**f, "image": f[key]})
        for name, program in OF_IMAGES.items()
        for key in "xbip"
    }
    return {**of_images, **OTHERS, **VALUES_ALONE}


def feeds_of(tf: Any) -> Feeds:
    feeds = {
        name: tf.placeholder(tf.as_dtype(dtype), shape, name=name)
        for name, (dtype, shape) in PLACEHOLDERS.items()
    }
    for kind in ("uint8", "uint16", "int32", "float16", "float32"):
        feeds[kind] = tf.as_dtype(kind)
        scale = 1 if kind.startswith("float") else 100
        feeds[f"x as {kind}"] = tf.cast(feeds["x"] * scale, feeds[kind])
    feeds |= {"boxes": tf.constant(BOXES), "scores": tf.constant(SCORES)}
    feeds["batch of boxes"] = tf.constant(np.stack([BOXES[:, [2, 1, 0, 3]]] * 2))
    feeds["batch of scores"] = tf.constant(np.stack([SCORES, SCORES[::-1]]))
    return feeds


def built(tf: Any) -> tuple[Any, dict[str, list[Any]], Feeds]:
    """Return a graph of all cases, their outputs and the placeholders."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(5)
        feeds = feeds_of(tf)
        made = {name: program(tf.image, feeds) for name, program in cases().items()}
    lists = {k: list(v) if isinstance(v, (list, tuple)) else [v] for k, v in made.items()}
    return graph, lists, feeds


@pytest.fixture(scope="module", autouse=True)
def as_in_version_one() -> Iterator[None]:
    with tensorflow_one():
        yield


def test_graphs_and_values() -> None:
    """Names, inputs and attributes of all nodes, static shapes, and values."""
    (ours, our_outputs, our_feeds), (theirs, their_outputs, their_feeds) = built(tfjit), built(tf1)
    own, wanted = nodes(ours), nodes(theirs)
    others = ("Tensordot", "rgb_to_grayscale", "non_max_suppression_padded", "yiq_", "yuv_")
    different = [  # functions of tf.nn have other nodes for depthwise convolutions
        name
        for name in own.keys() | wanted.keys()
        if own.get(name) != wanted.get(name)
        and not name.startswith(others)
        and "depthwise" not in name
    ]
    assert not different, sorted(different)
    results = []
    for graph, outputs, feeds, tf in (
        (ours, our_outputs, our_feeds, tfjit),
        (theirs, their_outputs, their_feeds, tf1),
    ):
        with tf.Session(graph=graph) as session:
            results.append(session.run(outputs, {feeds[k]: v for k, v in VALUES.items()}))
    wrong = {}
    for name, values in results[1].items():
        for k, (mine, other) in enumerate(zip(results[0][name], values, strict=True)):
            mine, other = np.asarray(mine), np.asarray(other)
            tensors = our_outputs[name][k], their_outputs[name][k]
            shapes = [t.shape.as_list() if t.shape.rank is not None else None for t in tensors]
            # the rank of the function's result is that of its body here
            same_shape = shapes[0] == shapes[1] or name.startswith("padded")
            if not same_shape or (mine.dtype, mine.shape) != (other.dtype, other.shape):
                wrong[name, k] = shapes, mine.dtype, other.dtype
            elif not np.allclose(mine, other, 2e-5, 2e-6, equal_nan=True):
                wrong[name, k] = mine, other
    assert not wrong


def test_graphs_of_saturating_casts() -> None:
    """The limits are values of the given dtype, for each pair."""
    kinds = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64"
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default() as graph, np.errstate(all="ignore"):
            for kind in kinds.split():
                value = tf.placeholder(tf.as_dtype(kind), [2])
                for other in (*kinds.split(), "complex64"):
                    tf.saturate_cast(value, tf.as_dtype(other))
        found.append(nodes(graph))
    assert found[1] == found[0]


ERRORS: list[Program] = [
    lambda tf, f: tf.image.flip_left_right(tf.zeros([2, 3])),
    lambda tf, f: tf.image.flip_left_right(tf.zeros([1, 1, 2, 3, 1])),
    lambda tf, f: tf.image.random_flip_up_down(tf.zeros([1, 1, 2, 3, 1])),
    lambda tf, f: tf.image.rot90(tf.zeros([0, 2, 3])),
    lambda tf, f: tf.image.grayscale_to_rgb(tf.zeros([2, 2, 3])),
    lambda tf, f: tf.image.central_crop(f["x"], 1.5),
    lambda tf, f: tf.image.central_crop(f["u"], 0.5),
    lambda tf, f: tf.image.crop_to_bounding_box(f["x"], -1, 0, 2, 2),
    lambda tf, f: tf.image.crop_to_bounding_box(f["x"], 0, 5, 2, 2),
    lambda tf, f: tf.image.pad_to_bounding_box(f["x"], 1, 1, 5, 9),
    lambda tf, f: tf.image.resize_with_crop_or_pad(f["x"], 0, 3),
    lambda tf, f: tf.image.resize_images(f["u"], [2, 2]),
    lambda tf, f: tf.image.resize_images(f["x"], [2, 2, 2]),
    lambda tf, f: tf.image.resize_images(f["x"], [2, 2], 7),
    lambda tf, f: tf.image.random_brightness(f["x"], -1),
    lambda tf, f: tf.image.random_contrast(f["x"], 2, 1),
    lambda tf, f: tf.image.random_contrast(f["x"], -1, 1),
    lambda tf, f: tf.image.random_hue(f["x"], 0.7),
    lambda tf, f: tf.image.random_jpeg_quality(f["x"], 50, 40),
    lambda tf, f: tf.image.random_jpeg_quality(f["x"], 50, 140),
    lambda tf, f: tf.image.adjust_gamma(f["x"], -1),
    lambda tf, f: tf.image.convert_image_dtype(f["x"], tf.bool),
    lambda tf, f: tf.image.total_variation(tf.zeros([3])),
    lambda tf, f: tf.image.image_gradients(f["x"]),
    lambda tf, f: tf.image.psnr(f["x"], f["x"][:1], 1.0),
    lambda tf, f: tf.image.non_max_suppression_padded(f["batch of boxes"], f["scores"], 3),
    # in the run
    lambda tf, f: tf.image.crop_to_bounding_box(f["p"], 0, 5, 2, 2),
    lambda tf, f: tf.image.random_crop(f["p"], [9, 9, 3]),
    lambda tf, f: tf.image.grayscale_to_rgb(f["u"]),
    lambda tf, f: tf.image.adjust_gamma(f["x"], tf.constant(-1.0)),
]


def test_errors() -> None:
    """Class and text, of the graph or of its run."""
    wrong = {}
    for number, program in enumerate(ERRORS):

        def whole(tf: Any, program: Program = program) -> Any:
            feeds = feeds_of(tf)
            made = program(tf, feeds)
            return made, {feeds[k]: v for k, v in VALUES.items()}

        ours, theirs = error_of(tfjit, whole), error_of(tf1, whole)
        if ours != theirs or not ours[0]:
            wrong[number] = ours, theirs
    assert not wrong
