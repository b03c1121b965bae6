"""The API's description in OpenAPI 3.1, made from the table that the kernel serves."""

from collections.abc import Sequence
from typing import Any

import msgspec

from manilla.api import refusals
from manilla.api.endpoint import Endpoint
from manilla.kit.errors import Refusal, Unavailable
from manilla.kit.ratelimit import RateLimitExceeded

ALWAYS_POSSIBLE: tuple[type[Refusal], ...] = (
    refusals.ValidationFailed,
    refusals.InvalidEnvironment,
    refusals.InvalidCredentials,
    refusals.MerchantPendingApproval,
    refusals.MerchantSuspended,
    RateLimitExceeded,
    Unavailable,
)

DESCRIPTION = """\
Every call runs in `sandbox` or `production`, each with its own credentials, and is signed:
`X-Signature` is the hex HMAC-SHA256, keyed with the API secret, of
`<timestamp>.<METHOD>.<path_with_query>.<raw_body>`. Amounts are JSON numbers, exact to the
currency's minor unit. Errors are always `{error, error_code}`, with `errors` where fields are at
fault; every answer carries `X-Request-Id`.
"""


Schemas = dict[type[msgspec.Struct], Any]


class Error(msgspec.Struct, omit_defaults=True):
    error: str
    error_code: str
    errors: dict[str, str] | None = None


def document(endpoints: Sequence[Endpoint], base_url: str, version: str) -> dict[str, Any]:
    kinds: list[type[msgspec.Struct]] = [Error]
    for endpoint in endpoints:
        kinds += [kind for kind in (*endpoint.answers, endpoint.query, endpoint.body) if kind]
    refs, components = msgspec.json.schema_components(
        list(dict.fromkeys(kinds)), ref_template="#/components/schemas/{name}"
    )
    schemas: Schemas = dict(zip(dict.fromkeys(kinds), refs, strict=True))
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, schemas)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Manilla merchant API",
            "version": version,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url}],
        "security": [{"MerchantKey": [], "ApiKey": [], "Timestamp": [], "Signature": []}],
        "paths": paths,
        "components": {
            "schemas": _numbers_for_money(components),
            "securitySchemes": SECURITY,
            "parameters": {
                "Environment": ENVIRONMENT,
                "IdempotencyKey": IDEMPOTENCY_KEY,
                "SandboxScenario": SANDBOX_SCENARIO,
            },
        },
    }


def _operation(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{endpoint.method.lower()}{_words(endpoint.path)}",
        "summary": endpoint.summary,
        "description": endpoint.description,
        "parameters": [{"$ref": "#/components/parameters/Environment"}, *_parameters(endpoint)],
        "responses": {
            "200": {
                "description": "Success",
                "content": _json(_one_of([schemas[answer] for answer in endpoint.answers])),
            },
            **_refusals(endpoint, schemas[Error]),
        },
    }
    if not endpoint.is_signed:
        operation["security"] = [{"Bearer": []}]
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": _json(schemas[endpoint.body])}
    return operation


def _one_of(schemas: Sequence[Any]) -> Any:
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}


def _words(path: str) -> str:
    words = path.replace("/api/v1/", "").replace("{", "").replace("}", "").replace("/", "-")
    return "".join(word.capitalize() for word in words.split("-"))


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    if endpoint.is_repeatable:
        parameters += [
            {"$ref": "#/components/parameters/IdempotencyKey"},
            {"$ref": "#/components/parameters/SandboxScenario"},
        ]
    _, brace, rest = endpoint.path.partition("{")
    if brace:
        parameters.append(
            {
                "name": rest.rstrip("}"),
                "in": "path",
                "required": True,
                "schema": {"type": "string"},
            }
        )
    if endpoint.query is not None:
        schema = msgspec.json.schema(endpoint.query)["$defs"][endpoint.query.__name__]
        parameters += [
            {"name": name, "in": "query", "required": name in schema["required"], "schema": part}
            for name, part in schema["properties"].items()
        ]
    return parameters


def _refusals(endpoint: Endpoint, error_schema: Any) -> dict[str, Any]:
    by_status: dict[int, list[type[Refusal]]] = {}
    for refusal in (*ALWAYS_POSSIBLE, *endpoint.refusals):
        by_status.setdefault(refusal.status, []).append(refusal)
    return {
        str(status): {
            "description": "; ".join(f"`{kind.code}`: {kind.message}" for kind in kinds),
            "content": _json(error_schema),
        }
        for status, kinds in sorted(by_status.items())
    }


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _numbers_for_money(schema: Any) -> Any:
    """msgspec describes a Decimal as a string; on our wire it is a number."""
    if isinstance(schema, dict):
        if schema.get("format") == "decimal":
            plain = {key: value for key, value in schema.items() if key != "format"}
            return {**plain, "type": "number"}
        return {key: _numbers_for_money(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_numbers_for_money(item) for item in schema]
    return schema


ENVIRONMENT = {
    "name": "X-Environment",
    "in": "header",
    "required": False,
    "description": "Where the call runs; `production` when omitted.",
    "schema": {"type": "string", "enum": ["sandbox", "production"], "default": "production"},
}


IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key and body within 24 hours replays the first answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
SANDBOX_SCENARIO = {
    "name": "X-Sandbox-Scenario",
    "in": "header",
    "required": False,
    "description": "How the transaction ends; in the sandbox only.",
    "schema": {"type": "string", "enum": ["success", "failed", "pending"]},
}


def _header(name: str, description: str) -> dict[str, str]:
    return {"type": "apiKey", "in": "header", "name": name, "description": description}


SECURITY = {
    "MerchantKey": _header("X-Merchant-Key", "Identifies the merchant in its environment."),
    "ApiKey": _header("X-API-Key", "The API key of the same environment."),
    "Timestamp": _header("X-Timestamp", "Unix time in seconds, within the tolerance."),
    "Bearer": {"type": "http", "scheme": "bearer", "description": "The API key; older API only."},
    "Signature": _header("X-Signature", "Hex HMAC-SHA256, bare or prefixed with `sha256=`."),
}
