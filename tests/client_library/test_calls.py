"""The client library with the real API: every call, and the parsing of each response."""

import asyncio
import dataclasses
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import manilla_client as library
import pytest
from manilla_client import (
    AsyncClient,
    Client,
    CompletedPayment,
    Credentials,
    DeliveredPayout,
    PaymentOrder,
    PayoutOrder,
    Retries,
    UndeliveredPayout,
    UnfinishedPayment,
)
from manilla_client.credentials import sign

from tests.client_library.conftest import credentials_of
from tests.payments.orders import new_reference
from tests.support.client import Merchant, Site
from tests.support.provider_simulator import ProviderSimulator

RAIL = "providera_ngn_transfer"


def payment(**changed: Any) -> PaymentOrder:
    order = PaymentOrder(
        payment_amount=Decimal("1500.50"),
        currency_code="NGN",
        ref_trx=new_reference(),
        success_redirect="https://shop.example/paid?cart=7",
        cancel_redirect="https://shop.example/basket",
        ipn_url="https://shop.example/ipn",
        description="Owó ₦43 🎉",
        allow_payment_methods=["providera"],
    )
    order.update(changed)  # type: ignore[typeddict-item]
    return order


async def payout(client: AsyncClient, **changed: Any) -> PayoutOrder:
    method = (await client.payout_methods("NGN")).by_code(RAIL)
    order = PayoutOrder(
        payout_amount=Decimal("5000.25"),
        currency_code="NGN",
        ref_trx=new_reference(),
        ipn_url="https://shop.example/ipn",
        withdraw_method_id=method.id,
        beneficiary={"bank_code": "058", "account_number": "0000000000"},
    )
    order.update(changed)  # type: ignore[typeddict-item]
    return order


async def test_a_payment_is_created_and_verified(
    client: AsyncClient, simulator: ProviderSimulator
) -> None:
    order = payment()
    session = await client.initiate_payment(**order)
    assert session.info.ref_trx == order["ref_trx"]
    assert session.info.amount == Decimal("1500.50")
    assert session.info.description == order["description"]
    assert session.info.allow_payment_methods == ("providera",)
    assert session.info.is_sandbox
    pending = await client.verify_payment(session.trx_id)
    assert isinstance(pending, UnfinishedPayment)
    assert (pending.status, pending.ref_trx) == ("pending", order["ref_trx"])
    with pytest.raises(library.StillPending):
        await client.wait_for_payment(session.trx_id, timeout_seconds=0)
    await due_now(simulator, session.trx_id)
    done = await client.wait_for_payment(session.trx_id)
    assert isinstance(done, CompletedPayment)
    assert (done.status, done.trx_id) == ("success", session.trx_id)
    assert done.amount == done.commission.base_amount == Decimal("1500.50")
    assert done.created_at.utcoffset() is not None
    assert done.updated_at >= done.created_at


async def test_a_failed_payment_has_a_reason(
    client: AsyncClient, simulator: ProviderSimulator
) -> None:
    session = await client.initiate_payment(scenario="failed", **payment())
    await due_now(simulator, session.trx_id)
    failed = await client.wait_for_payment(session.trx_id)
    assert isinstance(failed, UnfinishedPayment)
    assert (failed.status, failed.error_code) == ("failed", "PAYMENT_DECLINED")


async def test_a_payout_is_created_and_verified(
    client: AsyncClient, simulator: ProviderSimulator
) -> None:
    order = await payout(client)
    made = await client.initiate_payout(**order)
    assert (made.status, made.info.ref_trx) == ("pending", order["ref_trx"])
    assert made.info.payout_amount == Decimal("5000.25")
    assert made.info.payable_amount == made.info.payout_amount + made.info.fee
    pending = await client.verify_payout(made.trx_id)
    assert isinstance(pending, UndeliveredPayout)
    await due_now(simulator, made.trx_id)
    done = await client.wait_for_payout(made.trx_id)
    assert isinstance(done, DeliveredPayout)
    assert (done.trx_id, done.ref_trx, done.amount) == (
        *(made.trx_id, order["ref_trx"], Decimal("5000.25")),
    )


async def test_a_payment_link_is_created_listed_and_disabled(client: AsyncClient) -> None:
    expires_at = datetime.now(UTC) + timedelta(days=1)
    created = await client.create_payment_link(
        title="Adire cloth", currency_code="NGN", amount=Decimal("12500.50"), expires_at=expires_at
    )
    later = await client.create_payment_link(title="Donation", currency_code="NGN")
    found = await client.get_payment_link(created.id)
    assert (found.title, found.amount, found.expires_at) == (
        *("Adire cloth", Decimal("12500.50")),
        expires_at,
    )
    assert (await client.disable_payment_link(created.id)).status == "disabled"
    first = await client.list_payment_links(limit=1, until=expires_at)
    second = await client.list_payment_links(limit=1, until=expires_at, cursor=first.next_cursor)
    assert [link.id for link in (*first.data, *second.data)] == [later.id, created.id]
    with pytest.raises(library.PaymentLinkNotFound):
        await client.get_payment_link("PL" + "0" * 29)
    with pytest.raises(TypeError, match="PaymentLinkQuery has no state"):
        await client.list_payment_links(state="active")  # type: ignore[call-arg]


