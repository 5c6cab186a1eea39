"""Policies and flows over the fast gateway's control socket: as for every pipeline, and the offload follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emulator.messages import gateway as messages
from gateway.dataplane.pipeline import Configuration, Pipeline
from gateway.fast.offloader import Offloader
from gateway.steering import Steering, key_of


class FastSteering(Steering):
    """See the module.

    Args:
        pipeline: The data plane.
        offloader: The offload's keeper; None: there is no offload.
        told: What the daemon's file says, before it was fitted to the host.
        fit: Fits a configuration to the host.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        offloader: Offloader | None,
        told: Configuration,
        fit: Callable[[Configuration], Configuration],
    ) -> None:
        super().__init__(pipeline, told, fit)
        self._offloader = offloader

    def set_policies(self, policies: messages.Policies, if_revision: int | None = None) -> int:
        """See `Steered`; offloaded flows that would be decided otherwise now come to the daemon again."""
        revision = super().set_policies(policies, if_revision)
        if self._offloader is not None:
            self._offloader.revalidate()
        return revision

    def install_flows(self, wanted: Sequence[messages.Flow]) -> int:
        """See `Steered`; what was decided about them before is forgotten in the kernel too."""
        count = super().install_flows(wanted)
        if self._offloader is not None:
            self._offloader.forget([key_of(flow.key) for flow in wanted])
        return count

    def delete_flows(self, keys: Sequence[messages.FlowKey] | None) -> int:
        """See `Steered`."""
        count = super().delete_flows(keys)
        if self._offloader is not None:
            self._offloader.forget(None if keys is None else [key_of(key) for key in keys])
        return count
