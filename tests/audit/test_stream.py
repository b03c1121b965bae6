"""The audit stream: a target receives every entry, in order, and nothing secret."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from manilla import instance_metrics, metrics
from manilla.audit import audit
from manilla.audit.stream import ocsf, senders, targets
from manilla.audit.stream.targets import BadTarget
from manilla.audit.stream.tasks import POLL_SECONDS, AuditStreamTasks
from manilla.job_kinds import JobKind
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job
from manilla.people import sign_in
from manilla.people.roles import Realm
from manilla.people.sign_in import SignInRefused
from manilla.services import Services
from tests.audit import ocsf_schema
from tests.support.certificates import Certificate
from tests.support.client import Site
from tests.support.limits import limited
from tests.web.signed_in_user import PASSWORD, administrator

JOB = Job(0, JobKind.AUDIT_STREAM, "siem", 0, 0, 1)


class Siem:
    """A security team's system that receives events over HTTP."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.authorizations: list[str | None] = []
        self.status = 200
        self.forgets_to_answer = False

    async def receive(self, request: web.Request) -> web.Response:
        self.authorizations.append(request.headers.get("Authorization"))
        if self.status == 200:
            self.events += await request.json()
        if self.forgets_to_answer:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=self.status)

    @property
    def ids(self) -> list[int]:
        return [event["metadata"]["sequence"] for event in self.events]


@contextlib.asynccontextmanager
async def serving(siem: Siem) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/events", siem.receive)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/events"
    finally:
        await runner.cleanup()


@pytest.fixture
def tasks(services: Services) -> AuditStreamTasks:
    client = services.operator_client
    return AuditStreamTasks(services.db, services.keyring, client, "https://pay.example")


@pytest.fixture(autouse=True)
async def _without_targets(db: Database) -> AsyncIterator[None]:
    yield
    for target in await targets.list_all(db):
        await targets.remove(db, target.name)


async def write(db: Database, number: int = 1, **detail: Any) -> None:
    for _ in range(number):
        async with db.transaction() as connection:
            await audit.record(connection, "setting.change", "setting:checkout_minutes", **detail)


async def test_a_target_receives_all_later_entries_once_and_in_order(
    services: Services, tasks: AuditStreamTasks
) -> None:
    await write(services.db)
    siem = Siem()
    async with serving(siem) as url:
        await targets.add(
            services.db, services.keyring, "siem", url, authorization="Bearer a-hidden-word"
        )
        await asyncio.gather(*(write(services.db, 30) for _ in range(5)))
        assert await tasks.run(JOB) == 0
        assert await tasks.run(JOB) == POLL_SECONDS
        assert await tasks.run(JOB) == POLL_SECONDS
    first = siem.ids[0]
    assert siem.events[0]["activity_name"] == "audit_target.add"
    assert siem.ids == list(range(first, first + 151))
    assert siem.authorizations == ["Bearer a-hidden-word"] * 2
    assert "a-hidden-word" not in json.dumps(siem.events)


async def test_a_new_target_can_receive_the_log_from_its_start(
    services: Services, tasks: AuditStreamTasks
) -> None:
    await write(services.db)
    siem = Siem()
    async with serving(siem) as url:
        await targets.add(services.db, services.keyring, "siem", url, from_start=True)
        while await tasks.run(JOB) == 0:
            pass
    assert siem.ids[0] == 1


@pytest.mark.parametrize("status", [302, 400, 401, 500, 503])
async def test_a_rejected_batch_is_sent_again_and_blocks_later_entries(
    services: Services, tasks: AuditStreamTasks, status: int
) -> None:
    siem = Siem()
    siem.status = status
    async with serving(siem) as url:
        await targets.add(services.db, services.keyring, "siem", url)
        waits = [await tasks.run(JOB) for _ in range(3)]
        [target] = await targets.list_all(services.db)
        assert (waits, target.failures) == ([5, 10, 20], 3)
        assert str(status) in target.last_error
        siem.status = 200
        await write(services.db)
        await tasks.run(JOB)
    assert len(siem.ids) == 2
    [target] = await targets.list_all(services.db)
    assert (target.failures, target.last_error, target.waiting) == (0, "", 0)


