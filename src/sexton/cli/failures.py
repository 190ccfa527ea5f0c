"""What went wrong, said once for people and once for programs.

Whatever ends a command early becomes a `Failure`: a `SextonError` speaks for itself, a wrong
argument is the user's to mend, and anything else is our bug and says how to see the traceback.

    error: segment.log: holds message format v1          on stderr, always
    hint: sexton reads format v2, written since Kafka 0.11
    {"kind": "corrupt-log", "subject": ...}              on stdout, for --format json and jsonl
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from dataclasses import asdict, dataclass
from shutil import get_terminal_size
from typing import Any, TextIO

import typer

from sexton.base.errors import ConfigError, Missing, Refused, SextonError
from sexton.base.extras import EXTRAS, missing
from sexton.base.kafka_errors import KafkaError
from sexton.cli.interrupts import is_interrupt
from sexton.report.prose import folded, harmless

FAILED = 1
USAGE = 2
INTERRUPTED = 128 + 2  # what a shell reports for SIGINT
PIPE_CLOSED = 128 + 13  # and for SIGPIPE

DEBUG_VARIABLE = "SEXTON_DEBUG"

OTHER_LOGIN = "does the port speak what security.protocol and sasl.mechanism say?"
NEEDS_ACL = "an ACL has to allow it: docs/concepts/threat-model.md lists what each command needs"
# What to do about an answer of Kafka's, where whoever met it did not know better.
REMEDIES = {
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION: "`sexton cluster topics` lists those that exist",
    KafkaError.TRANSACTIONAL_ID_NOT_FOUND: "`sexton txn list` lists those that exist",
    KafkaError.GROUP_ID_NOT_FOUND: "check the spelling; a group exists once a member has joined",
    KafkaError.INVALID_TOPIC_EXCEPTION: "a topic's name has letters, digits, '.', '_' and '-' only",
    KafkaError.TOPIC_ALREADY_EXISTS: "see it with `sexton cluster topics NAME`",
    KafkaError.INVALID_CONFIG: "docs/reference/broker-options.md lists what `sexton up` takes",
    KafkaError.INVALID_REPLICATION_FACTOR: "see how many brokers are up: `sexton cluster status`",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: NEEDS_ACL,
    KafkaError.GROUP_AUTHORIZATION_FAILED: NEEDS_ACL,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: NEEDS_ACL,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NEEDS_ACL,
    KafkaError.ILLEGAL_SASL_STATE: OTHER_LOGIN,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: OTHER_LOGIN,
    KafkaError.SASL_AUTHENTICATION_FAILED: "check user and password in --command-config FILE",
}
# Something that was named is not there, or cannot be: wrong usage, however we learn of it.
NOT_THERE = {
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError.TRANSACTIONAL_ID_NOT_FOUND,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.INVALID_TOPIC_EXCEPTION,
}
# By pydantic's names. typer gives its words on, which do not say what was given.
WRONG_NUMBERS = {
    "int_parsing": "{!r} is not a whole number",
    "int_parsing_size": "{}... is too long for a number",
    "float_parsing": "{!r} is not a number",
    "greater_than_equal": "{} is too small: at least {ge:.15g}",
    "less_than_equal": "{} is too large: at most {le:.15g}",
}
MOST_SHOWN = 40  # characters of a number
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
MAY_NOT = "this user lacks the right: choose another place, or another user"
NO_ROOM = "make room there, or write elsewhere"
NO_ANSWER = "is a Kafka running there? `sexton up` starts one on this machine"


@dataclass(frozen=True, slots=True)
class Failure:
    kind: str  # stable, kebab-case: scripts match on it
    subject: str
    why: str
    hint: str | None
    exit_code: int

    @property
    def told(self) -> str:
        """The thing first; of a refusal by Kafka the subject is its code, which comes last."""
        if self.subject in KafkaError.__members__:  # refusals of a kind of their own have one, too
            return f"{self.why} ({self.subject})"
        return f"{self.subject}: {self.why}"

    def as_object(self) -> dict[str, object]:
        """The failure for JSON; the exit code stands beside it in the envelope."""
        fields = asdict(self)
        del fields["exit_code"]
        return fields


def failure_of(error: BaseException, command: str = "") -> Failure:
    """What to say about `error`, and the exit code it deserves.

    `command` is the one that was meant, for errors that do not know it themselves.
    """
    match error:
        case SextonError():
            code = USAGE if _is_usage(error) else FAILED
            return Failure(error.kind, error.subject, error.why, _hint(error), code)
        case ModuleNotFoundError() if error.name in EXTRAS:
            return failure_of(missing(error.name))
        case typer.TyperException() if error.exit_code == USAGE:
            return _usage_failure(error, command)
        case _ if is_interrupt(error):
            return Failure("interrupted", "interrupted", "stopped by the user", None, INTERRUPTED)
        case ValueError() if (given := _not_utf_8(error)) is not None:
            return Failure("usage", given, "is not UTF-8, as Kafka's names are", None, USAGE)
        case OSError() if error.filename is not None and error.strerror:
            return _refused_by_the_system(error, os.fsdecode(error.filename))
        case OSError() if error.errno in FULL:  # which says no name: it is met in a write
            return _refused_by_the_system(error, "output")
        case _:
            name = type(error).__name__
            hint = f"this is a bug in sexton; set {DEBUG_VARIABLE}=1 to see the traceback"
            return Failure("unexpected", name, str(error) or "no message", hint, FAILED)


def _not_utf_8(error: ValueError) -> str | None:
    """What somebody has typed that cannot be said to Kafka; a shell passes on any bytes."""
    met = error.__cause__ if isinstance(error.__cause__, UnicodeEncodeError) else error
    if not isinstance(met, UnicodeEncodeError):
        return None
    try:
        return os.fsencode(met.object).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # nothing that a shell gave us
        return None


def _refused_by_the_system(error: OSError, subject: str) -> Failure:
    said = error.strerror or "cannot be used"
    why = said[0].lower() + said[1:]
    hint = NO_ROOM if error.errno in FULL else MAY_NOT if error.errno in FORBIDDEN else None
    return Failure("os-error", subject, why, hint, FAILED)


def _is_usage(error: SextonError) -> bool:
    if isinstance(error, Refused):
        return error.error in NOT_THERE
    # By its kind, since it may have been raised in the process of `sexton up`.
    return error.kind in {_kind(ConfigError), _kind(Missing)} or isinstance(error, ConfigError)


def _kind(error: type[SextonError]) -> str:
    return error("", "").kind


def _hint(error: SextonError) -> str | None:
    if error.hint is not None:
        return error.hint
    if isinstance(error, Refused):
        return REMEDIES.get(error.error)
    return NO_ANSWER if error.kind == "no-answer" else None


def _usage_failure(error: typer.TyperException, meant: str) -> Failure:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else f"sexton {meant}".rstrip()
    error.message = _about_the_number(error.__cause__) or error.message
    message = error.format_message().rstrip(".").replace("Value error, ", "")
    why = message[:1].lower() + message[1:]
    return Failure("usage", command, why, f"see `{command} --help`", USAGE)


def _about_the_number(cause: BaseException | None) -> str | None:
    """The number that was given and what is wrong with it, if that is what is wrong."""
    found: list[dict[str, Any]] = getattr(cause, "errors", list)()
    if not found or found[0]["type"] not in WRONG_NUMBERS:
        return None
    given = str(found[0]["input"])[:MOST_SHOWN]
    return WRONG_NUMBERS[found[0]["type"]].format(given, **found[0].get("ctx", {}))


def print_failure(failure: Failure, error: BaseException, stderr: TextIO) -> None:
    """Two lines at most; the traceback only for those who ask."""
    if os.environ.get(DEBUG_VARIABLE) and failure.kind == "unexpected":
        traceback.print_exception(error, file=stderr)
    if failure.kind == "interrupted":
        print("interrupted", file=stderr)
        return
    told = fitting(f"error: {failure.told}", stderr)
    print(told.replace("error:", _bold("error:", 31, stderr), 1), file=stderr)
    if failure.hint:
        told = fitting(f"hint: {failure.hint}", stderr)
        print(told.replace("hint:", _bold("hint:", 36, stderr), 1), file=stderr)


def fitting(line: str, stream: TextIO) -> str:
    """On a terminal folded between words, which it would not do itself; whole for a file."""
    line = harmless(line)
    if not stream.isatty():
        return line
    return "\n  ".join(folded(line, get_terminal_size().columns - 2))


def is_lively(stream: TextIO) -> bool:
    """May `stream` be given colour and movement? Only a terminal whose owner did not object."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def _bold(text: str, colour: int, stream: TextIO) -> str:
    # By hand, since an error should not wait for rich to be imported.
    return f"\x1b[1;{colour}m{text}\x1b[0m" if is_lively(stream) else text


def hang_up() -> int:
    """Whoever read our output has left (`| head`): leave as quietly, as other Unix tools do."""
    # Python flushes stdout once more at exit; that must not fail aloud.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
