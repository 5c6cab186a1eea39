"""Batch ports: where many frames at a time come from and go to, without being touched.

::

    port      the interface of all ports, their counters, the accounting of frames
    batch     frames that lie in a memory: offsets and lengths as numpy arrays
    frames    a memory cut into frames of one length, and who owns each of them
    index     single-producer single-consumer rings as the kernel lays them out, as numpy views
    umem      memory that AF_XDP sockets share; xsk_abi: the kernel's numbers and structures
    xsk, xsk_core  AF_XDP: received descriptors become transmit descriptors; user space copies nothing
    mapped    PACKET_MMAP: frames are sent from the slots they arrived in; user space copies nothing
    plain     packet sockets with a buffer of their own: the copying way, for comparison
    memory    lists instead of a kernel: for tests
    copies    the one place where bytes of frames are copied, which counts them

A port lends frames: `receive` hands out frames that stay where they are; each is to be given back exactly once, by
`send` (which takes over those it accepts) or by `release`. Not thread-safe: one thread owns a memory and its ports.
"""
