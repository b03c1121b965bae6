"""Checks for questions that Flutterwave's documentation leaves open. See guide.md."""

from typing import Any

from manilla.providers.checks import references
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
    reply_to,
)
from manilla.providers.checks.queries import unknown_refund
from manilla.providers.kinds.flutterwave import answers
from manilla.providers.port import KnownAs, Unknown

SAMPLES = Samples(
    good=SampleAccount("044", "0690000031"),
    invalid=SampleAccount("044", "0000000002"),
    success_suffix="_PMCK",
)
NO_REFUND = "1"  # an id that is too low to belong to a refund of ours


@check(
    "filter by reference",
    "Does the list of transfers contain only transfers with the queried reference?",
    "Exactly one transfer.",
    needs_test_account=True,
)
async def reference_filter(session: CheckSession) -> CheckFinding:
    if session.transfer is None:
        return not_answered("Flutterwave did not accept the transfer, so this check was skipped.")
    await session.adapter.transfer_state(session.transfer.reference)
    reply = session.last.reply if session.last else None
    if reply is None or not isinstance(reply.data, list):
        return not_answered("Flutterwave returned no list.")
    listed = [each.get("reference") for each in reply.data if isinstance(each, dict)]
    others = [each for each in listed if each != session.transfer.reference]
    if others:
        return differs(f"The list has {len(others)} transfers with other references.")
    found = f"The list has {len(listed)} transfers with this reference."
    return matches(found) if len(listed) == 1 else differs(found)


@check(
    unknown_refund.name,
    "What does the status query return for a refund that does not exist?",
    "An error, after which Manilla queries the status again.",
)
async def refund_query(session: CheckSession) -> CheckFinding:
    known = KnownAs(provider_reference=NO_REFUND)
    answer = await session.adapter.refund_state(references.new(), known)
    if isinstance(answer, Unknown) and reply_to(session) is not None:
        return matches(f"{last_reply(session)}.")
    return judge_unexpected(session, answer)


@check(
    "end of a one-time account",
    "What is the format of `account_expiration`?",
    "Milliseconds or a timestamp. A timestamp without a time zone is treated as Lagos time.",
    needs_test_account=True,
)
async def account_end(session: CheckSession) -> CheckFinding:
    given = _expiration(session)
    if given is None:
        return not_answered("Flutterwave opened no one-time account, or did not return its expiry.")
    ends = answers.expiry(given)
    if ends is None:
        return differs(f"It is {given}, which is not a time in the future.")
    return matches(f"It is {given}, read as {ends:%Y-%m-%d %H:%M:%S %z}.")


def _expiration(session: CheckSession) -> Any:
    """Returns the account's expiry time from `meta` in the response."""
    for exchange in session.history.get("one-time account", []):
        if exchange.reply is not None:
            meta = exchange.reply.document.get("meta")
            account = meta.get("authorization") if isinstance(meta, dict) else None
            return account.get("account_expiration") if isinstance(account, dict) else None
    return None


CHECKS = (
    reference_filter,
    refund_query,
    account_end,
    manual(
        "status of a refund",
        "Which values do the `status` and the `meta.disburse_status` of a refund have?",
        "`completed` for a refund that has started, and another value after it was paid.",
        "Pay a test charge, refund it in Manilla, and compare with Flutterwave's dashboard.",
    ),
    manual(
        "signature of webhooks",
        "Does a webhook have the secret hash in the `verif-hash` header?",
        "Yes.",
        "Set the webhook URL and the secret hash in Flutterwave's dashboard and run this command "
        "again. If the log then has `webhook_of_check`, the header matches.",
    ),
    manual(
        "returned transfer",
        "How does Flutterwave report a transfer that was returned after delivery?",
        "`REVERSED`. An administrator decides on a `FAILED` after `SUCCESSFUL`.",
        "Ask Flutterwave's support, because transfers in the sandbox are never returned.",
    ),
    manual(
        "chargebacks",
        "Which field of an answer to a chargeback has the proof, and can the proof be a PDF?",
        "The field `proof` has the URL that /upload_image returns, also for a PDF.",
        "Ask Flutterwave's support. After the first answer, look for the proof in the dashboard.",
    ),
)
