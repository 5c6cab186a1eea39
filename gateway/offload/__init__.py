"""The offloaded fast path: known flows are forwarded by an XDP program in the kernel, as a SmartNIC would.

::

    bpf/        the programs, in C; build compiles them
    libbpf      the library that loads them; bpffs where they are pinned; maps as numpy arrays
    steering    gives an interface's packets to AF_XDP sockets
    records     flows as the program and as numpy see them
    flows       the table of flows: installing, ageing, eviction, counters, audit; figures is what it tells
    offloading  program, maps and interfaces together; adopts what another daemon left running
"""
