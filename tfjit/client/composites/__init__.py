"""Functions of tf.nn and tf.signal that are graphs of several ops.

Embeddings of sparse batches, label sequences (CTC), moments, pooling with dilation, and signals:
windows, frames, spectra, cepstra.

In: tensors and sparse tensors. Out: tensors. Not in here: op types, layers with variables.
"""
