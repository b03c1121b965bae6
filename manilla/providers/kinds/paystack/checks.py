"""Checks for questions that Paystack's documentation leaves open. See guide.md."""

from manilla.providers.checks.check import (
    CheckFinding,
    CheckSession,
    SampleAccount,
    Samples,
    check,
    differs,
    judge_unexpected,
    last_reply,
    manual,
    matches,
    not_answered,
)
from manilla.providers.checks.queries import query_unknown_refund, unknown_refund
from manilla.providers.kinds.paystack.refunds import NOT_LISTED

SAMPLES = Samples(
    good=SampleAccount("001", "0000000000"), invalid=SampleAccount("001", "0000000002")
)
STATUS = "pending_bank_transfer"
FIELDS = ("account_number", "account_name", "bank", "account_expires_at")


@check(
    unknown_refund.name,
    "Can Manilla read the list of refunds, to find a refund whose response was lost?",
    "A list without refunds for this charge, because the charge does not exist.",
)
async def refund_list(session: CheckSession) -> CheckFinding:
    answer = await query_unknown_refund(session)
    if answer == NOT_LISTED:
        return matches(f"{last_reply(session)}. No refund was found.")
    return judge_unexpected(session, answer)


@check(
    "fields of a one-time account",
    "Which fields and which status does the response to /charge with bank_transfer have?",
    f"The status {STATUS}, and the fields {', '.join(FIELDS)}.",
    needs_test_account=True,
)
async def charge_fields(session: CheckSession) -> CheckFinding:
    data = session.received("one-time account")
    if not isinstance(data, dict):
        return not_answered("Paystack opened no one-time account.")
    missing = [name for name in FIELDS if data.get(name) is None]
    found = f"The status is {data.get('status')}. The fields are {', '.join(sorted(data))}."
    is_expected = data.get("status") == STATUS and not missing
    return matches(found) if is_expected else differs(found)


CHECKS = (
    refund_list,
    charge_fields,
    manual(
        "note of a refund",
        "Does the list of refunds return the merchant's note as it was sent?",
        "Yes. The note starts with Manilla's reference for the refund.",
        "Pay a test charge, refund it in Manilla, and check the note in Paystack's dashboard.",
    ),
    manual(
        "reversed transfer",
        "Does `reversed` mean that a transfer was delivered before?",
        "Not always. The transfer has failed if Manilla never saw it as delivered.",
        "Ask Paystack's support, or wait for the first transfer.reversed webhook.",
    ),
    manual(
        "contested dispute",
        "Is a dispute won when the merchant has contested it, or does the bank still decide?",
        "Its resolution is `declined`, and the money stays. Otherwise Paystack reports it again.",
        "Ask Paystack's support, before you contest the first dispute.",
    ),
)