async def test_a_webhook_endpoint_is_created_changed_and_deleted(client: AsyncClient) -> None:
    url = "https://shop.example/webhooks"
    created = await client.create_webhook_endpoint(url=url, events=["payment.*"])
    assert created.secret not in repr(created)
    changed = await client.change_webhook_endpoint(created.id, events=("*",), status="disabled")
    assert (changed.events, changed.status) == (("*",), "disabled")
    assert changed == await client.get_webhook_endpoint(created.id)
    with pytest.raises(library.WebhookEndpointDisabled):
        await client.resend_webhook_events(created.id, datetime.now(UTC))
    rotated = await client.rotate_webhook_secret(created.id, overlap_minutes=60)
    assert rotated.secret != created.secret
    assert created.id in [each.id for each in (await client.list_webhook_endpoints()).data]
    assert (await client.delete_webhook_endpoint(created.id)).deleted
    with pytest.raises(library.WebhookEndpointNotFound):
        await client.test_webhook_endpoint(created.id)
    assert (await client.list_events(since=datetime.now(UTC), limit=1)).data == ()


async def test_methods_banks_and_site_info_are_returned(
    client: AsyncClient, simulator: ProviderSimulator
) -> None:
    methods = await client.payout_methods("NGN")
    rail = methods.by_code(RAIL)
    assert (rail.type, rail.min_withdraw) == ("auto", Decimal(100))
    assert [field.name for field in rail.fields if field.api_auto_resolved] == ["account_name"]
    with pytest.raises(LookupError):
        methods.by_code("none")
    assert (await client.bank_list()).provider == "providerb"
    banks = await client.bank_list(RAIL)
    assert "058" in [bank.bank_code for bank in banks.banks]
    assert (await client.site_info()).api_version == "1.0"


async def test_concurrent_calls_share_a_client(client: AsyncClient) -> None:
    sessions = await asyncio.gather(*(client.initiate_payment(**payment()) for _ in range(20)))
    assert len({session.trx_id for session in sessions}) == 20


async def test_the_synchronous_client_has_the_same_calls(site: Site, merchant: Merchant) -> None:
    def shop() -> tuple[str, str]:
        url = f"http://127.0.0.1:{site.port}"
        with Client(url, credentials_of(merchant)) as client:
            session = client.initiate_payment(**payment())
            return client.site_info().status, client.verify_payment(session.trx_id).status

    assert await asyncio.to_thread(shop) == ("active", "pending")
    names = {name for name in vars(Client) if not name.startswith("_")}
    assert names == {name for name in vars(AsyncClient) if not name.startswith("_")}


@pytest.mark.parametrize("amount", ["90071992547409.93", "1", "1.00", "1E+3", "0.1e2"])
async def test_amounts_are_exact_in_both_directions(client: AsyncClient, amount: str) -> None:
    session = await client.initiate_payment(**payment(payment_amount=Decimal(amount)))
    assert session.info.amount == Decimal(amount)
    assert isinstance(session.info.commission_fee, Decimal)


async def test_an_invalid_amount_is_not_sent(client: AsyncClient) -> None:
    for wrong in (1500.5, [1.5]):
        with pytest.raises(TypeError, match="not float"):
            await client.initiate_payment(**payment(payment_amount=wrong))
    for odd in ("NaN", "Infinity", "1E+500000"):
        with pytest.raises(ValueError, match="amount"):
            await client.initiate_payment(**payment(payment_amount=Decimal(odd)))
    with pytest.raises(TypeError, match="custmer_name"):
        await client.initiate_payment(**payment(custmer_name="Ada"))


async def test_a_callers_own_key_makes_a_later_retry_safe(client: AsyncClient) -> None:
    order = payment()
    first = await client.initiate_payment(idempotency_key="order 7", **order)
    assert await client.initiate_payment(idempotency_key="order 7", **order) == first
    with pytest.raises(library.DuplicateReference) as caught:
        await client.initiate_payment(idempotency_key="order 7", **payment())
    assert caught.value.trx_id is None
    for bad in ("", "x" * 256, "new\nline", "ẹ"):
        with pytest.raises(ValueError, match="printable"):
            await client.initiate_payment(idempotency_key=bad, **order)


async def test_a_used_reference_raises_with_the_outcome_of_the_first(client: AsyncClient) -> None:
    order = payment()
    first = await client.initiate_payment(**order)
    with pytest.raises(library.DuplicateReference) as caught:
        await client.initiate_payment(**order)
    error = caught.value
    assert (error.status, error.code) == (422, "DUPLICATE_REFERENCE")
    assert (error.trx_id, error.trx_status) == (first.trx_id, "pending")


