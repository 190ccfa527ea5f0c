"""What may be imported from sexton and is promised to stay, read from its source.

    package.__all__ ──▶ the object ──▶ the file and line that define it ──▶ signature, words, fields

The source is read rather than the object: a signature keeps the spelling that its author chose, a
field keeps the comment beside it, and nothing has to be run. Only where a method is made from
another (`kill = _blocking(EmbeddedActions.kill)`) is the object asked whose it is.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

WIDTH = 88  # of a signature on one line
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a dataclass or named tuple, or one member of an enumeration."""

    name: str
    kind: str
    default: str | None
    about: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function, method or property."""

    name: str
    signature: str
    about: str

    @property
    def is_property(self) -> bool:
        return self.signature.startswith(f"{self.name}: ")


@dataclass(frozen=True, slots=True)
class Class:
    name: str
    bases: tuple[str, ...]
    about: str
    made_by: Function | None  # `__init__`, if it is written out
    fields: tuple[Field, ...]
    members: tuple[Function, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    name: str
    value: str


Public = Class | Function | Constant


def public(module: str, name: str, told: Collection[type[Any]] = ()) -> Public:
    """What `from module import name` gives; of a class without what classes told of give it."""
    found = getattr(import_module(module), name)
    if inspect.isclass(found):
        return _class(name, found, told)
    if callable(found):
        return _callable(name, _definition(found), found.__module__)
    return Constant(name, repr(found))


def names_of(package: str) -> tuple[str, ...]:
    """Its `__all__`, in its order."""
    return tuple(import_module(package).__all__)


# ── classes ──


def _class(name: str, found: type[Any], told: Collection[type[Any]]) -> Class:
    above = [each for each in found.__mro__[1:] if each not in told]
    ours = [found, *(each for each in above if each.__module__.startswith("sexton."))]
    nodes = [(each, _class_node(each)) for each in ours]
    return Class(
        name,
        tuple(ast.unparse(base) for base in nodes[0][1].bases if not _private(base)),
        ast.get_docstring(nodes[0][1]) or _idea_of_its_module(found),
        next(iter(_constructors(nodes)), None),
        tuple(_once(field for cls, node in reversed(nodes) for field in _fields(cls, node))),
        tuple(
            member
            for member in _once(each for cls, node in nodes for each in _members(cls, node))
            if not _is_called_by_others(found, member.name)
        ),
    )


def _idea_of_its_module(found: type[Any]) -> str:
    """`client.Client` has a module to itself, which opens with what it is."""
    stem = found.__module__.rpartition(".")[2].removesuffix("s")
    if stem != found.__name__.lower():
        return ""
    return (ast.get_docstring(_tree(found.__module__)) or "").partition("\n\n")[0]


def _is_called_by_others(found: type[Any], name: str) -> bool:
    """An interface of asyncio or Spark that it serves; nobody else calls that."""
    theirs = [each for each in found.__mro__ if not each.__module__.startswith("sexton.")]
    return any(name in vars(each) for each in theirs if each is not object)


def _class_node(found: type[Any]) -> ast.ClassDef:
    node = _definition(found)
    assert isinstance(node, ast.ClassDef), found
    return node


def _private(base: ast.expr) -> bool:
    return ast.unparse(base).startswith("_")


def _once(each: Iterator[Any]) -> list[Any]:
    """By name; of two with one name the first."""
    found: dict[str, Any] = {}
    for one in each:
        found.setdefault(one.name, one)
    return list(found.values())


def _constructors(nodes: list[tuple[type[Any], ast.ClassDef]]) -> Iterator[Function]:
    for cls, node in nodes:
        for each in node.body:
            if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                yield _callable("__init__", each, cls.__module__)


def _fields(cls: type[Any], node: ast.ClassDef) -> Iterator[Field]:
    lines = _source(cls.__module__).splitlines()
    for each in node.body:
        match each:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                default = None if each.value is None else _default(each.value, cls.__module__)
                yield Field(name, ast.unparse(each.annotation), default, _comment(lines, each))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                if not name.startswith("_"):
                    yield Field(name, "", repr(value), _comment(lines, each))


def _default(value: ast.expr, module: str) -> str:
    """As a caller would see it: a factory's product, not the factory."""
    match value:
        case ast.Call(func=ast.Name(id="field"), keywords=[ast.keyword(arg="default_factory")]):
            made = value.keywords[0].value
            return {"dict": "{}", "list": "[]", "tuple": "()"}.get(
                ast.unparse(made), f"{ast.unparse(made)}()"
            )
        case ast.Call(func=ast.Name(id="field"), keywords=[ast.keyword(arg="default", value=it)]):
            return _value(it, module)
    return _value(value, module)


