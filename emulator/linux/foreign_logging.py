"""Importing packages that change how the whole process logs, without letting them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_logger_class() -> Iterator[None]:
    """Keep the class of new loggers as it is: Mininet replaces it by one whose records never reach other handlers."""
    before = logging.getLoggerClass()
    try:
        yield
    finally:
        logging.setLoggerClass(before)
