"""Builds the OpenAPI document: operations from the endpoint table, and shared components."""

from collections.abc import Sequence
from typing import Any

import msgspec

from manilla.api import refusals
from manilla.api.endpoint import PARAMETER, Endpoint, Upload
from manilla.api.fields import requires_field
from manilla.kit.errors import Refusal, Unavailable
from manilla.kit.ratelimit import RateLimitExceeded
from manilla.ledger.transactions import DuplicateReference
from manilla.merchants.availability import MerchantPendingApproval, MerchantSuspended
from manilla.merchants.credentials import InvalidCredentials
from manilla.merchants.rights import InsufficientPermission
from manilla.reference import examples
from manilla.reference.openapi import fields, notices, parts, schemas

ALWAYS_POSSIBLE: tuple[type[Refusal], ...] = (
    refusals.ValidationFailed,
    refusals.InvalidEnvironment,
    InvalidCredentials,
    MerchantPendingApproval,
    MerchantSuspended,
    RateLimitExceeded,
    Unavailable,
)

# Errors whose response has additional fields. Each error has a different HTTP status.
DETAILED: dict[str, schemas.BodyType] = {
    DuplicateReference.code: schemas.DuplicateError,
    InsufficientPermission.code: schemas.MissingRightError,
}

# Errors whose response has a `Retry-After` header.
WAITING = (RateLimitExceeded, Unavailable)

FORM = "multipart/form-data"
BINARY = {"type": "string", "format": "binary"}

DESCRIPTION = """\
Payments through hosted checkout, and payouts by bank transfer.

Every call runs in `sandbox` or `production`, each with its own credentials, and is signed:
`X-Signature` is the hex HMAC-SHA256, keyed with the API secret, of
`<timestamp>.<METHOD>.<path_with_query>.<raw_body>`. Amounts are JSON numbers, exact to the
currency's minor unit. Every error is `{error, error_code}`, with `errors` if fields are invalid.
Every response has `X-Request-Id`.
"""


def document(endpoints: Sequence[Endpoint], base_url: str, version: str) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    tags = {tag(endpoint) for endpoint in endpoints} | {"Notifications"}
    return {
        "openapi": "3.1.0",
        "info": _info(base_url, version),
        "servers": [{"url": base_url, "description": "This site."}],
        "tags": [
            {"name": name, "description": text} for name, text in parts.TAGS.items() if name in tags
        ],
        "security": parts.SIGNED,
        "paths": paths,
        "webhooks": notices.webhooks(),
        "components": {
            "schemas": _schemas(endpoints),
            "securitySchemes": parts.SECURITY_SCHEMES,
            "parameters": {**parts.PARAMETERS, **notices.HEADERS},
            "headers": parts.HEADERS,
        },
    }


def _info(base_url: str, version: str) -> dict[str, Any]:
    return {
        "title": "Manilla merchant API",
        "version": version,
        "summary": "Payments and payouts for merchants.",
        "description": DESCRIPTION,
        "contact": {"name": "The operator of this site", "url": base_url},
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    }


def _schemas(endpoints: Sequence[Endpoint]) -> Any:
    errors: list[schemas.BodyType] = [schemas.Error]
    if any(DuplicateReference in endpoint.refusals for endpoint in endpoints):
        errors.append(schemas.DuplicateError)
    if any(endpoint.right for endpoint in endpoints):
        errors.append(schemas.MissingRightError)
    return schemas.components(
        [endpoint.body for endpoint in endpoints if endpoint.body],
        [*errors, *(answer for endpoint in endpoints for answer in endpoint.answers)],
        list(notices.KINDS.values()),
    )


def operation_id(endpoint: Endpoint) -> str:
    """Returns the operation id: `initiatePayment` for /api/v1/initiate-payment."""
    if endpoint.operation_id is not None:
        return endpoint.operation_id
    path, _, _ = endpoint.path.partition("/{")
    first, *rest = path.removeprefix("/api/").removeprefix("v1/").replace("/", "-").split("-")
    words = first + "".join(word.capitalize() for word in rest)
    return words if endpoint.is_signed else f"{words}Legacy"


# Maps words to tags. The first word found in an endpoint's path determines its tag.
TAGS = {
    "payout": "Payouts",
    "/release": "Splits",
    "payment": "Payments",
    "refund": "Refunds",
    "dispute": "Disputes",
    "customer": "Customers",
    "split": "Splits",
    "sub-account": "Splits",
    "balance": "Balance",
    "price": "Prices",
    "invoice": "Invoices",
    "event": "Notifications",
    "webhook": "Notifications",
}


def tag(endpoint: Endpoint) -> str:
    if not endpoint.is_signed:
        return "Legacy API"
    return next((name for word, name in TAGS.items() if word in endpoint.path), "Site")


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    own_id = operation_id(endpoint)
    operation: dict[str, Any] = {
        "operationId": own_id,
        "tags": [tag(endpoint)],
        "summary": endpoint.summary,
        "description": _description(endpoint),
        "security": parts.SIGNED if endpoint.is_signed else parts.BEARER,
        "parameters": _parameters(endpoint),
        "responses": {"200": _success(endpoint, own_id), **_refusals(endpoint)},
    }
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": requires_field(endpoint.body),
            "description": "At most 64 KiB of JSON without duplicate keys.",
            "content": _json(schemas.reference(endpoint.body), examples.REQUESTS.get(own_id, {})),
        }
    elif endpoint.upload is not None:
        operation["requestBody"] = _form(endpoint.upload)
    return operation


