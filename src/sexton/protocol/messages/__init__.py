"""Kafka's requests and responses as dataclasses, a module for each API; generated.

A class has Kafka's name (`FetchRequest`), its fields have Kafka's names in snake case and Kafka's
defaults, and its constants say which API and which versions it is for. Import what you use from its
own module: each costs a few milliseconds, and there are many.
"""
