"""Collects the warnings that are logged during a cell: what a reader must check before trusting its figures."""

from __future__ import annotations

import logging
from types import TracebackType


class WarningCollector(logging.Handler):
    """Keeps each warning once, in order, while the block runs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._texts: dict[str, None] = {}

    @property
    def texts(self) -> list[str]:
        """What was warned about."""
        return list(self._texts)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self._texts[record.getMessage()] = None

    def __enter__(self) -> WarningCollector:
        logging.getLogger().addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger().removeHandler(self)
