"""From a link's properties to the qdiscs that make them true. Pure: the kernel is for `emulator.network.wiring`.

The reasons, with measurements, are in docs/decisions/0004-links-and-nodes.md. In short::

    host's port                   switch's port                  with an ECN threshold
    1: netem rate + delay         1: netem delay                 1: netem delay
                                     2: netem rate + queue          2: tbf rate
                                                                       3: red mark
                                                                          4: pfifo queue

    switch's port, storage and compute apart                     the same with an ECN threshold
    3: netem delay                                               3: netem delay
       2: tbf rate                                                  2: tbf rate
          1: ets shares                                                1: ets shares
             1:1 10: pfifo queue of storage                               1:1 10: red mark, 11: pfifo queue of storage
             1:2 20: pfifo queue of compute                               1:2 20: red mark, 21: pfifo queue of compute
"""

from __future__ import annotations

from dataclasses import replace

from emulator.errors import LinkError
from emulator.model.fabric import ETHERNET_HEADER_BYTES, Aqm, LinkSpec
from emulator.network.qdisc import Fifo, Mark, Netem, Qdisc, Shares, TokenBucket
from emulator.network.qdisc_tree import Placed, handle, nested

SUPER_PACKET_BYTES = 65_536
"""Largest super-packet: Linux's GSO_LEGACY_MAX_SIZE."""

CLASSES = ("storage", "compute")
"""Where they are kept apart: traffic of Open vSwitch's queues 0 and 1. Unmarked packets are in the last one."""

_CLASSES_HANDLE = 1
"""Open vSwitch's queue n is a packet priority that names class n + 1 of the qdisc ``1:``."""

_LEAST_QUANTUM_BYTES = 256
_MAX_NETEM_LIMIT = 2**31 - 1
_MAX_THRESHOLD_BYTES = 2**31 - 1


def in_flight_packets(spec: LinkSpec) -> int:
    """Full-size frames that are in propagation when the line is busy: they count in a netem's limit."""
    per_frame_ns = max(spec.serialization_ns(spec.mtu_bytes + ETHERNET_HEADER_BYTES), 1)
    return -(-spec.delay_ns // per_frame_ns)


def quanta_bytes(spec: LinkSpec) -> tuple[int, ...]:
    """What each of `CLASSES` may send before it is the next one's turn, in proportion to their shares.

    The larger is a quarter of the largest frame, so that turns are short; unless the smaller would be less than the
    kernel takes.
    """
    storage = spec.storage_share or 0.0
    small, large = sorted((storage, 1 - storage))
    # The larger one is derived from the smaller as it was rounded, so that the proportion is kept.
    turn = max(_LEAST_QUANTUM_BYTES, round(_largest_frame_bytes(spec) / 4 * small / large))
    other = round(turn * large / small)
    return (turn, other) if storage == small else (other, turn)


def plan(spec: LinkSpec, *, at_host: bool, seed: int = 0) -> tuple[Placed, ...]:
    """The qdiscs of one end's outgoing direction, parents first.

    Args:
        spec: The link.
        at_host: The port is a host's, whose own stack must learn at once that its queue is full; a switch has nobody
            to tell. Only switches keep storage and compute apart.
        seed: Of random losses in this direction.

    Raises:
        LinkError: The rate is not a whole number of bytes per second, or a number is beyond what the kernel counts to.
    """
    rate, rest = divmod(spec.rate_bps, 8)
    if rest:
        raise LinkError(f"a rate of {spec.rate_bps} bit/s cannot be set: the kernel counts whole bytes per second")
    loss = Netem.loss_from_ppm(spec.loss_ppm)
    loss_seed = seed if loss else None
    delay = (Netem(delay_ns=spec.delay_ns, loss=loss, seed=loss_seed),) if spec.delay_ns or loss else ()
    if spec.storage_share is not None and not at_host:
        return _classes(spec, rate, delay)
    if spec.aqm is Aqm.ECN_THRESHOLD:
        return nested((*delay, _bucket(spec, rate), *_marked_queue(spec)))
    # The packet on the line is in the queue until it has left, so one more than may wait.
    queue = spec.waiting_packets + 1
    if at_host or spec.delay_ns == 0:
        limit = queue + in_flight_packets(spec)
        if limit > _MAX_NETEM_LIMIT:
            raise LinkError(f"a queue of {limit} packets cannot be set: the kernel counts to {_MAX_NETEM_LIMIT}")
        return nested((Netem(rate, spec.delay_ns, limit, loss, spec.overhead_bytes, loss_seed),))
    return nested((*delay, Netem(rate, 0, queue, 0, spec.overhead_bytes)))


def _classes(spec: LinkSpec, rate: int, delay: tuple[Netem, ...]) -> tuple[Placed, ...]:
    """Storage and compute apart: when the line has sent a packet, it takes the next one of the class whose turn it is.

    netem would not do as the line: it decides the order when packets come.
    """
    line = replace(_bucket(spec, rate), line=True)
    outer = nested((*delay, line), numbers=(3, 2)[-len(delay) - 1 :])
    shares = Placed(Shares(quanta_bytes(spec)), handle(_CLASSES_HANDLE), outer[-1].handle | 1)
    queue = _marked_queue(spec) if spec.aqm is Aqm.ECN_THRESHOLD else (Fifo(spec.waiting_packets),)
    placed = [*outer, shares]
    for number in range(1, len(CLASSES) + 1):
        numbers = range(0x10 * number, 0x10 * number + len(queue))
        placed += nested(queue, numbers=numbers, parent=shares.handle | number)
    return tuple(placed)


def _largest_frame_bytes(spec: LinkSpec) -> int:
    ip_bytes = spec.mtu_bytes if spec.true_packets else max(spec.mtu_bytes, SUPER_PACKET_BYTES)
    return ip_bytes + ETHERNET_HEADER_BYTES


def _bucket(spec: LinkSpec, rate: int) -> TokenBucket:
    return TokenBucket(rate, spec.overhead_bytes, _largest_frame_bytes(spec))


def _marked_queue(spec: LinkSpec) -> tuple[Qdisc, ...]:
    # One byte more than the threshold's frames: a packet is marked that finds more than this many waiting.
    threshold = spec.ecn_threshold_packets * (spec.mtu_bytes + ETHERNET_HEADER_BYTES) + 1
    if threshold > _MAX_THRESHOLD_BYTES:
        raise LinkError(f"an ECN threshold of {threshold} bytes cannot be set: at most {_MAX_THRESHOLD_BYTES}")
    return (Mark(threshold), Fifo(spec.waiting_packets))


def line_of(qdiscs: tuple[Placed, ...]) -> Placed:
    """The qdisc that gives packets to the line: what it holds waits."""
    for one in qdiscs:
        if isinstance(one.qdisc, (Netem, TokenBucket)) and one.qdisc.rate_bytes_per_s:
            return one
    raise LinkError("no qdisc of this interface limits its rate")


def class_queues(qdiscs: tuple[Placed, ...]) -> dict[str, Placed]:
    """The queue of each of `CLASSES`; none where they are not kept apart."""
    for one in qdiscs:
        if isinstance(one.qdisc, Shares):
            inside = {below.parent: below for below in qdiscs}
            return {name: inside[one.handle | number] for number, name in enumerate(CLASSES, 1)}
    return {}
