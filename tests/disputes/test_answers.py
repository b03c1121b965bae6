"""A merchant's answer is sent once, with its evidence, and its outcome is never guessed."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from manilla.disputes import manual
from manilla.disputes.dispute import (
    FILES_MAX,
    AnswerState,
    DeadlinePassed,
    Dispute,
    DisputeClosed,
    DisputeStatus,
    EvidenceIncomplete,
    EvidenceRejected,
)
from manilla.disputes.manual import NothingToRelease
from manilla.disputes.service import BadAcceptedAmount, BadEvidence
from manilla.disputes.tasks import DisputeTasks
from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import TransactionNotFound
from manilla.merchants.documents import BYTES_MAX, BadDocument
from manilla.platform import settings as platform
from manilla.providers.inbox import WebhookInbox
from manilla.providers.kinds.providera import ProviderA
from manilla.providers.port import (
    DisputeAnswer,
    EvidenceField,
    RefusalCode,
    Refused,
    Unknown,
    WebhookEvent,
    WebhookSubject,
)
from tests.compliance.files import JPEG, PDF, PNG, SVG
from tests.disputes.dispute_api import LOST_RESPONSE, NEVER_SENT, DisputeApi, rejected
from tests.disputes.steps import (
    LOST,
    NEEDS_RESPONSE,
    PROVIDER,
    WON,
    Disputes,
    Paid,
    money,
    naira,
)


@pytest.fixture
def api(disputes: Disputes, monkeypatch: pytest.MonkeyPatch) -> DisputeApi:
    """Provider A with an API for disputes."""
    found = DisputeApi()
    monkeypatch.setattr(ProviderA, "disputes", found)
    return found


async def _open(disputes: Disputes, api: DisputeApi | None, **changed: Any) -> tuple[Paid, Dispute]:
    paid = await disputes.pay()
    state = paid.reported(NEEDS_RESPONSE, **changed)
    if api is not None:
        api.show(state)
    return paid, disputes.one(await disputes.report(state))


async def _contest(
    disputes: Disputes, dispute: Dispute, text: str = "It was delivered."
) -> Dispute:
    await disputes.service.set_evidence(disputes.tenant, dispute.trx_id, text)
    return await disputes.service.submit(disputes.tenant, dispute.trx_id)


async def _run(disputes: Disputes, dispute: Dispute) -> Dispute:
    await disputes.shop.simulator.run_job_now("dispute", dispute.trx_id)
    return await disputes.now(dispute)


async def test_an_accepted_dispute_is_taken_after_the_provider_confirms(
    disputes: Disputes, api: DisputeApi
) -> None:
    _, dispute = await _open(disputes, api)
    accepted = await disputes.service.accept(disputes.tenant, dispute.trx_id)
    assert (accepted.status, accepted.answer) == (DisputeStatus.SUBMITTED, AnswerState.WAITING)
    after = await _run(disputes, dispute)
    assert (after.status, after.answer) == (DisputeStatus.ACCEPTED, AnswerState.SENT)
    [answer] = api.answers
    assert (answer.is_accepted, answer.amount) == (True, naira("1000"))
    assert await disputes.money() == money(taken=1000)
    assert await disputes.events(dispute) == ["opened", "submitted", "accepted"]


async def test_a_smaller_amount_can_be_accepted(disputes: Disputes, api: DisputeApi) -> None:
    _, dispute = await _open(disputes, api)
    await disputes.service.accept(disputes.tenant, dispute.trx_id, Decimal(250))
    await _run(disputes, dispute)
    assert api.answers[0].amount == naira("250")
    assert await disputes.money() == money(wallet=750, taken=250)


@pytest.mark.parametrize("amount", ["0", "-1", "1000.01", "0.001"])
async def test_an_impossible_amount_is_not_accepted(disputes: Disputes, amount: str) -> None:
    _, dispute = await _open(disputes, None)
    with pytest.raises(BadAcceptedAmount):
        await disputes.service.accept(disputes.tenant, dispute.trx_id, Decimal(amount))
    assert (await disputes.now(dispute)).status is DisputeStatus.NEEDS_RESPONSE


async def test_the_evidence_is_sent_once(disputes: Disputes, api: DisputeApi) -> None:
    _, dispute = await _open(disputes, api)
    await disputes.service.set_evidence(disputes.tenant, dispute.trx_id, None, {"a": "1"})
    for name, content in (("a.pdf", PDF), ("b.png", PNG), ("c.jpg", JPEG)):
        await disputes.service.add_file(disputes.tenant, dispute.trx_id, name, content)
    await disputes.service.remove_file(disputes.tenant, dispute.trx_id, 2)
    await _contest(disputes, dispute)
    for _ in range(2):
        after = await _run(disputes, dispute)
    assert (after.status, after.answer) == (DisputeStatus.SUBMITTED, AnswerState.SENT)
    [answer] = api.answers
    assert (answer.text, dict(answer.fields)) == ("It was delivered.", {"a": "1"})
    assert answer.files == ("file-1", "file-2")
    assert [each.content for each in api.uploads] == [PDF, JPEG]
    assert (answer.is_accepted, answer.amount) == (False, naira("0"))


async def test_an_answer_without_evidence_is_incomplete(
    disputes: Disputes, api: DisputeApi
) -> None:
    api.fields = (EvidenceField("service", "Service", is_required=True),)
    _, dispute = await _open(disputes, api)
    with pytest.raises(EvidenceIncomplete) as incomplete:
        await disputes.service.submit(disputes.tenant, dispute.trx_id)
    assert set(incomplete.value.errors or {}) == {"service", "text"}
    await disputes.service.set_evidence(disputes.tenant, dispute.trx_id, None, {"service": "Shoes"})
    await disputes.service.submit(disputes.tenant, dispute.trx_id)


@pytest.mark.parametrize("has_arrived", [True, False])
async def test_an_unknown_outcome_is_asked_about_before_the_answer_is_sent_again(
    disputes: Disputes, api: DisputeApi, has_arrived: bool
) -> None:
    api.answer_results, api.keeps_lost_answers = [LOST_RESPONSE], has_arrived
    _, dispute = await _open(disputes, api)
    await _contest(disputes, dispute)
    assert (await _run(disputes, dispute)).answer is AnswerState.SENDING
    api.state_result = LOST_RESPONSE
    assert (await _run(disputes, dispute)).answer is AnswerState.SENDING
    api.state_result = None
    for _ in range(2):
        after = await _run(disputes, dispute)
    assert (after.status, after.answer) == (DisputeStatus.SUBMITTED, AnswerState.SENT)
    assert len(api.answers) == 1


async def test_an_answer_that_was_never_sent_is_sent_again(
    disputes: Disputes, api: DisputeApi
) -> None:
    api.answer_results = [NEVER_SENT]
    _, dispute = await _open(disputes, api)
    await _contest(disputes, dispute)
    assert (await _run(disputes, dispute)).answer is AnswerState.WAITING
    assert (await _run(disputes, dispute)).answer is AnswerState.SENT
    assert len(api.answers) == 1


async def test_rejected_evidence_must_change_before_it_is_submitted_again(
    disputes: Disputes, api: DisputeApi
) -> None:
    api.answer_results = [rejected("The receipt is not readable.")]
    _, dispute = await _open(disputes, api)
    await _contest(disputes, dispute)
    after = await _run(disputes, dispute)
    assert (after.status, after.answer) == (DisputeStatus.NEEDS_RESPONSE, AnswerState.REJECTED)
    with pytest.raises(EvidenceRejected, match=r"The receipt is not readable\."):
        await disputes.service.submit(disputes.tenant, dispute.trx_id)
    await _contest(disputes, dispute, "Here is a better one.")
    assert (await _run(disputes, dispute)).answer is AnswerState.SENT


@pytest.mark.parametrize("code", [RefusalCode.DISPUTE_ANSWER_REJECTED, RefusalCode.NOT_SUPPORTED])
async def test_an_answer_that_is_rejected_after_the_outcome_changes_nothing(
    disputes: Disputes, api: DisputeApi, monkeypatch: pytest.MonkeyPatch, code: RefusalCode
) -> None:
    paid, dispute = await _open(disputes, api)
    await _contest(disputes, dispute)

    async def end_meanwhile(_answer: DisputeAnswer) -> Refused:
        await disputes.report(paid.reported(LOST))
        return Refused(code, "The dispute has ended.")

    monkeypatch.setattr(api, "answer", end_meanwhile)
    after = await _run(disputes, dispute)
    assert after.status is DisputeStatus.LOST
    assert after.answer is AnswerState.SENDING
    assert await disputes.events(dispute) == ["opened", "submitted", "lost"]


async def test_a_rejected_file_returns_the_answer(disputes: Disputes, api: DisputeApi) -> None:
    api.upload_result = rejected("The file is too large.")
    _, dispute = await _open(disputes, api)
    await disputes.service.add_file(disputes.tenant, dispute.trx_id, "a.pdf", PDF)
    await disputes.service.submit(disputes.tenant, dispute.trx_id)
    after = await _run(disputes, dispute)
    assert (after.answer, after.answer_detail) == (AnswerState.REJECTED, "The file is too large.")
    assert api.answers == []


async def test_an_answer_that_the_api_cannot_send_is_left_to_an_administrator(
    disputes: Disputes, api: DisputeApi
) -> None:
    api.answer_results = [Refused(RefusalCode.NOT_SUPPORTED, "Contest it in the dashboard.")]
    _, dispute = await _open(disputes, api)
    await _contest(disputes, dispute)
    after = await _run(disputes, dispute)
    assert (after.status, after.answer) == (DisputeStatus.SUBMITTED, AnswerState.MANUAL)
    assert after.answer_detail == "Contest it in the dashboard."


async def test_an_unknown_outcome_that_only_a_person_can_look_up_is_left_to_an_administrator(
    disputes: Disputes, api: DisputeApi
) -> None:
    api.answer_results = [LOST_RESPONSE]
    _, dispute = await _open(disputes, api)
    await _contest(disputes, dispute)
    await _run(disputes, dispute)
    api.state_result = Unknown("no status query", needs_lookup=True)
    assert (await _run(disputes, dispute)).answer is AnswerState.MANUAL


async def test_too_many_files_for_the_provider_are_incomplete_evidence(
    disputes: Disputes, api: DisputeApi
) -> None:
    api.files_max = 1
    _, dispute = await _open(disputes, api)
    for name in ("a.pdf", "b.pdf"):
        await disputes.service.add_file(disputes.tenant, dispute.trx_id, name, PDF)
    with pytest.raises(EvidenceIncomplete) as incomplete:
        await disputes.service.submit(disputes.tenant, dispute.trx_id)
    assert incomplete.value.errors == {"files": "The provider takes at most 1 files."}


async def test_a_missing_file_that_the_provider_needs_is_incomplete_evidence(
    disputes: Disputes, api: DisputeApi
) -> None:
    api.needs_file = True
    _, dispute = await _open(disputes, api)
    await disputes.service.set_evidence(disputes.tenant, dispute.trx_id, "It was delivered.")
    with pytest.raises(EvidenceIncomplete) as incomplete:
        await disputes.service.submit(disputes.tenant, dispute.trx_id)
    assert incomplete.value.errors == {"files": "The provider needs a file, such as a receipt."}
    accepted = await disputes.service.accept(disputes.tenant, dispute.trx_id)
    assert accepted.status is DisputeStatus.SUBMITTED


async def test_a_provider_that_still_waits_does_not_reopen_an_unsent_answer(
    disputes: Disputes, api: DisputeApi
) -> None:
    paid, dispute = await _open(disputes, api)
    await _contest(disputes, dispute)
    await disputes.report(paid.reported(NEEDS_RESPONSE))
    assert (await disputes.now(dispute)).status is DisputeStatus.SUBMITTED


async def test_two_answers_at_once_are_one_answer(disputes: Disputes, api: DisputeApi) -> None:
    _, dispute = await _open(disputes, api)
    await disputes.service.set_evidence(disputes.tenant, dispute.trx_id, "It was delivered.")
    key = disputes.tenant, dispute.trx_id
    results = await asyncio.gather(
        *(disputes.service.submit(*key) for _ in range(4)),
        *(disputes.service.accept(*key) for _ in range(4)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Dispute) for each in results) == 1
    assert sum(isinstance(each, DisputeClosed) for each in results) == 7
    await _run(disputes, dispute)
    assert len(api.answers) == 1


@pytest.mark.parametrize("what", ["accept", "submit", "set_evidence", "add_file"])
async def test_nothing_is_answered_after_the_deadline(disputes: Disputes, what: str) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    _, dispute = await _open(disputes, None, respond_by=past)
    arguments = {"set_evidence": ("text",), "add_file": ("a.pdf", PDF)}.get(what, ())
    with pytest.raises(DeadlinePassed):
        await getattr(disputes.service, what)(disputes.tenant, dispute.trx_id, *arguments)


async def test_an_ended_dispute_is_closed(disputes: Disputes) -> None:
    paid, dispute = await _open(disputes, None)
    await disputes.report(paid.reported(LOST))
    with pytest.raises(DisputeClosed, match="The dispute is lost"):
        await disputes.service.set_evidence(disputes.tenant, dispute.trx_id, "Wait!")


async def test_a_dispute_of_another_merchant_or_environment_is_unknown(
    disputes: Disputes,
) -> None:
    _, dispute = await _open(disputes, None)
    other = Tenant(disputes.tenant.merchant_id, Environment.SANDBOX)
    for tenant in (other, Tenant(1, Environment.PRODUCTION)):
        with pytest.raises(TransactionNotFound):
            await disputes.service.accept(tenant, dispute.trx_id)


@pytest.mark.parametrize("content", [b"", SVG, PDF[:40], PDF + bytes(BYTES_MAX)])
async def test_a_file_of_another_type_or_size_is_rejected(
    disputes: Disputes, content: bytes
) -> None:
    _, dispute = await _open(disputes, None)
    with pytest.raises(BadDocument):
        await disputes.service.add_file(disputes.tenant, dispute.trx_id, "proof.pdf", content)


async def test_a_dispute_has_a_limited_number_of_files(disputes: Disputes) -> None:
    _, dispute = await _open(disputes, None)
    key = disputes.tenant, dispute.trx_id
    for number in range(1, FILES_MAX + 1):
        file = await disputes.service.add_file(*key, f"../{number}.pdf", PDF)
        assert (file.number, file.name) == (number, f"{number}.pdf")
    with pytest.raises(BadDocument, match="at most 10"):
        await disputes.service.add_file(*key, "11.pdf", PDF)
    assert await disputes.service.read_file(*key, 1) == (
        (await disputes.service.files(*key))[0],
        PDF,
    )


async def test_a_stored_file_is_encrypted(disputes: Disputes) -> None:
    _, dispute = await _open(disputes, None)
    await disputes.service.add_file(disputes.tenant, dispute.trx_id, "a.pdf", PDF)
    sealed: bytes = await disputes.db.value(
        "SELECT content_sealed FROM dispute_file WHERE trx_id = $1", dispute.trx_id
    )
    assert b"Catalog" not in sealed


@pytest.mark.parametrize(
    ("text", "fields"), [("x" * 5_001, None), ("a\x00b", None), (None, {"a": "x" * 1_001})]
)
async def test_evidence_that_is_too_long_is_rejected(
    disputes: Disputes, text: str | None, fields: dict[str, str] | None
) -> None:
    _, dispute = await _open(disputes, None)
    with pytest.raises(BadEvidence):
        await disputes.service.set_evidence(disputes.tenant, dispute.trx_id, text, fields)


async def test_without_an_api_an_administrator_sends_the_answer(disputes: Disputes) -> None:
    paid, dispute = await _open(disputes, None)
    submitted = await _contest(disputes, dispute)
    assert submitted.answer is AnswerState.MANUAL
    services = disputes.shop.services
    sent = await manual.release(
        disputes.db, services.rails, disputes.settings, submitted, "sent in the dashboard"
    )
    assert sent.answer is AnswerState.SENT
    with pytest.raises(NothingToRelease):
        await manual.release(disputes.db, services.rails, disputes.settings, sent, "again")
    won = disputes.settings, PROVIDER, paid.reported(WON), "seen in the dashboard"
    seen = await manual.preview(disputes.db, *won)
    after = await manual.record(disputes.db, *won, seen=seen)
    assert after.status is DisputeStatus.WON
    assert await disputes.money() == money(wallet=1000)


async def test_a_reviewed_answer_is_sent_after_its_approval(
    disputes: Disputes, api: DisputeApi
) -> None:
    services = disputes.shop.services
    await platform.change(disputes.db, "dispute_review", "true")
    await services.platform._refresh(0)
    try:
        _, dispute = await _open(disputes, api)
        submitted = await _contest(disputes, dispute)
        assert (submitted.answer, (await _run(disputes, dispute)).answer) == (
            AnswerState.REVIEW,
            AnswerState.REVIEW,
        )
        returned = await manual.return_to_merchant(
            disputes.db, disputes.settings, submitted, "Add the receipt."
        )
        assert (returned.status, returned.answer_detail) == (
            DisputeStatus.NEEDS_RESPONSE,
            "Add the receipt.",
        )
        again = await _contest(disputes, dispute, "With the receipt.")
        await manual.release(disputes.db, services.rails, disputes.settings, again, "good")
        assert (await _run(disputes, dispute)).answer is AnswerState.SENT
        assert len(api.answers) == 1
    finally:
        await platform.change(disputes.db, "dispute_review", "false")
        await services.platform._refresh(0)


async def test_polling_opens_disputes_on_all_pages(disputes: Disputes, api: DisputeApi) -> None:
    paid = [await disputes.pay() for _ in range(3)]
    api.page_size = 2
    for each in paid:
        api.show(each.reported(NEEDS_RESPONSE))
    tasks = _tasks(disputes)
    await tasks.schedule()
    await disputes.shop.simulator.run_job_now("disputes", PROVIDER)
    assert [len(await disputes.of(each)) for each in paid] == [1, 1, 1]


async def test_polling_is_repeated_after_an_unknown_response(
    disputes: Disputes, api: DisputeApi
) -> None:
    paid = await disputes.pay()
    api.show(paid.reported(NEEDS_RESPONSE))
    api.state_result = LOST_RESPONSE
    await _tasks(disputes).schedule()
    await disputes.shop.simulator.run_job_now("disputes", PROVIDER)
    api.state_result = None
    await disputes.shop.simulator.run_job_now("disputes", PROVIDER)
    assert len(await disputes.of(paid)) == 1


async def test_a_webhook_and_polling_at_once_open_one_dispute(
    disputes: Disputes, api: DisputeApi
) -> None:
    paid = await disputes.pay()
    state = paid.reported(NEEDS_RESPONSE)
    api.show(state)
    await _tasks(disputes).schedule()
    await _webhook(disputes, state.provider_reference)
    await disputes.shop.simulator.run_job_now("disputes", PROVIDER)
    assert len(await disputes.of(paid)) == 1
    assert (await disputes.money())["withheld"] == 1000


async def test_a_webhook_alone_changes_nothing_if_the_provider_does_not_know_the_dispute(
    disputes: Disputes, api: DisputeApi
) -> None:
    await _webhook(disputes, "D-unknown")
    await disputes.shop.simulator.run_jobs()
    assert api.states == {}
    assert await disputes.db.has_row(
        "SELECT true FROM operator_case WHERE kind = 'unknown_dispute'"
        " AND reference = 'providera:D-unknown'"
    )


async def test_a_webhook_of_a_provider_without_an_api_opens_a_case(disputes: Disputes) -> None:
    await _webhook(disputes, "D-manual")
    await disputes.shop.simulator.run_jobs()
    assert await disputes.db.has_row(
        "SELECT true FROM operator_case WHERE kind = 'unknown_dispute'"
        " AND reference = 'providera:D-manual'"
    )


def _tasks(disputes: Disputes) -> DisputeTasks:
    services = disputes.shop.services
    return DisputeTasks(services.db, services.keyring, services.platform, services.rails)


async def _webhook(disputes: Disputes, reference: str) -> None:
    event = WebhookEvent(WebhookSubject.DISPUTE, reference)
    await WebhookInbox(disputes.db).store(PROVIDER, event, reference.encode())
