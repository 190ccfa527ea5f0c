"""Which outputs will be taken, told without brokers; `tests/spark/test_retry_refused` has some."""

from __future__ import annotations

from random import Random

from sexton.client.retrying import Patience
from sexton.machines.retry_outcomes import Dead, OutputRefused, OutputTooLarge, Retry
from sexton.records.layout import Codec
from sexton.spark.retry_outputs import Outputs, Taking, Target, not_taken, refusal_in
from sexton.spark.sink_encoding import Encoding
from sexton.spark.sink_topics import TopicLimits

TARGETS = {
    "small": Target(TopicLimits(2, 1000)),
    "compacted": Target(TopicLimits(2, 1_000_000), compacted=True),
    "denied": Target(None, "not authorized"),
}


def outputs(codec: Codec) -> Outputs:
    encoding = Encoding({}, None, {}, codec, 16_384, 0, 0, Patience(timeout_ms=1))
    return Outputs(Taking(TARGETS, encoding))


def test_the_encoder_says_what_is_too_large() -> None:
    plain, packed = outputs(Codec.NONE), outputs(Codec.LZ4)
    noise = Random(1).randbytes(2000)
    for value, taken, taken_if_packed in (
        (None, True, True),
        (b"x" * 800, True, True),
        (b"x" * 2000, False, True),
        (noise, False, False),
    ):
        assert (plain.trouble("small", b"key", value, ()) is None) is taken
        assert (packed.trouble("small", b"key", value, ()) is None) is taken_if_packed
    # Around key and value: 61 bytes of the batch, and 9 of the record. Two each for its length and
    # the value's; one each for attributes, both deltas, the key's length, the number of headers.
    assert plain.trouble("small", b"key", b"x" * (1000 - 61 - 9 - 3), ()) is None
    told = plain.trouble("small", b"key", b"x" * (1000 - 61 - 9 - 2), ())
    assert isinstance(told, OutputTooLarge) and isinstance(told, Dead)
    many_headers = [("name", b"y" * 100)] * 10
    assert isinstance(plain.trouble("small", b"key", b"", many_headers), OutputTooLarge)


def test_a_topic_that_takes_nothing_is_the_failure_of_a_message() -> None:
    some = outputs(Codec.NONE)
    denied = some.trouble("denied", b"key", b"value", ())
    assert isinstance(denied, OutputRefused) and isinstance(denied, Retry)
    assert str(denied) == "an output to denied cannot be written: not authorized"
    assert isinstance(some.trouble("compacted", None, b"value", ()), OutputRefused)
    assert some.trouble("compacted", b"", b"value", ()) is None


def test_messages_are_named_where_brokers_refuse_them() -> None:
    text = "NotTaken: brokers: do not take what was sent: INVALID_RECORD: no key\n  at line 3"
    refusal = refusal_in(text)
    assert refusal == "INVALID_RECORD: no key"
    assert refusal_in("INVALID_PRODUCER_EPOCH") is None
    told = [("orders-0-3", "k1", "invoices"), ("orders-1-0", "none", "invoices")]
    assert not_taken(refusal, told[:1], 1).why.endswith(
        "an output, that of one message (INVALID_RECORD: no key): orders-0-3 (key k1) to invoices"
    )
    several = not_taken(refusal, told, 7).why
    assert "one of those of 7 messages" in several and several.endswith(", ...")
