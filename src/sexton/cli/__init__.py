"""The `sexton` command: each module here parses one command's arguments, calls, and prints."""
