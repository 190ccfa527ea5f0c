"""What can happen on the way: messages that are lost, late, repeated, or cut off on one side."""

from __future__ import annotations

from random import Random

from sexton.node.messages import (
    AnnounceRemovable,
    CollectProgress,
    CollectProgressAnswer,
    RegisterReplicas,
    WriteMarkers,
)
from sexton.node.outside import CONTROLLER
from sexton.protocol.messages.fetch import FetchRequest, FetchResponse
from sexton.sim.stage import HOUR_MS, Stage, Undo, any_broker, fault


@fault
def dropped_messages(stage: Stage, random: Random) -> tuple[str, Undo]:
    """A share of all messages is lost."""
    weather = stage.world.network.weather
    before, weather.drop = weather.drop, random.choice((0.01, 0.05, 0.2))
    return f"{weather.drop:.0%} of all messages are lost", lambda: setattr(weather, "drop", before)


@fault
def delayed_messages(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Every message takes longer."""
    weather = stage.world.network.weather
    before, slowest = weather.delay_ms, random.choice((500, 5_000, 20_000))
    weather.delay_ms = (1, slowest)
    return f"messages take up to {slowest} ms", lambda: setattr(weather, "delay_ms", before)


@fault
def repeated_messages(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Some messages arrive twice."""
    weather = stage.world.network.weather
    before, weather.duplicate = weather.duplicate, random.choice((0.02, 0.1, 0.3))
    share = f"{weather.duplicate:.0%} of all messages arrive twice"
    return share, lambda: setattr(weather, "duplicate", before)


@fault
def reordered_messages(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Some messages arrive minutes after later ones."""
    weather = stage.world.network.weather
    before, weather.stray = weather.stray, random.choice((0.01, 0.05, 0.2))
    weather.stray_ms = random.choice((60_000, 600_000, HOUR_MS))
    told = f"{weather.stray:.0%} of all messages are up to {weather.stray_ms // 1000} s late"
    return told, lambda: setattr(weather, "stray", before)


@fault
def one_way_cut(stage: Stage, random: Random) -> tuple[str, Undo]:
    """A broker hears another, but is not heard by it."""
    network, (source, target) = stage.world.network, random.sample(stage.brokers(), 2)
    network.cut(source, target)
    told = f"nothing gets from broker {source} to broker {target}"
    return told, lambda: network.mend(source, target)


@fault
def cut_between_two(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Two brokers do not hear each other; the controller hears both."""
    network, (one, other) = stage.world.network, random.sample(stage.brokers(), 2)
    network.cut(one, other)
    network.cut(other, one)

    def undo() -> None:
        network.mend(one, other)
        network.mend(other, one)

    return f"brokers {one} and {other} do not reach each other", undo


def isolate(stage: Stage, address: int) -> Undo:
    network = stage.world.network
    others = [other for other in stage.world.processes if other != address]
    for other in others:
        network.cut(address, other)
        network.cut(other, address)

    def undo() -> None:
        for other in others:
            network.mend(address, other)
            network.mend(other, address)

    return undo


@fault
def isolated_broker(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """A broker is cut off from all others and the controller, but not from clients."""
    address = any_broker(stage, random)
    if address is None:
        return None
    return f"broker {address} is cut off", isolate(stage, address)


@fault
def isolated_leader(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """The same with a leader: for a while it does not know that it was replaced."""
    leader = stage.leader(random.choice(stage.partitions))
    if leader is None:
        return None
    return f"broker {leader}, a leader, is cut off", isolate(stage, leader)


@fault
def unheard_controller(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """A broker does not reach the controller, but all other brokers."""
    network, address = stage.world.network, any_broker(stage, random)
    if address is None:
        return None
    network.cut(address, CONTROLLER)
    told = f"broker {address} does not reach the controller"
    return told, lambda: network.mend(address, CONTROLLER)


@fault
def slow_broker(stage: Stage, random: Random) -> tuple[str, Undo] | None:
    """Everything to and from one broker takes seconds."""
    network, address = stage.world.network, any_broker(stage, random)
    if address is None:
        return None
    network.slow[address] = random.choice((2_000, 15_000, 45_000))
    told = f"messages of broker {address} take {network.slow[address]} ms longer"
    return told, lambda: _forget(network.slow, address)


def _forget(slow: dict[int, int], address: int) -> None:
    slow.pop(address, None)


def _hold(stage: Stage, random: Random, what: str, *kinds: type) -> tuple[str, Undo]:
    holds = stage.world.network.holds
    delay = random.choice((HOUR_MS // 4, HOUR_MS, 6 * HOUR_MS))
    for kind in kinds:
        holds[kind] = delay

    def undo() -> None:
        for kind in kinds:
            holds.pop(kind, None)

    return f"{what} are {delay // 60_000} minutes late", undo


@fault
def late_announcements(stage: Stage, random: Random) -> tuple[str, Undo]:
    """What a leader announces arrives terms later."""
    return _hold(stage, random, "announcements", AnnounceRemovable)


@fault
def late_reports(stage: Stage, random: Random) -> tuple[str, Undo]:
    """How far a follower is clean arrives when it may not be true any more."""
    return _hold(stage, random, "reports", CollectProgress, CollectProgressAnswer)


@fault
def late_registrations(stage: Stage, random: Random) -> tuple[str, Undo]:
    """A follower's registration arrives after later ones."""
    return _hold(stage, random, "registrations", RegisterReplicas)


@fault
def late_markers(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Markers take longer than the transaction may."""
    return _hold(stage, random, "transaction markers", WriteMarkers)


@fault
def late_fetches(stage: Stage, random: Random) -> tuple[str, Undo]:
    """Replication crawls: what a follower said of itself was true a while ago."""
    holds = stage.world.network.holds
    delay = random.choice((10_000, 60_000, 200_000))
    holds[FetchRequest] = holds[FetchResponse] = delay

    def undo() -> None:
        holds.pop(FetchRequest, None)
        holds.pop(FetchResponse, None)

    return f"fetches are {delay // 1000} s late", undo
