"""Divide values into rows of different lengths: `tf.RaggedTensor`, `tf.ragged`.

In: tensors, nested lists. Out: ragged tensors, and the results of public functions of them. Not in
here: kernels. `ragged.py` presents the room: importing it gives RaggedTensor its operators.
"""
