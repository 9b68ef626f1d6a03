"""Read and write images in files' formats: PNG, GIF, BMP, JPEG, WebP.

In: the bytes of a file, or an array [h, w, channels]. Out: an array, or bytes; `CorruptImage` for
bytes that are no image. Not in here: ops. JPEG and WebP are Pillow's work, the others' are NumPy's.
"""