def _comment(lines: list[str], node: ast.stmt) -> str:
    """The comment beside a field, or the lines of comment above it."""
    assert node.end_lineno is not None
    _, mark, beside = lines[node.end_lineno - 1][node.end_col_offset or 0 :].partition("# ")
    if mark:
        return "" if beside.startswith(("type:", "noqa", "fmt:")) else beside
    above: list[str] = []
    at = node.lineno - 2
    while lines[at].lstrip().startswith("# "):
        above.insert(0, lines[at].strip().removeprefix("# "))
        at -= 1
    return " ".join(above)


def _members(cls: type[Any], node: ast.ClassDef) -> Iterator[Function]:
    for each in node.body:
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if not name.startswith("_") and not _is_setter(each):
                    yield _callable(name, each, cls.__module__)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call()):
                made = vars(cls)[name]
                if not name.startswith("_") and inspect.isfunction(made):
                    yield _made_from(name, made)


def _is_setter(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(each).endswith(".setter") for each in node.decorator_list)


def _made_from(name: str, made: Any) -> Function:
    """A method made of another one: its words, and whether one waits for it or awaits it."""
    origin = inspect.unwrap(made)
    node = _definition(origin)
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if not inspect.iscoroutinefunction(made):
        node = ast.FunctionDef(**dict(ast.iter_fields(node)))
    return _callable(name, node, origin.__module__)


# ── functions ──


def _callable(name: str, node: Definition, module: str) -> Function:
    assert not isinstance(node, ast.ClassDef)
    words = ast.get_docstring(node) or ""
    if any(ast.unparse(each).endswith("property") for each in node.decorator_list):
        kind = ast.unparse(node.returns) if node.returns else "Any"
        return Function(name, f"{name}: {kind}", words)
    return Function(name, _signature(name, node, module), words)


def _signature(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef, module: str) -> str:
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    answer = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    parameters = list(_parameters(node.args, module))
    line = f"{word} {name}({', '.join(parameters)}){answer}: ..."
    if len(line) <= WIDTH:
        return line
    inner = "".join(f"    {each},\n" for each in parameters)
    return f"{word} {name}(\n{inner}){answer}: ..."


def _parameters(all_: ast.arguments, module: str) -> Iterator[str]:
    """As they are written, without `self`."""
    plain = [*all_.posonlyargs, *all_.args]
    defaults = [None] * (len(plain) - len(all_.defaults)) + list(all_.defaults)
    for at, (each, default) in enumerate(zip(plain, defaults, strict=True)):
        if at > 0 or each.arg not in ("self", "cls"):
            yield _parameter(each, default, module)
        if all_.posonlyargs and at == len(all_.posonlyargs) - 1:
            yield "/"
    if all_.vararg:
        yield f"*{_parameter(all_.vararg, None, module)}"
    elif all_.kwonlyargs:
        yield "*"
    for each, default in zip(all_.kwonlyargs, all_.kw_defaults, strict=True):
        yield _parameter(each, default, module)
    if all_.kwarg:
        yield f"**{_parameter(all_.kwarg, None, module)}"


def _parameter(each: ast.arg, default: ast.expr | None, module: str) -> str:
    kind = f": {ast.unparse(each.annotation)}" if each.annotation else ""
    equals = " = " if kind else "="
    return f"{each.arg}{kind}" + (f"{equals}{_value(default, module)}" if default else "")


def _value(default: ast.expr, module: str) -> str:
    """As it is written, but a constant of the module says how much it is."""
    if isinstance(default, ast.Name) and default.id.isupper():
        value = getattr(import_module(module), default.id)
        if isinstance(value, int | float | str):
            return f"{value:_}" if type(value) is int else repr(value)
    return ast.unparse(default)


# ── where something is defined ──


def _definition(found: Any) -> Definition:
    """The node of its own file that defines it."""
    body: list[ast.stmt] = _tree(found.__module__).body
    node: ast.stmt | None = None
    for name in found.__qualname__.split("."):
        node = next(each for each in _flat(body) if getattr(each, "name", None) == name)
        assert isinstance(node, Definition)
        body = node.body
    assert isinstance(node, Definition)
    return node


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Definitions under an `if` count too."""
    for each in body:
        yield each
        if isinstance(each, ast.If):
            yield from _flat([*each.orelse, *each.body])


@cache
def _source(module: str) -> str:
    path = import_module(module).__file__
    assert path is not None
    return Path(path).read_text(encoding="utf-8")


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_source(module))
