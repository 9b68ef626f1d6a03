"""Declare kernels that need the session, and turn their failures into errors.

In: an OpContext and inputs. Out: outputs, or an OpError that names the node. Not in here: kernels
of single ops.
"""
