"""As much of JSON Schema (2020-12) as our own schema uses; a word it does not know is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]
SAYS_NOTHING = {"$schema", "$defs", "title", "patternProperties"}  # the last goes with properties
TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "number": (int, float), "integer": int, "boolean": bool, "null": type(None),
    "array": list, "object": dict,
}  # fmt: skip


def violations(value: Any, schema: Schema, root: Schema, at: str = "$") -> Iterator[str]:
    """Where a value is not what the schema says."""
    for word, wanted in schema.items():
        if word in SAYS_NOTHING:
            continue
        if word == "$ref":
            yield from violations(value, _resolved(wanted, root), root, at)
        elif word == "anyOf":
            if all(list(violations(value, each, root, at)) for each in wanted):
                yield f"{at}: is none of {len(wanted)} things"
        elif word == "items":
            for number, each in enumerate(value if isinstance(value, list) else ()):
                yield from violations(each, wanted, root, f"{at}[{number}]")
        elif word in ("properties", "additionalProperties", "propertyNames", "required"):
            if isinstance(value, dict):
                yield from _of_object(word, value, schema, root, at)
        elif not _holds(word, value, wanted):
            yield f"{at}: {word} {wanted}, and is {value!r}"


def _holds(word: str, value: Any, wanted: Any) -> bool:
    match word:
        case "type":
            names = wanted if isinstance(wanted, list) else [wanted]
            return any(_is(value, name) for name in names)
        case "const":
            return bool(value == wanted and type(value) is type(wanted))
        case "enum":
            return value in wanted
        case "pattern":
            return not isinstance(value, str) or re.search(wanted, value) is not None
    raise AssertionError(f"{word} is not known here")


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"  # Python takes it for a number
    return isinstance(value, TYPES[name])


def _of_object(
    word: str, value: dict[str, Any], schema: Schema, root: Schema, at: str
) -> Iterator[str]:
    match word:
        case "required":
            yield from (f"{at}: lacks {name}" for name in schema[word] if name not in value)
        case "propertyNames":
            for name in value:
                yield from violations(name, schema[word], root, f"{at}.{name} (its name)")
        case "properties" | "additionalProperties":
            for name, each in value.items():
                for wanted in _wanted(word, name, schema):
                    if wanted is False:
                        yield f"{at}: has {name}"
                    elif wanted is not True:
                        yield from violations(each, wanted, root, f"{at}.{name}")


def _wanted(word: str, name: str, schema: Schema) -> list[Any]:
    """The schemas for one property: of its name and patterns, or of the rest."""
    named = [schema["properties"][name]] if name in schema.get("properties", {}) else []
    patterns = schema.get("patternProperties", {})
    named += [wanted for pattern, wanted in patterns.items() if re.search(pattern, name)]
    if word == "properties":
        return named
    return [] if named else [schema[word]]


def _resolved(reference: str, root: Schema) -> Schema:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    assert isinstance(found, dict)
    return found
