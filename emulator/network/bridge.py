"""What Open vSwitch is told to make a switch: words for ``ovs-vsctl``. Pure."""

from __future__ import annotations

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

    def words(self, *, controller: str | None, fail_mode: str, userspace: bool, qos: str) -> list[str]:
        """The part of a transaction that makes the bridge, its ports and its connection to a controller.

        Args:
            controller: Target such as ``tcp:127.0.0.1:6653``; None: none.
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
        if controller is not None:
            words.append(f"controller=@controller-{name}")
        for interface, number in self.ports:
            words += ["--", "add-port", name, interface, "--", "set", "Port", interface, f"qos={qos}"]
            words += ["--", "set", "Interface", interface, f"ofport_request={number}"]
        if controller is not None:
            words += ["--", f"--id=@controller-{name}", "create", "Controller"]
            words += [f'target="{controller}"', "max_backoff=1000"]
        return words
