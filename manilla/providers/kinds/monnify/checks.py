"""Checks for questions that Monnify's documentation leaves open. See guide.md."""

from datetime import UTC, datetime, timedelta

from manilla.providers.checks.check import (
    CheckFinding,
    CheckSession,
    SampleAccount,
    Samples,
    check,
    differs,
    judge_unexpected,
    manual,
    matches,
    not_answered,
)
from manilla.providers.kinds.monnify import answers
from manilla.providers.port import Done
from manilla.providers.reading import Malformed

# The account in Monnify's documented example of a transfer.
SAMPLES = Samples(
    good=SampleAccount("057", "2085096393"), invalid=SampleAccount("057", "0000000002")
)
CLOCK_DIFFERENCE = timedelta(minutes=10)


@check(
    "several tokens",
    "Does a login invalidate the tokens of earlier logins?",
    "No, because every Manilla process has its own token.",
)
async def several_tokens(session: CheckSession) -> CheckFinding:
    first, second = session.build(), session.build()
    for adapter in (first, second):
        answer = await adapter.balance(answers.CURRENCY)
        if not isinstance(answer, Done):
            return judge_unexpected(session, answer)
    answer = await first.balance(answers.CURRENCY)
    if isinstance(answer, Done):
        return matches("The first token is valid after a second login.")
    return differs("The first token is not valid after a second login.")


@check(
    "end of a one-time account",
    "What is the time zone of `expiresOn`?",
    "Lagos time: the expiry then matches `accountDurationSeconds`.",
    needs_test_account=True,
)
async def account_end(session: CheckSession) -> CheckFinding:
    data = session.received("one-time account")
    try:
        ends = answers.moment(data, "expiresOn")
        lasts = timedelta(seconds=answers.seconds(data, "accountDurationSeconds"))
    except Malformed as error:
        return not_answered(f"The response does not contain it: {error}.")
    difference = abs(datetime.now(UTC) + lasts - ends)
    found = f"expiresOn is {data['expiresOn']}; the account lasts {lasts}."
    return matches(found) if difference < CLOCK_DIFFERENCE else differs(found)


@check(
    "currency of a transfer",
    "Does a transfer's status contain its currency?",
    "The currency is NGN. Without a currency, Manilla assumes naira.",
    needs_test_account=True,
)
async def transfer_currency(session: CheckSession) -> CheckFinding:
    data = session.received("transfer status")
    if not isinstance(data, dict):
        return not_answered("Monnify did not report the transfer.")
    given = data.get("currency")
    found = f"The currency is {given}."
    return matches(found) if given == answers.CURRENCY else differs(found)


CHECKS = (
    several_tokens,
    account_end,
    transfer_currency,
    manual(
        "refund",
        "Is a refund's reference unique, and which values can its status have?",
        "Manilla never sends a refund again. Only COMPLETED and FAILED are final.",
        "Pay a test charge, refund it in Manilla, and compare with Monnify's dashboard. Refunds "
        "must be activated by Monnify.",
    ),
    manual(
        "signature of webhooks",
        "Are webhooks signed with HMAC-SHA512 of the raw body?",
        "Yes, for a live account. The sandbox does not sign webhooks.",
        "Check the log after the first live payment. `webhook_forged` means a different signature.",
    ),
)
