"""A lazy dataclass is what the standard library makes of the same body, only later."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import InitVar, field
from typing import Any, ClassVar, cast

import pytest

from sexton.base import lazy_dataclass
from sexton.base.lazy_dataclass import dataclass

Make = Callable[..., Callable[[type[Any]], type[Any]]]
LAZY = cast("Make", lazy_dataclass.dataclass)
STANDARD = cast("Make", dataclasses.dataclass)
WRITTEN = ("__init__", "__repr__", "__eq__", "__hash__")


def body() -> type[Any]:
    """Everything that a field can be, in a new class each time."""

    class Reading:
        LIMIT: ClassVar[int] = 9

        sensor: str
        scale: InitVar[int]
        value: int = 4
        tags: list[str] = field(default_factory=list)
        secret: str = field(default="x", repr=False, compare=False)
        scaled: int = field(init=False, default=0)
        unit: str = field(default="C", kw_only=True)

        def __post_init__(self, scale: int) -> None:
            object.__setattr__(self, "scaled", self.value * scale)

    return Reading


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"eq": False}])
def test_objects_are_made_shown_and_compared_alike(options: dict[str, bool]) -> None:
    lazy, standard = LAZY(slots=True, **options)(body()), STANDARD(slots=True, **options)(body())
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (("a", 2), {}),
        (("a", 2, 5, ["t"]), {"unit": "F"}),
        (("a",), {"scale": 3, "value": 7}),
    ]
    for arguments, named in calls:
        ours, theirs = lazy(*arguments, **named), standard(*arguments, **named)
        assert repr(ours) == repr(theirs)
        assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
        secret = named | {"secret": "z"}  # which is not compared
        assert (ours == lazy(*arguments, **secret)) == (theirs == standard(*arguments, **secret))
        assert ours != lazy("b", 2)
        assert ours != theirs
    assert lazy.__match_args__ == standard.__match_args__
    assert lazy.__slots__ == standard.__slots__
    assert lazy.LIMIT == standard.LIMIT == 9
    assert lazy.__qualname__ == standard.__qualname__


def test_wrong_arguments_are_the_same_error_at_the_first_call_and_later() -> None:
    lazy, standard = LAZY(slots=True)(body()), STANDARD(slots=True)(body())
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        (("a", 1), {"colour": 1}),
        (("a", 1, 2, [], "", "F"), {}),
    ]
    for arguments, named in calls:
        with pytest.raises(TypeError) as theirs:
            standard(*arguments, **named)
        for _ in range(2):
            with pytest.raises(TypeError) as ours:
                lazy(*arguments, **named)
            assert str(ours.value) == str(theirs.value)


@dataclass(frozen=True, slots=True)
class Place:
    topic: str
    partition: int = 0


@dataclass(slots=True)
class Cursor:
    place: Place
    offset: int = 0


@dataclass(slots=True, eq=False)
class Session:
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class Replica(Place):
    node: int = -1


def test_a_method_is_written_when_it_is_first_called_and_only_then() -> None:
    @dataclass(frozen=True, slots=True)
    class Fresh:
        number: int

    def written() -> set[str]:
        return {name for name in WRITTEN if vars(Fresh)[name].__name__ == name}

    assert written() == set()
    one = Fresh(1)
    assert written() == {"__init__"}
    assert one == Fresh(1)
    assert written() == {"__init__", "__eq__"}
    assert hash(one) == hash(Fresh(1))
    assert repr(one).endswith("Fresh(number=1)")
    assert written() == set(WRITTEN)


def test_what_is_frozen_stays_as_it_is_and_can_be_copied() -> None:
    place = Place("t", 1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'topic'"):
        place.topic = "u"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'topic'"):
        del place.topic
    assert place == Place("t", 1)
    assert dataclasses.replace(place, partition=2) == Place("t", 2)
    assert pickle.loads(pickle.dumps(place)) == copy.deepcopy(place) == copy.copy(place) == place
    assert {place: "here"}[Place("t", 1)] == "here"


def test_only_frozen_values_and_those_without_equality_have_a_hash() -> None:
    cursor = Cursor(Place("t"))
    with pytest.raises(TypeError, match="unhashable"):
        hash(cursor)
    cursor.offset = 5
    assert copy.deepcopy(cursor) == cursor
    session = Session(cursor)
    assert session != Session(cursor)
    assert {session: "open"}[session] == "open"


def test_fields_are_inherited_and_a_subclass_is_another_kind() -> None:
    replica = Replica("t", 1, node=3)
    assert (replica.topic, replica.partition, replica.node) == ("t", 1, 3)
    assert Place("t", 1) != replica
    assert repr(replica) == "Replica(topic='t', partition=1, node=3)"
    match replica:
        case Replica(topic, 1, 3):
            assert topic == "t"
        case _:
            pytest.fail("not matched")


@pytest.mark.parametrize("above", [LAZY, STANDARD])
@pytest.mark.parametrize("below", [LAZY, STANDARD])
def test_either_kind_may_inherit_from_the_other_if_both_are_frozen(
    above: Make, below: Make
) -> None:
    for frozen in (False, True):
        base = above(slots=True, frozen=frozen)(type("Base", (), {"__annotations__": {"a": int}}))
        more = {"__annotations__": {"b": int}}
        derived = below(slots=True, frozen=frozen)(type("Derived", (base,), more))
        assert (derived(1, 2).a, derived(1, 2).b) == (1, 2)
        assert derived(1, 2) == derived(1, 2) != derived(1, 3)
        if frozen:
            assert hash(derived(1, 2)) == hash((1, 2))
            with pytest.raises(TypeError, match="cannot inherit non-frozen"):
                below(slots=True)(type("Derived", (base,), more))


def test_methods_in_the_body_stay() -> None:
    @dataclass(frozen=True, slots=True)
    class Loose:
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Loose) and self.name.lower() == other.name.lower()

        def __hash__(self) -> int:
            return hash(self.name.lower())

        def __repr__(self) -> str:
            return f"~{self.name}"

    assert Loose("A") == Loose("a")
    assert len({Loose("A"), Loose("a")}) == 1
    assert repr(Loose("A")) == "~A"
