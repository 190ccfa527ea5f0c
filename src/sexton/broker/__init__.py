"""Brokers on real sockets, files and clocks: `node` does the thinking, this package the I/O."""
