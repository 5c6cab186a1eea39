"""The controller's side of the gateways' control sockets: what a gateway is to be told, and saying it.

::

    tenancy's state -> policies -> session -> lines for a gateway's control socket
                                          <- lines from it

`connections` has the sockets and feeds a `GatewaySession` for each gateway; all else decides. Messages are those of
`emulator.messages.gateway`; nothing of the gateway's own code is needed.
"""
