"""Which names does a regular expression stand for?

A group may subscribe to one, in the language of RE2, which leaves out what cannot be matched in one
pass over the text: references to groups, and looking ahead or behind. Python's own engine tries one
way after the other, and there are expressions for which it would hold up a broker for years. So an
expression becomes a small program here, and a name goes through it once, in all ways at a time:

    a(b|c)*     0 'a'   1 split 2, 6   2 split 3, 4   3 'b', to 1   4 'c', to 1   6 match

The work is at most the length of the name times that of the program, which is bounded. The whole
name has to match. Left out of RE2: classes of Unicode, such as \\pL; they are refused.
"""

from __future__ import annotations

from collections.abc import Callable

from sexton.base.lazy_dataclass import dataclass

MOST_STEPS = 2_000  # of a program: each may be looked at once for each character
MOST_REPEATS = 1_000  # as in RE2
MOST_DEPTH = 100  # of brackets in brackets

Test = Callable[[str], bool]
_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_SPACE = "\t\n\f\r "
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_POSIX: dict[str, Test] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "ascii": str.isascii,
    "blank": lambda c: c in " \t",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": lambda c: "0" <= c <= "9",
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: "a" <= c <= "z",
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "space": lambda c: c in _SPACE + "\v",
    "upper": lambda c: "A" <= c <= "Z",
    "word": lambda c: c in _WORD,
    "xdigit": lambda c: c in "0123456789abcdefABCDEF",
}


class BadPattern(ValueError):
    """Not an expression of RE2, or one that is left out here."""


# ── what an expression consists of ──


@dataclass(frozen=True, slots=True)
class _Char:
    test: Test


@dataclass(frozen=True, slots=True)
class _Edge:
    """Matches no character, but a place: begin, end, word (an edge of one) or inside."""

    kind: str


@dataclass(frozen=True, slots=True)
class _All:
    parts: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Either:
    choices: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    what: _Node
    least: int
    most: int | None


_Node = _Char | _Edge | _All | _Either | _Repeat


# ── the program ──


@dataclass(slots=True)
class _Step:
    """Goes to one of `to`, for nothing or for a character or a place that it asks for."""

    to: list[int]
    asks: _Char | _Edge | None = None


class Pattern:
    def __init__(self, text: str) -> None:
        self.text = text
        self._steps: list[_Step] = []
        self._compile(_Reader(text).read())
        self._end = self._add(_Step([]))

    def matches(self, name: str) -> bool:
        now = self._reach([0], name, 0)
        for at, char in enumerate(name):
            then = []
            for number in now:
                asks = self._steps[number].asks
                if isinstance(asks, _Char) and asks.test(char):
                    then += self._steps[number].to
            if not then:
                return False
            now = self._reach(then, name, at + 1)
        return self._end in now

    def _reach(self, start: list[int], name: str, at: int) -> dict[int, None]:
        """All steps that can be reached here without a character."""
        found: dict[int, None] = {}
        waiting = list(start)
        while waiting:
            number = waiting.pop()
            if number in found:
                continue
            found[number] = None
            step = self._steps[number]
            if step.asks is None or (
                isinstance(step.asks, _Edge) and _is_edge(step.asks, name, at)
            ):
                waiting += step.to
        return found

    # ── compiling: each node begins where the program ends, and goes on behind itself ──

    def _add(self, step: _Step) -> int:
        self._steps.append(step)
        if len(self._steps) > MOST_STEPS:
            raise BadPattern("expression is too large")
        return len(self._steps) - 1

    def _compile(self, node: _Node) -> None:
        match node:
            case _Char() | _Edge():
                self._add(_Step([len(self._steps) + 1], node))
            case _All(parts):
                for part in parts:
                    self._compile(part)
            case _Either(choices):
                split = self._add(_Step([]))
                ends = []
                for choice in choices:
                    self._steps[split].to.append(len(self._steps))
                    self._compile(choice)
                    ends.append(self._add(_Step([])))
                for end in ends:
                    self._steps[end].to.append(len(self._steps))
            case _Repeat(what, least, most):
                for _ in range(least):
                    before = len(self._steps)
                    self._compile(what)
                    if len(self._steps) == before:
                        return  # nothing, which stays so however often
                if most is None:
                    split = self._add(_Step([len(self._steps) + 1]))
                    self._compile(what)
                    self._add(_Step([split]))
                    self._steps[split].to.append(len(self._steps))
                    return
                splits = []
                for _ in range(most - least):
                    splits.append(self._add(_Step([len(self._steps) + 1])))
                    self._compile(what)
                for split in splits:
                    self._steps[split].to.append(len(self._steps))


def _is_edge(edge: _Edge, name: str, at: int) -> bool:
    match edge.kind:
        case "begin":
            return at == 0
        case "end":
            return at == len(name)
        case kind:
            before = at > 0 and name[at - 1] in _WORD
            after = at < len(name) and name[at] in _WORD
            return (before != after) == (kind == "word")


