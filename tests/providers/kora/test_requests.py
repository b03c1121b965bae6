"""Our requests to Kora, which are compared byte for byte if the exact bytes matter."""

from collections.abc import Awaitable, Callable
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from manilla.kit.money import Money
from manilla.providers.kinds import KINDS
from manilla.providers.port import Adapter, Channel, LineKind, Unknown
from tests.providers.kora.samples import CHARGE, REFERENCE, REFUND, TRANSFER, TRX_ID
from tests.providers.kora.schemas import SCHEMAS
from tests.providers.scripted import Recorded, Scripted, answering

Call = Callable[[Adapter], Awaitable[Any]]

CUSTOMER = {"name": "Ada Obi", "email": "ada@example.com"}
CHARGE_BODY = {
    "reference": REFERENCE,
    "amount": 1015.5,
    "currency": "NGN",
    "customer": CUSTOMER,
    "merchant_bears_cost": True,
    "narration": "Shoes",
    "notification_url": CHARGE.notification_url,
}
REQUESTS: dict[str, tuple[Call, str, Any]] = {
    "checkout": (
        lambda kora: kora.create_checkout(CHARGE),
        "POST /merchant/api/v1/charges/initialize",
        {**CHARGE_BODY, "redirect_url": "https://pay.example.com/return"},
    ),
    "checkout with the customer's choice": (
        lambda kora: kora.create_checkout(
            msgspec.structs.replace(CHARGE, channel=Channel.BANK_TRANSFER)
        ),
        "POST /merchant/api/v1/charges/initialize",
        {
            **CHARGE_BODY,
            "redirect_url": "https://pay.example.com/return",
            "channels": ["bank_transfer"],
        },
    ),
    "virtual account": (
        lambda kora: kora.create_virtual_account(CHARGE, "22222222222"),
        "POST /merchant/api/v1/charges/bank-transfer",
        CHARGE_BODY,
    ),
    "charge state": (
        lambda kora: kora.charge_state(REFERENCE),
        f"GET /merchant/api/v1/charges/{REFERENCE}",
        None,
    ),
    "refund": (
        lambda kora: kora.refund(REFUND),
        "POST /merchant/api/v1/refunds/initiate",
        {
            "reference": TRX_ID,
            "payment_reference": REFERENCE,
            "amount": 1015.5,
            "reason": "Returned",
        },
    ),
    "refund state": (
        lambda kora: kora.refund_state(TRX_ID),
        f"GET /merchant/api/v1/refunds/{TRX_ID}",
        None,
    ),
    "banks": (lambda kora: kora.banks(), "GET /merchant/api/v1/misc/banks?countryCode=NG", None),
    "resolve": (
        lambda kora: kora.resolve("044", "0690000031"),
        "POST /merchant/api/v1/misc/banks/resolve",
        {"bank": "044", "account": "0690000031", "currency": "NGN"},
    ),
    "balance": (lambda kora: kora.balance("NGN"), "GET /merchant/api/v1/balances", None),
    "transfer": (
        lambda kora: kora.send(TRANSFER),
        "POST /merchant/api/v1/transactions/disburse",
        {
            "reference": TRX_ID,
            "destination": {
                "type": "bank_account",
                "amount": 5000.5,
                "currency": "NGN",
                "narration": "Salary",
                "bank_account": {"bank": "044", "account": "0690000031"},
                "customer": {"name": "ADA OBI", "email": "ada@example.com"},
            },
            "notification_url": TRANSFER.notification_url,
        },
    ),
    "transfer state": (
        lambda kora: kora.transfer_state(TRX_ID),
        f"GET /merchant/api/v1/transactions/{TRX_ID}",
        None,
    ),
}
LOOKUPS = ("banks", "resolve")


def is_documented(request: Recorded) -> bool:
    schema = SCHEMAS[f"{request.method} {request.target}"]
    return bool(jsonschema_rs.Draft202012Validator(schema).is_valid(request.json))


