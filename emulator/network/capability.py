"""What the current kernel can do for links and switches, found out by asking it."""

from __future__ import annotations

import errno
import struct

from emulator.errors import HostError, LinkError, MissingCapability, NodeError
from emulator.model.fabric import LinkSpec
from emulator.network import qdisc_tree
from emulator.network.namespace import Namespace
from emulator.network.netlink import CREATE, RTM_NEWQDISC, KernelRefused, NetlinkSocket, Request, text
from emulator.network.qdisc import Netem
from emulator.network.wiring import LOOPBACK_INDEX

VIRTUAL_ENGINE = "the virtual engine brings its own kernel: use 'icgw run'"

_NETLINK_GENERIC = 16
_GENERIC_CONTROL, _GET_FAMILY, _FAMILY_NAME = 16, 3, 2


def has_netem() -> bool:
    """Whether the kernel can delay and shape links: tried on the loopback of a namespace made for it.

    Raises:
        HostError: Not permitted.
    """
    try:
        namespace = Namespace.create("probe")
    except NodeError as error:
        raise HostError(f"{error}: this needs root") from None
    try:
        with namespace.entered(), NetlinkSocket() as kernel:
            [delay] = qdisc_tree.nested([Netem(delay_ns=1)])
            body = qdisc_tree.request_body(LOOPBACK_INDEX, delay)
            try:
                kernel.execute([Request(RTM_NEWQDISC, body, "netem", CREATE)])
            except KernelRefused as refused:
                if refused.errno in (errno.ENOENT, errno.EOPNOTSUPP):
                    return False
                raise
            return True
    finally:
        namespace.close()


def require_netem() -> None:
    """Make sure that links can be shaped.

    Raises:
        MissingCapability: They cannot; names the virtual engine as the way out.
        HostError: Not permitted.
    """
    if not has_netem():
        raise MissingCapability("netem", f"this kernel cannot delay or shape links; {VIRTUAL_ENGINE}")


def has_kernel_datapath() -> bool:
    """Whether Open vSwitch can forward in this kernel; asking loads the module where there is one."""
    body = struct.pack("=BBH", _GET_FAMILY, 1, 0) + text(_FAMILY_NAME, "ovs_datapath")
    with NetlinkSocket(_NETLINK_GENERIC) as kernel:
        try:
            kernel.get(Request(_GENERIC_CONTROL, body, "openvswitch"))
        except KernelRefused:
            return False
    return True


def require_kernel_datapath() -> None:
    """Make sure that Open vSwitch can forward in the kernel.

    Raises:
        MissingCapability: It cannot.
    """
    if not has_kernel_datapath():
        raise MissingCapability("openvswitch", f"this kernel has no Open vSwitch datapath; {VIRTUAL_ENGINE}")


def require_queues(link: str, spec: LinkSpec, *, userspace: bool) -> None:
    """Make sure that a link's traffic can be put into the queues that it is to have.

    Args:
        link: Its name.
        spec: Its properties.
        userspace: Open vSwitch forwards in its daemon.

    Raises:
        LinkError: The daemon cannot: it sends packets without the mark by which the link knows their queue.
    """
    if userspace and spec.storage_share is not None:
        raise LinkError(
            f"link {link}: storage and compute have queues of their own only behind Open vSwitch's kernel datapath, "
            f"not its userspace one; {VIRTUAL_ENGINE}"
        )
