"""Whose fault is it?

An `assert` says our code is wrong. A `SextonError` says the world is: a damaged file, a peer that
broke the protocol, a request Kafka refuses, an option nobody can honour. Each carries what a person
needs to act on it: what it is about, why it failed, and a hint where there is a remedy.

    SextonError
      ├── CorruptLog(where, why)          bytes on disk that no broker wrote
      ├── PeerError(peer, why)            the other side broke the protocol
      ├── Refused(error, why)             an answer with one of Kafka's error codes
      └── ConfigError(option, why, hint)  something the user asked for cannot be done
            └── Missing(thing, hint)      a program, jar or package that is not installed
"""

from __future__ import annotations

from sexton.base.kafka_errors import KafkaError


class SextonError(Exception):
    """Something outside this program is wrong; `subject` names it, `hint` says what to do."""

    def __init__(self, subject: str, why: str, hint: str | None = None) -> None:
        super().__init__(f"{subject}: {why}")
        self.subject = subject
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        """With the remedy: in a program of somebody's own this line is all that is seen.

        Who tells the hint apart, or goes on in the same sentence, takes `subject` and `why`.
        """
        said = super().__str__()
        return said if self.hint is None else f"{said} ({self.hint})"

    @property
    def told(self) -> str:
        """What and why, for people: without the remedy."""
        return f"{self.subject}: {self.why}"

    @property
    def kind(self) -> str:
        """A stable name for machines, such as `corrupt-log`."""
        name = type(self).__name__
        return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


class CorruptLog(SextonError):
    """Bytes that a broker cannot have written; `subject` is a file and position, or an offset."""


class PeerError(SextonError):
    """The other side answered with something the protocol does not allow, or not at all."""


class Refused(SextonError):
    """A request that Kafka's rules refuse, with the code a client would be sent.

    The code is the subject, for programs; `why` names the thing, which people want to hear first.
    """

    def __init__(self, error: KafkaError, why: str, hint: str | None = None) -> None:
        super().__init__(error.name, why, hint)
        self.error = error

    @property
    def told(self) -> str:
        """The same; the thing is in `why`, and the code comes last."""
        return f"{self.why} ({self.subject})"


class ConfigError(SextonError):
    """An option, argument or file the user gave that cannot be honoured; commands exit 2."""


def no_such_topic(*names: str) -> ConfigError:
    """The mistake that is made most often, in the same words by everybody."""
    hint = "`sexton cluster topics` lists those that exist, with the same -b"
    if any(":" in name for name in names):  # as one names a partition elsewhere
        hint = "whole topics are meant here: leave out the colon and the partition"
    return ConfigError(", ".join(names), "there is no such topic", hint)


def no_such_partition(topic: str, partition: int, there: int) -> ConfigError:
    """`there` is how many it has."""
    hint = f"there are {there}, counted from 0"
    return ConfigError(f"{topic}:{partition}", "there is no such partition", hint)


def cannot_be_written(target: str, why: str) -> ConfigError:
    """A file that was to hold a result."""
    hint = "name a file in a directory that is there, that you may write to and that has room"
    return ConfigError(target, f"cannot be written: {why}", hint)


class Missing(ConfigError):
    """A program or package this needs and this machine lacks."""