async def _sent(call: Call, kora: Adapter, server: Scripted) -> Recorded:
    await call(kora)
    (request,) = server.recorded
    return request


@pytest.mark.parametrize("name", REQUESTS)
async def test_each_call_sends_exactly_the_documented_request(
    kora: Adapter, server: Scripted, name: str
) -> None:
    call, line, body = REQUESTS[name]
    request = await _sent(call, kora, server)
    assert f"{request.method} {request.target}" == line
    assert request.headers["authorization"] == "Bearer sk_live_k"
    assert request.headers["content-type"] == "application/json"
    if body is None:
        assert request.body == b""
    else:
        assert request.json == body
        assert is_documented(request)


@pytest.mark.parametrize("name", LOOKUPS)
async def test_a_lookup_that_rejects_the_secret_key_is_repeated_with_the_public_key(
    kora: Adapter, server: Scripted, name: str
) -> None:
    server.behaviour = answering(401, {"status": False, "message": "Invalid authorization key"})
    call, _, _ = REQUESTS[name]
    assert isinstance(await call(kora), Unknown)
    keys = [request.headers["authorization"] for request in server.recorded]
    assert keys == ["Bearer sk_live_k", "Bearer pk_live_k"]


@pytest.mark.parametrize("name", [name for name, each in REQUESTS.items() if each[2]])
async def test_a_misspelled_field_would_fail(kora: Adapter, server: Scripted, name: str) -> None:
    call, line, body = REQUESTS[name]
    await call(kora)
    validator = jsonschema_rs.Draft202012Validator(SCHEMAS[line])
    for field in body:
        misspelled = {f"{key}_" if key == field else key: value for key, value in body.items()}
        assert not validator.is_valid(misspelled)


async def test_amounts_are_exact_naira_numbers_with_two_decimals(
    kora: Adapter, server: Scripted
) -> None:
    large = Money("NGN", 9_007_199_254_740_993)  # A float would lose the last digit of this amount.
    request = await _sent(
        lambda kora: kora.send(msgspec.structs.replace(TRANSFER, amount=large)), kora, server
    )
    assert b'"amount":90071992547409.93,' in request.body


async def test_empty_and_long_optional_texts_are_left_out_and_cut(
    kora: Adapter, server: Scripted
) -> None:
    bare = {"narration": "", "notification_url": "", "account_name": ""}
    await kora.send(msgspec.structs.replace(TRANSFER, **bare))
    await kora.create_checkout(
        msgspec.structs.replace(CHARGE, description="", customer_name="", notification_url="")
    )
    await kora.refund(msgspec.structs.replace(REFUND, reason=""))
    await kora.refund(msgspec.structs.replace(REFUND, reason="x" * 300))
    await kora.send(msgspec.structs.replace(TRANSFER, narration="x" * 300))
    assert all(is_documented(each) for each in server.recorded)
    assert server.recorded[0].json["destination"]["customer"] == {"email": "ada@example.com"}
    assert len(server.recorded[3].json["reason"]) == 50
    assert len(server.recorded[4].json["destination"]["narration"]) == 100


async def test_a_transfer_has_our_reference_unchanged(kora: Adapter) -> None:
    assert kora.transfer_reference(TRX_ID) == TRX_ID


def test_the_declared_settings_and_capabilities() -> None:
    kind = KINDS["kora"]
    names = [field.name for field in kind.fields]
    assert names == [
        *("public_key", "secret_key", "encryption_key", "account_bank_code", "sandbox"),
        *("pay_in_enabled", "pay_out_enabled", "base_url"),
    ]
    assert [field.name for field in kind.fields if field.is_required] == ["secret_key"]
    assert all(kind.field(name).is_secret for name in names[:3])  # type: ignore[union-attr]
    able = kind.capabilities
    assert (able.resend_transfer, able.resend_refund, able.refund_status) == (True, True, True)
    assert (able.virtual_accounts, able.virtual_account_needs_bvn) == (True, False)
    assert able.statements == frozenset(LineKind)
