"""Checks that create objects at the provider. They run only with test accounts."""

from manilla.kit.money import Money
from manilla.providers.checks.check import (
    AMOUNT,
    CheckFinding,
    CheckSession,
    check,
    differs,
    judge_unexpected,
    last_reply,
    matches,
    not_answered,
    reading_of,
    reply_to,
)
from manilla.providers.checks.references import new
from manilla.providers.port import (
    Answer,
    Done,
    RefundOrder,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    Sent,
    TransferStatus,
)

LONGEST_NARRATION = ("Manilla check with a long narration " * 3)[:100]
NO_CHARGE = not_answered("The provider did not create the charge, so this check was skipped.")
NO_TRANSFER = not_answered("The provider did not accept the transfer, so this check was skipped.")
UNPAID = (ReportedChargeStatus.PENDING, ReportedChargeStatus.NOT_FOUND)
ACCEPTED = (TransferStatus.PENDING, TransferStatus.DELIVERED)


@check(
    "hosted checkout",
    "Does the provider open a hosted checkout?",
    "A URL to which the customer is redirected.",
    needs_test_account=True,
)
async def hosted_checkout(session: CheckSession) -> CheckFinding:
    order = session.charge_order()
    answer = await session.adapter.create_checkout(order)
    if not isinstance(answer, Done):
        return judge_unexpected(session, answer)
    session.charge = order
    return matches(f"A checkout was opened for {order.reference}.")


@check(
    "unpaid charge",
    "What is the status of an unpaid charge?",
    "Pending, or not found.",
    needs_test_account=True,
)
async def unpaid_charge(session: CheckSession) -> CheckFinding:
    if session.charge is None:
        return NO_CHARGE
    answer = await session.adapter.charge_state(session.charge.reference)
    if isinstance(answer, Done) and answer.value.status in UNPAID:
        return matches(f"{last_reply(session)}. Manilla reads this as {answer.value.status}.")
    return judge_unexpected(session, answer)


@check(
    "used charge reference",
    "Is a charge's reference unique, and how is a used reference rejected?",
    "A rejection that mentions the used reference. Manilla then queries the charge's status.",
    needs_test_account=True,
)
async def used_charge_reference(session: CheckSession) -> CheckFinding:
    if session.charge is None:
        return NO_CHARGE
    answer = await session.adapter.create_checkout(session.charge)
    if isinstance(answer, Done):
        return differs(
            "The provider accepted the reference a second time, so references are not unique."
        )
    return _judge_rejection_of_used(session, answer)


def _judge_rejection_of_used(session: CheckSession, answer: Answer[object]) -> CheckFinding:
    reply = reply_to(session)
    if isinstance(answer, Refused) or reply is None or reply.is_success:
        return judge_unexpected(session, answer)
    return matches(f"{last_reply(session)}. Manilla then queries the status.")


@check(
    "one-time account",
    "Does the provider open a one-time account for exactly the charge's amount?",
    "Bank, account number, account name and the charge's amount.",
    needs_test_account=True,
)
async def one_time_account(session: CheckSession) -> CheckFinding:
    order = session.charge_order()
    answer = await session.adapter.create_virtual_account(order, session.samples.bvn)
    if not isinstance(answer, Done):
        return judge_unexpected(session, answer)
    if answer.value.amount != order.amount:
        return differs(
            f"The customer must transfer {answer.value.amount} for a charge of {order.amount}. "
            "Manilla does not offer such an account. Configure the provider to charge fees to you."
        )
    ends = answer.value.expires_at
    return matches(f"The account is open {f'until {ends:%Y-%m-%d %H:%M:%S %Z}' if ends else ''}.")


@check(
    "refund of an unpaid charge",
    "How does the provider reject a refund that is not possible?",
    "A rejection, with HTTP 400, 402, 403 or 422 and a message.",
    needs_test_account=True,
)
async def impossible_refund(session: CheckSession) -> CheckFinding:
    if session.charge is None:
        return NO_CHARGE
    order = RefundOrder(new(), session.charge.reference, AMOUNT, "Manilla check")
    answer = await session.adapter.refund(order)
    if isinstance(answer, Refused) and answer.code is RefusalCode.NOT_SUPPORTED:
        return not_answered("The provider does not support refunds, so this check was skipped.")
    if isinstance(answer, Refused):
        return matches(f"{last_reply(session)}.")
    last = session.last
    if last is not None and last.call.method == "GET":
        # The adapter looked up the charge first, and found none that can be refunded.
        return not_answered(f"No refund was sent: {reading_of(answer)}.")
    return judge_unexpected(session, answer)


@check(
    "transfer",
    "Does the provider accept a transfer to its test account?",
    "The transfer is accepted and needs no manual approval.",
    needs_test_account=True,
)
async def transfer(session: CheckSession) -> CheckFinding:
    order = session.transfer_order(session.samples.good)
    answer = await session.adapter.send(order)
    if not isinstance(answer, Done):
        return judge_unexpected(session, answer)
    session.transfer, session.sent = order, answer.value
    if answer.value.needs_action:
        return differs(f"The transfer {order.reference} waits. {answer.value.needs_action}")
    return matches(f"{last_reply(session)}. The reference is {order.reference}.")


