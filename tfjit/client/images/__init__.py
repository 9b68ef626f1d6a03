"""Process images: sizes, crops, colours, noise, measures, boxes, files.

In: tensors of images [h, w, c] or [batch, h, w, c]. Out: tensors, by ops of `tfjit.ops`; checks of
shapes that are known only in a run. Not in here: ops and their kernels.
"""
