"""`manilla provider check` with the simulator over HTTP, for every provider kind."""

import msgspec
import pytest
from manilla_simulator.names import holder_of

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.kit import strict_json
from manilla.providers.checks.account import CHECKED, LiveAccount
from manilla.providers.checks.check import EMAIL, CheckResult
from manilla.providers.checks.report import CheckReport
from manilla.providers.connection_test import NotConfigured
from manilla.providers.kinds import KINDS
from tests.providers.checks.conftest import LIVE, TEST, CheckedProviders, question

MATCHES, DIFFERS, NOT_ANSWERED = CheckResult
COMMON = {
    *("balance", "banks", "name lookup", "lookup of an invalid account", "unknown charge"),
    *("unknown transfer", "hosted checkout", "unpaid charge", "used charge reference", "transfer"),
    *("transfer status", "used transfer reference", "long narration"),
    "transfer above the balance",
}
OWN = {
    "paystack": {"unknown refund", "one-time account", "fields of a one-time account"},
    "kora": {"unknown refund", "one-time account", "reference of a charge", "rejected transfer"},
    "flutterwave": {"filter by reference", "end of a one-time account", "rejected transfer"},
    "monnify": {"several tokens", "end of a one-time account", "currency of a transfer"},
}
# These are the simulator's names for calls that create nothing and move no money.
QUERIES = {
    *("token", "balance", "banks", "resolve", "charge_status", "transfer_status"),
    *("refund_status", "statement"),
}


def shown(report: CheckReport) -> str:
    """Returns the whole report as text and as JSON."""
    document = msgspec.to_builtins(report.document(), builtin_types=(dict,))
    return "\n".join(report.lines()) + strict_json.encode(document).decode()


@pytest.mark.parametrize("provider", KINDS)
async def test_an_account_that_answers_as_expected_differs_in_nothing(
    providers: CheckedProviders, provider: str
) -> None:
    report = await providers.check(provider)
    assert report.named(DIFFERS) == []
    assert set(report.named(MATCHES)) >= COMMON | OWN.get(provider, set())
    assert report.is_ok
    assert (report.account, report.kind, report.mode) == (provider, provider, "test")


@pytest.mark.parametrize("provider", KINDS)
async def test_the_report_has_neither_credentials_nor_personal_data(
    providers: CheckedProviders, provider: str
) -> None:
    text = shown(await providers.check(provider))
    public = {"business_id", "default_va_bank"}
    for name, value in TEST[provider].items():
        assert name in public or value not in text, name
    samples = KINDS[provider].samples
    account_number = samples.good.account_number if samples else "0000000000"
    for personal in (account_number, holder_of(account_number), EMAIL):
        assert personal not in text
    assert f"******{account_number[-4:]}" in text


@pytest.mark.parametrize(
    ("provider", "behavior", "differing"),
    [
        ("paystack", {"transfers_need_otp": True}, {"transfer"}),
        (
            "flutterwave",
            {"references_are_unique": False},
            {"used transfer reference", "filter by reference"},
        ),
        (
            "flutterwave",
            {"ignores_reference_filter": True},
            {"filter by reference", "rejected transfer"},
        ),
        ("flutterwave", {"transfers_need_approval": True}, {"transfer"}),
        ("monnify", {"transfers_need_otp": True}, {"transfer"}),
        # Monnify's response to a duplicate looks like the response to the first transfer.
        ("monnify", {"duplicate_transfer_returns_first": True}, {"used transfer reference"}),
    ],
)
async def test_a_provider_that_behaves_differently_is_reported(
    providers: CheckedProviders, provider: str, behavior: dict[str, bool], differing: set[str]
) -> None:
    await providers.control(f"{provider}/account", behavior)
    report = await providers.check(provider)
    assert set(report.named(DIFFERS)) == differing
    assert not report.is_ok


