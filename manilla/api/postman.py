"""The API as a Postman collection (v2.1) that signs requests, built from the OpenAPI document."""

from collections.abc import Mapping
from typing import Any

import msgspec

from manilla.kit import strict_json

SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"

DESCRIPTION = """\
Set the variables `merchant_key`, `api_key` and `api_secret` to your sandbox credentials (they
start with `test_`), then send a request. The collection's pre-request script signs each
request. For production, set `environment` to `production` and use your production credentials.
"""

# The signed string must match what is sent, so variables are replaced in the body before signing.
SIGN = """\
const hashing = require("crypto-js"); // not CryptoJS: Postman already declares that name
const timestamp = Math.floor(Date.now() / 1000).toString();
const target = pm.variables.replaceIn(pm.request.url.getPathWithQuery());
const raw = pm.request.body && pm.request.body.mode === "raw" ? pm.request.body.raw || "" : "";
const body = pm.variables.replaceIn(raw);
if (body !== raw) {
  pm.request.body.update({ mode: "raw", raw: body, options: { raw: { language: "json" } } });
}
const signed = [timestamp, pm.request.method, target, body].join(".");
const signature = hashing.HmacSHA256(signed, pm.variables.get("api_secret"));
pm.request.headers.upsert({ key: "X-Merchant-Key", value: pm.variables.get("merchant_key") });
pm.request.headers.upsert({ key: "X-API-Key", value: pm.variables.get("api_key") });
pm.request.headers.upsert({ key: "X-Timestamp", value: timestamp });
pm.request.headers.upsert({ key: "X-Signature", value: signature.toString(hashing.enc.Hex) });
"""

# Stores the transaction's id for the next request.
KEEP_TRX_ID = """\
const answer = pm.response.code === 200 ? pm.response.json() : {};
const found = /\\/checkout\\/(TXN[0-9A-Z]+)/.exec(answer.payment_url || "");
const trxId = answer.trx_id || (found && found[1]);
if (trxId) pm.collectionVariables.set("VARIABLE", trxId);
"""

VARIABLES = {
    "merchant_key": "test_...",
    "api_key": "test_...",
    "api_secret": "test_...",
    "environment": "sandbox",
}
KEPT = {
    "initiatePayment": "payment_trx_id",
    "initiatePaymentLegacy": "payment_trx_id",
    "initiatePayout": "payout_trx_id",
}
ASKED = {"verifyPayment": "payment_trx_id", "verifyPayout": "payout_trx_id"}


def collection(document: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the OpenAPI document's operations, with one folder per tag."""
    folders: dict[str, list[Any]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            item = _item(document, method.upper(), path, operation)
            folders.setdefault(operation["tags"][0], []).append(item)
    variables = {"base_url": document["servers"][0]["url"], **VARIABLES}
    variables |= dict.fromkeys(ASKED.values(), "")
    return {
        "info": {
            "name": document["info"]["title"],
            "description": f"{DESCRIPTION}\n{document['info']['description']}",
            "version": document["info"]["version"],
            "schema": SCHEMA,
        },
        "variable": [{"key": key, "value": value} for key, value in variables.items()],
        "event": [_event("prerequest", SIGN)],
        "item": [{"name": name, "item": items} for name, items in folders.items()],
    }


def _item(document: Any, method: str, path: str, operation: Any) -> dict[str, Any]:
    request = _request(document, method, path, operation)
    item = {
        "name": operation["summary"],
        "request": request,
        "response": [
            _response(request, int(status), name, example["value"])
            for status, response in operation["responses"].items()
            for name, example in response["content"]["application/json"]["examples"].items()
        ],
    }
    kept = KEPT.get(operation["operationId"])
    if kept:
        item["event"] = [_event("test", KEEP_TRX_ID.replace("VARIABLE", kept))]
    return item


def _request(document: Any, method: str, path: str, operation: Any) -> dict[str, Any]:
    headers = [_header("Accept", "application/json")]
    parameters = [_parameter(document, parameter) for parameter in operation["parameters"]]
    for parameter in parameters:
        if parameter["in"] == "header":
            is_environment = parameter["name"] == "X-Environment"
            value = "{{environment}}" if is_environment else parameter["example"]
            headers.append(_header(parameter["name"], value, disabled=not is_environment))
    request: dict[str, Any] = {
        "method": method,
        "description": operation["description"],
        "header": headers,
        "url": _url(path, operation["operationId"], parameters),
    }
    if any("Bearer" in scheme for scheme in operation["security"]):
        token = {"key": "token", "value": "{{api_key}}", "type": "string"}
        request["auth"] = {"type": "bearer", "bearer": [token]}
    if "requestBody" in operation:
        headers.append(_header("Content-Type", "application/json"))
        named = operation["requestBody"]["content"]["application/json"]["examples"]
        request["body"] = _body(next(iter(named.values()))["value"])
    return request


def _parameter(document: Any, parameter: Any) -> Any:
    if "$ref" in parameter:
        return document["components"]["parameters"][parameter["$ref"].rpartition("/")[2]]
    return parameter


def _url(path: str, operation_id: str, parameters: list[Any]) -> dict[str, Any]:
    path = path.replace("{", ":").replace("}", "")
    # Optional parameters are included but disabled.
    query = [
        {
            "key": parameter["name"],
            "value": parameter["example"],
            "description": parameter["description"],
            "disabled": not parameter["required"],
        }
        for parameter in parameters
        if parameter["in"] == "query"
    ]
    sent = "&".join(f"{part['key']}={part['value']}" for part in query if not part["disabled"])
    variables = [
        {
            "key": parameter["name"],
            "value": f"{{{{{ASKED[operation_id]}}}}}",
            "description": parameter["description"],
        }
        for parameter in parameters
        if parameter["in"] == "path"
    ]
    return {
        "raw": "{{base_url}}" + path + (f"?{sent}" if sent else ""),
        "host": ["{{base_url}}"],
        "path": path.strip("/").split("/"),
        **({"query": query} if query else {}),
        **({"variable": variables} if variables else {}),
    }


def _body(example: Any) -> dict[str, Any]:
    # The reference must be unique, even if the whole collection runs within a second.
    new = {**example, "ref_trx": example["ref_trx"] + "-{{$guid}}"}
    return {"mode": "raw", "raw": _pretty(new), "options": {"raw": {"language": "json"}}}


def _response(request: Any, status: int, name: str, value: Any) -> dict[str, Any]:
    return {
        "name": f"{status} {name}",
        "originalRequest": request,
        "code": status,
        "_postman_previewlanguage": "json",
        "header": [{"key": "Content-Type", "value": "application/json"}],
        "body": _pretty(value),
    }


def _header(key: str, value: str, *, disabled: bool = False) -> dict[str, Any]:
    return {"key": key, "value": value, **({"disabled": True} if disabled else {})}


def _event(listen: str, script: str) -> dict[str, Any]:
    code = {"type": "text/javascript", "exec": script.splitlines()}
    return {"listen": listen, "script": code}


def _pretty(value: Any) -> str:
    return msgspec.json.format(strict_json.encode(value), indent=2).decode()
