"""Puts a controller's parts together, without sockets and without Ryu, so that what cannot be is said at once."""

from __future__ import annotations

import os

from controller.compose import Composer
from controller.config import Settings
from controller.core import Core, Options
from controller.designs import plan
from controller.tenancy.claim import Claim, InUse
from controller.tenancy.ground import Ground
from controller.tenancy.store import Store
from emulator.errors import ControllerError, ScenarioError

_KEY_BYTES = 32


class Controller:
    """All parts of a controller that do not need a socket.

    Args:
        settings: How it is started.

    Raises:
        ControllerError: What is asked for cannot be planned, or another controller uses the store.
        ScenarioError: The store's file cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.options = Options(
            lldp_interval_ns=settings.lldp_interval_ns,
            balance_interval_ns=settings.balance_interval_ns,
            redundant=settings.redundant,
        )
        key = os.urandom(_KEY_BYTES)
        self.store: Store | None = None
        self.composer: Composer | None = None
        self._claim: Claim | None = None
        if settings.store is None:
            planned = plan(settings.fabric, settings.design, settings.services, settings.spread)
            self.ground = Ground.of(settings.fabric, planned.routes.attachments, planned.hops)
            self.core = Core(planned, self.options, key)
        else:
            self.composer = Composer(settings.fabric, settings.design, settings.spread)
            self.ground = self.composer.ground
            self.store = self._open(settings.store)
            self.core = Core(self.composer.base, self.options, key)

    def _open(self, path: str) -> Store:
        """The store; nobody else uses it from before it is changed, or brought to the newest version, until the end."""
        try:
            return Store(path, self.ground, lambda: self._take(path))
        except InUse:
            raise
        except ControllerError as error:
            self.close()
            raise ScenarioError(str(error), key="--store") from None

    def _take(self, path: str) -> None:
        self._claim = Claim(path, shared=self.settings.redundant)

    def close(self) -> None:
        """Close what is open."""
        if self.store is not None:
            self.store.close()
        if self._claim is not None:
            self._claim.close()
