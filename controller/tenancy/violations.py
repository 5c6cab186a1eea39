"""Why a packet was dropped and reported: the numbers in the cookies of VIOLATE and DENY rules."""

from __future__ import annotations

from enum import IntEnum

from controller.flows import Purpose, cookie_of, number_of, purpose_of


class Violation(IntEnum):
    """What a sender did that it must not; the number is that in the rule's cookie."""

    VLAN_HOPPING = 1
    DHCP_SERVER = 2
    LLDP_FORGERY = 3
    ARP_SPOOFING = 4
    IP_SPOOFING = 5
    MAC_SPOOFING = 6
    NOT_ALLOWED = 7

    @property
    def slug(self) -> str:
        """Its name in events and metrics, like ``ip-spoofing``."""
        return self.name.lower().replace("_", "-")

    @property
    def sentence(self) -> str:
        """What happened."""
        return _SENTENCES[self]

    @property
    def purpose(self) -> Purpose:
        """The purpose of the rules that find it."""
        return Purpose.DENY if self is Violation.NOT_ALLOWED else Purpose.VIOLATE

    @property
    def cookie(self) -> int:
        """The cookie of the rules that find it."""
        return cookie_of(self.purpose, self.value)


_SENTENCES = {
    Violation.VLAN_HOPPING: "The host sent a tagged frame; segments are assigned by the switch alone.",
    Violation.DHCP_SERVER: "The host answered as a DHCP server.",
    Violation.LLDP_FORGERY: "The host sent LLDP, which only switches do.",
    Violation.ARP_SPOOFING: "The host claimed an address in ARP that is not its own.",
    Violation.IP_SPOOFING: "The host sent from an IP address that is not its own.",
    Violation.MAC_SPOOFING: "The host sent from an Ethernet address that is not its own.",
    Violation.NOT_ALLOWED: "No policy allows this, or one denies it.",
}


def violation_of(cookie: int) -> Violation | None:
    """The violation behind a cookie, or None if its rule reports none."""
    if purpose_of(cookie) not in (Purpose.VIOLATE, Purpose.DENY):
        return None
    try:
        return Violation(number_of(cookie))
    except ValueError:
        return None
