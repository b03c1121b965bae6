"""Defines a check: a question about a provider, an API call, and an evaluation of the response."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

import msgspec

from manilla.kit.money import Money
from manilla.providers.checks import references
from manilla.providers.port import (
    Adapter,
    Answer,
    ChargeOrder,
    Done,
    Refused,
    ResolvedAccount,
    Sent,
    TransferOrder,
)
from manilla.providers.replies import UNAUTHORIZED, Reply
from manilla.providers.wire import Exchange

AMOUNT = Money("NGN", 1_000_00)
EMAIL = "check@example.com"
NAME = "Manilla Check"
TOO_MANY_REQUESTS = 429


class CheckResult(StrEnum):
    MATCHES = "matches"
    DIFFERS = "differs"
    NOT_ANSWERED = "not answered"


class CheckFinding(msgspec.Struct, frozen=True):
    result: CheckResult
    text: str


class SampleAccount(msgspec.Struct, frozen=True):
    bank_code: str
    account_number: str


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    good: SampleAccount
    invalid: SampleAccount
    # A test transfer whose reference has this suffix succeeds, if the provider supports the suffix.
    success_suffix: str = ""
    bvn: str = "22222222222"


class CheckSession:
    """One run of all checks on an account. Later checks use objects that earlier checks created."""

    def __init__(
        self,
        build: Callable[[], Adapter],
        samples: Samples,
        notification_url: str,
        *,
        is_live: bool,
    ) -> None:
        self.build = build
        self.adapter = build()
        self.samples = samples
        self.is_live = is_live
        self.exchanges: list[Exchange] = []  # the API calls of the current check
        # Maps the name of each finished check to its API calls.
        self.history: dict[str, list[Exchange]] = {}
        self.balance: Money | None = None
        self.resolved: ResolvedAccount | None = None
        self.charge: ChargeOrder | None = None
        self.transfer: TransferOrder | None = None
        self.sent: Sent | None = None
        self.rejected: TransferOrder | None = None
        self._notification_url = notification_url

    @property
    def last(self) -> Exchange | None:
        return self.exchanges[-1] if self.exchanges else None

    def received(self, check: str) -> Any:
        """Returns the data of an earlier check's last successful response, or None."""
        for exchange in reversed(self.history.get(check, [])):
            if exchange.reply is not None and exchange.reply.is_success:
                return exchange.reply.data
        return None

    def charge_order(self) -> ChargeOrder:
        return ChargeOrder(
            reference=references.new(),
            amount=AMOUNT,
            description="Manilla check",
            customer_name=NAME,
            customer_email=EMAIL,
            redirect_url=self._notification_url,
            notification_url=self._notification_url,
            merchant_name=NAME,
        )

    def transfer_order(
        self, to: SampleAccount, *, amount: Money = AMOUNT, narration: str = ""
    ) -> TransferOrder:
        is_good = to == self.samples.good
        resolved = self.resolved if is_good else None
        reference = references.new() + (self.samples.success_suffix if is_good else "")
        if not self.samples.success_suffix:
            reference = self.adapter.transfer_reference(reference)
        return TransferOrder(
            reference=reference,
            amount=amount,
            bank_code=to.bank_code,
            account_number=to.account_number,
            account_name=resolved.account_name if resolved else NAME,
            # Some provider statements show only the narration, so it includes the reference.
            narration=narration or f"Manilla check {reference}",
            customer_email=EMAIL,
            notification_url=self._notification_url,
            name_enquiry_reference=resolved.name_enquiry_reference if resolved else None,
        )


class ProviderCheck(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    question: str
    expectation: str
    run: Callable[[CheckSession], Awaitable[CheckFinding]]
    # True if the check creates an object at the provider, or uses a test account's data.
    needs_test_account: bool


def check(
    name: str, question: str, expectation: str, *, needs_test_account: bool = False
) -> Callable[[Callable[[CheckSession], Awaitable[CheckFinding]]], ProviderCheck]:
    """Returns a decorator that turns a function into a check."""

    def made(run: Callable[[CheckSession], Awaitable[CheckFinding]]) -> ProviderCheck:
        return ProviderCheck(
            name=name,
            question=question,
            expectation=expectation,
            run=run,
            needs_test_account=needs_test_account,
        )

    return made


def manual(name: str, question: str, expectation: str, how: str) -> ProviderCheck:
    """Declares a check that no API call can perform. `how` describes how to perform it manually."""

    async def run(_session: CheckSession) -> CheckFinding:
        return not_answered(f"No API call can answer this. {how}")

    return check(name, question, expectation)(run)


def matches(text: str) -> CheckFinding:
    return CheckFinding(CheckResult.MATCHES, text)


def differs(text: str) -> CheckFinding:
    return CheckFinding(CheckResult.DIFFERS, text)


def not_answered(text: str) -> CheckFinding:
    return CheckFinding(CheckResult.NOT_ANSWERED, text)


def last_reply(session: CheckSession) -> str:
    """Describes the provider's last response, for example `HTTP 404: Transfer not found`."""
    last = session.last
    if last is None:
        return "no request was sent"
    if last.reply is None:
        return last.problem
    return f"HTTP {last.status}: {last.reply.message}".rstrip(": .")


def reply_to(session: CheckSession) -> Reply | None:
    """Returns the last response, or None if it only concerns our credentials or the rate limit."""
    reply = session.last.reply if session.last else None
    is_about_call = reply is not None and reply.status not in (UNAUTHORIZED, TOO_MANY_REQUESTS)
    return reply if is_about_call else None


def judge_unexpected(session: CheckSession, answer: Answer[Any]) -> CheckFinding:
    if reply_to(session) is None:
        reason = last_reply(session) if session.last else reading_of(answer)
        return not_answered(f"No usable response: {reason}.")
    return differs(f"{last_reply(session)}. Manilla reads this as {reading_of(answer)}.")


def reading_of(answer: Answer[Any]) -> str:
    match answer:
        case Done():
            return "a success"
        case Refused():
            return f"a rejection ({answer.code})"
        case _:
            return f"unknown ({answer.reason})"
