"""Eventlet as Ryu 4.34 needs it. Import this before Ryu, and take eventlet from here."""

from __future__ import annotations

import os
import sys
import warnings

# No name is ever resolved here, and the resolver takes long to import.
os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")

# Ryu imports distutils. Where the standard library still has it, setuptools' substitute would take a quarter of the
# whole start.
_substitute = sys.modules.get("_distutils_hack")
if _substitute is not None and sys.version_info < (3, 12):
    _substitute.remove_shim()

with warnings.catch_warnings():
    # Ryu runs on eventlet and on nothing else, so a user can do nothing about this.
    warnings.filterwarnings("ignore", message=r"(?s).*Eventlet is deprecated")
    import eventlet
    import eventlet.event
    import eventlet.hubs
    import eventlet.wsgi

if not hasattr(eventlet.wsgi, "ALREADY_HANDLED"):
    # Ryu's web framework, which its core imports and we do not use, looks for a name that eventlet has dropped.
    eventlet.wsgi.ALREADY_HANDLED = b""

__all__ = ["eventlet"]
