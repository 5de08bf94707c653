"""Freezes the garbage collector's objects in the process of all forks, which load this module last.

A collection in a fork would look through all that was imported, and copy every page of it.
"""

import gc

gc.collect()
gc.freeze()
