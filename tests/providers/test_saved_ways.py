"""Charges of saved cards and mandates: exact requests, and the interpretation of responses."""

from datetime import date
from typing import Any

import msgspec
import pytest

from manilla.kit.http_client.client import HttpClient
from manilla.ledger import trx_ids
from manilla.providers import cards
from manilla.providers.port import (
    Adapter,
    Answer,
    ChargeState,
    Done,
    MandateState,
    Refused,
    ReportedChargeStatus,
    ReportedMandateStatus,
    ReusableCard,
    Unknown,
    WayCharge,
    WebhookEvent,
    WebhookSubject,
)
from tests.providers.adapters import Adapters
from tests.providers.monnify import samples as monnify
from tests.providers.samples import CHARGE, ok, success
from tests.providers.saved_ways import MANDATE, WAY, WITH_CARDS, cards_of, mandates_of
from tests.providers.scripted import Scripted, answering
from tests.providers.simulated import SimulatorSetup
from tests.support import kinds
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _login(server: Scripted) -> None:
    login = monnify.ok(monnify.DOCUMENTED["login"])
    server.fixed = {"/api/v1/auth/login": answering(200, login)}


EXACT: dict[str, tuple[str, dict[str, Any], Any]] = {
    "paystack": (
        "/transaction/charge_authorization",
        {
            "email": "ada@example.com",
            "amount": 101550,
            "authorization_code": "AUTH_1",
            "reference": "TXN0-1",
            "currency": "NGN",
        },
        ok({"reference": "TXN0-1", "status": "success", "amount": 101550}),
    ),
    "flutterwave": (
        "/v3/tokenized-charges",
        {
            "token": "AUTH_1",
            "currency": "NGN",
            "country": "NG",
            "amount": 1015.5,
            "email": "ada@example.com",
            "tx_ref": "TXN0-1",
            "narration": "Loan, part 2",
        },
        success({"id": 277036749, "tx_ref": "TXN0-1", "status": "successful"}),
    ),
    "monnify": (
        "/api/v1/merchant/cards/charge-card-token",
        {
            "cardToken": "AUTH_1",
            "amount": 1015.5,
            "customerEmail": "ada@example.com",
            "customerName": "Ada Obi",
            "paymentReference": "TXN0-1",
            "paymentDescription": "Loan, part 2",
            "currencyCode": "NGN",
            "contractCode": "1234567890",
            "apiKey": "MK_PROD_1",
        },
        monnify.ok({"paymentReference": "TXN0-1", "paymentStatus": "PAID"}),
    ),
}


@pytest.mark.parametrize("provider", WITH_CARDS)
async def test_a_saved_card_is_charged_with_exactly_this_request(
    adapters: Adapters, server: Scripted, provider: str
) -> None:
    path, body, answer = EXACT[provider]
    server.answers(200, answer)
    assert await cards_of(adapters.of(provider)).charge(WAY) == Done(WayCharge())
    [call] = server.calls
    assert (call.method, call.target, call.json) == ("POST", path, body)


@pytest.mark.parametrize("provider", WITH_CARDS)
@pytest.mark.parametrize("status", [200, 400, 401, 404, 409, 429, 500, 503])
async def test_an_unclear_response_to_a_charge_is_unknown(
    adapters: Adapters, server: Scripted, provider: str, status: int
) -> None:
    for document in ({}, b"<html>", {"status": False, "message": "Something went wrong"}):
        server.answers(status, document)
        adapters.close_breakers()
        assert isinstance(await cards_of(adapters.of(provider)).charge(WAY), Unknown)


@pytest.mark.parametrize("provider", WITH_CARDS)
async def test_a_used_reference_is_never_a_rejection(
    adapters: Adapters, server: Scripted, provider: str
) -> None:
    text = "Duplicate payment reference: invalid token"
    server.answers(400, {"status": False, "message": text})
    if provider == "flutterwave":
        server.answers(400, {"status": "error", "message": text})
    if provider == "monnify":
        server.answers(400, monnify.refusal(text))
    assert isinstance(await cards_of(adapters.of(provider)).charge(WAY), Unknown)


@pytest.mark.parametrize("provider", ["providera", "providerb", "providerc", "kora"])
def test_the_other_providers_have_no_saved_cards(adapters: Adapters, provider: str) -> None:
    each = adapters.of(provider)
    assert (each.cards, each.mandates) == (None, None)


async def test_paystack_asks_the_customer_to_confirm(adapters: Adapters, server: Scripted) -> None:
    paused = {
        "authorization_url": "https://checkout.paystack.com/resume/0744ub5o065nwyz",
        "reference": "TXN0-1",
        "access_code": "0744ub5o065nwyz",
        "paused": True,
    }
    server.answers(200, ok(paused))
    answer = await cards_of(adapters.of("paystack")).charge(WAY)
    assert answer == Done(WayCharge("https://checkout.paystack.com/resume/0744ub5o065nwyz"))
    server.answers(200, ok({**paused, "authorization_url": "javascript:alert(1)"}))
    assert isinstance(await cards_of(adapters.of("paystack")).charge(WAY), Unknown)


