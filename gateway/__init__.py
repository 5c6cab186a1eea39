"""The data planes of emulated nodes, each a process of its own: they move packets, and decide nothing about routes.

``python -m gateway forward`` forwards packets from a memory-mapped ring, ``python -m gateway proxy`` terminates TCP and
copies it; both pass everything through a service station and are asked and stopped over a control socket.

::

    cli -> forward_daemon -> forward -> pipeline, station, port (ring, memory)
        -> proxy_daemon   -> proxy   -> flow, station; intercept
    both daemons: loop, timer, control; client is the other end of the control socket

`pipeline` and `station` are pure; `forward` and `proxy` are told the time. Only `ring`, `interface`, `timer`, `loop`,
`sendmmsg`, `flow`, `intercept` and `control` talk to the kernel.
"""
