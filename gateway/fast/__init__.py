"""The fast gateway: batches from ports through the pipeline to ports, known flows in the kernel. ``gateway fast``.

::

    config     its file, checked
    ports      opens the batch ports that the file asks for
    forwarder  one turn: receive, decide, send; no clock, no waiting
    offloader  keeps the offloaded flows in step with what the pipeline decided
    daemon     waits, and answers the control socket
"""
