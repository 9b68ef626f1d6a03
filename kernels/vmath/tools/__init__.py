"""Fit and check the polynomials of vector math.

Nothing here runs in a session.

In: a function and an interval. Out: coefficients, tables of ulps. Not in here: code that kernels
import.
"""
