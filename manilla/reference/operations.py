"""The endpoint data that documentation pages show, extracted from the OpenAPI document."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from manilla.api.request import IDEMPOTENCY_KEY, SANDBOX_SCENARIO
from manilla.reference import code_samples

DEPTH_MAX = 3


class DocumentedField(msgspec.Struct, frozen=True):
    name: str  # full name with parent fields, such as `commission.base_amount`
    depth: int
    type: str
    is_required: bool
    rules: str
    description: str


class DocumentedBody(msgspec.Struct, frozen=True):
    """The body of a request, a response or a notification. A response can have several types."""

    name: str
    description: str
    fields: list[DocumentedField]


class DocumentedError(msgspec.Struct, frozen=True):
    status: int
    code: str
    message: str


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint or a notification. `requests` and `examples` map names to JSON texts."""

    id: str
    slug: str
    tag: str
    method: str
    path: str
    title: str
    description: str
    is_signed: bool
    headers: list[DocumentedField]
    parameters: list[DocumentedField]
    body: DocumentedBody | None
    requests: dict[str, str]
    answers: list[DocumentedBody]
    examples: dict[str, str]
    errors: list[DocumentedError]

    @property
    def is_repeatable(self) -> bool:
        return self._has_header(IDEMPOTENCY_KEY)

    @property
    def creates_transaction(self) -> bool:
        return self._has_header(SANDBOX_SCENARIO)

    def _has_header(self, name: str) -> bool:
        return any(header.name == name for header in self.headers)

    @property
    def command(self) -> str:
        """The command that sends the first example. The reader replaces the text in braces."""
        needed = [
            f"{one.name}={{{one.name}}}"
            for one in self.parameters
            if one.is_required and f"{{{one.name}}}" not in self.path
        ]
        target = self.path + ("?" + "&".join(needed) if needed else "")
        return code_samples.command(self.method, target, next(iter(self.requests.values()), None))


def operations(document: Mapping[str, Any]) -> list[Operation]:
    return [
        _operation(document, method.upper(), path, slug(described["operationId"]), described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    ]


def notices(document: Mapping[str, Any]) -> list[Operation]:
    return [
        _operation(document, "POST", "", slug(name), item["post"])
        for name, item in document["webhooks"].items()
    ]


def slug(operation_id: str) -> str:
    """Returns the operation's name in URLs: `initiate-payment` for initiatePayment."""
    return re.sub(r"(?=[A-Z])", "-", operation_id).lower()


def _operation(document: Any, method: str, path: str, slug: str, described: Any) -> Operation:
    parameters = [_resolved(document, one) for one in described["parameters"]]
    security: Any = next(iter(described["security"]), {})
    sent = _content(described.get("requestBody", {}))
    success = _content(described["responses"]["200"])
    return Operation(
        id=described["operationId"],
        slug=slug,
        tag=described["tags"][0],
        method=method,
        path=path,
        title=described["summary"],
        description=described["description"],
        is_signed="Signature" in security,
        headers=[
            *_credentials(document, security),
            *(_parameter(one) for one in parameters if one["in"] == "header"),
        ],
        parameters=[_parameter(one) for one in parameters if one["in"] != "header"],
        body=_body(document, sent["schema"]) if sent else None,
        requests=_examples(sent),
        answers=[_body(document, one) for one in _alternatives(success)],
        examples=_examples(success),
        errors=list(_errors(described["responses"])),
    )


def _content(part: Any) -> Any:
    return part.get("content", {}).get("application/json", {})


def _alternatives(content: Any) -> Sequence[Any]:
    schema = content.get("schema")
    return schema.get("oneOf", [schema]) if schema else ()


def _body(document: Any, schema: Any) -> DocumentedBody:
    name = schema["$ref"].rpartition("/")[2]
    whole = _resolved(document, schema)
    return DocumentedBody(name, whole["description"], list(_fields(document, whole)))


def _fields(
    document: Any, schema: Any, inside: str = "", depth: int = 0
) -> Iterator[DocumentedField]:
    """Yields a schema's fields and their nested fields. Required fields come first."""
    required_first = sorted(
        schema["properties"].items(), key=lambda one: one[0] not in schema["required"]
    )
    for name, part in required_first:
        yield DocumentedField(
            inside + name,
            depth,
            _type(part),
            name in schema["required"],
            _rules(part),
            part.get("description", ""),
        )
        parts, mark = _inner(part)
        if depth < DEPTH_MAX:
            found = {
                one.name: one
                for inner in reversed(parts)
                for one in _fields(
                    document, _resolved(document, inner), f"{inside}{name}{mark}.", depth + 1
                )
            }
            yield from found.values()


def _inner(part: Any) -> tuple[Sequence[Any], str]:
    """Returns the schemas of a nested object or of list items, and the field name's suffix."""
    if "$ref" in part:
        return (part,), ""
    items = part.get("items", {})
    if "$ref" in items:
        return (items,), "[]"
    return items.get("oneOf", ()), "[]"


def _credentials(document: Any, names: Any) -> Iterator[DocumentedField]:
    """Yields the headers that authenticate a request."""
    for name in names:
        scheme = document["components"]["securitySchemes"][name]
        header = scheme.get("name", "Authorization")
        rules = "`Bearer` followed by the key" if scheme["type"] == "http" else ""
        yield DocumentedField(header, 0, "string", True, rules, scheme["description"])


def _parameter(described: Any) -> DocumentedField:
    schema = described["schema"]
    return DocumentedField(
        described["name"],
        0,
        _type(schema),
        described["required"],
        _rules(schema),
        described["description"],
    )


def _type(part: Any) -> str:
    if "anyOf" in part:
        return " or ".join(_type(one) for one in part["anyOf"])
    if "$ref" in part:
        return "object"
    kinds = part.get("type", "any")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return " or ".join(_kind(kind, part) for kind in kinds)


def _kind(kind: str, part: Any) -> str:
    return f"list of {_type(part['items'])}s" if kind == "array" and "items" in part else str(kind)


def _rules(part: Any) -> str:
    """Describes a field's validation rules as text."""
    said = []
    if "enum" in part:
        said.append("One of " + ", ".join(f"`{one}`" for one in part["enum"] if one is not None))
    least, most = part.get("minLength"), part.get("maxLength")
    if most is not None:
        exact = f"{most} characters" if least == most else None
        said.append(exact or f"{f'{least} to' if least else 'At most'} {most} characters")
    if "minimum" in part:
        said.append(f"At least {part['minimum']}")
    if part.get("format") == "uri" and "pattern" in part:
        said.append("Starts with `https://` or `http://`")
    elif part.get("format") == "email":
        said.append("An email address")
    if "default" in part:
        said.append(f"Defaults to `{part['default']}`")
    return "; ".join(said)


def _examples(content: Any) -> dict[str, str]:
    named = content.get("examples", {})
    return {_words(name): code_samples.json(one["value"]) for name, one in named.items()}


def _words(name: str) -> str:
    return re.sub(r"(?=[A-Z])", " ", name).lower()


def _errors(responses: Any) -> Iterator[DocumentedError]:
    for status, response in responses.items():
        if status != "200":
            for code, one in _content(response).get("examples", {}).items():
                yield DocumentedError(int(status), code, one["value"]["error"])


def _resolved(document: Any, part: Any) -> Any:
    if "$ref" not in part:
        return part
    target = document
    for step in part["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return target
