"""Paths: which are best, how they are spread, what failures and loads change, and in which order. Pure decisions."""

from controller.paths.layout import MAX_PLANES, Attachment
from controller.paths.paths import Distance, Paths, Spread, compute

__all__ = ["MAX_PLANES", "Attachment", "Distance", "Paths", "Spread", "compute"]
