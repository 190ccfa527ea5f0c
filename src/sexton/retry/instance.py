"""`OrderedRetry`: a handler, a topic and a group; run it, or start it and go on.

    OrderedRetry(handle, topic="orders", group="billing", bootstrap_servers=...).run()

    with OrderedRetry(...) as retry:      @ordered_retry(topic="orders", group="billing", ...)
        ...                               def handle(message): ...
                                          handle.run()

`run` stays until SIGTERM or Ctrl-C, then lets running handlers end, commits what they did and
leaves the group. `with` does the same in a thread. An instance lives once; start as many as there
are partitions, in as many processes as you like.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar

from sexton.base.errors import ConfigError, Missing
from sexton.machines.retry_settings import Backoff, Settings
from sexton.report.serving import PROMETHEUS, Page, Server
from sexton.retry.config import RetryConfig
from sexton.retry.handlers import Handler, Handling
from sexton.retry.messages import Deserializer, KeyOf
from sexton.retry.metrics import Standing
from sexton.retry.outcomes import Errors, check_errors
from sexton.retry.topics import Names

try:
    from sexton.retry.service import Service
except ModuleNotFoundError as error:
    if error.name != "confluent_kafka":
        raise
    raise Missing("confluent-kafka", "is not installed", 'pip install "sexton[retry]"') from None

P = ParamSpec("P")
R = TypeVar("R")
LOOK_AGAIN_S = 0.01


class OrderedRetry:
    """Calls a handler for each message; what fails is retried, and its key waits behind it."""

    def __init__(
        self,
        handler: Handler,
        *,
        topic: str,
        group: str,
        bootstrap_servers: str = "",
        settings: Mapping[str, str] | None = None,
        batch: bool = False,
        workers: int = 1,
        max_batch: int = 2_000,
        key: KeyOf | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        errors: Errors | None = None,
        backoff: Backoff | None = None,
        max_attempts: int = 10,
        at_ceiling: Literal["freed", "held"] = "freed",
        mode: Literal["transactional", "compensating"] = "transactional",
        max_pending: int = 100_000,
        instance: str | None = None,
        retry_topic: str | None = None,
        locks_topic: str | None = None,
        dead_topic: str | None = None,
        create_topics: bool = True,
        replication: int | None = None,
        accept_growth: bool = False,
        transaction_timeout_ms: int = 15_000,
        commands_every_s: float = 1.0,
        shutdown_timeout_s: float = 30.0,
        metrics_port: int | None = None,
        metrics_host: str = "127.0.0.1",
    ) -> None:
        """`handler` takes a `Message`, or with `batch` a list of them; it may be a coroutine.

        `settings` are Kafka's client settings, for security and the like. `workers` is how many
        keys are handled at once: more than one and the handler has to be thread-safe. `key` says
        what is to stay in order if it is not the message's key. If it or a deserializer raises, the
        message is a dead letter at once. `errors` maps exception types to Retry, Dead or Drop.
        A message is run `max_attempts` times at most; then it is a dead letter, and its key is
        `freed`, or `held` until an operator decides. `instance` is a name that stays the same when
        this process starts again, such as the name of a pod: its predecessor's open transaction
        need not be waited for then. docs/reference/retry.md has all of them.
        """
        check_errors(errors or {})
        self.handler = handler
        self._config = RetryConfig(
            names=Names.of(topic, group, retry_topic, locks_topic, dead_topic),
            group=group,
            settings=_settings(bootstrap_servers, settings),
            machine=Settings(
                mode=mode,
                max_attempts=max_attempts,
                at_ceiling=at_ceiling,
                max_pending=max_pending,
                backoff=backoff or Backoff(),
            ),
            workers=workers,
            max_batch=max_batch,
            create_topics=create_topics,
            replication=replication,
            instance=instance,
            accept_growth=accept_growth,
            transaction_timeout_ms=transaction_timeout_ms,
            commands_every_s=commands_every_s,
            shutdown_timeout_s=shutdown_timeout_s,
        )
        handling = Handling(handler, errors or {}, key_deserializer, value_deserializer, batch, key)
        self._service = Service(self._config, handling)
        self._metrics_at = None if metrics_port is None else (metrics_host, metrics_port)
        self._thread: threading.Thread | None = None
        self._failed: BaseException | None = None

    def __call__(self, message: Any) -> Any:
        """The handler itself, so that a test can call it."""
        return self.handler(message)

    # ── life ──

    def run(self) -> None:
        """Stays until `stop`, SIGTERM or SIGINT; raises what cannot be mended by waiting."""
        if threading.current_thread() is threading.main_thread():
            before = {number: signal.signal(number, self._signalled) for number in _SIGNALS}
        else:
            before = {}
        try:
            self._live()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def start(self) -> Self:
        """In a thread of its own."""
        if self._thread is not None:
            raise ConfigError("OrderedRetry", "was started before", "make another one")
        self._thread = threading.Thread(
            target=self._live_quietly, name=f"sexton-retry {self._config.group}", daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Asks it to end; `close` also waits for that."""
        self._service.stopping.set()

    def close(self) -> None:
        """Running handlers end, what they did is committed, the group is left."""
        self.stop()
        if self._thread is not None:
            self._thread.join()
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._failed = None  # theirs came first
        self.close()

    def _live(self) -> None:
        if self._metrics_at is None:
            self._service.run()
        else:
            _with_metrics(self, self._service, *self._metrics_at)

    def _live_quietly(self) -> None:
        try:
            self._live()
        except BaseException as error:  # noqa: BLE001 - raised by `close` and `wait_until_ready`
            self._failed = error

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.stop()

    # ── looking at it ──

    @property
    def standings(self) -> list[Standing]:
        """One for each partition that this instance has now."""
        return self._service.standings()

    def wait_until_ready(self, timeout_s: float = 60.0) -> None:
        """Until the group has spoken, and every partition that it gave us is started."""
        end = time.monotonic() + timeout_s
        while True:
            if self._failed is not None:
                self.close()  # raises it
            if self._service.joined.is_set() and all(s.ready for s in self.standings):
                return
            if time.monotonic() > end:
                raise TimeoutError(f"{self._config.group} is not ready within {timeout_s:g} s")
            time.sleep(LOOK_AGAIN_S)

    def count(self, name: str, **labels: str) -> int:
        """One of the counters, as in `count("attempts", outcome="done")`; else over all labels."""
        return self._service.counters.value(name, **labels)

    @property
    def metrics_address(self) -> str | None:
        """Where they are served, once it runs; None: nowhere."""
        server = self._service.beside
        return None if server is None else f"{server.address}metrics"

    def metrics(self) -> str:
        """All metrics of this instance, in Prometheus's text format."""
        return self._service.counters.text(self.standings)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def _takes_all_but_the_handler(
    make: Callable[Concatenate[Handler, P], object],
) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """For type checkers: these are the parameters, and nobody has to write them down again."""
    del make
    return lambda function: function


@_takes_all_but_the_handler(OrderedRetry)
def ordered_retry(*, topic: str, group: str, **named: Any) -> Callable[[Handler], OrderedRetry]:
    """A decorator: the function becomes an `OrderedRetry` around it, to be run."""

    def decorate(handler: Handler) -> OrderedRetry:
        return OrderedRetry(handler, topic=topic, group=group, **named)

    return decorate


def _settings(bootstrap_servers: str, settings: Mapping[str, str] | None) -> dict[str, str]:
    merged = {name: str(value) for name, value in (settings or {}).items()}
    if bootstrap_servers:
        merged["bootstrap.servers"] = bootstrap_servers
    return merged


def _with_metrics(retry: OrderedRetry, service: Service, host: str, port: int) -> None:
    def page(path: str) -> Page:
        if path == "/metrics":
            return Page(retry.metrics(), PROMETHEUS)
        return Page("not here; /metrics is\n", code="404 Not Found")

    server = Server(host, port, page, option="metrics_port")
    service.beside = server
    service.run()
