"""Build input pipelines: datasets, their transformations, iterators.

In: tensors, files, Python generators and functions. Out: nodes of `tf.data`. Not in here: kernels,
which are the runtime's; no element is computed here.
"""
