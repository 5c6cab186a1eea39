"""The controller's state and decisions: takes events and the time, returns commands. No clock, no sockets, no Ryu."""

from controller.core.core import Core
from controller.core.options import Options
from controller.core.session import MOST_ROUNDS, SwitchSession
from controller.core.state import State

__all__ = ["MOST_ROUNDS", "Core", "Options", "State", "SwitchSession"]
