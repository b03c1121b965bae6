"""The API explorer, which lets merchants send sandbox API requests from the dashboard."""

import functools
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from manilla.kit import strict_json
from manilla.kit.environment import Environment
from manilla.ledger.transactions import Scenario
from manilla.merchants import credentials, queries
from manilla.methods.method import MethodKind
from manilla.notify import queries as notifications
from manilla.reference.explorer import ExplorerApi, ExplorerCall, example_body
from manilla.reference.openapi.parts import TAGS
from manilla.reference.operations import Operation
from manilla.web.forms import VALUE_LENGTH_MAX, BadForm
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

CURRENCY = "NGN"
SAMPLES = {"currency": CURRENCY}
_api = functools.lru_cache(maxsize=1)(ExplorerApi)  # one instance per process
# The characters allowed in header values. A line break could inject another header.
PRINTABLE = {chr(code) for code in range(0x20, 0x7F)}


async def show(request: PageRequest) -> PageResponse:
    if request.environment is not Environment.SANDBOX:
        return request.page("explorer_closed.html")
    operation = _operation(request, request.query.text("operation")) or _operations(request)[0]
    return request.page("explorer.html", exchange=None, **await _about(request, operation))


async def send(request: PageRequest) -> PageResponse:
    operation = _operation(request, request.form.text("operation"))
    if operation is None or request.environment is not Environment.SANDBOX:
        raise PageNotFound
    try:
        call = await _call(request, operation)
    except BadForm as refusal:
        return request.form_with_errors(
            "explorer.html", refusal, exchange=None, **await _about(request, operation)
        )
    exchange = await _api(request.services).send(call)
    about = await _about(request, operation)
    return request.page("explorer.html", exchange=exchange, **{**about, "given": request.form})


def _operations(request: PageRequest) -> Sequence[Operation]:
    return _api(request.services).operations


def _operation(request: PageRequest, wanted: str) -> Operation | None:
    """Returns the API endpoint with this id, or None if the explorer does not list it."""
    return next((one for one in _operations(request) if one.id == wanted), None)


async def _call(request: PageRequest, operation: Operation) -> ExplorerCall:
    rows = await queries.credentials(request.db, request.merchant_id, request.environment)
    return ExplorerCall(
        operation=operation,
        merchant_id=request.merchant_id,
        merchant_key=rows[0].merchant_key,
        address=request.address,
        parameters=_parameters(request, operation),
        # Browsers submit the line breaks of text areas as CRLF.
        body=request.form.text("body", at_most=VALUE_LENGTH_MAX).replace("\r\n", "\n"),
        idempotency_key=_printable(request, "idempotency_key"),
        scenario=request.form.choice("scenario", Scenario) if request.form.text("scenario") else "",
    )


async def _about(request: PageRequest, operation: Operation) -> dict[str, Any]:
    return {
        "groups": _grouped(_operations(request)),
        "operation": operation,
        "body": await _body(request, operation),
        "values": {
            parameter.name: request.query.text(parameter.name) or SAMPLES.get(parameter.name, "")
            for parameter in operation.parameters
        },
        "has_receiver": await receiver_url(request) is not None,
        "scenarios": [("", "Default"), *((one.value, one.value) for one in Scenario)],
        "base_url": request.services.base_url,
    }


def _grouped(operations: Sequence[Operation]) -> dict[str, list[Operation]]:
    """Returns the operations of each tag, in the order of the reference."""
    found = {tag: [each for each in operations if each.tag == tag] for tag in TAGS}
    return {tag: own for tag, own in found.items() if own}


async def _body(request: PageRequest, operation: Operation) -> str:
    """Returns an example request body, with values of this merchant for the fields that it has."""
    example = example_body(operation)
    if example is None:
        return ""
    own: dict[str, Any] = {"ref_trx": f"EXPLORER-{secrets.token_hex(4).upper()}"}
    if url := await receiver_url(request):
        own["ipn_url"] = url
    if "withdraw_method_id" in example:
        offered = request.services.methods.offered(
            MethodKind.WITHDRAW, CURRENCY, Environment.SANDBOX
        )
        automatic = [method for method in offered if method.provider is not None]
        own["withdraw_method_id"] = next((m.id for m in automatic), 0)
    body = {name: own.get(name, value) for name, value in example.items()}
    return msgspec.json.format(strict_json.encode(body), indent=2).decode()


async def receiver_url(request: PageRequest) -> str | None:
    """Returns the URL that last accepted a notification, or None if there is none.

    For the demo shop's merchant, the default is the demo shop's URL.
    """
    db, environment = request.db, request.environment
    url = await notifications.last_delivered_url(db, request.merchant_id, environment)
    if url is not None or not request.services.is_development:
        return url
    [row, *_] = await queries.credentials(db, request.merchant_id, environment)
    shop = credentials.derive(request.services.keyring, environment)
    is_shop = row.merchant_key == shop.merchant_key
    return f"{request.services.base_url}/shop/ipn" if is_shop else None


def _parameters(request: PageRequest, operation: Operation) -> dict[str, str]:
    given = {each.name: request.form.text(each.name) for each in operation.parameters}
    missing = [
        each.name for each in operation.parameters if each.is_required and not given[each.name]
    ]
    if missing:
        raise BadForm(errors=dict.fromkeys(missing, "This field is required."))
    return {name: value for name, value in given.items() if value}


def _printable(request: PageRequest, name: str) -> str:
    value = request.form.text(name)
    if not set(value) <= PRINTABLE:
        raise BadForm(errors={name: "Use ASCII characters only."})
    return value
