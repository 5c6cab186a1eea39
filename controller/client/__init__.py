"""Talks to a running controller over REST, with the standard library alone."""

from controller.client.client import ControllerClient, wait_ready
from controller.client.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotListening,
    Outdated,
    Refusal,
    Unauthorized,
    Unavailable,
    VersionNeeded,
)
from controller.client.stream import Event, EventStream
from controller.client.wire import Answer

__all__ = [
    "Answer",
    "Conflict",
    "ControllerClient",
    "Event",
    "EventStream",
    "Forbidden",
    "Invalid",
    "NotFound",
    "NotListening",
    "Outdated",
    "Refusal",
    "Unauthorized",
    "Unavailable",
    "VersionNeeded",
    "wait_ready",
]
