"""Checks that only query the provider. They create nothing and move no money."""

from datetime import UTC, datetime, timedelta

from manilla.providers.checks import references
from manilla.providers.checks.check import (
    AMOUNT,
    CheckFinding,
    CheckSession,
    check,
    differs,
    judge_unexpected,
    last_reply,
    matches,
)
from manilla.providers.port import (
    Answer,
    Done,
    KnownAs,
    RefundState,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    TransferStatus,
)


@check(
    "balance", "Do the credentials work, and can Manilla read our balance?", "A balance in naira."
)
async def balance(session: CheckSession) -> CheckFinding:
    answer = await session.adapter.balance("NGN")
    if not isinstance(answer, Done):
        return judge_unexpected(session, answer)
    session.balance = answer.value
    return matches(f"The balance is {answer.value}.")


@check("banks", "Is the list of banks readable?", "A list with at least one bank.")
async def banks(session: CheckSession) -> CheckFinding:
    answer = await session.adapter.banks()
    if not isinstance(answer, Done):
        return judge_unexpected(session, answer)
    return matches(f"{len(answer.value)} banks.") if answer.value else differs("The list is empty.")


@check(
    "name lookup",
    "Does an account lookup return the holder's name?",
    "The holder's name. A live account returns a rejection for the test bank account.",
)
async def name_lookup(session: CheckSession) -> CheckFinding:
    account = session.samples.good
    answer = await session.adapter.resolve(account.bank_code, account.account_number)
    if isinstance(answer, Done):
        session.resolved = answer.value
        return matches("A name was returned.")
    if session.is_live and isinstance(answer, Refused):
        return matches(f"{last_reply(session)}.")
    return judge_unexpected(session, answer)


@check(
    "lookup of an invalid account",
    "How does the provider reject an account that does not exist?",
    "A rejection that Manilla interprets as an invalid beneficiary.",
    needs_test_account=True,
)
async def invalid_lookup(session: CheckSession) -> CheckFinding:
    account = session.samples.invalid
    answer = await session.adapter.resolve(account.bank_code, account.account_number)
    if isinstance(answer, Refused) and answer.code is RefusalCode.INVALID_BENEFICIARY:
        return matches(f"{last_reply(session)}.")
    return judge_unexpected(session, answer)


@check(
    "unknown charge",
    "What does the status query return for a charge that does not exist?",
    "A response that Manilla interprets as not found.",
)
async def unknown_charge(session: CheckSession) -> CheckFinding:
    answer = await session.adapter.charge_state(references.new())
    if isinstance(answer, Done) and answer.value.status is ReportedChargeStatus.NOT_FOUND:
        return matches(f"{last_reply(session)}. Manilla reads this as not found.")
    return judge_unexpected(session, answer)


@check(
    "unknown transfer",
    "What does the status query return for a transfer that does not exist?",
    "A response that Manilla interprets as not found. Otherwise, a payout that never reached "
    "the provider stays open and becomes a case.",
)
async def unknown_transfer(session: CheckSession) -> CheckFinding:
    reference = session.adapter.transfer_reference(references.new())
    answer = await session.adapter.transfer_state(reference)
    if isinstance(answer, Done) and answer.value.status is TransferStatus.NOT_FOUND:
        return matches(f"{last_reply(session)}. Manilla reads this as not found.")
    return judge_unexpected(session, answer)


@check(
    "unknown refund",
    "What does the status query return for a refund that does not exist?",
    "A response that Manilla interprets as not found.",
)
async def unknown_refund(session: CheckSession) -> CheckFinding:
    answer = await query_unknown_refund(session)
    if isinstance(answer, Done) and answer.value.status is ReportedRefundStatus.NOT_FOUND:
        return matches(f"{last_reply(session)}. Manilla reads this as not found.")
    return judge_unexpected(session, answer)


async def query_unknown_refund(session: CheckSession) -> Answer[RefundState]:
    known = KnownAs(charge_reference=references.new(), amount=AMOUNT)
    return await session.adapter.refund_state(references.new(), known)


@check(
    "statement",
    "Can Manilla read the statement for the last day?",
    "A page of statement lines, which may be empty.",
)
async def statement(session: CheckSession) -> CheckFinding:
    now = datetime.now(UTC)
    answer = await session.adapter.statement(now - timedelta(days=1), now, "NGN")
    if not isinstance(answer, Done):
        return judge_unexpected(session, answer)
    return matches(f"{len(answer.value.lines)} lines on the first page.")


QUERIES = (
    balance,
    banks,
    name_lookup,
    invalid_lookup,
    unknown_charge,
    unknown_transfer,
    unknown_refund,
    statement,
)
