"""Log lines: one line each, whatever third-party code throws into them."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller import log


@pytest.fixture
def _quiet_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers, root.level = handlers, level
    logging.getLogger("ryu").setLevel(logging.NOTSET)


@pytest.mark.usefixtures("_quiet_root")
@pytest.mark.parametrize("debug", [False, True])
def test_errors_are_one_line_unless_debugging(tmp_path: Path, debug: bool) -> None:
    """Exceptions, tracebacks as text and texts of several lines keep their meaning in one line each."""
    log.set_up(tmp_path / "log", debug=debug)
    logger = logging.getLogger("ryu.lib.hub")
    try:
        raise ValueError("bad\nmessage")
    except ValueError:
        logger.exception("Encountered an error while parsing %s", "x" * 1000)
        logger.error("hub: uncaught exception: %s", traceback.format_exc())
        logger.debug("details", exc_info=True)
    logger.warning("several\n  lines\n")
    logger.info("Ryu tells about itself")
    lines = (tmp_path / "log").read_text().splitlines()
    if debug:
        assert any(line.startswith("Traceback") for line in lines)
        return
    assert len(lines) == 3
    assert "Encountered" in lines[0]
    assert len(lines[0]) < 600
    # What Ryu calls an error ends a connection, not the controller.
    assert all(" WARNING ryu.lib.hub: " in line for line in lines)
    assert lines[1].endswith("hub: uncaught exception: Traceback (most recent call last): … message")
    assert lines[2].endswith("WARNING ryu.lib.hub: several lines")
