"""Write the message classes of src/sexton/protocol from the schema files in Kafka's own jars.

    make messages

Kafka generates its Java classes from `common/message/*.json` and ships those files in its jars. We
read the same files, from jars that the lock pins, and write a dataclass for each message and each
struct: the fields in wire order, each with a specifier from `sexton.protocol.wire` that says what
the schema says. What that means in bytes is the codec's business; this file knows none.

    messages/fetch.py ...                 a module for each API in APIS: its request, its response
    coordinator/consumer_offsets.py ...   what is stored in internal topics, or inside a request
    api_table.py                          key, name, module and versions of each API

The output is committed, so running sexton needs no Java; a test generates again and compares.
"""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sexton.protocol.wire import parse_versions
from sexton.testing.kafka_jars import KAFKA_4, KafkaJars, kafka_jars

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src/sexton/protocol"

# Those that a client may send to a broker, or a broker with transactions to another. To add one is
# to name it here.
APIS = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "SaslHandshake",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeAcls",
    "CreateAcls",
    "DeleteAcls",
    "DescribeConfigs",
    "AlterConfigs",
    "AlterReplicaLogDirs",
    "DescribeLogDirs",
    "SaslAuthenticate",
    "CreatePartitions",
    "DeleteGroups",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "OffsetDelete",
    "DescribeClientQuotas",
    "AlterClientQuotas",
    "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
    "DescribeQuorum",
    "UpdateFeatures",
    "DescribeCluster",
    "DescribeProducers",
    "UnregisterBroker",
    "DescribeTransactions",
    "ListTransactions",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    "ListConfigResources",
    "DescribeTopicPartitions",
)

OTHERS = {
    "consumer_offsets": (
        "What the group coordinator writes to `__consumer_offsets`.",
        [
            "LegacyOffsetCommitKey",
            "LegacyOffsetCommitValue",
            "OffsetCommitKey",
            "OffsetCommitValue",
            "GroupMetadataKey",
            "GroupMetadataValue",
            "ConsumerGroupMetadataKey",
            "ConsumerGroupMetadataValue",
            "ConsumerGroupPartitionMetadataKey",
            "ConsumerGroupPartitionMetadataValue",
            "ConsumerGroupMemberMetadataKey",
            "ConsumerGroupMemberMetadataValue",
            "ConsumerGroupTargetAssignmentMetadataKey",
            "ConsumerGroupTargetAssignmentMetadataValue",
            "ConsumerGroupTargetAssignmentMemberKey",
            "ConsumerGroupTargetAssignmentMemberValue",
            "ConsumerGroupCurrentMemberAssignmentKey",
            "ConsumerGroupCurrentMemberAssignmentValue",
            "ConsumerGroupRegularExpressionKey",
            "ConsumerGroupRegularExpressionValue",
        ],
    ),
    "transaction_state": (
        "What the transaction coordinator writes to `__transaction_state`.",
        ["TransactionLogKey", "TransactionLogValue"],
    ),
    "consumer_protocol": (
        "What consumers tell each other inside JoinGroup and SyncGroup.",
        ["ConsumerProtocolSubscription", "ConsumerProtocolAssignment"],
    ),
}

FIXED = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "int",
    "uint16": "int",
    "uint32": "int",
    "float64": "float",
    "uuid": "bytes",
}
PYTHON = {**FIXED, "string": "str", "bytes": "bytes", "records": "wire.Buffer"}
SPECIFIERS = {"bool": "bool_", "bytes": "bytes_"}  # else the type's own name

IMPORTS = ["from sexton.base.lazy_dataclass import dataclass", "from sexton.protocol import wire"]

Schema = dict[str, Any]


def main() -> None:
    files = generate(read_schemas(kafka_jars(KAFKA_4)))
    for name in ("messages", "coordinator"):
        for old in (PACKAGE / name).glob("*.py"):
            if old.name != "__init__.py" and old.relative_to(PACKAGE).as_posix() not in files:
                old.unlink()
    for name, text in files.items():
        path = PACKAGE / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"messages: wrote {path.relative_to(ROOT)}")


def generate(schemas: dict[str, Schema]) -> dict[str, str]:
    """The text of each generated file, by its path in the package."""
    files = {f"messages/{snake_case(api)}.py": api_module(api, schemas) for api in APIS}
    for name, (title, messages) in OTHERS.items():
        files[f"coordinator/{name}.py"] = module(title, [schemas[each] for each in messages])
    files["api_table.py"] = api_table(schemas)
    return formatted(files)