async def test_each_error_has_its_own_class(
    client: AsyncClient, simulator: ProviderSimulator
) -> None:
    with pytest.raises(library.ValidationFailed) as invalid:
        await client.initiate_payment(**payment(ipn_url="shop", ref_trx="x" * 61))
    assert set(invalid.value.errors) == {"ipn_url", "ref_trx"}
    assert (invalid.value.status, invalid.value.guidance) == (
        400,
        "Correct the fields in `errors`.",
    )
    assert invalid.value.request_id
    assert invalid.value.request_id in str(invalid.value)
    with pytest.raises(library.InvalidAmount):
        await client.initiate_payment(**payment(payment_amount=0))
    with pytest.raises(library.InvalidCurrency):
        await client.initiate_payment(**payment(currency_code="XYZ"))
    with pytest.raises(library.TransactionNotFound):
        await client.verify_payment("TXN ẹ?")
    with pytest.raises(library.InsufficientBalance) as poor:
        await client.initiate_payout(**await payout(client, payout_amount=1_500_000))
    assert isinstance(poor.value, library.PayoutRefused)
    unresolved_beneficiary = {"bank_code": "058", "account_number": "0000000002"}
    with pytest.raises(library.InvalidBeneficiary):
        await client.initiate_payout(**await payout(client, beneficiary=unresolved_beneficiary))
    empty = {**unresolved_beneficiary, "account_number": "0000000004"}
    with pytest.raises(library.ProviderInsufficientBalance):
        await client.initiate_payout(**await payout(client, beneficiary=empty))
    with pytest.raises(library.PayoutFailed):
        await client.initiate_payout(**await payout(client, withdraw_method_id=999_999))


async def test_wrong_credentials_are_rejected_and_never_shown(
    site: Site, merchant: Merchant
) -> None:
    wrong = dataclasses.replace(credentials_of(merchant), api_secret="test_wrong")
    assert "wrong" not in repr(wrong)
    once = Retries(attempts_max=1)
    async with AsyncClient(f"http://127.0.0.1:{site.port}", wrong, retries=once) as client:
        with pytest.raises(library.InvalidCredentials) as caught:
            await client.site_info()
    assert caught.value.errors == {"X-Signature": "The signature does not match."}


def test_incomplete_or_mixed_credentials_are_rejected() -> None:
    assert Credentials("key", "api", "secret").environment == "production"
    for mixed in (("test_key", "api", "secret"), ("", "api", "secret")):
        with pytest.raises(ValueError, match=r"credentials|printable"):
            Credentials(*mixed)


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("added", ["\n", "\r\nX-Other: 1", " ", "é"])
def test_credentials_that_cannot_be_a_header_are_rejected_and_not_shown(
    position: int, added: str
) -> None:
    given = ["key", "api", "secret"]
    given[position] = "hidden" + added
    with pytest.raises(ValueError, match="printable ASCII") as caught:
        Credentials(*given)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_impossible_times_are_rejected(seconds: float) -> None:
    credentials = Credentials("key", "api", "secret")
    with pytest.raises(ValueError, match="timeout_seconds"):
        Client("https://pay.example", credentials, timeout_seconds=seconds)
    if seconds != 0:
        with pytest.raises(ValueError, match="waits must be"):
            Retries(wait_seconds_max=seconds)
        with pytest.raises(ValueError, match="waits must be"):
            Retries(first_wait_seconds=seconds)
    with Client("https://pay.example", credentials) as client:
        for wait in (-1, float("nan")):
            with pytest.raises(ValueError, match="timeout_seconds"):
                client.wait_for_payment("TXN1", timeout_seconds=wait)


def test_many_attempts_have_a_limited_wait() -> None:
    wait = Retries(attempts_max=10_000, wait_seconds_max=5).wait_seconds(9_999)
    assert wait is not None
    assert 0 <= wait <= 5


@pytest.mark.parametrize("url", ["", "pay.example", "ftp://pay.example", "https://pay.example/v1"])
def test_an_impossible_base_url_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="The URL must"):
        Client(url, Credentials("key", "api", "secret"))


def test_the_signature_matches_the_published_vectors(project: Path) -> None:
    vectors = json.loads((project / "clients/contract/signatures.json").read_text())
    for vector in vectors:
        secret, method, path = vector["secret"], vector["method"], vector["path"]
        made = sign(secret, int(vector["timestamp"]), method, path, vector["body"].encode())
        assert made == vector["signature"]


async def due_now(simulator: ProviderSimulator, trx_id: str) -> None:
    """Makes the sandbox jobs due now and runs them."""
    await simulator.services.db.execute("UPDATE job SET due_at = now() WHERE subject = $1", trx_id)
    await simulator.run_jobs()
