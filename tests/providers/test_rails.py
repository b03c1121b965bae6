"""Provider credentials, available rails, circuit breakers and statistics."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from manilla.kit.changes import ChangeWatch
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Unavailable
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import MethodKind
from manilla.providers import credentials, queries
from manilla.providers.credentials import BadCredentials
from manilla.providers.health import FAILURES_TO_TRIP, Rail
from manilla.providers.kinds import KINDS
from manilla.providers.port import Adapter, Answer, Direction, Done, Unknown
from manilla.providers.rails import CALLS_AT_ONCE, Rails, open_client
from tests.providers.conftest import ABC, CREDENTIALS, envelope
from tests.providers.scripted import Scripted
from tests.providers.stored_rails import adapter, stored_rails
from tests.support.waiting import until_true


@pytest.fixture
async def rails(db: Database, keyring: Keyring, server: Scripted) -> AsyncIterator[Rails]:
    """The providers of a new installation, with the scripted server as their API."""
    accounts = {name: {**CREDENTIALS[name], "base_url": server.url} for name in ABC}
    async with stored_rails(db, keyring, accounts) as rails:
        yield rails


@pytest.fixture
def a(rails: Rails) -> Adapter:
    return adapter(rails, "providera")


@pytest.fixture
def b(rails: Rails) -> Adapter:
    return adapter(rails, "providerb")


@pytest.fixture
def c(rails: Rails) -> Adapter:
    return adapter(rails, "providerc")


async def test_credentials_are_encrypted_and_shown_without_their_secrets(
    db: Database, keyring: Keyring
) -> None:
    await credentials.change(db, keyring, "providera", {"secret_key": "planted-secret-4711"})
    stored = await db.value("SELECT sealed FROM provider_credentials WHERE provider = 'providera'")
    assert b"planted" not in stored
    current = (await credentials.load(db, keyring))["providera"]
    assert (current.is_valid, current.missing) == (False, ["webhook_secret"])
    assert "planted" not in str(current.shown())
    await credentials.clear(db, "providera")
    assert not (await credentials.load(db, keyring))["providera"].given


@pytest.mark.parametrize("provider", ABC)
async def test_a_provider_is_valid_once_its_required_settings_are_set(
    db: Database, keyring: Keyring, provider: str
) -> None:
    await credentials.clear(db, provider)
    needed = {key: value for key, value in CREDENTIALS[provider].items() if "default" not in key}
    for name in needed:
        rest = {key: value for key, value in needed.items() if key != name}
        current = await credentials.change(db, keyring, provider, {**rest, name: ""})
        assert current.missing == [name]
    assert (await credentials.change(db, keyring, provider, needed)).is_valid
    await credentials.clear(db, provider)


async def test_api_key_of_provider_c_is_an_alias_of_its_secret_key(
    db: Database, keyring: Keyring
) -> None:
    await credentials.clear(db, "providerc")
    given = {"api_key": "c-key", "webhook_secret": "c-hook"}
    current = await credentials.change(db, keyring, "providerc", given)
    assert current.is_valid
    assert current.value("secret_key") == "c-key"
    with pytest.raises(BadCredentials, match="api_key is another name for secret_key"):
        await credentials.change(db, keyring, "providerc", {"secret_key": "other"})
    both = {"secret_key": "other", "api_key": "c-key"}
    with pytest.raises(BadCredentials, match="api_key is another name for secret_key"):
        credentials.check(KINDS["providerc"], both)
    same = await credentials.change(db, keyring, "providerc", {"secret_key": "c-key"})
    assert same.is_valid
    await credentials.clear(db, "providerc")


@pytest.mark.parametrize(
    ("provider", "name", "value"),
    [
        ("providera", "nonsense", "1"),
        ("providera", "pay_in_enabled", "true"),  # Provider A does not have this setting.
        ("providerb", "sandbox", "yes"),
        ("providerc", "base_url", "javascript:alert(1)"),
        ("providerc", "secret_key", "line\nbreak"),
        ("providerc", "secret_key", "x" * 501),
    ],
)
async def test_an_invalid_setting_is_rejected(
    db: Database, keyring: Keyring, provider: str, name: str, value: str
) -> None:
    with pytest.raises(BadCredentials):
        await credentials.change(db, keyring, provider, {name: value})


async def test_only_configured_and_enabled_rails_are_offered(
    db: Database, keyring: Keyring, rails: Rails
) -> None:
    methods = Catalogue(db, ChangeWatch(db), rails)
    await methods._refresh(0)

    def codes(kind: MethodKind) -> list[str]:
        return [method.code for method in methods.offered(kind, "NGN", Environment.PRODUCTION)]

    assert codes(MethodKind.DEPOSIT) == [
        *("providera-ngn", "providera_ngn_va", "providerb-ngn", "providerb_ngn_va"),
        "providerc-ngn",
    ]
    rails_and_manual = [
        *("providera_ngn_transfer", "providerb_ngn_transfer", "providerc_ngn_transfer"),
        *("platform", "auto_ngn"),
    ]
    assert codes(MethodKind.WITHDRAW) == rails_and_manual
    assert methods.offered(MethodKind.DEPOSIT, "USD", Environment.PRODUCTION) == []

    await credentials.change(db, keyring, "providerb", {"pay_in_enabled": "false"})
    await credentials.change(db, keyring, "providerc", {"pay_out_enabled": "false"})
    await credentials.clear(db, "providera")
    await rails.load()
    assert codes(MethodKind.DEPOSIT) == ["providerc-ngn"]
    assert codes(MethodKind.WITHDRAW) == ["providerb_ngn_transfer", "platform", "auto_ngn"]
    assert rails.adapter("providera") is None


async def test_a_sandbox_account_is_not_offered_in_production(
    db: Database, keyring: Keyring, rails: Rails
) -> None:
    await credentials.change(db, keyring, "providera", {"sandbox": "true"})
    async with open_client() as client:
        for is_production_mode in (True, False):
            those = Rails(
                db, keyring, ChangeWatch(db), client, is_production_mode=is_production_mode
            )
            await those.load()
            real, test = Environment.PRODUCTION, Environment.SANDBOX
            offered = those.is_offered("providera", Direction.PAY_OUT, real)
            assert offered is not is_production_mode
            assert those.is_offered("providera", Direction.PAY_OUT, test)


async def test_a_change_takes_effect_without_a_restart(
    db: Database, keyring: Keyring, server: Scripted
) -> None:
    async with open_client() as client:
        watch = ChangeWatch(db)
        rails = Rails(db, keyring, watch, client, is_production_mode=False)
        watching = asyncio.create_task(watch.run())

        def is_offered() -> bool:
            return rails.is_offered("providerc", Direction.PAY_IN, Environment.PRODUCTION)

        await credentials.change(db, keyring, "providerc", {**CREDENTIALS["providerc"]})
        await until_true(is_offered)
        await credentials.clear(db, "providerc")
        await until_true(lambda: not is_offered())
        watching.cancel()


async def test_a_rail_that_is_down_is_not_called_until_a_probe_succeeds(
    db: Database, rails: Rails, server: Scripted, b: Adapter
) -> None:
    server.answers(503, {})
    for _ in range(FAILURES_TO_TRIP):
        assert isinstance(await b.balance("NGN"), Unknown)
    assert rails.is_down("providerb", Direction.PAY_OUT)
    assert not rails.is_down("providerb", Direction.PAY_IN)
    assert not rails.is_down("providera", Direction.PAY_OUT)
    calls = len(server.recorded)
    assert isinstance(await b.balance("NGN"), Unknown)
    assert len(server.recorded) == calls

    await rails.health.flush()
    assert [rail.is_down for rail in await rails.health.overview() if rail.is_down] == [True]
    await rails.probe()
    assert len(server.recorded) == calls + 1
    assert rails.is_down("providerb", Direction.PAY_OUT)

    server.answers(200, envelope("providerb", {"available_balance": "1", "ledger_balance": "1"}))
    await rails.probe()
    assert not rails.is_down("providerb", Direction.PAY_OUT)
    assert isinstance(await b.balance("NGN"), Done)


@pytest.mark.parametrize("answer", [Done(None), Unknown("an answer that is not understood")])
def test_only_failures_in_a_row_trip_the_breaker(answer: Answer[None]) -> None:
    rail = Rail("providera", Direction.PAY_OUT, asyncio.Event())
    failure = Unknown("HTTP 503", is_rail_down=True)
    for each in [*[failure] * (FAILURES_TO_TRIP - 1), answer] * 2:
        rail.record(each, 0.001)
    assert not rail.is_down
    for _ in range(FAILURES_TO_TRIP):
        rail.record(failure, 0.001)
    assert rail.is_down


async def test_other_processes_see_that_a_rail_is_down(
    db: Database, keyring: Keyring, rails: Rails, server: Scripted, a: Adapter
) -> None:
    async with open_client() as client:
        watch = ChangeWatch(db)
        elsewhere = Rails(db, keyring, watch, client, is_production_mode=False)
        await watch.ensure_fresh()
        server.answers(500, {})
        for _ in range(FAILURES_TO_TRIP):
            await a.banks()
        await rails.health.flush()
        await watch._look()
        assert elsewhere.is_down("providera", Direction.PAY_OUT)
        await rails.health.mark_up(rails.health.rail("providera", Direction.PAY_OUT))
        await watch._look()
        assert not elsewhere.is_down("providera", Direction.PAY_OUT)


async def test_refusals_and_malformed_responses_do_not_trip_the_breaker(
    rails: Rails, server: Scripted, a: Adapter
) -> None:
    for status in (400, 404, 200, 429) * 3:
        server.answers(status, b"nonsense")
        await a.banks()
    assert not rails.is_down("providera", Direction.PAY_OUT)


async def test_rail_statistics_are_stored(
    db: Database, rails: Rails, server: Scripted, c: Adapter
) -> None:
    await db.execute("DELETE FROM rail_minute")
    server.answers(200, envelope("providerc", []))
    for _ in range(3):
        await c.banks()
    server.answers(200, b"garbage")
    await c.banks()
    await rails.health.flush()
    [rail] = [r for r in await rails.health.overview() if (r.provider, r.calls) == ("providerc", 4)]
    assert (rail.direction, rail.success_share) == ("pay_out", 0.75)
    assert rail.last_error == "HTTP 200 without a readable body"
    assert rail.last_error_at is not None


async def test_statistics_counted_during_a_failed_or_slow_write_are_not_lost(
    db: Database, rails: Rails, monkeypatch: pytest.MonkeyPatch
) -> None:
    await db.execute("DELETE FROM rail_minute")
    rail = rails.health.rail("providerc", Direction.PAY_OUT)
    write, answers = queries.add_rail_figures, [Unavailable("no database"), None, None]
    is_writing, may_end = asyncio.Event(), asyncio.Event()

    async def slow(*figures: Any) -> None:
        rail.record(Done("counted meanwhile"), 0.001)
        is_writing.set()
        await may_end.wait()
        if (refused := answers.pop(0)) is not None:
            raise refused
        await write(*figures)

    monkeypatch.setattr(queries, "add_rail_figures", slow)
    rail.record(Unknown("no answer"), 0.001)
    may_end.set()
    with pytest.raises(Unavailable):
        await rails.health.flush()
    is_writing.clear()
    may_end.clear()
    flushing = asyncio.create_task(rails.health.flush())
    await is_writing.wait()
    # This flush ends while the next flush is waiting for it.
    asyncio.get_running_loop().call_soon(may_end.set)
    await rails.health.flush()
    monkeypatch.undo()
    [seen] = [r for r in await rails.health.overview() if r.calls]
    assert (seen.provider, seen.calls, seen.last_error) == ("providerc", 3, "no answer")
    await flushing
    await rails.health.flush()


async def test_concurrency_per_provider_is_bounded(
    server: Scripted, a: Adapter, c: Adapter
) -> None:
    at_once = most = 0
    is_full, may_end = asyncio.Event(), asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        if at_once == CALLS_AT_ONCE:
            is_full.set()
        await may_end.wait()
        at_once -= 1
        writer.write(b"HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")

    server.behaviour = slow
    calls = [asyncio.create_task(a.banks()) for _ in range(CALLS_AT_ONCE + 20)]
    await is_full.wait()
    # One account's concurrency limit does not delay another account's calls.
    server.answers(200, envelope("providerc", []))
    assert isinstance(await c.banks(), Done)
    server.behaviour = slow
    may_end.set()
    await asyncio.gather(*calls)
    assert most == CALLS_AT_ONCE


async def test_secrets_never_appear_in_logs_errors_or_metrics(
    db: Database,
    keyring: Keyring,
    rails: Rails,
    server: Scripted,
    capfd: pytest.CaptureFixture[str],
) -> None:
    planted = "planted-secret-0815"
    secrets = {"secret_key": planted, "webhook_secret": planted, "base_url": server.url}
    await credentials.change(db, keyring, "providera", secrets)
    await rails.load()
    each = adapter(rails, "providera")
    server.answers(401, {"status": False, "message": f"bad key {planted}", "data": None})
    shown = [str(await each.banks()), str(each.read_webhook({}, b"{}"))]
    await credentials.change(db, keyring, "providera", {"base_url": "http://127.0.0.1:1"})
    await rails.load()
    each = adapter(rails, "providera")
    shown += [str(await each.banks()) for _ in range(FAILURES_TO_TRIP)]
    await rails.health.flush()
    shown += [str(await rails.health.overview()), str(rails.credentials("providera").shown())]
    from manilla.kit import prometheus

    shown.append(prometheus.render().decode())
    captured = capfd.readouterr()
    # The secret could have leaked, because the request contained it.
    assert planted in str(server.recorded[0].headers)
    assert planted not in "".join([*shown, captured.out, captured.err])


async def test_an_account_added_later_knows_that_its_rail_is_down(
    db: Database, rails: Rails
) -> None:
    await db.execute(
        """
        INSERT INTO rail_state (provider, direction, is_down) VALUES ('latecomer', 'pay_out', true)
            ON CONFLICT (provider, direction) DO UPDATE SET is_down = true"""
    )
    await rails.health._refresh(0)
    assert rails.is_down("latecomer", Direction.PAY_OUT)
    assert not rails.is_down("latecomer", Direction.PAY_IN)
    await db.execute("UPDATE rail_state SET is_down = false WHERE provider = 'latecomer'")
