"""The query parameters and cursors that all lists of the API have in common."""

import base64
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec
import pytest

from manilla.api.endpoint import Call, Endpoint
from manilla.api.kernel import MerchantApi
from manilla.api.lists import Cursors, TransactionQuery
from manilla.api.refusals import ValidationFailed
from manilla.kit import listing
from manilla.kit.crypto import Keyring, decode_key, generate_key
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants.rights import Right
from manilla.services import Services
from tests.conftest import serving
from tests.support.client import Merchant, Reply, Site, new_merchant

ROWS = 250
NUMBERS, OTHERS = "/api/v1/numbers", "/api/v1/other-numbers"


class NumberQuery(TransactionQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Literal["even", "odd"] | None = None


class NumberList(msgspec.Struct):
    data: list[int]
    next_cursor: str | None


def _list(keyring: Keyring, path: str) -> Endpoint:
    cursors = Cursors(keyring, path)

    async def numbers(call: Call) -> NumberList:
        (last,) = listing.read_cursor(tuple[int], cursors.read(call)) or (ROWS + 1,)
        rest = 0 if call.query.status == "even" else 1
        matching = [n for n in range(last - 1, 0, -1) if not call.query.status or n % 2 == rest]
        page = matching[: call.query.limit]
        following = listing.cursor((page[-1],)) if len(matching) > len(page) else None
        return NumberList(page, cursors.write(call, following))

    return Endpoint(
        method="GET",
        path=path,
        summary="",
        description="",
        right=Right.READ,
        answers=(NumberList,),
        use_case=numbers,
        query=NumberQuery,
    )


@pytest.fixture(scope="module")
async def lists(services: Services, keyring: Keyring) -> AsyncIterator[Site]:
    endpoints = [_list(keyring, NUMBERS), _list(keyring, OTHERS)]
    async with serving(MerchantApi(services, endpoints)) as port:
        yield Site(port)


@pytest.fixture
def caller(merchant: Merchant, lists: Site) -> Merchant:
    return msgspec.structs.replace(merchant, site=lists.from_new_ip())


async def _get(caller: Merchant, path: str = NUMBERS, **query: Any) -> Reply:
    return await caller.get(f"{path}?{urlencode(query)}" if query else path)


async def _all(caller: Merchant, **query: Any) -> list[list[int]]:
    pages: list[list[int]] = []
    cursor: dict[str, str] = {}
    while True:
        reply = await _get(caller, **query, **cursor)
        pages.append(reply.json["data"])
        if reply.json["next_cursor"] is None:
            return pages
        cursor = {"cursor": reply.json["next_cursor"]}


async def test_a_page_has_20_items_unless_a_limit_says_otherwise(caller: Merchant) -> None:
    assert [len(page) for page in await _all(caller)] == [20] * 12 + [10]
    assert [len(page) for page in await _all(caller, limit=100)] == [100, 100, 50]
    assert len((await _get(caller, limit=1)).json["data"]) == 1


async def test_cursors_lead_through_the_whole_list(caller: Merchant) -> None:
    pages = await _all(caller, limit=7, status="odd")
    assert [n for page in pages for n in page] == list(range(249, 0, -2))


@pytest.mark.parametrize(
    "limit", ["0", "101", "-1", "abc", "1.0", "1e1", "+5", " 5", "\u0665", "9" * 30, ""]
)
async def test_a_limit_is_a_whole_number_from_1_to_100(caller: Merchant, limit: str) -> None:
    reply = await _get(caller, limit=limit)
    assert (reply.status, reply.code, set(reply.json["errors"])) == (
        400,
        "VALIDATION_FAILED",
        {"limit"},
    )


@pytest.mark.parametrize(
    "time", ["2026-01-02", "2026-01-02T03:04:05", "yesterday", "1767225600", "2026-02-30T00:00:00Z"]
)
@pytest.mark.parametrize("name", ["from", "to"])
async def test_a_time_needs_an_offset(caller: Merchant, name: str, time: str) -> None:
    reply = await _get(caller, **{name: time})
    assert (reply.status, reply.code, set(reply.json["errors"])) == (
        400,
        "VALIDATION_FAILED",
        {name},
    )


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05.678901Z",
        "2026-01-02T03:04:05+01:00",
        "2026-01-02T03:04:05-23:59",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
async def test_a_time_can_have_any_offset(caller: Merchant, time: str) -> None:
    assert (await _get(caller, **{"from": time})).status == 200
    assert (await _get(caller, to=time)).status == 200


@pytest.mark.parametrize(
    ("limit", "problem"),
    [
        ("0", "Expected a whole number of at least 1."),
        ("101", "Expected a whole number of at most 100."),
        ("abc", "Expected a whole number."),
    ],
)
async def test_the_message_about_a_limit_says_what_is_allowed(
    caller: Merchant, limit: str, problem: str
) -> None:
    reply = await _get(caller, limit=limit)
    assert reply.json["errors"] == {"limit": problem}


async def test_from_after_to_is_rejected(caller: Merchant) -> None:
    earlier, later = "2026-01-02T03:00:00+01:00", "2026-01-02T03:00:00Z"
    assert (await _get(caller, **{"from": earlier, "to": later})).status == 200
    assert (await _get(caller, **{"from": later, "to": later})).status == 200
    reply = await _get(caller, **{"from": later, "to": earlier})
    assert (reply.status, set(reply.json["errors"])) == (400, {"from"})


async def test_unknown_and_repeated_parameters_are_named(caller: Merchant) -> None:
    reply = await caller.get(f"{NUMBERS}?limit=5&limit=6&page=2&Limit=1&%00=x&status=odd")
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert set(reply.json["errors"]) == {"limit", "page", "Limit", "\x00"}


async def test_an_unknown_status_and_a_long_reference_are_rejected(caller: Merchant) -> None:
    reply = await _get(caller, status="both", ref_trx="x" * 61)
    assert (reply.status, set(reply.json["errors"])) == (400, {"status", "ref_trx"})


async def _cursor(caller: Merchant, **query: Any) -> str:
    cursor: str = (await _get(caller, **query)).json["next_cursor"]
    return cursor


async def _assert_bad(caller: Merchant, cursor: str, path: str = NUMBERS, **query: Any) -> None:
    reply = await _get(caller, path, cursor=cursor, **query)
    assert (reply.status, reply.code, set(reply.json["errors"])) == (
        400,
        "VALIDATION_FAILED",
        {"cursor"},
    ), cursor


async def test_every_altered_cursor_is_rejected(caller: Merchant) -> None:
    cursor = await _cursor(caller)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for place, old in enumerate(cursor):
        new = letters[(letters.index(old) + 1) % 64]
        await _assert_bad(caller, cursor[:place] + new + cursor[place + 1 :])


@pytest.mark.parametrize("cursor", ["x", "a", "====", "é", "\x00", "A" * 30, "A" * 5000, "null"])
async def test_a_made_up_cursor_is_rejected(caller: Merchant, cursor: str) -> None:
    await _assert_bad(caller, cursor)
    await _assert_bad(caller, (await _cursor(caller)) + cursor)


async def test_a_forged_key_is_rejected(caller: Merchant) -> None:
    cursor = await _cursor(caller)
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    assert b"[231]" in raw
    forged = raw.replace(b"[231]", b"[250]")
    await _assert_bad(caller, base64.urlsafe_b64encode(forged).decode().rstrip("="))


async def test_a_cursor_belongs_to_one_merchant_environment_list_and_filter(
    caller: Merchant, db: Database, keyring: Keyring
) -> None:
    cursor = await _cursor(caller, status="odd")
    other = await new_merchant(caller.site, db, keyring)
    in_production = msgspec.structs.replace(caller, environment=Environment.PRODUCTION)
    await _assert_bad(other, cursor, status="odd")
    await _assert_bad(in_production, cursor, status="odd")
    await _assert_bad(caller, cursor, OTHERS, status="odd")
    await _assert_bad(caller, cursor, status="even")
    await _assert_bad(caller, cursor)
    assert (await _get(caller, cursor=cursor, status="odd", limit=3)).json["data"] == [
        209,
        207,
        205,
    ]


async def test_a_cursor_is_valid_for_the_same_time_in_another_notation(caller: Merchant) -> None:
    cursor = await _cursor(caller, **{"from": "2026-01-02T03:00:00Z"})
    same = await _get(caller, **{"from": "2026-01-02T04:00:00.000+01:00", "cursor": cursor})
    assert same.status == 200
    await _assert_bad(caller, cursor, **{"from": "2026-01-02T04:00:00Z"})


def _call(cursor: str | None = None) -> Any:
    return SimpleNamespace(
        caller=SimpleNamespace(merchant_id=1, environment=Environment.SANDBOX),
        query=NumberQuery(cursor=cursor),
    )


def test_a_cursor_outlives_a_new_master_key_while_the_old_one_is_configured() -> None:
    old, new = decode_key(generate_key()), decode_key(generate_key())
    plain = listing.cursor(5)
    cursor = Cursors(Keyring([old]), NUMBERS).write(_call(), plain)
    assert Cursors(Keyring([new, old]), NUMBERS).read(_call(cursor)) == plain
    with pytest.raises(ValidationFailed):
        Cursors(Keyring([new]), NUMBERS).read(_call(cursor))
