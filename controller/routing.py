"""Routes: the paths of `controller.paths` under the name that designs and rules know them by."""

from __future__ import annotations

from controller.paths.layout import MAX_PLANES, Attachment
from controller.paths.paths import Paths, Spread

Routes = Paths

__all__ = ["MAX_PLANES", "Attachment", "Routes", "Spread"]