async def test_a_batch_without_a_response_is_sent_again_with_the_same_ids(
    services: Services, tasks: AuditStreamTasks
) -> None:
    siem = Siem()
    async with serving(siem) as url:
        await targets.add(services.db, services.keyring, "siem", url)
        siem.forgets_to_answer = True
        await tasks.run(JOB)
        siem.forgets_to_answer = False
        await tasks.run(JOB)
    assert len(siem.ids) == 2
    assert siem.events[0]["metadata"]["uid"] == siem.events[1]["metadata"]["uid"]


async def test_a_worker_that_stops_before_it_stores_the_cursor_loses_nothing(
    services: Services, tasks: AuditStreamTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop(*_: object) -> None:
        raise asyncio.CancelledError

    siem = Siem()
    async with serving(siem) as url:
        await targets.add(services.db, services.keyring, "siem", url)
        with monkeypatch.context() as patch:
            patch.setattr(targets, "advance", stop)
            with pytest.raises(asyncio.CancelledError):
                await tasks.run(JOB)
        await write(services.db)
        await tasks.run(JOB)
    assert siem.ids == [siem.ids[0], siem.ids[0], siem.ids[0] + 1]


class SyslogServer:
    """Reads RFC 5424 messages with their lengths, until the client ends the data."""

    def __init__(self, *, reads: bool = True) -> None:
        self.messages: list[bytes] = []
        self._reads = reads

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._reads:
            writer.transport.abort()
            return
        data = await reader.read(-1)
        while data:
            length, _, data = data.partition(b" ")
            self.messages.append(data[: int(length)])
            data = data[int(length) :]
        writer.close()


@pytest.mark.parametrize("scheme", ["syslog", "syslog+tls"])
async def test_syslog_over_tcp_and_tls(
    services: Services,
    tasks: AuditStreamTasks,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scheme: str,
) -> None:
    certificate, syslog = Certificate(tmp_path), SyslogServer()
    monkeypatch.setattr(senders, "tls_context", certificate.of_client)
    context: ssl.SSLContext | None = certificate.of_server() if scheme == "syslog+tls" else None
    server = await asyncio.start_server(syslog.serve, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await targets.add(services.db, services.keyring, "siem", f"{scheme}://localhost:{port}")
        await write(services.db, 3, note="Ünïcode")
        await tasks.run(JOB)
    [target] = await targets.list_all(services.db)
    assert (target.waiting, target.last_error) == (0, "")
    assert len(syslog.messages) == 4
    head, body = syslog.messages[-1].split(b" audit - ")
    assert head.startswith(b"<110>1 20")
    assert json.loads(body)["unmapped"]["detail"] == {"note": "Ünïcode"}


async def test_a_syslog_server_that_does_not_read_gets_the_batch_again(
    services: Services, tasks: AuditStreamTasks
) -> None:
    server = await asyncio.start_server(SyslogServer(reads=False).serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await targets.add(services.db, services.keyring, "siem", f"syslog://127.0.0.1:{port}")
        assert await tasks.run(JOB) == POLL_SECONDS
    [target] = await targets.list_all(services.db)
    assert (target.failures, target.waiting) == (1, 1)


async def test_a_syslog_server_that_never_stops_sending_blocks_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def trickle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b".")
                await writer.drain()
                await asyncio.sleep(0.05)

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TimeoutError), limited(audit_target_seconds=0.3):
            async with asyncio.timeout(5):
                url = f"syslog://127.0.0.1:{port}"
                await asyncio.to_thread(senders._send_syslog, url, b"")


async def test_a_host_name_that_cannot_be_encoded_is_an_error_of_the_target(
    services: Services, tasks: AuditStreamTasks
) -> None:
    await targets.add(services.db, services.keyring, "siem", f"https://{'x' * 64}.example/")
    assert await tasks.run(JOB) == POLL_SECONDS
    [target] = await targets.list_all(services.db)
    assert target.failures == 1


async def test_a_key_in_a_targets_url_is_not_in_the_log(services: Services, db: Database) -> None:
    await targets.add(db, services.keyring, "siem", "https://siem.example/events?key=a-hidden-word")
    [entry] = await audit.list_entries(db, limit=1)
    assert entry.detail == {"url": "https://siem.example/events"}


async def test_a_batch_for_an_earlier_url_of_a_name_changes_nothing(
    services: Services, db: Database
) -> None:
    await targets.add(db, services.keyring, "siem", "https://old.example", from_start=True)
    old = await targets.find(db, "siem")
    assert old is not None
    await targets.remove(db, "siem")
    about = db, services.keyring, "siem", "https://new.example"
    await targets.add(*about, authorization="Bearer new", from_start=True)
    assert await targets.authorization(db, services.keyring, old) is None
    await targets.advance(db, old, 1)
    new = await targets.find(db, "siem")
    assert new is not None
    assert new.cursor == 0
    assert await targets.authorization(db, services.keyring, new) == "Bearer new"


async def test_the_log_is_a_target(
    services: Services, tasks: AuditStreamTasks, capsys: pytest.CaptureFixture[str]
) -> None:
    await targets.add(services.db, services.keyring, "siem", "log:")
    await tasks.run(JOB)
    assert "audit_target.add" in capsys.readouterr().out


async def test_sign_ins_are_streamed_and_only_stored_while_there_is_a_target(
    services: Services, site: Site
) -> None:
    user = await administrator(services, site, "streamed@console.example")
    about = services.db, services.keyring, Realm.CONSOLE, user.email
    found = "SELECT string_agg(action, ' ' ORDER BY id) FROM audit WHERE detail->>'email' = $1"
    before = await services.db.value(found, user.email)
    await sign_in.sign_in(*about, PASSWORD, None, "192.0.2.1", "a browser")
    assert await services.db.value(found, user.email) == before
    await targets.add(services.db, services.keyring, "siem", "log:")
    await sign_in.sign_in(*about, PASSWORD, None, "192.0.2.1", "a browser")
    with pytest.raises(SignInRefused):
        await sign_in.sign_in(*about, "not the password", None, "192.0.2.1", "a browser")
    after = await services.db.value(found, user.email)
    assert after == f"{before} sign_in.done sign_in.failed"


@pytest.mark.parametrize("action", [*ocsf._TYPES, "approval.ask", "approval.approve", "case.close"])
@pytest.mark.parametrize("subject", ["person:7", "approval:3", "sign_in:console"])
async def test_events_conform_to_the_published_schema(
    db: Database, action: str, subject: str
) -> None:
    facts: dict[str, Any] = {"email": "ada@example.com", "realm": "console", "address": "192.0.2.1"}
    async with db.transaction() as connection:
        await audit.record(connection, action, subject, outcome="wrong_password", **facts)
        await audit.record(connection, action, subject)
    for entry in await audit.list_entries(db, limit=2):
        event = ocsf.event(entry, "https://pay.example")
        assert ocsf_schema.errors(event) == []


async def test_the_schema_check_finds_wrong_events(db: Database) -> None:
    await write(db)
    [entry] = await audit.list_entries(db, limit=1)
    event = ocsf.event(entry, "https://pay.example")
    assert ocsf_schema.errors({**event, "activity_id": 77, "other": 1, "time": "now"}) == [
        "event.other is unknown",
        f"event.activity_id is not one of {[0, *range(1, 14), 99]}",
        "event.time is not a timestamp_t",
    ]
    assert ocsf_schema.errors({**event, "entity": {}}) != []


async def test_secrets_by_name_are_hidden(db: Database) -> None:
    await write(db, api_key="visible", bvn="12345678901", note="kept")
    [entry] = await audit.list_entries(db, limit=1)
    event = json.dumps(ocsf.event(entry, "https://pay.example"))
    assert ("visible" in event, "12345678901" in event, "kept" in event) == (False, False, True)


async def test_a_target_that_lags_is_measured(services: Services, db: Database) -> None:
    await targets.add(db, services.keyring, "siem", "https://siem.example/events")
    await db.value("SELECT pg_sleep(0.01)")
    await instance_metrics.measure(db, [])
    assert metrics.audit_stream_lag_seconds._value.get() > 0
    await targets.remove(db, "siem")
    await instance_metrics.measure(db, [])
    assert metrics.audit_stream_lag_seconds._value.get() == 0


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("siem", "ftp://siem.example"),
        ("siem", "syslog://siem.example"),
        ("siem", "https://user:word@siem.example/"),
        ("siem", "https:///events"),
        ("siem", "https://siem.example/a b"),
        ("siem", "https://siem.example\\@other.example/"),
        ("siem", "syslog://siem.example:0"),
        ("siem", "syslog://siem.example:65536"),
        ("siem", "syslog+tls://:6514"),
        ("siem", "log:elsewhere"),
        ("SIEM", "https://siem.example/events"),
        ("", "log:"),
    ],
)
async def test_an_invalid_target_is_rejected(services: Services, name: str, url: str) -> None:
    with pytest.raises(BadTarget):
        await targets.add(services.db, services.keyring, name, url)
