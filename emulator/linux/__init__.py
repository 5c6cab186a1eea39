"""Thin wrappers of Linux interfaces that the standard library lacks: packet rings, timers, netlink counters.

They know nothing of scenarios or results; the caller puts its thread into the right network namespace before it opens
something here. Everything is plain `ctypes`, `struct` and numpy: no helper processes.
"""