@pytest.mark.parametrize(
    ("provider", "behavior", "name", "found"),
    [
        ("paystack", {"unknown_charge_is_400": True}, "unknown charge", "HTTP 400"),
        ("kora", {"payout_refusal_status": 409}, "transfer above the balance", "HTTP 409"),
        (
            "kora",
            {"our_reference": "payment_reference"},
            "reference of a charge",
            "Our reference is in payment_reference.",
        ),
    ],
)
async def test_an_open_question_is_answered_in_the_report(
    providers: CheckedProviders,
    provider: str,
    behavior: dict[str, object],
    name: str,
    found: str,
) -> None:
    await providers.control(f"{provider}/account", behavior)
    checked = question(await providers.check(provider), name)
    assert (checked.result, found in checked.found) == (MATCHES, True), checked.found


@pytest.mark.parametrize("provider", KINDS)
async def test_words_that_manilla_does_not_know_differ(
    providers: CheckedProviders, provider: str
) -> None:
    refusal = {"call": "transfer_status", "fault": "refuse", "message": "Nope", "times": None}
    await providers.control(f"{provider}/faults", {"next": [refusal]})
    checked = question(await providers.check(provider), "unknown transfer")
    assert checked.result is DIFFERS
    assert "HTTP 400: Nope" in checked.found


@pytest.mark.parametrize("provider", KINDS)
async def test_with_live_only_queries_are_made(providers: CheckedProviders, provider: str) -> None:
    await providers.go_live(provider)
    report = await providers.check(provider, is_live=True)
    assert (report.mode, report.named(DIFFERS)) == ("live", [])
    assert {"balance", "banks", "unknown transfer"} <= set(report.named(MATCHES))
    calls = {each["call"] for each in await providers.requests(provider)}
    assert {"balance", "transfer_status"} <= calls <= QUERIES


@pytest.mark.parametrize("provider", KINDS)
async def test_a_live_account_is_called_only_with_live(
    providers: CheckedProviders, provider: str
) -> None:
    await providers.go_live(provider)
    with pytest.raises(LiveAccount, match="--live"):
        await providers.check(provider)
    assert await providers.requests(provider) == []


@pytest.mark.parametrize("provider", LIVE)
async def test_the_sandbox_switch_does_not_make_a_live_key_a_test_account(
    providers: CheckedProviders, provider: str
) -> None:
    await providers.go_live(provider)
    await providers.configure(provider, sandbox="true")
    with pytest.raises(LiveAccount):
        await providers.check(provider)
    assert await providers.requests(provider) == []


async def test_an_account_without_credentials_is_not_checked(providers: CheckedProviders) -> None:
    await providers.configure("kora", secret_key="")
    with pytest.raises(NotConfigured):
        await providers.check("kora", is_live=True)


@pytest.mark.parametrize("provider", KINDS)
async def test_wrong_credentials_answer_nothing(providers: CheckedProviders, provider: str) -> None:
    given = TEST[provider]["secret_key"]
    await providers.configure(provider, secret_key=f"{given}-wrong")
    report = await providers.check(provider)
    assert {each.result for each in report.checks} == {NOT_ANSWERED}
    assert not report.is_ok


async def test_a_check_is_audited_before_its_calls_and_with_its_result(
    providers: CheckedProviders,
) -> None:
    await providers.control("kora/faults", {"outage": True})
    await providers.check("kora")
    result, start = await audit.list_entries(
        providers.db, AuditFilter(subject="provider:kora"), limit=2
    )
    assert (start.action, start.detail) == ("provider.check", {"mode": "test"})
    assert (result.action, result.detail) == (CHECKED, {"mode": "test", "ok": False})


async def test_a_check_changes_neither_health_nor_statistics(providers: CheckedProviders) -> None:
    async def recorded() -> list[object]:
        states = await providers.db.records("SELECT * FROM rail_state ORDER BY 1, 2")
        figures = await providers.db.records("SELECT * FROM rail_minute ORDER BY 1, 2, 3")
        return [*map(dict, states), *map(dict, figures)]

    before = await recorded()
    await providers.control("paystack/faults", {"outage": True})
    report = await providers.check("paystack")
    assert {each.result for each in report.checks} == {NOT_ANSWERED}
    assert await recorded() == before