# ── reading ──


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._fold = False  # (?i)

    def read(self) -> _Node:
        node = self._either()
        if self._at < len(self._text):
            raise BadPattern("unexpected )")
        return node

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise BadPattern(f"`{self._text}` ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _skip(self, what: str) -> bool:
        if not self._text.startswith(what, self._at):
            return False
        self._at += len(what)
        return True

    def _either(self) -> _Node:
        fold = self._fold
        choices = [self._all()]
        while self._skip("|"):
            choices.append(self._all())
        self._fold = fold  # what a group sets ends with it
        return choices[0] if len(choices) == 1 else _Either(tuple(choices))

    def _all(self) -> _Node:
        parts: list[_Node] = []
        while self._next() not in ("", "|", ")"):
            if self._skip("\\Q"):
                literal, _, _ = self._text[self._at :].partition("\\E")
                self._at += len(literal)
                self._skip("\\E")
                parts += [self._literal(char) for char in literal[:-1]]
                parts += [self._repeated(self._literal(char)) for char in literal[-1:]]
            else:
                parts.append(self._repeated(self._atom()))
        return _All(tuple(parts))

    def _repeated(self, node: _Node) -> _Node:
        times = self._times()
        if times is None:
            return node
        self._skip("?")  # whether it would rather have few or many makes no difference here
        if self._times() is not None:
            raise BadPattern("invalid nested repetition operator")
        return _Repeat(node, *times)

    def _times(self) -> tuple[int, int | None] | None:
        for operator, times in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._skip(operator):
                return times
        if self._next() != "{":
            return None
        inside, closed, _ = self._text[self._at + 1 :].partition("}")
        first, comma, last = inside.partition(",")
        if not closed or not first.isdecimal() or not (last.isdecimal() or not last):
            return None  # then it is a bracket like any other character
        self._at += len(inside) + 2
        if max(len(first), len(last)) > len(str(MOST_REPEATS)):  # Python reads no number that long
            raise BadPattern("invalid repeat count")
        least = int(first)
        most = (int(last) if last else None) if comma else least
        if least > MOST_REPEATS or (most is not None and not least <= most <= MOST_REPEATS):
            raise BadPattern(f"invalid repeat count {{{inside}}}")
        return least, most

    def _atom(self) -> _Node:
        match self._take():
            case "(":
                return self._group()
            case "[":
                return _Char(self._folded(self._class()))
            case ".":
                return _Char(lambda c: c != "\n")
            case "^":
                return _Edge("begin")
            case "$":
                return _Edge("end")
            case "\\":
                return self._escape()
            case "*" | "+" | "?" as operator:
                raise BadPattern(f"missing argument to repetition operator {operator}")
            case char:
                return self._literal(char)

    def _group(self) -> _Node:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise BadPattern("expression nests too deeply")
        fold = self._fold
        if self._skip("?") and not self._skip(":") and not self._name():
            flags = ""
            while self._next() not in (")", ":"):
                flags += self._take()
            if not flags or flags.strip("imsU-") or flags.count("-") > 1 or flags[-1] == "-":
                raise BadPattern(f"invalid or unsupported group (?{flags}")
            on, _, off = flags.partition("-")
            self._fold = (fold or "i" in on) and "i" not in off
            if self._skip(")"):  # for the rest of the group that this stands in
                self._depth -= 1
                return _All(())
            self._take()
        node = self._either()
        if not self._skip(")"):
            raise BadPattern("missing closing )")
        self._fold = fold
        self._depth -= 1
        return node

    def _name(self) -> bool:
        for begin in ("P<", "<"):
            if self._text.startswith(begin, self._at):
                name, closed, _ = self._text[self._at + len(begin) :].partition(">")
                if not closed or not name.isidentifier():
                    raise BadPattern("invalid named group")
                self._at += len(begin) + len(name) + 1
                return True
        return False

    def _literal(self, char: str) -> _Char:
        return _Char(self._folded(lambda c: c == char))

    def _folded(self, test: Test) -> Test:
        if not self._fold:
            return test
        return lambda c: test(c) or test(c.lower()) or test(c.upper())

    def _escape(self) -> _Node:
        if self._skip("A"):
            return _Edge("begin")
        if self._skip("z"):
            return _Edge("end")
        if self._skip("b"):
            return _Edge("word")
        if self._skip("B"):
            return _Edge("inside")
        found = self._escaped()
        return _Char(self._folded(found)) if callable(found) else self._literal(found)

    def _escaped(self) -> str | Test:
        """A character, or a class of them."""
        char = self._take()
        if char.lower() in "dws":
            chars = {"d": "0123456789", "w": _WORD, "s": _SPACE}[char.lower()]
            return (lambda c: c in chars) if char.islower() else (lambda c: c not in chars)
        if char in _CONTROL:
            return _CONTROL[char]
        if char == "x":
            if self._skip("{"):
                digits, _, _ = self._text[self._at :].partition("}")
                self._at += len(digits) + 1
            else:
                digits = self._take() + self._take()
            try:
                return chr(int(digits, 16))
            except (ValueError, OverflowError):
                raise BadPattern(f"invalid escape sequence \\x{digits}") from None
        if char.isalnum():
            raise BadPattern(f"invalid escape sequence: `\\{char}`")
        return char

    def _class(self) -> Test:
        negated = self._skip("^")
        tests: list[Test] = []
        first = True
        while first or self._next() != "]":
            first = False
            if self._skip("[:"):
                tests.append(self._posix())
                continue
            low = self._member()
            if callable(low):
                tests.append(low)
            elif self._next() == "-" and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
                self._take()
                high = self._member()
                if callable(high) or high < low:
                    raise BadPattern("invalid character class range")
                tests.append(lambda c, low=low, high=high: low <= c <= high)  # type: ignore[misc]
            else:
                tests.append(lambda c, low=low: c == low)  # type: ignore[misc]
        self._take()
        return lambda c: any(test(c) for test in tests) != negated

    def _member(self) -> str | Test:
        char = self._take()
        return self._escaped() if char == "\\" else char

    def _posix(self) -> Test:
        name, closed, _ = self._text[self._at :].partition(":]")
        test = _POSIX.get(name.removeprefix("^"))
        if not closed or test is None:
            raise BadPattern(f"invalid character class range: `[:{name}:]`")
        self._at += len(name) + 2
        return (lambda c: not test(c)) if name.startswith("^") else test
