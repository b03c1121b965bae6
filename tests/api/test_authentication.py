"""API authentication: which requests the API accepts, and which errors other requests get."""

import asyncio
import time
from typing import Any

import msgspec
import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.platform import settings as platform
from manilla.services import Services
from tests.support.client import Merchant, Reply, Site, new_merchant
from tests.support.freshness import outdate
from tests.support.waiting import until_true

PATH = "/api/v1/site-info"
SIGNED = ["X_Merchant_Key", "X_API_Key", "X_Timestamp", "X_Signature"]
REFUSED = {"error": "Invalid API credentials.", "error_code": "INVALID_CREDENTIALS"}


def assert_refused(reply: Reply, invalid_header: str | None = None) -> None:
    assert reply.status == 401
    answer: dict[str, Any] = reply.json
    errors = answer.pop("errors", {})
    assert answer == REFUSED
    assert list(errors) == ([invalid_header] if invalid_header else [])


async def test_a_signed_call_succeeds_in_either_environment(merchant: Merchant) -> None:
    assert (await merchant.get(PATH)).status == 200
    live = msgspec.structs.replace(merchant, environment=Environment.PRODUCTION)
    assert (await live.get(PATH)).status == 200


async def test_the_environment_defaults_to_production(merchant: Merchant) -> None:
    live = msgspec.structs.replace(merchant, environment=Environment.PRODUCTION)
    assert (await live.get(PATH, X_Environment=None)).status == 200
    assert_refused(await merchant.get(PATH, X_Environment=None))


async def test_a_call_without_headers_is_rejected(site: Site) -> None:
    assert_refused(await site.from_new_ip().send("GET", PATH))


@pytest.mark.parametrize("missing", SIGNED)
async def test_each_header_is_required(merchant: Merchant, missing: str) -> None:
    invalid = {"X_Timestamp": "X-Timestamp", "X_Signature": "X-Signature"}.get(missing)
    assert_refused(await merchant.get(PATH, **{missing: None}), invalid)
    assert_refused(await merchant.get(PATH, **{missing: ""}), invalid)


@pytest.mark.parametrize("environment", ["Sandbox", "SANDBOX", "test", "", "sandbox,sandbox"])
async def test_an_unknown_environment_is_reported(merchant: Merchant, environment: str) -> None:
    reply = await merchant.get(PATH, X_Environment=environment)
    assert (reply.status, reply.code) == (400, "INVALID_ENVIRONMENT")


async def test_changing_only_the_environment_header_is_rejected(merchant: Merchant) -> None:
    assert_refused(await merchant.get(PATH, X_Environment="production"))
    live = msgspec.structs.replace(merchant, environment=Environment.PRODUCTION)
    assert_refused(await live.get(PATH, X_Environment="sandbox"))


async def test_another_merchants_keys_are_rejected(
    merchant: Merchant, site: Site, db: Database, keyring: Keyring
) -> None:
    other = await new_merchant(site, db, keyring)
    assert_refused(await merchant.get(PATH, X_API_Key=other.credentials.api_key))
    assert_refused(await merchant.get(PATH, X_Merchant_Key=other.credentials.merchant_key))


async def test_a_production_key_is_rejected_in_the_sandbox(merchant: Merchant) -> None:
    assert_refused(await merchant.get(PATH, X_API_Key=merchant.new.production.api_key))


@pytest.mark.parametrize("offset", [-299, -200, 0, 200, 299])
async def test_a_timestamp_within_the_tolerance_passes(merchant: Merchant, offset: int) -> None:
    headers = merchant.headers("GET", PATH, timestamp=int(time.time()) + offset)
    assert (await merchant.site.send("GET", PATH, headers)).status == 200


@pytest.mark.parametrize("offset", [-301, 302, -86_400, 10**9])
async def test_a_timestamp_outside_the_tolerance_is_rejected(
    merchant: Merchant, offset: int
) -> None:
    headers = merchant.headers("GET", PATH, timestamp=int(time.time()) + offset)
    assert_refused(await merchant.site.send("GET", PATH, headers), "X-Timestamp")


