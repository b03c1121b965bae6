"""Checks a provider account, for the `manilla provider check` command."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

from manilla import __version__
from manilla.audit import audit
from manilla.banks.nigeria import BANKS
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.http_client.client import HttpClient
from manilla.providers import credentials, queries
from manilla.providers.checks.check import (
    CheckSession,
    ProviderCheck,
    SampleAccount,
    Samples,
    not_answered,
)
from manilla.providers.checks.queries import QUERIES, statement, unknown_refund
from manilla.providers.checks.redaction import Redactor
from manilla.providers.checks.report import CheckedQuestion, CheckReport, ShownCall
from manilla.providers.checks.trials import TRIALS, one_time_account
from manilla.providers.connection_test import NotConfigured
from manilla.providers.health import Rail
from manilla.providers.kind import AdapterContext, Credentials, ProviderKind
from manilla.providers.port import Adapter, Direction
from manilla.providers.wire import Exchange

CALLS_AT_ONCE = 1
ACCESS_BANK = "044"
CHECKED = "provider.check_result"  # the audit log's action for the result of a check


class CheckedRail(Rail):
    """A rail that only this check uses, separate from the running system.

    A deliberately invalid call therefore affects neither the system's statistics nor its circuit
    breaker. If the provider does not respond, this check makes no more calls.
    """

    def _trip(self) -> None:
        self.is_down = True


class LiveAccount(Refusal):
    message = "This is not a test account."


async def check_account(
    db: Database,
    keyring: Keyring,
    http: HttpClient,
    provider: str,
    base_url: str,
    *,
    is_live: bool,
) -> CheckReport:
    """Runs all checks one after another. Skips checks that change data if `is_live` is True."""
    current = (await credentials.load(db, keyring))[provider]
    _refuse(current, is_live=is_live)
    mode = "live" if is_live else "test"
    async with db.transaction() as connection:
        await audit.record(connection, "provider.check", f"provider:{provider}", mode=mode)
    redactor = Redactor(current.secrets)
    session = _session(current, http, f"{base_url}/webhooks/{provider}", is_live=is_live)
    checked = [
        await _checked(session, each, redactor)
        for each in _chosen(current.kind)
        if not (is_live and each.needs_test_account)
    ]
    report = CheckReport(provider, current.kind.name, mode, datetime.now(UTC), __version__, checked)
    await _record(db, keyring, current, report)
    return report


async def _record(
    db: Database, keyring: Keyring, checked: Credentials, report: CheckReport
) -> None:
    """Adds the result to the audit log, unless the account's settings changed during the check."""
    async with db.transaction() as connection:
        # Lock the settings, so that the log shows correctly whether they changed after the check.
        await queries.lock_sealed_credentials(connection, checked.provider)
        if (await credentials.load(connection, keyring))[checked.provider] == checked:
            await audit.record(
                *(connection, CHECKED, f"provider:{checked.provider}"),
                mode=report.mode,
                ok=report.is_ok,
            )


def _refuse(current: Credentials, *, is_live: bool) -> None:
    provider = current.provider
    if not current.is_valid:
        missing = ", ".join(current.missing)
        raise NotConfigured(f"{provider} is not configured: {missing} not set.")
    if not is_live and not current.has_only_test_money:
        prefixes = current.kind.test_key_prefixes.items()
        proof = [f"a {name} that starts with {prefix}" for name, prefix in prefixes]
        raise LiveAccount(
            f"{provider} is not a test account, which has {' or '.join(proof) or 'sandbox=true'}. "
            "Use --live to make only calls that create nothing and move no money."
        )


def _chosen(kind: ProviderKind) -> Iterator[ProviderCheck]:
    left_out = {
        *([] if kind.capabilities.refund_status else [unknown_refund.name]),
        *([] if kind.capabilities.virtual_accounts else [one_time_account.name]),
        *([] if kind.capabilities.statements else [statement.name]),
    }
    chosen = {each.name: each for each in (*QUERIES, *TRIALS, *kind.checks)}
    yield from (each for each in chosen.values() if each.name not in left_out)


def _session(
    current: Credentials, http: HttpClient, notification_url: str, *, is_live: bool
) -> CheckSession:
    exchanges: list[Exchange] = []
    pay_in, pay_out = (CheckedRail(current.provider, each, asyncio.Event()) for each in Direction)
    calls = asyncio.Semaphore(CALLS_AT_ONCE)

    def build() -> Adapter:
        context = AdapterContext(current, pay_in, pay_out, http, calls, exchanges.append)
        return current.kind.build(context)

    samples = current.kind.samples or _simulated(current.kind)
    session = CheckSession(build, samples, notification_url, is_live=is_live)
    session.exchanges = exchanges
    return session


def _simulated(kind: ProviderKind) -> Samples:
    bank = next(bank for bank in BANKS if bank.code == ACCESS_BANK)
    bank_code = kind.sandbox_bank_code(bank)
    return Samples(
        good=SampleAccount(bank_code, "0000000000"), invalid=SampleAccount(bank_code, "0000000002")
    )


async def _checked(
    session: CheckSession, each: ProviderCheck, redactor: Redactor
) -> CheckedQuestion:
    session.exchanges.clear()
    try:
        finding = await each.run(session)
    except Exception as error:  # a broken check must not hide the results of other checks
        finding = not_answered(f"The check itself failed: {type(error).__name__}.")
    made = session.history[each.name] = list(session.exchanges)
    for exchange in made:
        redactor.learn(exchange)
    return CheckedQuestion(
        *(each.name, each.question, each.expectation),
        *(finding.result, redactor.text(finding.text)),
        [_shown(exchange, redactor) for exchange in made],
    )


def _shown(exchange: Exchange, redactor: Redactor) -> ShownCall:
    call = exchange.call
    return ShownCall(
        method=call.method,
        path=redactor.text(call.path),
        query=redactor.value(call.query) if call.query else None,
        request=redactor.value(call.body) if call.body is not None else None,
        status=exchange.status,
        response=redactor.body(exchange.raw) if exchange.status is not None else None,
        problem=redactor.text(exchange.problem),
    )
