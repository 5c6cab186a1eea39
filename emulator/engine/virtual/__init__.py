"""The virtual-time engine: jobs in time-travel User-Mode-Linux kernels."""

from emulator.engine.ledger import clean
from emulator.engine.virtual.engine import VirtualEngine

__all__ = ["VirtualEngine", "clean"]