def _form(upload: Upload) -> dict[str, Any]:
    file = {"type": "string", "contentMediaType": "application/octet-stream"}
    described = {**file, "description": f"The file. The form has at most {upload.bytes_max} bytes."}
    schema = {
        "type": "object",
        "properties": {upload.field: described},
        "required": [upload.field],
        "additionalProperties": True,
    }
    return {
        "required": True,
        "description": "A form with one file, with a `Content-Length` header.",
        "content": {FORM: {"schema": schema}},
    }


def _description(endpoint: Endpoint) -> str:
    if endpoint.right is None or not endpoint.is_signed:
        return endpoint.description
    return f"{endpoint.description} Requires the right `{endpoint.right}`."


def _success(endpoint: Endpoint, own_id: str) -> dict[str, Any]:
    answers = [schemas.reference(answer) for answer in endpoint.answers]
    schema = answers[0] if len(answers) == 1 else {"oneOf": answers}
    created = ["X-Transaction-Id"] if endpoint.creates_transaction else []
    replayed = ["Idempotent-Replayed"] if endpoint.is_repeatable else []
    return {
        "description": "Success.",
        "headers": parts.headers(*created, *replayed),
        "content": {
            **_json(schema, examples.ANSWERS.get(own_id, {})),
            **{media: {"schema": BINARY} for media in endpoint.files},
        },
        **parts.links(own_id),
    }


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    names = ["Environment"]
    if endpoint.is_repeatable:
        names.append("IdempotencyKey")
    if endpoint.creates_transaction:
        names.append("SandboxScenario")
    names += [name[0].upper() + name[1:] for name in PARAMETER.findall(endpoint.path)]
    parameters: list[dict[str, Any]] = [
        {"$ref": f"#/components/parameters/{name}"} for name in names
    ]
    return parameters + (_query(endpoint.query) if endpoint.query else [])


def _query(kind: type[msgspec.Struct]) -> list[dict[str, Any]]:
    parameters = []
    schema = schemas.components([kind], (), ())[kind.__name__]
    for name, part in schema["properties"].items():
        described = dict(part)
        if isinstance(described.get("type"), list):
            described["type"] = described["type"][0]  # a query parameter cannot be null
        text = described.pop("description", "")
        parameter = {
            "name": name,
            "in": "query",
            "required": name in schema["required"],
            "description": text,
            "schema": described,
        }
        if name in QUERY_EXAMPLES:
            parameter["example"] = QUERY_EXAMPLES[name]
        parameters.append(parameter)
    return parameters


QUERY_EXAMPLES = {"currency": "NGN", "method_code": "providera_ngn_transfer"}


def _refusals(endpoint: Endpoint) -> dict[str, Any]:
    by_status: dict[int, list[type[Refusal]]] = {}
    permission = (InsufficientPermission,) if endpoint.right else ()
    for refusal in (*ALWAYS_POSSIBLE, *permission, *endpoint.refusals):
        by_status.setdefault(refusal.status, []).append(refusal)
    responses = {status: _refused(endpoint, kinds) for status, kinds in by_status.items()}
    responses[500] = {
        "description": "`SERVER_ERROR`: a server error. Retry with the same `Idempotency-Key`.",
        "headers": parts.headers(),
        "content": _json(_error_schema(["SERVER_ERROR"]), {"SERVER_ERROR": examples.FAULT}),
    }
    return {str(status): responses[status] for status in sorted(responses)}


def _refused(endpoint: Endpoint, kinds: Sequence[type[Refusal]]) -> dict[str, Any]:
    body = [field.encode_name for field in msgspec.structs.fields(endpoint.body or schemas.Error)]
    query = [
        field.encode_name
        for field in (msgspec.structs.fields(endpoint.query) if endpoint.query else ())
        if field.required
    ]
    bodies = {
        str(kind.code): examples.error(kind, body if endpoint.body else (), query) for kind in kinds
    }
    if endpoint.right and InsufficientPermission in kinds:
        bodies[InsufficientPermission.code] = examples.missing_right(endpoint.right)
    waits = any(kind in WAITING for kind in kinds)
    return {
        "description": "; ".join(f"`{kind.code}`: {kind.message}" for kind in kinds),
        "headers": parts.headers(*(["Retry-After"] if waits else [])),
        "content": _json(_error_schema(list(bodies)), bodies),
    }


def _error_schema(codes: Sequence[str]) -> dict[str, Any]:
    kind = next((kind for code, kind in DETAILED.items() if code in codes), schemas.Error)
    code = {**fields.describe("", "error_code"), "type": "string", "enum": codes}
    only = {"type": "object", "properties": {"error_code": code}}
    return {"allOf": [schemas.reference(kind), only]}


def _json(schema: Any, named: examples.Examples) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": schema}
    if named:
        content["examples"] = {name: {"value": value} for name, value in named.items()}
    return {"application/json": content}
