"""Do our regular expressions mean what Python's mean, and never take long?"""

from __future__ import annotations

import re
from random import Random

import pytest

from sexton.machines.group_patterns import BadPattern, Pattern

SAME = (
    "orders", "orders.*", "orders-(eu|us)", "^orders$", "a*", "a+", "a?b", "(ab)*", "(a|b)+c",
    "[a-c]+", "[^a-c]+", "[]a]", "[a\\-z]", "[a-]", "a{2}", "a{2,}", "a{1,3}", "a{x}",
    "\\d+", "\\w+", "\\W", "[\\d.]+", "a.c", "a\\.c", "(?:a|b)c", "(?P<x>a)b", "(?i)AB", "a(?i:B)c",
    "", "|a", "a|", "()", "(a*)*", "(a|a)*", "a*?", "a+?b", "\\ba\\b", "a\\Bb", "x(^a|b)",
    "(a$|b)c", "[a-c]{2,3}(d|e)?", "\\x61", "((a|b)(c|d))*",
)  # fmt: skip
WRONG = (
    "(", ")", "a)", "(a", "[a", "*a", "a**", "a{3,2}", "a{1001}", "(?=a)", "(?<!a)b", "(a)\\1",
    "\\pL", "\\y", "[z-a]", "a\\", "(?", "(?P<1>a)", "[[:what:]]", "((a{900}){900}){900}",
    "(" * 200 + ")" * 200,
)  # fmt: skip


@pytest.mark.parametrize("text", SAME)
def test_an_expression_means_what_it_does_elsewhere(text: str) -> None:
    ours, theirs = Pattern(text), re.compile(text)
    random = Random(text)
    names = ["", "orders", "orders-eu", "orders.x", "AB", "ab", "aBc", "a-b", "a{x}", "a{,2}"]
    names += ["".join(random.choices("abcdABo.-_1", k=random.randint(0, 6))) for _ in range(400)]
    for name in names:
        assert ours.matches(name) == (theirs.fullmatch(name) is not None), (text, name)


def test_what_only_re2_has() -> None:
    assert Pattern("[[:alpha:]]+[[:digit:]]").matches("abc1")
    assert not Pattern("[[:^alpha:]]").matches("a")
    assert Pattern("\\Qa.b\\E+").matches("a.bbb")
    assert Pattern("a{,2}").matches("a{,2}")  # to Python that is a{0,2}
    assert Pattern("\\Qa.b\\Ec").matches("a.bc")
    assert Pattern("(?i)a(?-i)b").matches("Ab") and not Pattern("(?i)a(?-i)b").matches("AB")
    assert Pattern("\\Aa\\z").matches("a")
    assert Pattern("\\x{61}").matches("a")


@pytest.mark.parametrize("text", WRONG)
def test_what_is_not_one_is_refused(text: str) -> None:
    with pytest.raises(BadPattern):
        Pattern(text)


def test_so_is_a_count_longer_than_python_reads() -> None:
    with pytest.raises(BadPattern):
        Pattern("a{" + "9" * 5_000 + "}")


def test_an_evil_one_takes_no_longer() -> None:
    """Python's own engine would take 2^249 steps for the first of them."""
    name = "a" * 249
    assert not Pattern("(a+)+b").matches(name)
    assert not Pattern("(a|a)*b").matches(name)
    assert Pattern("(a?){249}a{249}").matches(name)


def test_nor_does_nothing_at_all_however_often() -> None:
    """It adds no step to the program, whose length is bounded, but would be added for years."""
    nothing = "(" * 50 + "){1000}" * 50
    assert Pattern(nothing).matches("")
    assert not Pattern(nothing).matches("a")
    assert Pattern(f"a{nothing}b").matches("ab")