@pytest.mark.parametrize(
    "timestamp",
    ["soon", "-1", "+5", "1e9", "1.5", "0x10", "9" * 40, "٣٣٣", "1 2", "-99999999999", "0"],
)
async def test_a_malformed_timestamp_is_rejected(merchant: Merchant, timestamp: str) -> None:
    headers = merchant.headers("GET", PATH, timestamp=timestamp.encode().decode("latin-1"))
    assert_refused(await merchant.site.send("GET", PATH, headers), "X-Timestamp")


async def test_a_signature_may_have_a_prefix_and_either_case(merchant: Merchant) -> None:
    headers = merchant.headers("GET", PATH)
    signature = headers["X-Signature"]
    for spelling in (signature, signature.upper(), f"sha256={signature}", f"SHA256={signature}"):
        sent = {**headers, "X-Signature": spelling}
        assert (await merchant.site.send("GET", PATH, sent)).status == 200


@pytest.mark.parametrize(
    "signature",
    ["0" * 64, "0" * 63, "0" * 65, "g" * 64, "sha256=", "sha512=" + "0" * 64, "0" * 5000],
)
async def test_a_wrong_signature_is_rejected(merchant: Merchant, signature: str) -> None:
    assert_refused(await merchant.get(PATH, X_Signature=signature), "X-Signature")


async def test_a_signature_covers_method_path_query_and_body(merchant: Merchant) -> None:
    for headers in (
        merchant.headers("POST", PATH),
        merchant.headers("GET", PATH + "?a=1"),
        merchant.headers("GET", PATH, b"{}"),
    ):
        assert_refused(await merchant.site.send("GET", PATH, headers), "X-Signature")
    signed_empty = merchant.headers("GET", PATH)
    assert_refused(await merchant.site.send("GET", PATH, signed_empty, b"{}"), "X-Signature")


@pytest.mark.parametrize(
    "target",
    [
        PATH + "?",
        PATH + "?a=1&a=2",
        PATH + "?name=%E2%82%A6%20x+y&empty=",
        "/api/v1/site%2Dinfo",
        "/api/v1/site-info?path=/api/v1/x%2Fy&dots=a.b.c",
    ],
)
async def test_the_path_and_query_are_signed_as_sent(merchant: Merchant, target: str) -> None:
    assert (await merchant.get(target)).status == 200


async def test_a_repeated_credential_header_is_rejected(merchant: Merchant) -> None:
    headers = merchant.headers("GET", PATH)
    twice = [*headers.items(), ("X-API-Key", headers["X-API-Key"])]
    assert_refused(await merchant.site.send("GET", PATH, twice))


async def test_whitespace_around_a_header_value_is_ignored(merchant: Merchant) -> None:
    headers = merchant.headers("GET", PATH)
    padded = {name: f"  {value} \t" for name, value in headers.items()}
    assert (await merchant.site.send("GET", PATH, padded)).status == 200


async def test_signature_checks_can_be_disabled_and_enabled_within_a_second(
    merchant: Merchant, db: Database, services: Services
) -> None:
    try:
        await platform.change(db, "signature_required", "false")
        await outdate(services)
        bare = await merchant.get(PATH, X_Signature=None, X_Timestamp=None)
        assert bare.status == 200
        assert_refused(await merchant.get(PATH, X_API_Key="wrong", X_Signature=None))
    finally:
        await platform.change(db, "signature_required", "true")
    await outdate(services)
    assert_refused(await merchant.get(PATH, X_Signature=None), "X-Signature")


async def test_after_a_pause_no_stale_setting_is_used(
    merchant: Merchant, db: Database, services: Services
) -> None:
    """A process that was suspended during a settings change reloads settings before it responds."""
    watch = services.watch
    try:
        async with watch._looking:
            watch._as_of = float("-inf")
            await platform.change(db, "signature_required", "false")
            unsigned = asyncio.create_task(merchant.get(PATH, X_Signature=None))
            await until_true(lambda: watch._shared is not None and not watch._shared.done())
        assert (await unsigned).status == 200
    finally:
        await platform.change(db, "signature_required", "true")
    await outdate(services)