@check(
    "transfer status",
    "Does the status query report the transfer that was just sent?",
    "The transfer is pending or delivered, with the amount that was sent.",
    needs_test_account=True,
)
async def transfer_status(session: CheckSession) -> CheckFinding:
    if session.transfer is None:
        return NO_TRANSFER
    answer = await session.adapter.transfer_state(session.transfer.reference)
    if not isinstance(answer, Done):
        return judge_unexpected(session, answer)
    state = answer.value
    if state.status not in ACCEPTED:
        return differs(f"The transfer is {state.status}: {state.message or 'no reason'}.")
    if state.amount not in (None, session.transfer.amount):
        return differs(f"The amount is {state.amount}, but {session.transfer.amount} was sent.")
    return matches(f"The transfer is {state.status}.")


@check(
    "used transfer reference",
    "Is a transfer's reference unique, and how is a used reference rejected?",
    "A rejection that mentions the used reference, or the first transfer again. Nothing is "
    "paid twice.",
    needs_test_account=True,
)
async def used_transfer_reference(session: CheckSession) -> CheckFinding:
    if session.transfer is None or session.sent is None:
        return NO_TRANSFER
    answer = await session.adapter.send(session.transfer)
    if isinstance(answer, Done):
        return _judge_second_transfer(session.sent, answer.value)
    return _judge_rejection_of_used(session, answer)


def _judge_second_transfer(first: Sent, second: Sent) -> CheckFinding:
    """Compares the provider's references to check whether both responses are about one transfer."""
    reference = second.provider_reference
    if reference is not None and reference == first.provider_reference:
        return matches(f"The provider returned the first transfer again ({reference}).")
    return differs(
        "The provider accepted the same reference a second time, and may have paid twice. Compare "
        "the transfers in its dashboard before you make payouts with this account."
    )


@check(
    "long narration",
    "Does the provider accept a narration of 100 characters?",
    "The transfer is accepted.",
    needs_test_account=True,
)
async def long_narration(session: CheckSession) -> CheckFinding:
    if session.transfer is None:
        return NO_TRANSFER
    order = session.transfer_order(session.samples.good, narration=LONGEST_NARRATION)
    answer = await session.adapter.send(order)
    return (
        matches(f"{last_reply(session)}.")
        if isinstance(answer, Done)
        else judge_unexpected(session, answer)
    )


@check(
    "transfer to an invalid account",
    "How does the provider reject a transfer to an account that does not exist?",
    "A rejection that Manilla interprets as an invalid beneficiary.",
    needs_test_account=True,
)
async def invalid_transfer(session: CheckSession) -> CheckFinding:
    if session.resolved and session.resolved.name_enquiry_reference:
        return not_answered("The account lookup before the transfer rejects the account.")
    order = session.transfer_order(session.samples.invalid)
    answer = await session.adapter.send(order)
    if isinstance(answer, Refused):
        session.rejected = order
        if answer.code is RefusalCode.INVALID_BENEFICIARY:
            return matches(f"{last_reply(session)}.")
    return judge_unexpected(session, answer)


@check(
    "rejected transfer",
    "Does the provider store a transfer that it rejected?",
    "No. The status query does not find the transfer.",
    needs_test_account=True,
)
async def rejected_transfer(session: CheckSession) -> CheckFinding:
    if session.rejected is None:
        return not_answered("The provider did not reject the transfer, so this check was skipped.")
    answer = await session.adapter.transfer_state(session.rejected.reference)
    if isinstance(answer, Done) and answer.value.status is TransferStatus.NOT_FOUND:
        return matches(f"{last_reply(session)}. Manilla reads this as not found.")
    if isinstance(answer, Done):
        return differs(
            f"The provider rejected the transfer, but reports it as {answer.value.status}."
        )
    return judge_unexpected(session, answer)


@check(
    "transfer above the balance",
    "How does the provider reject a transfer that our balance does not cover?",
    "A rejection that Manilla interprets as insufficient balance, or a transfer that then fails.",
    needs_test_account=True,
)
async def transfer_above_balance(session: CheckSession) -> CheckFinding:
    if session.balance is None:
        return not_answered("Our balance is not known, so this check was skipped.")
    amount = Money(session.balance.currency, max(session.balance.minor, 0) + AMOUNT.minor)
    order = session.transfer_order(session.samples.good, amount=amount)
    answer = await session.adapter.send(order)
    if isinstance(answer, Refused) and answer.code is RefusalCode.PROVIDER_INSUFFICIENT_BALANCE:
        return matches(f"{last_reply(session)}.")
    if not isinstance(answer, Done):
        return judge_unexpected(session, answer)
    state = await session.adapter.transfer_state(order.reference)
    if isinstance(state, Done) and state.value.status is TransferStatus.FAILED:
        return matches(f"Accepted, then failed: {state.value.message or 'no reason'}.")
    return differs(f"The provider accepted a transfer of {amount}.")


TRIALS = (
    hosted_checkout,
    unpaid_charge,
    used_charge_reference,
    one_time_account,
    impossible_refund,
    transfer,
    transfer_status,
    used_transfer_reference,
    long_narration,
    invalid_transfer,
    rejected_transfer,
    transfer_above_balance,
)
