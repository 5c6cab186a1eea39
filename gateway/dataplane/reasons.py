"""What became of a frame: one number for each, so that a batch's fates are an array."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """Why a frame was not forwarded; `FORWARDED` if it was (or, between two stages, still may be)."""

    FORWARDED = 0

    # The bytes: found by `parse`.
    RUNT = 1
    """Shorter than an Ethernet header."""
    JUMBO = 2
    """Longer than the port takes."""
    TRUNCATED = 3
    """Ends before its headers or their lengths say."""
    MALFORMED = 4
    """A header with a value that it cannot have."""
    BAD_CHECKSUM = 5
    """The checksum of its IPv4 header is wrong."""
    BAD_TRANSPORT_CHECKSUM = 6
    """The checksum of TCP or UDP is wrong (only where `checksum.verify_transport` is asked)."""
    FRAGMENT = 7
    """A piece of an IP packet: ports and rules cannot be told from it."""
    TOO_MANY_TAGS = 8
    """More than two VLAN tags."""
    TOO_MANY_EXTENSIONS = 9
    """More IPv6 extension headers than are looked at."""
    NOT_IP = 10
    """ARP, LLDP, LLC or another protocol that is somebody else's business."""

    # Whose it is and where it may go.
    GROUP = 11
    """Broadcast or multicast on Ethernet or in IP."""
    NOT_FOR_US = 12
    """Its Ethernet destination is another station's."""
    OWN_ADDRESS = 13
    """Its IP destination is the gateway itself: left to the kernel."""
    NO_TENANT = 14
    """No tenant has its VLAN, VNI or port."""
    SPOOFED = 15
    """Its source is not one of its tenant's addresses."""
    DENIED = 16
    """No rule allows it."""
    NO_ROUTE = 17
    TTL_EXPIRED = 18

    # The way out.
    NO_HEADROOM = 19
    """There is no room before it for the headers that it is to be wrapped in."""
    TOO_LONG = 20
    """Wrapped or tagged, it would be longer than the next hop takes."""
    UNKNOWN_TUNNEL = 21
    """A VXLAN packet to the gateway with a VNI that no tenant has."""
    EGRESS_FULL = 22
    """The ring to the next hop had no room."""

    @property
    def label(self) -> str:
        """Its name in counters and messages."""
        return self.name.lower()


REASONS = len(Reason)

LEFT_TO_KERNEL = frozenset({Reason.NOT_IP, Reason.GROUP, Reason.NOT_FOR_US, Reason.OWN_ADDRESS})
"""Reasons that are no loss: the host's own stack has these frames too."""