def read_schemas(jars: KafkaJars) -> dict[str, Schema]:
    schemas = {}
    for name in ("kafka-clients", "kafka-group-coordinator", "kafka-transaction-coordinator"):
        with zipfile.ZipFile(jars.directory / f"{name}-{jars.version}.jar") as jar:
            for path in jar.namelist():
                if path.startswith("common/message/") and path.endswith(".json"):
                    schema = json.loads(without_comments(jar.read(path).decode()))
                    schemas[schema["name"]] = schema
    return schemas


def without_comments(text: str) -> str:
    """JSON, without the `//` comments that Kafka's schema files have."""
    return re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*', lambda match: match[1] or "", text)


def snake_case(name: str) -> str:
    """`MaxWaitMs` is `max_wait_ms`; the other way there is but one answer, and tests rely on it."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    assert not keyword.iskeyword(words), name
    first, *rest = words.split("_")
    assert first + "".join(map(str.capitalize, rest)) == name[0].lower() + name[1:], name
    return words


def formatted(files: dict[str, str]) -> dict[str, str]:
    """Every file as ruff would have it, in one call: they are joined, formatted and cut again."""
    cut = "#" * 40
    joined = f"\n{cut}\n".join(files.values())
    command = [sys.executable, "-m", "ruff", "format", "-", "--stdin-filename", "x.py"]
    done = subprocess.run(
        command, input=joined, capture_output=True, text=True, check=True, cwd=ROOT
    )
    texts = [text.strip() + "\n" for text in done.stdout.split(cut)]
    assert len(texts) == len(files)
    return dict(zip(files, texts, strict=True))


def api_module(api: str, schemas: dict[str, Schema]) -> str:
    request, response = schemas[f"{api}Request"], schemas[f"{api}Response"]
    assert request["apiKey"] == response["apiKey"]
    assert request["validVersions"] == response["validVersions"]
    assert request["flexibleVersions"] == response["flexibleVersions"]
    first, last = parse_versions(request["validVersions"])
    title = f"{api}: API key {request['apiKey']}, versions {first} to {last}."
    return module(title, [request, response])


def module(title: str, schemas: list[Schema]) -> str:
    names = StructNames(schemas)
    classes = [text for schema in schemas for text in Classes(schema, names).render()]
    return "\n\n\n".join([head(title, IMPORTS), *classes]) + "\n"


def head(title: str, imports: list[str]) -> str:
    return (
        f'"""{title}\n\n'
        f"Generated by tools/generate_messages.py from the schemas of Apache Kafka {KAFKA_4}:\n"
        'change that file, not this one, and run `make messages`.\n"""\n\n'
        "from __future__ import annotations\n\n" + "\n".join(imports)
    )


def api_table(schemas: dict[str, Schema]) -> str:
    requests = sorted((schemas[f"{api}Request"] for api in APIS), key=lambda s: s["apiKey"])
    rows = []
    for schema in requests:
        name = schema["name"].removesuffix("Request")
        valid = ranges(schema["validVersions"], schema["validVersions"])
        flexible = ranges(schema["flexibleVersions"], schema["validVersions"])
        unstable = bool(schema.get("latestVersionUnstable"))
        row = (schema["apiKey"], name, snake_case(name), valid, flexible, unstable)
        rows.append("({}, {!r}, {!r}, {}, {}, {}),".format(*row))
    return (
        head("Every API of Apache Kafka that we have classes for.", [])
        + "# key, name, module in `messages`, valid versions, flexible versions,\n"
        + "# whether the last version may still change in Kafka and is not to be advertised\n"
        + "ROWS: tuple[tuple[int, str, str, range, range, bool], ...] = (\n"
        + "\n".join(rows)
        + "\n)\n"
    )


def ranges(text: str, within: str) -> str:
    first, last = parse_versions(text)
    last = min(last, parse_versions(within).last)
    if first > last:
        return "range(0)"
    return f"range({first}, {last + 1})" if first else f"range({last + 1})"


class StructNames:
    """What the structs of a module are called: Kafka's names, unless two messages share one."""

    def __init__(self, schemas: list[Schema]) -> None:
        self._uses = Counter(name for schema in schemas for name in set(struct_names(schema)))
        self._uses.update(schema["name"] for schema in schemas)

    def of(self, schema: Schema, name: str) -> str:
        if self._uses[name] == 1:
            return name
        prefix = str(schema["name"])
        if schema["type"] in ("request", "response"):
            prefix = schema["type"].capitalize()
        unique = prefix + name
        assert unique not in self._uses, unique
        return unique


