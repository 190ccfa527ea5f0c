"""The `sexton` command: each module here parses one command's arguments, calls, and prints.

    start, main, registry          from the name of a command to its module, imported only then
    options, *_options, *_reach    what several commands share: options, and reaching a cluster
    output, writers, live, bars    how everything is said: tables, JSON, TSV, and while it goes on
    failures, consent              what went wrong; and asking before what cannot be taken back

A command is a module of its own name (`guard thaw` is in `guard_thaw`). Where one has much to do,
`*_run` does it and `*_show` says what came of it.
"""