@pytest.mark.parametrize(
    "message",
    [
        "Authorization code is invalid",
        "This authorization is not reusable",
        "Email does not match Authorization code. Authorization may be inactive.",
        "Charge attempt cannot be fulfilled until 25 minutes",
    ],
)
async def test_paystacks_documented_errors_reject_a_charge(
    adapters: Adapters, server: Scripted, message: str
) -> None:
    server.answers(400, {"status": False, "message": message})
    answer = await cards_of(adapters.of("paystack")).charge(WAY)
    assert isinstance(answer, Refused)
    assert answer.guidance == message


@pytest.mark.parametrize(
    ("month", "year", "expected"),
    [
        ("12", "2030", date(2030, 12, 31)),
        ("02", "28", date(2028, 2, 29)),
        (9, 2031, date(2031, 9, 30)),
        ("13", "2030", None),
        ("00", "2030", None),
        (None, None, None),
        ("", "2030", None),
        ("1e1", "2030", None),
        ("٠٣", "2030", None),
    ],
)
def test_an_expiry_is_the_end_of_its_month(month: Any, year: Any, expected: date | None) -> None:
    assert cards.expiry(month, year) == expected


def test_a_token_is_kept_unchanged_or_not_at_all() -> None:
    for odd in (None, "", 17, "a b", "a\nb", "x" * 201, ["t"]):
        assert cards.token({"token": odd}, "token") is None
    assert cards.token({"token": "flw-t1nf-1"}, "token") == "flw-t1nf-1"
    assert cards.token(None, "token") is None


async def test_a_card_that_cannot_be_reused_is_not_reported(
    adapters: Adapters, server: Scripted
) -> None:
    paid = {
        "id": 1,
        "reference": "TXN0-1",
        "status": "success",
        "amount": 101550,
        "currency": "NGN",
    }
    card = {"authorization_code": "AUTH_1", "reusable": True, "channel": "card", "last4": "4081"}
    for odd in ({"reusable": False}, {"reusable": "true"}, {"channel": "bank"}, None):
        authorization = None if odd is None else {**card, **odd}
        server.answers(200, ok({**paid, "authorization": authorization}))
        assert (await state_of(adapters.of("paystack"), "TXN0-1")).card is None
    server.answers(200, ok({**paid, "authorization": card}))
    found = (await state_of(adapters.of("paystack"), "TXN0-1")).card
    assert found == ReusableCard(token="AUTH_1", last4="4081")


async def state_of(adapter: Adapter, reference: str) -> ChargeState:
    answer = await adapter.charge_state(reference)
    assert isinstance(answer, Done), answer
    return answer.value


async def test_a_mandate_is_created_with_exactly_this_request(
    adapters: Adapters, server: Scripted
) -> None:
    body = {"mandateReference": "WAY1", "mandateCode": "MTDD|1", "mandateStatus": "INITIATED"}
    server.answers(200, monnify.ok(body))
    answer = await mandates_of(adapters.of("monnify")).create(MANDATE)
    pending = MandateState(status=ReportedMandateStatus.PENDING, code="MTDD|1")
    assert answer == Done(pending)
    [call] = server.calls
    assert call.target == "/api/v1/direct-debit/mandate/create"
    assert call.json == {
        "contractCode": "1234567890",
        "mandateReference": "WAY1",
        "mandateAmount": 50000,
        "autoRenew": False,
        "customerCancellation": True,
        "customerName": "Ada Obi",
        "customerPhoneNumber": "+2348012345678",
        "customerEmailAddress": "ada@example.com",
        "customerAddress": "12 Allen Avenue, Ikeja",
        "customerAccountNumber": "0690000031",
        "customerAccountBankCode": "044",
        "mandateDescription": "Loan 17",
        "mandateStartDate": "2026-12-01T09:00:00",
        "mandateEndDate": "2027-12-01T09:00:00",
        "redirectUrl": "https://pay.example.com/ways/WAY1",
    }


@pytest.mark.parametrize("status", ["ACTIVE?", "", None, "active"])
async def test_an_undocumented_status_of_a_mandate_is_unknown(
    adapters: Adapters, server: Scripted, status: Any
) -> None:
    listed = [{"mandateReference": "WAY1", "mandateStatus": status, "mandateCode": "MTDD|1"}]
    server.answers(200, monnify.ok(listed))
    assert isinstance(await mandates_of(adapters.of("monnify")).state("WAY1"), Unknown)


async def test_another_mandate_is_not_ours(adapters: Adapters, server: Scripted) -> None:
    listed = [{"mandateReference": "WAY2", "mandateStatus": "ACTIVE", "mandateCode": "MTDD|2"}]
    server.answers(200, monnify.ok(listed))
    assert isinstance(await mandates_of(adapters.of("monnify")).state("WAY1"), Unknown)


def simulated(client: HttpClient, setup: SimulatorSetup, provider: str) -> Adapter:
    credentials = kinds.BY_RAIL[provider].credentials(setup.simulator_url)
    return Adapters(client).add(provider, **credentials)


