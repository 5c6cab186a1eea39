"""The one door to Mininet's classes: importing it warns and changes how the process logs, which ends here."""

from __future__ import annotations

import warnings

from emulator.linux.foreign_logging import own_logger_class

with warnings.catch_warnings(), own_logger_class():
    warnings.simplefilter("ignore", DeprecationWarning)
    from mininet.cli import CLI
    from mininet.link import Intf, Link
    from mininet.log import error, info, lg
    from mininet.net import Mininet
    from mininet.node import Controller, Host, Node, OVSSwitch, Switch

__all__ = ["CLI", "Controller", "Host", "Intf", "Link", "Mininet", "Node", "OVSSwitch", "Switch", "error", "info", "lg"]
