"""Present TensorFlow 1's public namespaces over the rooms below.

In: calls of user programs. Not in here: logic: each module re-exports.
"""
