"""Checks for questions that Kora's documentation leaves open. See guide.md."""

from manilla.providers.checks import references
from manilla.providers.checks.check import (
    CheckFinding,
    CheckSession,
    SampleAccount,
    Samples,
    check,
    differs,
    manual,
    matches,
    not_answered,
    reply_to,
)
from manilla.providers.kinds.kora.answers import NIP_SESSION_ID

SAMPLES = Samples(
    good=SampleAccount("033", "0000000000"), invalid=SampleAccount("011", "9999999999")
)


@check(
    "reference of a charge",
    "Is our reference in a charge's `reference` or in its `payment_reference`?",
    "In at least one of the two fields. Manilla accepts both.",
    needs_test_account=True,
)
async def charge_reference(session: CheckSession) -> CheckFinding:
    data = session.received("one-time account")
    if not isinstance(data, dict):
        return not_answered("Kora opened no one-time account.")
    names = ("reference", "payment_reference")
    ours = [name for name in names if references.is_of_check(str(data.get(name)))]
    if not ours:
        return differs("Neither field has our reference.")
    return matches(f"Our reference is in {' and '.join(ours)}.")


@check(
    "session id",
    "Is the `trace_id` of a payout the session id of the interbank transfer?",
    "The trace_id has 30 digits. A trace_id in another format is saved as Kora's reference.",
    needs_test_account=True,
)
async def trace_id(session: CheckSession) -> CheckFinding:
    if session.transfer is None:
        return not_answered("Kora did not accept the transfer, so this check was skipped.")
    await session.adapter.transfer_state(session.transfer.reference)
    reply = reply_to(session)
    data = reply.data if reply else None
    given = data.get("trace_id") if isinstance(data, dict) else None
    if not isinstance(given, str) or not given:
        return not_answered("The status has no trace_id yet. Query the payout again later.")
    is_session_id = NIP_SESSION_ID.fullmatch(given) is not None
    return matches("It has 30 digits.") if is_session_id else differs("It has another format.")


CHECKS = (
    charge_reference,
    trace_id,
    manual(
        "signature of webhooks",
        "What does Kora sign: the bytes of `data` (SHA-256), or the whole body (SHA-512)?",
        "The bytes of `data`, with HMAC-SHA256 and the secret key.",
        "Set the webhook URL in Kora's dashboard and run this command again. Kora then sends a "
        "webhook about the test payout. If the log has `webhook_of_check`, the signature matches. "
        "If it has `kora_webhook_signed_differently`, that entry shows what Kora signs.",
    ),
    manual(
        "returned payout",
        "How does Kora report a payout that was returned after delivery?",
        "The status `reversed`. A `failed` after `success` becomes a case.",
        "Ask Kora's support, because payouts in the sandbox are never returned.",
    ),
    manual(
        "chargebacks",
        "Which fields does an answer to a chargeback need, and how does Kora report chargebacks?",
        "Manilla sends only `status: accepted`, and expects the reference and status in `data`.",
        "Ask Kora's support for the documentation of chargebacks, and for their webhook.",
    ),
)
