"""Parcels: messages with arrays beside them, and their forms on a connection.

In: messages and arrays. Out: bytes of one message, parts of a stream, frames of a socket, and back.
Not in here: connections, and which method a parcel is for.
"""
