"""Write a plan as one HTML page: graph, passes, kernels, times.

In: an Explanation of a plan and the history of its passes. Out: text that a browser opens from
disk, with its style and scripts, which are files of this folder. Not in here: measuring.
"""
