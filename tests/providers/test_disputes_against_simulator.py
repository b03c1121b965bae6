"""Disputes at the simulated providers, whose code is independent of the adapters."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from manilla.kit.http_client.client import HttpClient
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers.port import (
    Adapter,
    Channel,
    DisputeAnswer,
    DisputeDesk,
    DisputeState,
    Done,
    EvidenceFile,
    LineKind,
    Refused,
    ReportedDisputeStatus,
    Unknown,
    WebhookEvent,
    WebhookSubject,
)
from tests.providers.adapters import Adapters
from tests.providers.samples import CHARGE
from tests.providers.simulated import SimulatorSetup
from tests.support import kinds

LISTED = ("paystack", "flutterwave")
ANSWERED = (*LISTED, "kora")
NOTHING = Money("NGN", 0)
FILE = EvidenceFile("Delivery note.pdf", "application/pdf", b"%PDF-1.7 \x00\xff\r\n--x")
FIELDS = {
    "customer_email": "ada@example.com",
    "customer_name": "Ada Obi",
    "customer_phone": "08012345678",
    "service_details": "Shoes",
}


class Case:
    """One dispute at a simulated provider."""

    def __init__(self, rail: str, setup: SimulatorSetup, adapter: Adapter) -> None:
        self.rail = rail
        self.setup = setup
        self.adapter = adapter
        self.charge = ""
        self.reference = ""

    @property
    def api(self) -> DisputeDesk:
        assert self.adapter.disputes is not None
        return self.adapter.disputes

    async def shown(self) -> dict[str, Any]:
        url = f"{self.setup.simulator_url}/control/api/{self.rail}/disputes"
        async with self.setup.session.get(url, params={"reference": self.charge}) as reply:
            listed = (await reply.json())["disputes"]
        return dict(listed[0])

    async def pay(self) -> None:
        self.charge = f"{trx_ids.new(1)}-1"
        order = msgspec.structs.replace(CHARGE, reference=self.charge)
        assert isinstance(await self.adapter.create_checkout(order), Done)
        await self.setup.control(f"{self.rail}/charges/{self.charge}/pay", {})

    async def open(self, **claim: Any) -> None:
        await self.pay()
        await self.setup.control(f"{self.rail}/charges/{self.charge}/dispute", claim)
        self.reference = str((await self.shown())["reference"])

    async def control(self, action: str, **command: Any) -> None:
        await self.setup.control(f"{self.rail}/disputes/{self.reference}/{action}", command)

    async def account(self, **settings: Any) -> None:
        await self.setup.control(f"{self.rail}/account", settings)

    async def faults(self, **faults: Any) -> None:
        await self.setup.control(f"{self.rail}/faults", faults)

    async def state(self) -> DisputeState:
        answer = await self.api.state(self.reference)
        assert isinstance(answer, Done), answer
        return answer.value

    async def status(self) -> str:
        return (await self.state()).status

    async def balance(self) -> Money:
        answer = await self.adapter.balance("NGN")
        assert isinstance(answer, Done)
        return answer.value

    def answer(self, *, accepts: Money | None = None, **more: Any) -> DisputeAnswer:
        return DisputeAnswer(
            provider_reference=self.reference,
            is_accepted=accepts is not None,
            amount=accepts or NOTHING,
            disputed=CHARGE.amount,
            **more,
        )

    async def upload(self) -> str:
        answer = await self.api.upload(self.reference, FILE)
        assert isinstance(answer, Done), answer
        return answer.value


@pytest.fixture
def case(request: pytest.FixtureRequest, client: HttpClient, setup: SimulatorSetup) -> Case:
    kind = kinds.BY_RAIL[request.param]
    adapter = Adapters(client).add(kind.provider, **kind.credentials(setup.simulator_url))
    return Case(kind.rail, setup, adapter)


def each(*rails: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", rails, indirect=True)


async def listed(case: Case) -> dict[str, DisputeState]:
    moment, day = datetime.now(UTC), timedelta(days=1)
    found: dict[str, DisputeState] = {}
    start = None
    for _ in range(20):
        answer = await case.api.listed(moment - day, moment + day, start)
        assert isinstance(answer, Done), answer
        found |= {state.provider_reference: state for state in answer.value.disputes}
        start = answer.value.next
        if start is None:
            return found
    raise AssertionError("the list has no end")


@each("a", "b", "c", "monnify")
async def test_other_providers_have_no_disputes(case: Case) -> None:
    assert case.adapter.disputes is None


@each(*LISTED)
async def test_a_new_dispute_is_listed_with_its_charge(case: Case) -> None:
    await case.open(amount="400.50", reason="Not received", due_seconds=3600)
    state = await case.state()
    assert (state.charge_reference, state.amount) == (case.charge, Money("NGN", 40050))
    assert (state.status, state.reason) == (ReportedDisputeStatus.NEEDS_RESPONSE, "Not received")
    assert state.opened_at is not None
    assert state.respond_by is not None
    assert timedelta(minutes=59) < state.respond_by - state.opened_at <= timedelta(hours=1)
    assert state.channel is (Channel.CARD if case.rail == "paystack" else None)
    assert await listed(case) == {case.reference: state}


@each(*LISTED)
async def test_a_list_of_many_disputes_is_read_in_pages(case: Case) -> None:
    number = 25 if case.rail == "flutterwave" else 3
    if case.rail == "paystack":
        await case.faults(statement_overlap=0)
    references = set()
    for _ in range(number):
        await case.open()
        references.add(case.reference)
    await case.control("resolve", status="lost")
    assert set(await listed(case)) == references


@each(*LISTED)
@pytest.mark.parametrize("outcome", ["won", "lost"])
async def test_the_bank_decides_and_opens_another_stage(case: Case, outcome: str) -> None:
    await case.open()
    await case.control("resolve", status=outcome)
    assert await case.status() == outcome
    await case.control("reopen", stage="pre-arbitration")
    state = await case.state()
    assert state.status == "needs_response"
    assert state.stage == ("pre-arbitration" if case.rail == "flutterwave" else "")


@each(*LISTED)
async def test_a_dispute_that_nobody_answers_is_lost(case: Case) -> None:
    await case.open(due_seconds=0)
    assert await case.status() == "lost"
    answer = await case.api.answer(case.answer(accepts=CHARGE.amount))
    # Flutterwave's adapter sees the status first. Paystack rejects the answer.
    if case.rail == "flutterwave":
        assert answer == Done(await case.state())
    else:
        assert isinstance(answer, Unknown)


@each(*ANSWERED)
async def test_a_dispute_is_accepted_as_a_whole(case: Case) -> None:
    await case.open()
    answer = await case.api.answer(case.answer(accepts=CHARGE.amount))
    assert isinstance(answer, Done), answer
    assert (answer.value.status, answer.value.amount) == ("accepted", CHARGE.amount)
    shown = await case.shown()
    assert (shown["status"], shown["debited"]) == ("accepted", 1015.5)


@each(*ANSWERED)
async def test_only_paystack_accepts_a_part(case: Case) -> None:
    await case.open()
    answer = await case.api.answer(case.answer(accepts=Money("NGN", 40050)))
    if case.rail == "paystack":
        assert isinstance(answer, Done)
        assert (await case.shown())["debited"] == 400.5
    else:
        assert isinstance(answer, Refused)
        assert (await case.shown())["status"] == "open"


@each(*LISTED)
async def test_a_dispute_is_contested_with_a_file(case: Case) -> None:
    await case.open()
    file = await case.upload()
    answer = await case.api.answer(case.answer(text="Delivered", files=(file,)))
    assert isinstance(answer, Done), answer
    assert answer.value.status == ("won" if case.rail == "paystack" else "submitted")
    shown = await case.shown()
    assert shown["message"] == "Delivered"
    stored = shown["files"][0]
    assert stored["sha256"] == hashlib.sha256(FILE.content).hexdigest()
    assert stored["media_type"] == "application/pdf"


@each("paystack")
async def test_a_contested_dispute_can_wait_for_the_bank(case: Case) -> None:
    await case.account(contested_disputes_wait=True)
    await case.open()
    answer = await case.api.answer(case.answer(files=(await case.upload(),)))
    assert isinstance(answer, Done)
    assert answer.value.status == "submitted"
    assert answer.value.amount is None  # Paystack then reports only what is refunded
    await case.control("resolve", status="won")
    assert await case.status() == "won"


@each("paystack")
async def test_a_claim_of_fraud_needs_evidence(case: Case) -> None:
    await case.open(category="fraud")
    file = await case.upload()
    assert isinstance(await case.api.answer(case.answer(files=(file,))), Refused)
    assert (await case.shown())["status"] == "open"
    answer = await case.api.answer(case.answer(files=(file,), fields=FIELDS))
    assert isinstance(answer, Done), answer
    assert (await case.shown())["evidence"] == FIELDS


@each("paystack")
async def test_a_rejected_answer_changes_nothing(case: Case) -> None:
    await case.account(accepting_needs_file=True)
    await case.open()
    answer = await case.api.answer(case.answer(accepts=CHARGE.amount))
    assert isinstance(answer, Refused)
    assert "uploaded_filename is required" in answer.guidance
    assert await case.status() == "needs_response"


@each(*LISTED)
@pytest.mark.parametrize("fault", ["5xx_after_accept", "reset_after_accept"])
async def test_a_lost_response_to_an_answer_is_found_by_a_query(case: Case, fault: str) -> None:
    await case.open()
    await case.faults(next=[{"call": "dispute_answer", "fault": fault}])
    assert isinstance(await case.api.answer(case.answer(accepts=CHARGE.amount)), Unknown)
    assert await case.status() == "accepted"


@each("kora")
async def test_a_lost_response_of_kora_needs_a_person(case: Case) -> None:
    await case.account(chargeback_answers_have_data=False)
    await case.open()
    answer = await case.api.answer(case.answer(accepts=CHARGE.amount))
    assert isinstance(answer, Unknown)
    assert answer.needs_lookup
    again = await case.api.answer(case.answer(accepts=CHARGE.amount))
    assert isinstance(again, Unknown)
    assert again.needs_lookup


@each("paystack")
@pytest.mark.parametrize("lie", ["none", "webhook_amount", "webhook_status"])
async def test_webhooks_identify_the_dispute_whatever_they_contain(case: Case, lie: str) -> None:
    await case.faults(disputes=lie, webhooks={"mode": "duplicate"})
    await case.open()
    await case.control("remind")
    await case.control("resolve", status="won")
    events: list[WebhookEvent] = []
    while len(events) < 6:
        _, headers, raw = await case.setup.webhook()
        event = case.adapter.read_webhook(headers, raw)
        assert isinstance(event, WebhookEvent)
        if event.kind is WebhookSubject.DISPUTE:
            events.append(event)
    assert set(events) == {WebhookEvent(WebhookSubject.DISPUTE, case.reference)}
    state = await case.state()
    assert (state.status, state.amount) == (ReportedDisputeStatus.WON, CHARGE.amount)


@each(*LISTED)
@pytest.mark.parametrize("lie", ["unknown_status", "no_amount"])
async def test_an_unclear_dispute_is_reported_as_such(case: Case, lie: str) -> None:
    await case.open()
    await case.faults(disputes=lie)
    moment, day = datetime.now(UTC), timedelta(days=1)
    answer = await case.api.listed(moment - day, moment + day)
    assert isinstance(answer, Done)
    assert (answer.value.disputes, answer.value.unclear) == ([], (case.reference,))
    state = await case.api.state(case.reference)
    assert isinstance(state, Unknown)
    assert state.needs_lookup


@each("flutterwave")
async def test_a_page_that_repeats_is_noticed(case: Case) -> None:
    for _ in range(21):
        await case.open()
    await case.account(repeats_chargeback_page=True)
    moment, day = datetime.now(UTC), timedelta(days=1)
    first = await case.api.listed(moment - day, moment + day)
    assert isinstance(first, Done)
    assert first.value.next == "initiated:2"
    second = await case.api.listed(moment - day, moment + day, first.value.next)
    assert isinstance(second, Unknown)


@each("paystack", "flutterwave", "kora", "monnify")
async def test_the_provider_debits_its_balance(case: Case) -> None:
    await case.pay()
    before = await case.balance()
    await case.setup.control(f"{case.rail}/charges/{case.charge}/dispute", {})
    case.reference = str((await case.shown())["reference"])
    held = CHARGE.amount if case.rail == "flutterwave" else NOTHING
    assert await case.balance() == before - held
    await case.control("resolve", status="lost")
    assert await case.balance() == before - CHARGE.amount


@each("paystack", "kora")
async def test_a_statement_names_a_dispute(case: Case) -> None:
    await case.open()
    await case.control("resolve", status="lost")
    moment, day = datetime.now(UTC), timedelta(days=1)
    answer = await case.adapter.statement(moment - day, moment + day, "NGN")
    assert isinstance(answer, Done)
    assert answer.value.lines[0].kind is LineKind.DISPUTE
    assert answer.value.lines[0].amount == NOTHING - CHARGE.amount
