"""Ordered retry: a message that fails blocks its key, and nothing else.

    from sexton.retry import Message, OrderedRetry

    def handle(message: Message) -> None:
        message.send("invoices", invoice_for(message.value), message.key)

    OrderedRetry(handle, topic="orders", group="billing", bootstrap_servers="kafka:9092").run()

What the handler raises is tried again later, in order: until then the messages of its key wait, and
those of all other keys do not. The names below are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sexton.machines.retry_outcomes import (
        Dead,
        Drop,
        OutputRefused,
        OutputTooLarge,
        Retry,
    )
    from sexton.machines.retry_settings import Backoff
    from sexton.retry.instance import OrderedRetry, ordered_retry
    from sexton.retry.messages import Message, Token

_HOME = {
    "Backoff": "sexton.machines.retry_settings",
    "Dead": "sexton.machines.retry_outcomes",
    "Drop": "sexton.machines.retry_outcomes",
    "Message": "sexton.retry.messages",
    "OrderedRetry": "sexton.retry.instance",
    "OutputRefused": "sexton.machines.retry_outcomes",
    "OutputTooLarge": "sexton.machines.retry_outcomes",
    "Retry": "sexton.machines.retry_outcomes",
    "Token": "sexton.retry.messages",
    "ordered_retry": "sexton.retry.instance",
}

__all__ = [
    "Backoff",
    "Dead",
    "Drop",
    "Message",
    "OrderedRetry",
    "OutputRefused",
    "OutputTooLarge",
    "Retry",
    "Token",
    "ordered_retry",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
