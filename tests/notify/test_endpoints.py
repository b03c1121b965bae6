"""Webhook endpoints: signatures, event patterns, retries, order of events, disabled endpoints."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from manilla.job_kinds import JobKind
from manilla.kit import outbound
from manilla.kit.database.connections import Database
from manilla.kit.jobs import claims
from manilla.kit.jobs.runner import Runner
from manilla.notify.endpoints import deliveries
from manilla.notify.endpoints.deliveries import ResendTasks
from manilla.payments.checkout import SandboxOutcome
from manilla.services import Services
from tests.notify.deliveries import Deliveries
from tests.notify.endpoint_merchant import ENDPOINTS, EndpointMerchant, endpoint_worker
from tests.notify.receiver import Behave, answer, endless, raw
from tests.payments.orders import INITIATE, order
from tests.payments.steps import new_payment

NO_IPN = "http://127.0.0.1:1/"


async def test_an_event_arrives_as_a_standard_webhook_with_its_type_first(
    shop: EndpointMerchant,
) -> None:
    created = await shop.create("payment.success")
    trx_id = await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    await shop.deliver()
    [received] = shop.receiver.received
    verified = Webhook(created["secret"]).verify(received.body, received.headers)
    assert (verified["type"], verified["data"]["trx_id"]) == ("payment.success", trx_id)
    assert next(iter(received.json)) == "type"
    [event] = (await shop.merchant.get("/api/v1/events")).json["data"]
    assert event["id"] == received.headers["webhook-id"]
    assert {"type": event["type"], **json.loads(event["body"])} == received.json
    assert "x-signature" not in received.headers
    with pytest.raises(WebhookVerificationError):
        Webhook(created["secret"]).verify(received.body + b" ", received.headers)
    assert [each.state for each in await shop.log(created["id"])] == ["delivered"]


async def test_an_endpoint_gets_only_the_types_it_chose(shop: EndpointMerchant) -> None:
    ids = {events: (await shop.create(events))["id"] for events in ("payment.*", "*", "payout.*")}
    ids["payment.failed"] = (await shop.create("payment.failed", "refund.*"))["id"]
    await shop.deliveries.finish_payment(SandboxOutcome.DECLINE, ipn_url=NO_IPN)
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    types = {name: [each.type for each in await shop.log(id)][::-1] for name, id in ids.items()}
    all_types = ["payment.pending", "payment.failed", "payment.pending", "payment.success"]
    assert types == {
        "payment.*": all_types,
        "*": all_types,
        "payout.*": [],
        "payment.failed": ["payment.failed"],
    }


async def test_a_new_payment_has_a_pending_event_in_the_format_of_notifications(
    shop: EndpointMerchant,
) -> None:
    await shop.create("payment.pending")
    body = order(ipn_url="https://shop.example/ipn")
    reply = await shop.merchant.post(INITIATE, body)
    await shop.deliver()
    [received] = shop.receiver.received
    assert received.json["type"] == "payment.pending"
    assert (received.json["event"], received.json["status"]) == ("payment", "pending")
    assert received.json["data"]["ref_trx"] == body["ref_trx"]
    assert received.json["data"]["trx_id"] == reply.headers["x-transaction-id"].upper()
    # The event is not a notification, so `ipn_url` receives no additional message.
    [notification] = await shop.deliveries.notifications(received.json["data"]["trx_id"])
    assert (notification.state, notification.url) == ("not_sent", "")


async def test_both_secrets_sign_until_the_overlap_ends(
    shop: EndpointMerchant, owner: Database
) -> None:
    old = await shop.create()
    reply = await shop.send("POST", f"{old['id']}/rotate-secret")
    new = reply.json["secret"]
    assert new.startswith("whsec_")
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    await shop.deliver()
    for received in shop.receiver.received:
        assert len(received.headers["webhook-signature"].split(" ")) == 2
        for secret in (old["secret"], new):
            Webhook(secret).verify(received.body, received.headers)
    await owner.execute("UPDATE endpoint_secret SET expires_at = now() WHERE expires_at > now()")
    shop.receiver.received.clear()
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    await shop.deliver()
    received = shop.receiver.received[-1]
    Webhook(new).verify(received.body, received.headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(old["secret"]).verify(received.body, received.headers)


async def test_a_rotation_without_overlap_ends_the_old_secret_at_once(
    shop: EndpointMerchant,
) -> None:
    old = await shop.create("payment.success")
    await shop.send("POST", f"{old['id']}/rotate-secret", b'{"overlap_minutes": 0}')
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    await shop.deliver()
    [received] = shop.receiver.received
    with pytest.raises(WebhookVerificationError):
        Webhook(old["secret"]).verify(received.body, received.headers)


async def test_an_altered_secret_in_the_database_signs_nothing(
    shop: EndpointMerchant, owner: Database
) -> None:
    created = await shop.create("payment.success")
    another = await shop.create("payout.*")
    await owner.execute(
        """
        UPDATE endpoint_secret SET sealed = (
               SELECT sealed FROM endpoint_secret WHERE endpoint_id = $2) WHERE endpoint_id = $1""",
        *(created["id"], another["id"]),
    )
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    await shop.deliver()
    assert shop.receiver.received == []
    [delivery] = await shop.log(created["id"])
    assert delivery.state == "waiting"


async def test_failed_attempts_are_repeated_over_three_days(shop: EndpointMerchant) -> None:
    created = await shop.create("payment.success")
    shop.receiver.answers = [answer(500)] * 10
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    waits = []
    for _ in range(9):
        await shop.deliver()
        waits.append(await shop.skip_to_next_attempt())
    await shop.deliver()
    hours = [0.5, 2, 5, 10, 14, 20, 24]
    assert [round(wait, -1) for wait in waits[1:]] == [300, *(hour * 3600 for hour in hours)]
    assert 0 < waits[0] <= 5
    assert len({each.headers["webhook-id"] for each in shop.receiver.received}) == 1
    assert len(shop.receiver.received) == 10
    [delivery] = await shop.log(created["id"])
    assert (delivery.state, delivery.attempts) == ("failed", 10)


@pytest.mark.parametrize(
    ("behave", "error"),
    [
        (answer(302, b"", "Location: http://127.0.0.1:1/"), "HTTP 302: redirects are not followed"),
        (raw(b"HTTP/1.1 2", then_reset=True), "the connection was closed without a response"),
        (endless(), None),
    ],
    ids=["redirects to loopback", "resets", "answers with gigabytes"],
)
async def test_hostile_answers_are_handled_as_for_ipn(
    shop: EndpointMerchant, behave: Behave, error: str | None
) -> None:
    created = await shop.create("payment.success")
    shop.receiver.answers = [behave]
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    await shop.deliver()
    reply = await shop.send("GET", created["id"])
    [delivery] = await shop.log(created["id"])
    assert delivery.state == ("delivered" if error is None else "waiting")
    assert (reply.json["failing_since"] is None) == (error is None)


async def test_private_addresses_are_not_called_in_production_mode(shop: EndpointMerchant) -> None:
    created = await shop.create("payment.success")
    async with endpoint_worker(shop.services, is_public_only=True) as delivery:
        shop.delivery = delivery
        await shop.deliveries.finish_payment(ipn_url=NO_IPN)
        await shop.deliver()
    assert shop.receiver.received == []
    result = (await shop.log(created["id"]))[0]
    attempts = await shop.services.db.records(
        "SELECT error FROM delivery_attempt WHERE notification_id = $1",
        f"{result.notification_id}/{created['id']}",
    )
    assert outbound.NOT_REACHED in attempts[0]["error"]


async def test_a_later_event_of_a_transaction_waits_for_the_earlier(shop: EndpointMerchant) -> None:
    created = await shop.create("payment.*")
    shop.receiver.answers = [answer(500)]
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    await shop.deliver()
    await shop.deliver()
    assert [each.json["type"] for each in shop.receiver.received] == ["payment.pending"]
    await shop.skip_to_next_attempt()
    await shop.deliver()
    await shop.deliver()
    types = [each.json["type"] for each in shop.receiver.received]
    assert types == ["payment.pending", "payment.pending", "payment.success"]
    assert {each.state for each in await shop.log(created["id"])} == {"delivered"}


async def test_410_gone_disables_the_endpoint_at_once(shop: EndpointMerchant) -> None:
    created = await shop.create("payment.success")
    shop.receiver.answers = [answer(410)]
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    await shop.deliver()
    reply = await shop.send("GET", created["id"])
    assert reply.json["status"] == "disabled"
    assert "410" in reply.json["disabled_reason"]
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    await shop.skip_to_next_attempt()
    await shop.deliver()
    assert len(shop.receiver.received) == 1
    assert [each.state for each in await shop.log(created["id"])] == ["failed"]
    assert await shop.jobs() == []


async def test_an_endpoint_that_fails_for_three_days_is_disabled_and_its_owner_gets_an_email(
    shop: EndpointMerchant, owner: Database
) -> None:
    created = await shop.create("payment.success")
    person = await owner.value(
        "INSERT INTO person (realm, email, name, status) VALUES ('dashboard', $1, 'Ada', 'active')"
        " RETURNING id",
        f"{created['id'].lower()}@example.com",
    )
    await owner.execute(
        "INSERT INTO membership (merchant_id, person_id, role) VALUES ($1, $2, 'owner')",
        *(shop.merchant.new.id, person),
    )
    shop.receiver.answers = [answer(500)] * 2
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    await shop.deliver()
    assert (await shop.send("GET", created["id"])).json["status"] == "enabled"
    await owner.execute(
        "UPDATE webhook_endpoint SET failing_since = now() - interval '73 hours' WHERE id = $1",
        created["id"],
    )
    await shop.skip_to_next_attempt()
    await shop.deliver()
    reply = await shop.send("GET", created["id"])
    assert (reply.json["status"], "3 days" in reply.json["disabled_reason"]) == ("disabled", True)
    mails = await owner.records(
        "SELECT kind FROM mail WHERE merchant_id = $1", shop.merchant.new.id
    )
    assert [mail["kind"] for mail in mails] == ["endpoint_disabled"]


async def test_one_success_ends_the_count_of_failing_days(
    shop: EndpointMerchant, owner: Database
) -> None:
    created = await shop.create("payment.success")
    await owner.execute(
        "UPDATE webhook_endpoint SET failing_since = now() - interval '73 hours' WHERE id = $1",
        created["id"],
    )
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    await shop.deliver()
    endpoint = await shop.endpoint(created["id"])
    assert (endpoint.status, endpoint.failing_since) == ("enabled", None)


async def test_an_enabled_endpoint_gets_what_it_missed_when_asked(shop: EndpointMerchant) -> None:
    created = await shop.create("payment.success")
    first = await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    await shop.deliver()
    await shop.send("PATCH", created["id"], b'{"status": "disabled"}')
    missed = [await shop.deliveries.finish_payment(ipn_url=NO_IPN) for _ in range(3)]
    since = {"since": (datetime.now(UTC) - timedelta(days=2)).isoformat()}
    refused = await shop.send("POST", f"{created['id']}/resend", json.dumps(since).encode())
    assert (refused.status, refused.code) == (422, "WEBHOOK_ENDPOINT_DISABLED")
    await shop.send("PATCH", created["id"], b'{"status": "enabled"}')
    reply = await shop.send("POST", f"{created['id']}/resend", json.dumps(since).encode())
    assert (reply.status, reply.json["status"]) == (200, "accepted")
    await shop.resend()
    await shop.deliver()
    received = [each.json["data"]["trx_id"] for each in shop.receiver.received]
    assert received[0] == first
    assert sorted(received[1:]) == missed


async def test_a_long_resend_continues_where_the_last_run_ended(
    shop: EndpointMerchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "RESEND_ROWS", 2)
    created = await shop.create("payment.success")
    for _ in range(5):
        await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    db, tasks = shop.services.db, ResendTasks(shop.services.db)
    await db.execute("DELETE FROM job WHERE kind = 'endpoint'")
    endpoint = await shop.endpoint(created["id"])
    await deliveries.resend_since(db, endpoint, datetime.now(UTC) - timedelta(days=1))
    scheduled = []
    while claimed := await claims.claim(db, {JobKind.RESEND: 100}):
        [job] = claimed
        await tasks.resend(job)
        scheduled.append(await db.number("SELECT count(*) FROM job WHERE kind = 'endpoint'"))
        await tasks.resend(job)  # a worker that has lost the job changes nothing
    assert scheduled == [2, 4, 5]


async def test_a_resend_that_is_requested_again_while_it_runs_runs_again(
    shop: EndpointMerchant,
) -> None:
    created = await shop.create("payment.success")
    db, tasks = shop.services.db, ResendTasks(shop.services.db)
    endpoint, since = await shop.endpoint(created["id"]), datetime.now(UTC)
    await deliveries.resend_since(db, endpoint, since)
    [job] = await claims.claim(db, {JobKind.RESEND: 100})
    await deliveries.resend_since(db, endpoint, since)
    await Runner(db, tasks.job_handlers())._do(job)
    [again] = await claims.claim(db, {JobKind.RESEND: 100})
    assert again.subject == job.subject
    await Runner(db, tasks.job_handlers())._do(again)
    assert await claims.claim(db, {JobKind.RESEND: 100}) == []


async def test_a_deleted_endpoint_gets_nothing_and_has_no_secret(
    shop: EndpointMerchant, owner: Database
) -> None:
    created = await shop.create("payment.success")
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    reply = await shop.send("DELETE", created["id"])
    assert (reply.status, reply.json) == (200, {"id": created["id"], "deleted": True})
    await shop.deliver()
    assert shop.receiver.received == []
    left = await owner.number(
        "SELECT count(*) FROM endpoint_secret WHERE endpoint_id = $1", created["id"]
    )
    assert left == 0
    for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/test")):
        body = b"{}" if method == "PATCH" else b""
        assert (await shop.send(method, created["id"] + path, body)).status == 404


async def test_a_test_event_answers_with_the_outcome(shop: EndpointMerchant) -> None:
    created = await shop.create("payment.success")
    shop.receiver.answers = [answer(200), answer(503)]
    outcomes = []
    for _ in range(2):
        testing = asyncio.create_task(shop.send("POST", f"{created['id']}/test"))
        while not testing.done():
            await shop.deliver()
            await asyncio.sleep(0.05)
        outcomes.append((await testing).json)
    assert [(each["status"], each["http_status"]) for each in outcomes] == [
        ("delivered", 200),
        ("failed", 503),
    ]
    assert shop.receiver.received[0].json["type"] == "endpoint.test"
    Webhook(created["secret"]).verify(
        shop.receiver.received[0].body, shop.receiver.received[0].headers
    )
    assert (await shop.merchant.get("/api/v1/events")).json["data"] == []
    assert (await shop.send("GET", created["id"])).json["failing_since"] is None


@pytest.mark.parametrize("is_enabled_again", [False, True])
async def test_an_endpoint_gets_the_event_of_a_transaction_created_right_after_the_response(
    deliveries: Deliveries,
    services: Services,
    monkeypatch: pytest.MonkeyPatch,
    is_enabled_again: bool,
) -> None:
    merchant = deliveries.merchant
    body = {"url": deliveries.receiver.url, "events": ["payment.*"]}
    if is_enabled_again:
        created = (await merchant.post(ENDPOINTS, body)).json
        path = f"{ENDPOINTS}/{created['id']}"
        await merchant.call("PATCH", path, b'{"status": "disabled"}')
    await services.watch.look()
    await merchant.get("/api/v1/payments")  # This lookup caches the merchant without an endpoint.

    async def look() -> None:
        """Does nothing, like a process that refreshes its caches as late as allowed."""

    monkeypatch.setattr(services.watch, "look", look)
    if is_enabled_again:
        await merchant.call("PATCH", path, b'{"status": "enabled"}')
    else:
        await merchant.post(ENDPOINTS, body)
    trx_id = await new_payment(merchant)
    events = (await merchant.get("/api/v1/events?type=payment.pending")).json["data"]
    assert [event["trx_id"] for event in events] == [trx_id]
