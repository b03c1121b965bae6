"""Builds schemas from the structs of requests, responses and notifications."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from manilla.api.lists import ITEMS_TAG
from manilla.reference.openapi import fields

BodyType = type[msgspec.Struct]

PLACE = "#/components/schemas/"
HIDDEN = ("default", "title", "examples")  # the schemas omit these keys


class Error(msgspec.Struct, omit_defaults=True):
    error: str
    error_code: str
    errors: dict[str, str] | None = None


class DuplicateError(Error, omit_defaults=True):
    trx_id: str | None = None
    status: str | None = None
    duplicate_of: str | None = None
    payment_url: str | None = None


class MissingRightError(Error, omit_defaults=True):
    required_right: str | None = None


def reference(kind: BodyType) -> dict[str, str]:
    return {"$ref": PLACE + kind.__name__}


def components(
    read: Iterable[BodyType], written: Iterable[BodyType], sent: Iterable[BodyType]
) -> Any:
    """Returns the schemas of request bodies, responses and notifications, and of nested structs."""
    schemas: dict[str, Any] = {}
    for kinds, others in ((read, True), (written, False), (sent, True)):
        for kind in _with_parts(kinds):
            is_read = kinds is read
            schemas.setdefault(kind.__name__, _schema(kind, is_read=is_read, takes_others=others))
    return dict(sorted(schemas.items()))


def _with_parts(kinds: Iterable[BodyType]) -> list[BodyType]:
    found: dict[BodyType, None] = {}

    def walk(info: Any) -> None:
        if isinstance(info, inspect.StructType) and info.cls not in found:
            found[info.cls] = None
            for field in info.fields:
                walk(field.type)
        elif isinstance(info, inspect.UnionType):
            for part in info.types:
                walk(part)
        elif isinstance(info, inspect.ListType):
            walk(info.item_type)
        elif isinstance(info, inspect.Metadata):
            walk(info.type)
            for kind in _items(info):
                walk(inspect.type_info(kind))

    for kind in kinds:
        walk(inspect.type_info(kind))
    return list(found)


def _items(info: Any) -> tuple[BodyType, ...]:
    """Returns the types of a list's items, or an empty tuple if the list is not annotated."""
    extra = getattr(info, "extra", None) or {}
    kinds: tuple[BodyType, ...] = extra.get(ITEMS_TAG, ())
    return kinds


def _schema(kind: BodyType, *, is_read: bool, takes_others: bool) -> dict[str, Any]:
    (_,), parts = msgspec.json.schema_components([kind], ref_template="{name}")
    plain = parts[kind.__name__]
    required, properties = list(plain.get("required", ())), {}
    for field in inspect.type_info(kind).fields:  # type: ignore[attr-defined]
        sent = field.encode_name
        part = _converted(plain["properties"][sent])
        if kinds := _items(field.type):
            part["items"] = {"oneOf": [reference(each) for each in kinds]}
        if not is_read and not field.required:
            if not kind.__struct_config__.omit_defaults:
                required.append(sent)
            elif field.default is None:
                part = _not_null(part)  # the API omits the field instead of sending null
        is_own = "description" in part  # the struct describes it
        properties[sent] = _described(part, {} if is_own else fields.describe(kind.__name__, sent))
    return {
        "type": "object",
        "description": fields.SCHEMAS.get(kind.__name__) or (kind.__doc__ or "").strip(),
        "properties": properties,
        "required": required,
        "additionalProperties": takes_others,
    }


def _converted(part: Any) -> Any:
    """Converts msgspec's schema to OpenAPI 3.1, so it matches the JSON that the API sends."""
    if not isinstance(part, dict):
        return part
    shown = {key: value for key, value in part.items() if key not in HIDDEN}
    if shown.get("format") == "decimal":
        # msgspec describes a Decimal as a string, but the API sends numbers.
        shown |= {"type": "number"}
        del shown["format"]
    converted = {**({"type": shown["type"]} if "type" in shown else {}), **shown}
    if "$ref" in converted:
        converted["$ref"] = PLACE + converted["$ref"]
    if "items" in converted:
        converted["items"] = _converted(converted["items"])
    if converted == {"type": "object"}:
        converted["additionalProperties"] = True
    if "anyOf" in converted:
        parts = [_converted(one) for one in converted.pop("anyOf")]
        others = [one for one in parts if one != {"type": "null"}]
        if len(others) == 1 and "type" in others[0] and len(parts) > 1:
            return {**others[0], "type": [others[0]["type"], "null"], **converted}
        converted["anyOf"] = parts
    return converted


def _not_null(part: dict[str, Any]) -> dict[str, Any]:
    if isinstance(part.get("type"), list):
        return {**part, "type": part["type"][0]}
    return part


def _described(part: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    described = {**part, **more}
    if "enum" in described and isinstance(described.get("type"), list):
        described["enum"] = [*described["enum"], None]
    return described
