"""Batches of frames from headers to verdicts, as pure functions over arrays.

::

    parse -> classify -> policy -> translate -> route     what a flow's first packet takes
         `-> flows                                        what the packets after it take
    -> rewrite -> encapsulate                             the only ones that write to the frames' memory
    pipeline puts them together; counters and reasons say what became of each frame

All of them take ``memory`` (mapped, one dimension, bytes), ``offsets`` and ``lengths`` (one entry a frame), and never
copy a frame: of each frame up to 64 bytes of headers are gathered, and only fields that change are written back.
Nothing here knows sockets, rings or clocks. Any bytes lead to a counted reason, never to an exception; exceptions are
kept for callers that break the contract, such as frames that lie outside of the memory.
"""
