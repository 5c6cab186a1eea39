"""Instruments beside the workloads: counters of interfaces and queues over time, and packet captures."""

from emulator.measure.capture import PacketCapture
from emulator.measure.sampler import Sampler
from emulator.measure.vantage import Vantage
from emulator.model.distribution import Distribution

__all__ = ["Distribution", "PacketCapture", "Sampler", "Vantage"]
