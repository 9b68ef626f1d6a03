"""Implement traffic with the outside: files, tables, readers, handles, feeds, sends.

In: an OpContext and inputs. Out: tensors from files, tables, other devices. Not in here: file
formats (`framework/files`), queues.
"""
