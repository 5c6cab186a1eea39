"""The one door to Mininet's classes: its import of `distutils` warns, and nothing of it belongs anywhere else."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from mininet.cli import CLI
    from mininet.link import Intf, Link
    from mininet.log import error, info, lg
    from mininet.net import Mininet
    from mininet.node import Controller, Host, Node, OVSSwitch, Switch

__all__ = ["CLI", "Controller", "Host", "Intf", "Link", "Mininet", "Node", "OVSSwitch", "Switch", "error", "info", "lg"]
