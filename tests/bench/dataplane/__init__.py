"""``make bench-dataplane`` and ``make calibrate``: what ways of carrying packets cost on this machine, in one run.

::

    programs    the XDP programs that make and count packets
    generator   sends packets as fast as can be, or at a rate; the sink counts them
    lock        one benchmark at a time on a host
    bed         namespaces, interfaces, who runs on which CPU, and what that took
    modes       what is compared, as devices under test
    processes   of the device under test
    relay       the TCP proxies that are compared, with copies and with splice
    rates       packets/s and CPU time a packet
    delays      round-trip times
    streams     bytes/s of TCP
    memory      does a daemon's memory stay as it is
    evidence    where the kernel copies bytes, by samples of its code
    results     what was measured, as tables and as JSON
    stored      the JSON read again: several short runs as one
    calibrate   a short form, and the profile that comes out of it
"""