async def saved_card(setup: SimulatorSetup, adapter: Adapter) -> tuple[str, ReusableCard]:
    """Pays a charge with a card. Returns the charge's reference and the card."""
    reference = f"{trx_ids.new(1)}-1"
    order = msgspec.structs.replace(CHARGE, reference=reference)
    assert isinstance(await adapter.create_checkout(order), Done)
    await setup.control(f"{adapter.provider}/charges/{reference}/pay", {})
    state = await state_of(adapter, reference)
    assert state.card is not None
    return reference, state.card


async def charge(adapter: Adapter, card: ReusableCard, **changed: Any) -> tuple[str, Answer[Any]]:
    reference = f"{trx_ids.new(1)}-1"
    values: dict[str, Any] = {"reference": reference, "token": card.token, **changed}
    order = msgspec.structs.replace(WAY, **values)
    return reference, await cards_of(adapter).charge(order)


@pytest.mark.parametrize("provider", WITH_CARDS)
async def test_a_saved_card_is_charged_at_the_simulator(
    client: HttpClient, setup: SimulatorSetup, provider: str
) -> None:
    adapter = simulated(client, setup, provider)
    _, card = await saved_card(setup, adapter)
    assert (card.last4, card.expires) == ("4081", date(2031, 12, 31))
    reference, answer = await charge(adapter, card)
    assert answer == Done(WayCharge())
    state = await state_of(adapter, reference)
    assert (state.status, state.paid) == (ReportedChargeStatus.PAID, WAY.amount)
    assert state.card is not None
    assert state.card.token == card.token


@pytest.mark.parametrize("provider", WITH_CARDS)
async def test_a_declined_charge_has_the_providers_reason(
    client: HttpClient, setup: SimulatorSetup, provider: str
) -> None:
    adapter = simulated(client, setup, provider)
    first, card = await saved_card(setup, adapter)
    path = f"{provider}/charges/{first}/card"
    await setup.control(path, {"outcome": "insufficient_funds"})
    reference, answer = await charge(adapter, card)
    assert answer == Done(WayCharge())
    state = await state_of(adapter, reference)
    assert state.status is ReportedChargeStatus.FAILED
    if provider != "monnify":  # Monnify's status query has no reason
        assert state.reason == "Insufficient Funds"


@pytest.mark.parametrize("provider", WITH_CARDS)
async def test_a_token_works_only_with_the_email_it_was_saved_with(
    client: HttpClient, setup: SimulatorSetup, provider: str
) -> None:
    adapter = simulated(client, setup, provider)
    _, card = await saved_card(setup, adapter)
    _, answer = await charge(adapter, card, customer_email="someone@example.com")
    assert isinstance(answer, Refused)


async def test_a_forgotten_card_cannot_be_charged(
    client: HttpClient, setup: SimulatorSetup
) -> None:
    adapter = simulated(client, setup, "paystack")
    _, card = await saved_card(setup, adapter)
    assert await cards_of(adapter).forget(card.token) == Done(None)
    assert isinstance(await cards_of(adapter).forget(card.token), Refused)
    _, answer = await charge(adapter, card)
    assert isinstance(answer, Refused)


async def test_a_mandate_is_confirmed_debited_and_canceled(
    client: HttpClient, setup: SimulatorSetup
) -> None:
    adapter = simulated(client, setup, "monnify")
    mandates = mandates_of(adapter)
    reference = trx_ids.WAY_IDS.new(1)
    assert await mandates.state(reference) == Done(
        MandateState(status=ReportedMandateStatus.NOT_FOUND)
    )
    created = await mandates.create(msgspec.structs.replace(MANDATE, reference=reference))
    assert isinstance(created, Done)
    code = created.value.code
    assert code is not None
    asked = await mandates.state(reference)
    assert isinstance(asked, Done)
    assert asked.value.action_url is not None
    debit = msgspec.structs.replace(WAY, reference=f"{trx_ids.new(1)}-1", token=code)
    assert isinstance(await mandates.debit(debit), Refused)  # it is not active yet
    await setup.control(f"monnify/mandates/{reference}/status", {"status": "active"})
    event = adapter.read_webhook(*(await setup.webhook())[1:])
    assert event == WebhookEvent(WebhookSubject.MANDATE, reference)
    assert await mandates.debit(debit) == Done(WayCharge())

    async def is_paid() -> bool:
        found = await mandates.debit_state(debit.reference)
        assert isinstance(found, Done)
        return found.value == ChargeState(
            ReportedChargeStatus.PAID,
            WAY.amount,
            provider_reference=found.value.provider_reference,
        )

    await until(is_paid)
    assert (await state_of(adapter, debit.reference)).status is ReportedChargeStatus.NOT_FOUND
    assert await mandates.cancel(code) == Done(None)
    again = msgspec.structs.replace(debit, reference=f"{trx_ids.new(1)}-1")
    assert isinstance(await mandates.debit(again), Refused)
