"""Ryu's own REST library, ``ryu.lib.ofctl_v1_3``, on our way of sending messages and waiting for answers.

Ryu's functions give up after a second and then answer as if the switch had nothing, and log what they do not understand
and go on without it. Here a switch that does not answer is an error, and so is whatever no message can be made of.
"""

from __future__ import annotations

from controller.green import eventlet  # noqa: F401  # first, it makes Ryu importable

# isort: split

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from ryu.lib import ofctl_v1_3 as library
from ryu.ofproto import ofproto_v1_3 as ofp

from controller.rest.backend import Unacceptable
from emulator.errors import ControllerError

Send = Callable[[Any, Any], list[Any]]
"""Sends a message to a datapath and waits for all parts of the answer."""
Change = Callable[[Any, Any], None]
"""Sends a message to a datapath and waits until it has been done or refused."""

_COMMANDS = {
    "mod_flow_entry": {
        "add": ofp.OFPFC_ADD,
        "modify": ofp.OFPFC_MODIFY,
        "modify_strict": ofp.OFPFC_MODIFY_STRICT,
        "delete": ofp.OFPFC_DELETE,
        "delete_strict": ofp.OFPFC_DELETE_STRICT,
    },
    "mod_group_entry": {"add": ofp.OFPGC_ADD, "modify": ofp.OFPGC_MODIFY, "delete": ofp.OFPGC_DELETE},
    "mod_meter_entry": {"add": ofp.OFPMC_ADD, "modify": ofp.OFPMC_MODIFY, "delete": ofp.OFPMC_DELETE},
    "mod_port_behavior": {},
    "set_role": {},
    "send_experimenter": {},
}
_SHOWN_CHARACTERS = 200


class Ofctl:
    """Calls Ryu's functions.

    Args:
        send: For questions. Raises: NotConnected, Silent.
        change: For changes. Raises: NotConnected, Silent, Declined.
    """

    def __init__(self, send: Send, change: Change) -> None:
        self._send = send
        self._change = change

    def read(self, datapath: Any, function: str, *arguments: Any) -> Any:
        """Call a ``get_…`` function; what `controller.rest.backend.Backend.ofctl_read` says."""
        call = getattr(library, function, None) if function.startswith("get_") else None
        if call is None:
            raise Unacceptable(f"OpenFlow 1.3 has no {_spoken(function)}", unsupported=True)
        waiters: dict[int, dict[int, tuple[Any, list[Any]]]] = {}
        proxy = _Proxy(datapath, lambda message: self._answer(datapath, message, waiters))
        return _called(call, proxy, waiters, *deepcopy(arguments))[str(datapath.id)]

    def change(self, datapath: Any, function: str, body: Mapping[str, Any], command: str | None = None) -> None:
        """Call a changing function; what `controller.rest.backend.Backend.ofctl_change` says."""
        commands = _COMMANDS[function]
        arguments = [commands[command]] if command is not None else []
        messages: list[Any] = []
        proxy = _Proxy(datapath, messages.append)
        _called(getattr(library, function), proxy, deepcopy(dict(body)), *arguments)
        for message in messages:
            message.xid = None  # whoever sends it gives it a number
            self._change(datapath, message)

    def _answer(self, datapath: Any, message: Any, waiters: dict[int, dict[int, tuple[Any, list[Any]]]]) -> None:
        lock, parts = waiters[datapath.id].pop(message.xid)
        message.xid = None  # whoever sends it gives it a number
        parts += self._send(datapath, message)
        lock.set()


class _Proxy:
    """A datapath for Ryu's functions, whose messages are sent by us."""

    def __init__(self, datapath: Any, take: Callable[[Any], None]) -> None:
        self.id = datapath.id
        self.ofproto = datapath.ofproto
        self.ofproto_parser = datapath.ofproto_parser
        self._datapath = datapath
        self._take = take
        self._xid = 0

    def set_xid(self, message: Any) -> int:
        """Number a message, as long as it is here."""
        self._xid += 1
        message.set_xid(self._xid)
        return self._xid

    def send_msg(self, message: Any) -> bool:
        """Take a message instead of sending it, once it is sure that it can be written."""
        message.datapath = self._datapath
        if message.xid is None:
            self.set_xid(message)
        message.serialize()
        self._take(message)
        return True


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except ControllerError:
        raise
    except Exception as error:  # noqa: BLE001 - Ryu's library raises whatever a wrong value leads it to
        raise Unacceptable(f"Ryu cannot make a message of it: {_text(error)}") from None


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_SHOWN_CHARACTERS]


def _spoken(function: str) -> str:
    return function.removeprefix("get_").replace("_", " ")
