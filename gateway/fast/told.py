"""What a fast gateway was told, by its file and over its control socket, as it is in force on this host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.errors import GatewayError, ScenarioError
from gateway.dataplane.pipeline import Configuration, Pipeline
from gateway.fast.config import FastConfig, load_fast
from gateway.fast.offloader import Offloader
from gateway.fast.ports import Ports
from gateway.interface import host_addresses

if TYPE_CHECKING:
    from emulator.messages import gateway as messages
    from gateway.fast.steering import FastSteering

_FIXED = (
    "kind",
    "ports",
    "frames",
    "ring_entries",
    "headroom_bytes",
    "hook",
    "mode",
    "busy_poll",
    "offload",
    "batch_frames",
)
"""What the ports were opened with."""


class Told:
    """See the module.

    Args:
        path: The file of the configuration.
        config: What it says.
        ports: What was opened for it.
        pipeline: Decides.
        offloader: The offload's keeper; None: there is no offload.
        time_ns: The time of the last turn.

    Attributes:
        config: What is in force of the file.
        rejected: Offloaded flows that were removed because they would be decided otherwise.
    """

    def __init__(
        self,
        path: Path,
        config: FastConfig,
        ports: Ports,
        pipeline: Pipeline,
        offloader: Offloader | None,
        time_ns: Callable[[], int],
    ) -> None:
        self.config = config
        self.rejected = 0 if offloader is None else offloader.revalidate()
        self._path = path
        self._ports = ports
        self._pipeline = pipeline
        self._offloader = offloader
        self._time_ns = time_ns
        self._steering: FastSteering | None = None

    def reload(self) -> dict[str, Any]:
        """Read the configuration again; on errors nothing changes. Flows are decided anew, known or offloaded.

        Raises:
            ScenarioError: It is wrong, or wants other ports than those that are open.
        """
        config = load_fast(self._path)
        for name in _FIXED:
            if getattr(config, name) != getattr(self.config, name):
                raise ScenarioError("this cannot change while the daemon runs", file=str(self._path), key=name)
        try:
            # Policies from elsewhere end here: what holds now is the file, and whoever asks for policies is told so.
            if self._steering is not None:
                self._steering.tell(config.configuration)
            else:
                self._pipeline.configure(self._fitted(config.configuration))
        except ValueError as error:
            raise ScenarioError(str(error), file=str(self._path)) from None
        self.config = config
        self._leave_to_stack()
        rejected = 0
        if self._offloader is not None:
            rejected = self._offloader.revalidate()
            self.rejected += rejected
        return {"rules": len(config.configuration.rules), "offloaded_flows_removed": rejected}

    def interfaces_changed(self) -> None:
        """Interfaces may carry longer packets than before, or shorter ones: frames are to fit."""
        if self._ports.read_mtus():
            told = self.config.configuration if self._steering is None else self._steering.told
            self._pipeline.change_limits(self._fitted(told).next_hops)
            if self._offloader is not None:
                self.rejected += self._offloader.revalidate(forgotten=False)

    def _fitted(self, told: Configuration) -> Configuration:
        """A configuration as it has to be on this host, whose addresses may be others than before."""
        return self.config.fitted(told, self._ports.macs, host_addresses(), self._ports.mtus)

    def _leave_to_stack(self) -> None:
        """Let the stack have what is for the host itself, as addresses and tunnels' ends are now."""
        own = host_addresses() - set(self._pipeline.configuration.tunnel_ends)
        for steer in self._ports.steers:
            steer(own)

    @property
    def _steered(self) -> FastSteering:
        # What checks messages takes longer to load than everything else here, so it is loaded when it is needed.
        if self._steering is None:
            from gateway.fast.steering import FastSteering

            self._steering = FastSteering(self._pipeline, self._offloader, self.config.configuration, self._fitted)
        self._steering.now_ns = self._time_ns()
        return self._steering

    def policies(self, known: int | None = None) -> dict[str, Any]:
        """See `Steered`; revision 0 is what the file says."""
        return self._steered.policies(known)

    def set_policies(self, policies: messages.Policies, if_revision: int | None) -> int:
        """See `Steered`."""
        revision = self._steered.set_policies(policies, if_revision)
        self._leave_to_stack()
        return revision

    def list_flows(self, after: int, limit: int, tenant: int | None) -> dict[str, Any]:
        """See `Steered`."""
        return self._steered.list_flows(after, limit, tenant)

    def install_flows(self, flows: Sequence[messages.Flow]) -> int:
        """See `Steered`."""
        return self._steered.install_flows(flows)

    def delete_flows(self, keys: Sequence[messages.FlowKey] | None) -> int:
        """See `Steered`."""
        return self._steered.delete_flows(keys)

    def export(self) -> dict[str, Any]:
        """What was told from outside, for `adopt` in a successor."""
        return self._steered.export()

    def adopt(self, state: Any) -> None:
        """Go on with what a predecessor was told from outside.

        Raises:
            GatewayError: That does not fit this daemon.
        """
        try:
            self._steered.adopt(state)
        except ValueError as error:
            raise GatewayError(f"what the daemon before was told does not fit: {error}") from None
        self._leave_to_stack()
