"""Declare the kernel interface: NodeSpec, NativeCall, Launch, Pointer, registry.

In: a NodeSpec or a FusedGroup. Out: a NativeCall, or a reference kernel. Not in here: templates
of one device.
"""
