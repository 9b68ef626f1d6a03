"""Call functions of NVIDIA's libraries.

In: problems, addresses. Out: routines, which accelerators queue. Not in here: kernels of our own,
the choice between them and routines.
"""
