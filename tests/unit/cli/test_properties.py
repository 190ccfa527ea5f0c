from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexton.base.errors import ConfigError
from sexton.cli.properties import load_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=b", {"a": "b"}),
        ("a = b c ", {"a": "b c "}),
        ("a:b\nc d", {"a": "b", "c": "d"}),
        ("a\nb=\n", {"a": "", "b": ""}),
        ("# no\n ! neither\n\n  a=1", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a=one \\\n   two\\\n# three", {"a": "one two# three"}),
        ("a=back\\\\\nb=1", {"a": "back\\", "b": "1"}),
        ("a=ends\\", {"a": "ends"}),
        (r"a\ b\=c=\ x\t\u20ac\q", {"a b=c": " x\t€q"}),
        (r"a=\ud83d\ude00", {"a": "😀"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (
            'sasl.jaas.config=org.Plain required \\\n  username="u" \\\n  password="p#w!=";',
            {"sasl.jaas.config": 'org.Plain required username="u" password="p#w!=";'},
        ),
    ],
)
def test_a_file_means_what_java_reads_in_it(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_a_broken_escape_is_named_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"client\.properties:2: \\u12 is not an escape"):
        parse_properties("a=1\nb=\\u12", "client.properties")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_properties(tmp_path / "none")


def test_a_file_is_latin_1_as_for_kafka(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(b"client.id=Z\xfcrich\n")
    assert load_properties(path) == {"client.id": "Zürich"}


@given(st.dictionaries(st.text(), st.text()))
def test_everything_can_be_said_with_escapes(properties: dict[str, str]) -> None:
    def escape(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass").hex()
        return "".join("\\u" + units[at : at + 4] for at in range(0, len(units), 4))

    text = "\n".join(f"{escape(key)}={escape(value)}" for key, value in properties.items() if key)
    assert parse_properties(text) == {k: v for k, v in properties.items() if k}
