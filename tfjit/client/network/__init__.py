"""Build layers of networks: variables by name, and the ops that use them.

In: tensors, the variable scope. Out: tensors; losses and updates in the graph's collections. Not in
here: ops, which stand in `tfjit.ops`; losses of a model, metrics, optimizers.
"""
