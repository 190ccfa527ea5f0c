"""One protocol each, without I/O: events in, effects out, so that a simulator can run them all."""
