"""The data planes of emulated nodes, each a process of its own: they move packets, and decide nothing about routes.

``python -m gateway forward`` forwards packets from a memory-mapped ring, ``python -m gateway proxy`` terminates TCP and
copies it; both pass everything through a service station. ``python -m gateway fast`` forwards batches as fast as can
be. All are asked and stopped over a control socket.

::

    cli -> forward_daemon -> forward -> pipeline, station, port (ring, memory)
        -> proxy_daemon   -> proxy   -> flow, station; intercept
        -> fast           -> rings, dataplane, offload; steering (policies)
    all daemons: loop, timer, control (control_requests, offers); client is the other end of the control socket
    upgrade: a daemon takes another one's place

`pipeline`, `station` and `dataplane` are pure; `forward` and `proxy` are told the time. Only `ring`, `rings`,
`packet_socket`, `offload`, `interface`, `timer`, `loop`, `sendmmsg`, `flow`, `intercept`, `control`, `client` and
`upgrade` talk to the kernel.
"""
