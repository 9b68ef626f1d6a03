"""Channels: calls to other tasks, over gRPC, TCP and Unix sockets.

In: a task's address, a method and its parcel. Out: its answer, or the error of its status. Not in
here: the answering side, which is the server's.
"""
