"""What Open vSwitch is told to make a switch: words for ``ovs-vsctl``. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bridge:
    """A switch to be made.

    Attributes:
        name: Its name.
        dpid: OpenFlow datapath id.
        ports: Interface and OpenFlow port number of each port.
    """

    name: str
    dpid: int
    ports: tuple[tuple[str, int], ...]

    def words(self, *, controllers: Sequence[str], fail_mode: str, userspace: bool, qos: str) -> list[str]:
        """The part of a transaction that makes the bridge, its ports and its connections to controllers.

        Args:
            controllers: Targets such as ``tcp:127.0.0.1:6653``.
            fail_mode: ``secure`` or ``standalone``.
            userspace: Whether the daemon forwards, not the kernel.
            qos: Record or symbol of the QoS of every port.
        """
        name = self.name
        words = ["--", "add-br", name, "--", "set", "Bridge", name]
        words += [f"fail_mode={fail_mode}", "protocols=OpenFlow13", f"other-config:datapath-id={self.dpid:016x}"]
        words += ["other-config:disable-in-band=true", f"other-config:dp-desc={name}"]
        if userspace:
            words.append("datapath_type=netdev")
        records = [f"@controller-{name}-{number}" for number, _ in enumerate(controllers)]
        if records:
            words.append(f"controller={','.join(records)}")
        for interface, number in self.ports:
            words += ["--", "add-port", name, interface, "--", "set", "Port", interface, f"qos={qos}"]
            words += ["--", "set", "Interface", interface, f"ofport_request={number}"]
        for record, target in zip(records, controllers, strict=True):
            words += ["--", f"--id={record}", "create", "Controller", f'target="{target}"', "max_backoff=1000"]
        return words
