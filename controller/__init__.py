"""Decides where packets go: routes, steering of storage traffic, OpenFlow rules, and a REST view of all of it.

Decision code is pure (`routing`, `designs`, `core`, `pathtrace`): no clock, no sockets. Only `ryu_app` and `ryu_codec`
import Ryu, only they and `rest.server` know eventlet.
"""
