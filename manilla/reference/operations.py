"""The endpoints for the pages: fields, rules, responses and errors from the OpenAPI document."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from manilla.reference import code_samples

DEPTH_MAX = 3


class Field(msgspec.Struct, frozen=True):
    name: str  # with its parents: `commission.base_amount`
    depth: int
    type: str
    is_required: bool
    rules: str
    description: str


class Shape(msgspec.Struct, frozen=True):
    """A request body, or one of the possible bodies of a response."""

    name: str
    description: str
    fields: list[Field]


class Example(msgspec.Struct, frozen=True):
    name: str
    text: str


class Error(msgspec.Struct, frozen=True):
    status: int
    code: str
    message: str
    example: str


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    slug: str
    tag: str
    method: str
    path: str
    title: str
    description: str
    is_signed: bool
    headers: list[Field]
    parameters: list[Field]
    body: Shape | None
    requests: list[Example]
    answers: list[Shape]
    examples: list[Example]
    errors: list[Error]


class Notice(msgspec.Struct, frozen=True):
    """A notification to an `ipn_url`."""

    id: str
    title: str
    shape: Shape
    examples: list[Example]


def operations(document: Mapping[str, Any]) -> list[Operation]:
    return [
        _operation(document, method.upper(), path, described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    ]


def notices(document: Mapping[str, Any]) -> list[Notice]:
    return [_notice(document, name, item["post"]) for name, item in document["webhooks"].items()]


def notice_headers(document: Mapping[str, Any]) -> list[Field]:
    first = next(iter(document["webhooks"].values()))["post"]
    return [_parameter(_resolved(document, one)) for one in first["parameters"]]


def slug(operation_id: str) -> str:
    """`initiate-payment` for initiatePayment."""
    return re.sub(r"(?=[A-Z])", "-", operation_id).lower()


def _operation(document: Any, method: str, path: str, described: Any) -> Operation:
    parameters = [_resolved(document, one) for one in described["parameters"]]
    success = described["responses"]["200"]["content"]["application/json"]
    sent = described.get("requestBody", {}).get("content", {}).get("application/json")
    return Operation(
        id=described["operationId"],
        slug=slug(described["operationId"]),
        tag=described["tags"][0],
        method=method,
        path=path,
        title=described["summary"],
        description=described["description"],
        is_signed="Signature" in described["security"][0],
        headers=[
            *_credentials(document, described["security"][0]),
            *(_parameter(one) for one in parameters if one["in"] == "header"),
        ],
        parameters=[_parameter(one) for one in parameters if one["in"] != "header"],
        body=_shape(document, sent["schema"]) if sent else None,
        requests=_examples(sent) if sent else [],
        answers=[_shape(document, one) for one in _alternatives(success["schema"])],
        examples=_examples(success),
        errors=list(_errors(described["responses"])),
    )


def _notice(document: Any, name: str, described: Any) -> Notice:
    content = described["requestBody"]["content"]["application/json"]
    shape = _shape(document, content["schema"])
    return Notice(slug(name), described["summary"], shape, _examples(content))


def _alternatives(schema: Any) -> Sequence[Any]:
    return schema.get("oneOf", [schema])  # type: ignore[no-any-return]


def _shape(document: Any, schema: Any) -> Shape:
    name = schema["$ref"].rpartition("/")[2]
    whole = _resolved(document, schema)
    return Shape(name, whole["description"], list(_fields(document, whole)))


def _fields(document: Any, schema: Any, inside: str = "", depth: int = 0) -> Iterator[Field]:
    """Yields required fields first."""
    required_first = sorted(
        schema["properties"].items(), key=lambda one: one[0] not in schema["required"]
    )
    for name, part in required_first:
        yield Field(
            inside + name,
            depth,
            _type(part),
            name in schema["required"],
            _rules(part),
            part.get("description", ""),
        )
        inner, mark = _inner(part)
        if inner is not None and depth < DEPTH_MAX:
            resolved = _resolved(document, inner)
            yield from _fields(document, resolved, f"{inside}{name}{mark}.", depth + 1)


def _inner(part: Any) -> tuple[Any | None, str]:
    """The schema of a nested object or list item, if described, and the suffix of its name."""
    if "$ref" in part:
        return part, ""
    if "$ref" in part.get("items", {}):
        return part["items"], "[]"
    return None, ""


def _credentials(document: Any, names: Any) -> Iterator[Field]:
    """The headers that authenticate a call."""
    for name in names:
        scheme = document["components"]["securitySchemes"][name]
        header = scheme.get("name", "Authorization")
        rules = "`Bearer` followed by the key" if scheme["type"] == "http" else ""
        yield Field(header, 0, "string", True, rules, scheme["description"])


def _parameter(described: Any) -> Field:
    schema = described["schema"]
    return Field(
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
    """The field's rules in words, unless the description already has them."""
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


def _examples(content: Any) -> list[Example]:
    named = content.get("examples", {})
    return [Example(_words(name), code_samples.json(one["value"])) for name, one in named.items()]


def _words(name: str) -> str:
    return re.sub(r"(?=[A-Z])", " ", name).lower()


def _errors(responses: Any) -> Iterator[Error]:
    for status, response in responses.items():
        if status != "200":
            for code, one in response["content"]["application/json"]["examples"].items():
                value = one["value"]
                yield Error(int(status), code, value["error"], code_samples.json(value))


def _resolved(document: Any, part: Any) -> Any:
    if "$ref" not in part:
        return part
    target = document
    for step in part["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return target
