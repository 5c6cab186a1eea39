"""The fast gateway: batches from ports through the pipeline to ports, known flows in the kernel. ``gateway fast``.

::

    config     its file, checked; tables is what it tells the pipeline, reader is how it is read
    ports      opens the batch ports that the file asks for
    forwarder  one turn: receive, decide, send; no clock, no waiting
    offloader  keeps the offloaded flows in step with what the pipeline decided
    told       what it was told, by its file and from outside, as it is in force
    steering   policies and flows over the control socket
    links      notices interfaces that go
    daemon     waits, and answers the control socket
    standby    collects what comes while one daemon takes another's place
    run        from the file to the end
"""
