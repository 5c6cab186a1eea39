"""From a link's properties to the qdiscs that make them true. Pure: the kernel is for `emulator.network.wiring`.

The reasons, with measurements, are in docs/decisions/0004-links-and-nodes.md. In short::

    host's port                   switch's port                  with an ECN threshold
    1: netem rate + delay         1: netem delay                 1: netem delay
                                     2: netem rate + queue          2: tbf rate
                                                                       3: red mark
                                                                          4: pfifo queue
"""

from __future__ import annotations

from emulator.errors import LinkError
from emulator.model.fabric import ETHERNET_HEADER_BYTES, Aqm, LinkSpec
from emulator.network.qdisc import Fifo, Mark, Netem, Qdisc, TokenBucket

SUPER_PACKET_BYTES = 65_536
"""Largest super-packet: Linux's GSO_LEGACY_MAX_SIZE."""

_MAX_NETEM_LIMIT = 2**31 - 1
_MAX_THRESHOLD_BYTES = 2**31 - 1


def in_flight_packets(spec: LinkSpec) -> int:
    """Full-size frames that are in propagation when the line is busy: they count in a netem's limit."""
    per_frame_ns = max(spec.serialization_ns(spec.mtu_bytes + ETHERNET_HEADER_BYTES), 1)
    return -(-spec.delay_ns // per_frame_ns)


def plan(spec: LinkSpec, *, at_host: bool, seed: int = 0) -> tuple[Qdisc, ...]:
    """The qdiscs of one end's outgoing direction, outermost first.

    Args:
        spec: The link.
        at_host: The port is a host's, whose own stack must learn at once that its queue is full; a switch has nobody
            to tell.
        seed: Of random losses in this direction.

    Raises:
        LinkError: The rate is not a whole number of bytes per second, or a number is beyond what the kernel counts to.
    """
    rate, rest = divmod(spec.rate_bps, 8)
    if rest:
        raise LinkError(f"a rate of {spec.rate_bps} bit/s cannot be set: the kernel counts whole bytes per second")
    loss = Netem.loss_from_ppm(spec.loss_ppm)
    loss_seed = seed if loss else None
    if spec.aqm is Aqm.ECN_THRESHOLD:
        return _marking(spec, rate, loss, loss_seed)
    # The packet on the line is in the queue until it has left, so one more than may wait.
    queue = spec.waiting_packets + 1
    if at_host or spec.delay_ns == 0:
        limit = queue + in_flight_packets(spec)
        if limit > _MAX_NETEM_LIMIT:
            raise LinkError(f"a queue of {limit} packets cannot be set: the kernel counts to {_MAX_NETEM_LIMIT}")
        return (Netem(rate, spec.delay_ns, limit, loss, spec.overhead_bytes, loss_seed),)
    return (
        Netem(delay_ns=spec.delay_ns, loss=loss, seed=loss_seed),
        Netem(rate, 0, queue, 0, spec.overhead_bytes),
    )


def _marking(spec: LinkSpec, rate: int, loss: int, seed: int | None) -> tuple[Qdisc, ...]:
    frame_bytes = spec.mtu_bytes + ETHERNET_HEADER_BYTES
    # One byte more than the threshold's frames: a packet is marked that finds more than this many waiting.
    threshold = spec.ecn_threshold_packets * frame_bytes + 1
    if threshold > _MAX_THRESHOLD_BYTES:
        raise LinkError(f"an ECN threshold of {threshold} bytes cannot be set: at most {_MAX_THRESHOLD_BYTES}")
    burst = frame_bytes if spec.true_packets else max(frame_bytes, SUPER_PACKET_BYTES + ETHERNET_HEADER_BYTES)
    shaper = (TokenBucket(rate, spec.overhead_bytes, burst), Mark(threshold), Fifo(spec.waiting_packets))
    if spec.delay_ns == 0 and not loss:
        return shaper
    return (Netem(delay_ns=spec.delay_ns, loss=loss, seed=seed), *shaper)


def rate_level(qdiscs: tuple[Qdisc, ...]) -> int:
    """Depth of the qdisc in which packets wait for the line."""
    for depth, one in enumerate(qdiscs):
        if isinstance(one, (Netem, TokenBucket)) and one.rate_bytes_per_s:
            return depth
    raise LinkError("no qdisc of this interface limits its rate")