async def test_the_tolerance_is_configurable(
    merchant: Merchant, db: Database, services: Services
) -> None:
    headers = merchant.headers("GET", PATH, timestamp=int(time.time()) - 400)
    try:
        await platform.change(db, "timestamp_tolerance_seconds", "500")
        await outdate(services)
        assert (await merchant.site.send("GET", PATH, headers)).status == 200
    finally:
        await platform.change(db, "timestamp_tolerance_seconds", "300")
    await outdate(services)
    assert_refused(await merchant.site.send("GET", PATH, headers), "X-Timestamp")


async def test_both_keys_are_accepted_until_the_rotation_overlap_ends(
    merchant: Merchant, db: Database, keyring: Keyring, services: Services
) -> None:
    rotated = await merchants.rotate(
        db, keyring, merchant.new.id, Environment.SANDBOX, overlap_minutes=1
    )
    await outdate(services)
    after = msgspec.structs.replace(
        merchant, new=msgspec.structs.replace(merchant.new, sandbox=rotated)
    )
    assert rotated.merchant_key == merchant.credentials.merchant_key
    assert [(await who.get(PATH)).status for who in (merchant, after)] == [200, 200]
    await db.execute(
        "UPDATE credential SET expires_at = now()"
        " WHERE merchant_id = $1 AND expires_at IS NOT NULL",
        merchant.new.id,
    )
    await merchants.change(db, keyring, merchant.new.id, MerchantUpdate())
    await outdate(services)
    assert_refused(await merchant.get(PATH))
    assert (await after.get(PATH)).status == 200


async def test_rotating_without_overlap_ends_the_old_key_within_a_second(
    merchant: Merchant, db: Database, keyring: Keyring, services: Services
) -> None:
    assert (await merchant.get(PATH)).status == 200
    await merchants.rotate(db, keyring, merchant.new.id, Environment.SANDBOX)
    await outdate(services)
    assert_refused(await merchant.get(PATH))
    live = msgspec.structs.replace(merchant, environment=Environment.PRODUCTION)
    assert (await live.get(PATH)).status == 200


@pytest.mark.parametrize(
    ("status", "environment", "expected"),
    [
        (MerchantStatus.PENDING, "sandbox", (200, None)),
        (MerchantStatus.PENDING, "production", (403, "MERCHANT_PENDING_APPROVAL")),
        (MerchantStatus.APPROVED, "production", (200, None)),
        (MerchantStatus.REJECTED, "sandbox", (403, "MERCHANT_SUSPENDED")),
        (MerchantStatus.REJECTED, "production", (403, "MERCHANT_SUSPENDED")),
        (MerchantStatus.DISABLED, "sandbox", (403, "MERCHANT_SUSPENDED")),
        (MerchantStatus.DISABLED, "production", (403, "MERCHANT_SUSPENDED")),
    ],
)
async def test_a_merchants_status_decides_which_environments_it_can_call(
    site: Site,
    db: Database,
    keyring: Keyring,
    status: MerchantStatus,
    environment: str,
    expected: tuple[int, str | None],
) -> None:
    caller = await new_merchant(site, db, keyring, status, Environment(environment))
    reply = await caller.get(PATH)
    assert (reply.status, reply.code) == expected
    if status is MerchantStatus.PENDING and reply.status == 403:
        assert reply.json["error"] == "Merchant Pending Approval"
    if status in (MerchantStatus.REJECTED, MerchantStatus.DISABLED):
        assert status in reply.json["error"]


async def test_a_disabled_merchant_is_stopped_within_a_second(
    merchant: Merchant, db: Database, keyring: Keyring, services: Services
) -> None:
    assert (await merchant.get(PATH)).status == 200
    await merchants.change(
        db, keyring, merchant.new.id, MerchantUpdate(status=MerchantStatus.DISABLED)
    )
    await outdate(services)
    assert (await merchant.get(PATH)).code == "MERCHANT_SUSPENDED"
