"""A whole broker without I/O: the machines wired up, one module per Kafka API.

A node takes events (somebody asked, somebody answered, time has come) and returns effects (ask,
answer, wake me). It reads and writes its logs through the `Disk` it is given. `broker` runs it on
sockets, files and the real clock; `sim` runs many of them on fakes.
"""
