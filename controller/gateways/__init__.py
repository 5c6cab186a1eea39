"""The controller's side of the gateways' control sockets, without sockets: what a gateway is to be told, and saying it.

::

    tenancy's state -> policies -> session -> lines for a gateway's control socket
                                          <- lines from it

Whoever has a connection to a gateway feeds a `GatewaySession` and sends what it returns. Messages are those of
`emulator.messages.gateway`; nothing of the gateway's own code is needed.
"""
