"""Things that go wrong with logs, made to happen on purpose: for the demo, for tests, for study."""
