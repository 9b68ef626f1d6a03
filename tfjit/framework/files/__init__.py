"""Read and write TensorFlow's files: records, tables, tensor bundles, checksums.

In: paths and bytes. Out: records, keys and tensors. Not in here: graphs, sessions.
"""