def struct_names(schema: Schema) -> Iterator[str]:
    yield from (each["name"] for each in schema.get("commonStructs", ()))
    for each in walk(schema["fields"]):
        if "fields" in each:
            yield element_type(each["type"])


def walk(fields: Iterable[Schema]) -> Iterator[Schema]:
    for each in fields:
        yield each
        yield from walk(each.get("fields", ()))


def element_type(kind: str) -> str:
    return kind.removeprefix("[]")


@dataclass
class Classes:
    """The classes of one message, those that others consist of first."""

    schema: Schema
    names: StructNames
    done: dict[str, str] = field(default_factory=dict)  # struct to the text of its class

    def render(self) -> list[str]:
        body = self.body(self.schema["fields"])
        return [*self.done.values(), self.message(body)]

    def message(self, body: list[str]) -> str:
        schema = self.schema
        name, kind = schema["name"], schema["type"]
        base, key = "wire.Message", ""
        if kind == "request":
            base = f'wire.Request["{name.removesuffix("Request")}Response"]'
            key = f"API_KEY = {schema['apiKey']}"
        elif kind == "response":
            base, key = "wire.Response", f"API_KEY = {schema['apiKey']}"
        elif kind in ("coordinator-key", "coordinator-value"):
            base = "wire.StoredKey" if kind == "coordinator-key" else "wire.StoredValue"
            key = f"RECORD_TYPE = {schema['apiKey']}"
        valid = ranges(schema["validVersions"], schema["validVersions"])
        flexible = ranges(schema["flexibleVersions"], schema["validVersions"])
        constants = [key, f"VALID_VERSIONS = {valid}", f"FLEXIBLE_VERSIONS = {flexible}"]
        lines = [*filter(None, constants), *([""] if body else []), *body]
        return class_text(name, f"({base})", lines)

    def struct(self, name: str, fields: list[Schema] | None) -> str:
        """The Python name of a struct, whose class is written if it was not yet."""
        python = self.names.of(self.schema, name)
        if python not in self.done:
            if fields is None:
                common = self.schema["commonStructs"]
                fields = next(each["fields"] for each in common if each["name"] == name)
            self.done[python] = class_text(python, "", self.body(fields))
        return python

    def body(self, fields: list[Schema]) -> list[str]:
        return [self.field(each) for each in fields]

    def field(self, schema: Schema) -> str:
        kind = schema["type"]
        element = element_type(kind)
        default = schema.get("default", "")
        default = "" if default is None else str(default)  # Java reads JSON's null as no default
        arguments = []
        if element not in PYTHON:
            arguments.append(self.struct(element, schema.get("fields")))
            python, specifier = arguments[0], "struct"
        else:
            python, specifier = PYTHON[element], SPECIFIERS.get(element, element)
        if kind.startswith("[]"):
            arguments = arguments or [f"wire.{specifier}"]
            python, specifier = f"list[{python}]", "array"
        if (literal := default_literal(kind, default)) is not None:
            arguments.append(f"default={literal}")
        arguments += self.options(schema)
        if nullable(schema) or kind == "records":
            python += " | None"
        name = snake_case(schema["name"])
        return f"{name}: {python} = wire.{specifier}({', '.join(arguments)})"

    def options(self, schema: Schema) -> Iterator[str]:
        assert "flexibleVersions" not in schema, schema  # only in headers, which are hand-written
        versions = schema.get("versions") or schema["taggedVersions"]
        assert schema.get("taggedVersions", versions) == versions, schema
        if versions != "0+":
            yield f'versions="{versions}"'
        if nullable(schema):
            yield f'nullable="{schema["nullableVersions"]}"'
        if "tag" in schema:
            yield f"tag={schema['tag']}"
        if schema.get("ignorable"):
            yield "ignorable=True"


def nullable(schema: Schema) -> bool:
    return bool(schema.get("nullableVersions", "none") != "none")


def default_literal(kind: str, default: str) -> str | None:
    """A schema's default as Python; None if it is what the specifier gives anyway."""
    if kind == "records" or default == "":
        return None
    if kind == "bool":
        return "True" if default.lower() == "true" else None
    if default == "null":
        return "None"
    if kind == "string":
        return repr(default)
    assert FIXED[kind] == "int", (kind, default)
    value = int(default, 0)
    return str(value) if value else None


def class_text(name: str, bases: str, lines: list[str]) -> str:
    body = "\n".join("    " + line if line else "" for line in lines) or "    pass"
    return f"@dataclass(slots=True)\nclass {name}{bases}:\n{body}"


if __name__ == "__main__":
    main()
