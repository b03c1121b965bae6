"""The API rejects invalid values with the field's name, and returns valid text unchanged."""

import json
from typing import Any

import msgspec
import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.services import Services
from tests.payments import steps
from tests.payments.orders import order
from tests.support.client import Merchant, Reply, Site, new_merchant
from tests.support.rows import pairs

ADDRESSES = ("success_redirect", "cancel_redirect", "ipn_url")
REQUIRED = ("payment_amount", "currency_code", "ref_trx", *ADDRESSES)
OPTIONAL = ("description", "customer_name", "customer_email")
TEXTS = ("currency_code", "ref_trx", *ADDRESSES, *OPTIONAL)


@pytest.fixture(scope="module")
async def approved(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


@pytest.fixture
def merchant(approved: Merchant) -> Merchant:
    """A sandbox merchant. Each test uses a new IP address, which has a separate rate limit."""
    return msgspec.structs.replace(approved, site=approved.site.from_new_ip())


def assert_refused(reply: Reply, *fields: str) -> None:
    """Checks that the response is 400 and has errors for exactly these fields."""
    is_amount = set(fields) == {"payment_amount"}
    expected = "INVALID_AMOUNT" if is_amount else "VALIDATION_FAILED"
    assert (reply.status, reply.code) == (400, expected), reply.body
    assert reply.json["error"]
    assert set(reply.json) == {"error", "error_code", "errors"}
    assert set(reply.json["errors"]) == set(fields)
    assert all(text and isinstance(text, str) for text in reply.json["errors"].values())


def assert_not_read(reply: Reply) -> None:
    """Checks that the response is 400 with an error about the whole body, without field errors."""
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED"), reply.body
    assert set(reply.json) == {"error", "error_code"}


@pytest.mark.parametrize("field", REQUIRED)
async def test_a_missing_or_null_required_field_is_reported(merchant: Merchant, field: str) -> None:
    assert_refused(await steps.initiate(merchant, order(**{field: None})), field)
    assert_refused(await steps.initiate(merchant, order() | {field: None}), field)


@pytest.mark.parametrize(
    ("field", "value"),
    pairs(TEXTS, [5, 1.5, True, False, [], ["NGN"], {}, {"a": "b"}]),
    ids=repr,
)
async def test_a_text_field_of_the_wrong_type_is_reported(
    merchant: Merchant, field: str, value: Any
) -> None:
    assert_refused(await steps.initiate(merchant, order(**{field: value})), field)


@pytest.mark.parametrize("value", [5, True, {}, {"a": "b"}, [1], [None], [["a"]], [{}]], ids=repr)
async def test_keywords_of_the_wrong_type_are_reported(merchant: Merchant, value: Any) -> None:
    reply = await steps.initiate(merchant, order(allow_payment_methods=value))
    assert_refused(reply, "allow_payment_methods")


@pytest.mark.parametrize(
    ("field", "value"), pairs(["currency_code", "ref_trx", *ADDRESSES], ["", " "])
)
async def test_a_blank_required_text_is_reported(
    merchant: Merchant, field: str, value: str
) -> None:
    assert_refused(await steps.initiate(merchant, order(**{field: value})), field)


@pytest.mark.parametrize("character", ["x", "é", "字", "😀"])
@pytest.mark.parametrize(("field", "length"), [("ref_trx", 60), ("customer_name", 100)])
async def test_length_is_limited_in_characters_not_bytes(
    merchant: Merchant, field: str, length: int, character: str
) -> None:
    longest = character * length
    reply = await steps.initiate(merchant, order(**{field: longest}))
    assert reply.json["info"][field] == longest
    assert_refused(await steps.initiate(merchant, order(**{field: longest + character})), field)


@pytest.mark.parametrize("character", ["x", "é"])
async def test_an_email_has_up_to_100_characters(merchant: Merchant, character: str) -> None:
    longest = character * 88 + "@example.com"
    reply = await steps.initiate(merchant, order(customer_email=longest))
    assert reply.json["info"]["customer_email"] == longest
    too_long = await steps.initiate(merchant, order(customer_email=character + longest))
    assert_refused(too_long, "customer_email")


@pytest.mark.parametrize(
    "amount",
    [
        *("0.99", "0.999", "0", "0.00", "-0", "-0.01", "-1", "-1000", "1e-2", "1e-400"),
        *("10.001", "1.005", "1000.00000001", "1e-1"),
        *("1e400", "1e30", "-1e400", "9" * 25, "9" * 25 + ".99"),
        *('"1000"', '"1000.00"', '""', '"NaN"', '"Infinity"', '"1e3"'),
        *("true", "false", "null", "[]", "[1000]", "{}", '{"value": 1000}'),
    ],
)
async def test_an_invalid_amount_has_its_own_error_code(merchant: Merchant, amount: str) -> None:
    assert_refused(await steps.initiate(merchant, steps.order_of(amount)), "payment_amount")


@pytest.mark.parametrize(
    "amount", ["9" * 5000, "1e" + "9" * 25, "1e-" + "9" * 25], ids=["digits", "large", "small"]
)
async def test_a_number_beyond_all_limits_is_an_invalid_amount(
    merchant: Merchant, amount: str
) -> None:
    assert_refused(await steps.initiate(merchant, steps.order_of(amount)), "payment_amount")


@pytest.mark.parametrize(
    "amount",
    ["NaN", "Infinity", "-Infinity", "nan", "01", "+1", ".5", "1.", "0x10", "1_000", "1,000"],
)
async def test_an_invalid_json_number_makes_the_body_unreadable(
    merchant: Merchant, amount: str
) -> None:
    assert_not_read(await steps.initiate(merchant, steps.order_of(amount)))


@pytest.mark.parametrize(
    ("currency", "taken", "refused"),
    [("NGN", "10.01", "10.001"), ("JPY", "10", "10.5"), ("KWD", "10.001", "10.0001")],
)
async def test_an_amount_has_no_more_decimals_than_its_currency(
    site: Site, services: Services, currency: str, taken: str, refused: str
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    await steps.change(services, merchant, currencies=[currency])
    good = await steps.initiate(merchant, steps.order_of(taken, currency_code=currency))
    assert good.status == 200
    bad = await steps.initiate(merchant, steps.order_of(refused, currency_code=currency))
    assert_refused(bad, "payment_amount")


@pytest.mark.parametrize(
    "currency",
    ["N", "NG", "NGNN", "N1N", "NG ", " NGN", "NGN ", "NGN\n", "₦₦₦", "\uff2e\uff27\uff2e", "N\tN"],
)
async def test_a_currency_that_is_not_three_letters_is_reported(
    merchant: Merchant, currency: str
) -> None:
    reply = await steps.initiate(merchant, order(currency_code=currency))
    assert_refused(reply, "currency_code")


@pytest.mark.parametrize("currency", ["ngn", "Ngn", "USD", "EUR", "ZZZ", "XXX"])
async def test_an_unknown_currency_code_is_not_enabled(merchant: Merchant, currency: str) -> None:
    reply = await steps.initiate(merchant, order(currency_code=currency))
    assert (reply.status, reply.code) == (422, "INVALID_CURRENCY")


DANGEROUS_URLS = [
    *("javascript:alert(1)", "JavaScript:alert(1)", "javascript://shop.example/%0aalert(1)"),
    *("data:text/html,<script>alert(1)</script>", "ftp://shop.example/a", "file:///etc/passwd"),
    *("mailto:ada@example.com", "ws://shop.example/", "blob:https://shop.example/1"),
    *("shop.example", "/thanks", "//shop.example/thanks", "https", "https:", "https://"),
    *("https:///thanks", "https:shop.example", "https:/shop.example", "https://:443/"),
    *("https://@/", "https://?a", "https://#a"),
    *("https://shop.example:0/", "https://shop.example:65536/", "https://shop.example:x/"),
    *("https://[::1/", "https://[shop]/"),
    *(" https://shop.example/", "https://shop.example/ ", "https://shop.example/a b"),
    *("https://shop.example/\n", "https://shop\n.example/", "https://shop.example/\r\nX: y"),
    *("java\tscript:alert(1)", "https://shop.example/\t", "\thttps://shop.example/"),
    *("https:\\\\shop.example\\", "https://shop.example\\@evil.example/", "\\\\shop.example"),
    *("https://shop.example/\x01", "https://shop.example/\x7f"),
]


@pytest.mark.parametrize(("field", "address"), pairs(ADDRESSES, DANGEROUS_URLS))
async def test_a_dangerous_url_is_rejected(merchant: Merchant, field: str, address: str) -> None:
    assert_refused(await steps.initiate(merchant, order(**{field: address})), field)


URLS = [
    "http://shop.example",
    "https://shop.example:8443/a/b?c=d&e=%20&e=2#f",
    "HTTPS://Shop.Example/",
    "https://[2001:db8::1]:8443/x",
    "https://münchen.example/straße?größe=ü",
    "https://shop.example/" + "x" * 5000,
]


@pytest.mark.parametrize(("field", "address"), pairs(ADDRESSES, URLS), ids=lambda value: value[:30])
async def test_a_url_is_returned_unchanged(merchant: Merchant, field: str, address: str) -> None:
    reply = await steps.initiate(merchant, order(**{field: address}))
    assert reply.json["info"][field] == address


@pytest.mark.parametrize(
    "email",
    [
        *("ada", "ada@", "@example.com", "@", "ada@example", "ada@@example.com", "a@b@c.example"),
        *("ada ngozi@example.com", "ada@exa mple.com", " ada@example.com", "ada@example.com "),
        *("ada@example.com\n", "ada@example.com\r\nBcc: eve@example.com", "ada\t@example.com"),
        *("ada@.example.com", "ada@example..com", "ada@example.com.", "ada@."),
        *("<ada@example.com>", "Ada <ada@example.com>", "ada@example.com,eve@example.com"),
        *("ada@example.com;eve@example.com", "mailto:ada@example.com", '"ada"@example.com'),
    ],
)
async def test_an_invalid_email_is_reported(merchant: Merchant, email: str) -> None:
    reply = await steps.initiate(merchant, order(customer_email=email))
    assert_refused(reply, "customer_email")


@pytest.mark.parametrize(
    "email",
    ["a@b.co", "ada+shop@mail.example.com", "o'neil@example.com", "ada.n-o_1@x-y.example"]
    + ["ада@пример.рф", "ADA@Example.COM"],
)
async def test_an_email_is_returned_unchanged(merchant: Merchant, email: str) -> None:
    reply = await steps.initiate(merchant, order(customer_email=email))
    assert reply.json["info"]["customer_email"] == email


async def test_all_invalid_fields_are_reported_together(merchant: Merchant) -> None:
    everything: dict[str, Any] = {
        "payment_amount": "1000",
        "currency_code": "NAIRA",
        "ref_trx": "x" * 61,
        "success_redirect": "javascript:alert(1)",
        "cancel_redirect": 5,
        "description": ["x"],
        "customer_name": "x" * 101,
        "customer_email": "ada",
        "allow_payment_methods": 5,
    }
    reply = await steps.initiate(merchant, everything)
    assert_refused(reply, *everything, "ipn_url")
    assert_refused(await steps.initiate(merchant, {}), *REQUIRED)


@pytest.mark.parametrize(
    ("amount", "other"),
    pairs(
        ["0.99", "10.001", "1e400", '"1000"', "null", "true"],
        [("ref_trx", None), ("currency_code", "NG"), ("customer_email", "ada")],
    ),
)
async def test_an_invalid_amount_among_others_is_reported_as_a_field(
    merchant: Merchant, amount: str, other: tuple[str, Any]
) -> None:
    field, value = other
    reply = await steps.initiate(merchant, steps.order_of(amount, **{field: value}))
    assert_refused(reply, "payment_amount", field)


async def test_the_format_is_checked_before_the_currency(merchant: Merchant) -> None:
    reply = await steps.initiate(merchant, order(currency_code="USD", payment_amount=0))
    assert_refused(reply, "payment_amount")


TEXTS_OF_ANY_KIND = [
    "عائشة محمد",
    "a\u200bb\u200cc\u200dd\u2060e\ufefff",
    "👩‍👩‍👧‍👦 🇳🇬 ❤️",
    "Zoe\u0308 vs Zo\u00eb",
    "\U0010ffff\U00020000",
    "Robert'); DROP TABLE payment;--",
    "<script>alert(1)</script>",
    '{{7*7}} ${7*7} %s %(a)s {0} \\u0041 \\ / "',
    "  spaces around  ",
]


@pytest.mark.parametrize(
    ("field", "text"),
    pairs(["customer_name", "description", "ref_trx"], TEXTS_OF_ANY_KIND),
    ids=ascii,
)
async def test_any_text_is_returned_unchanged(
    merchant: Merchant, services: Services, field: str, text: str
) -> None:
    reply = await steps.initiate(merchant, order(**{field: text}))
    assert reply.json["info"][field] == text
    trx_id = steps.trx_id_of(reply)
    if field == "ref_trx":
        assert (await steps.verify(merchant, trx_id)).json["ref_trx"] == text
        return
    await steps.complete(services, merchant, trx_id)
    verified = (await steps.verify(merchant, trx_id)).json
    assert text in (verified["description"], verified["customer"]["name"])


CONTROLS = ["\n", "\t", "\r\n", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u202e", "\u2066", "\u200f"]


@pytest.mark.parametrize(
    ("field", "character"),
    pairs(["customer_name", "ref_trx", "customer_email"], CONTROLS),
    ids=ascii,
)
async def test_a_single_line_text_has_no_control_characters(
    merchant: Merchant, field: str, character: str
) -> None:
    bad = order(customer_email="ada@example.com", customer_name="Ada")
    bad[field] = f"{bad[field]}{character}x"
    for body in (bad, json.dumps(bad, ensure_ascii=False).encode()):
        assert_refused(await steps.initiate(merchant, body), field)
        assert_refused(await steps.initiate_legacy(merchant, body), field)


async def test_a_description_may_have_line_breaks_but_no_other_control_characters(
    merchant: Merchant,
) -> None:
    lines = "2 shirts\r\n\t1 hat"
    reply = await steps.initiate(merchant, order(description=lines))
    assert reply.json["info"]["description"] == lines
    for character in CONTROLS[3:]:
        bad = await steps.initiate(merchant, order(description=f"a{character}b"))
        assert_refused(bad, "description")


async def test_text_may_be_escaped_or_not(merchant: Merchant) -> None:
    sent = order(customer_name="Zoë 😀")
    plain = json.dumps(sent, ensure_ascii=False).encode()
    assert (await steps.initiate(merchant, plain)).json["info"]["customer_name"] == "Zoë 😀"


@pytest.mark.parametrize("character", ["x", "字"])
@pytest.mark.parametrize("length", [255, 256, 10_000])
async def test_a_description_is_limited_only_by_the_body_size(
    merchant: Merchant, services: Services, character: str, length: int
) -> None:
    sent = order(description=character * length)
    reply = await steps.initiate(merchant, json.dumps(sent, ensure_ascii=False).encode())
    assert reply.json["info"]["description"] == character * length
    trx_id = steps.trx_id_of(reply)
    await steps.complete(services, merchant, trx_id)
    verified = (await steps.verify(merchant, trx_id)).json
    assert verified["description"] == character * length


@pytest.mark.parametrize(
    ("field", "character"),
    pairs([*TEXTS, "allow_payment_methods"], ["\x00", "\ud800", "\udc00\ud800"]),
    ids=ascii,
)
async def test_nul_and_lone_surrogates_are_rejected(
    merchant: Merchant, field: str, character: str
) -> None:
    value = order().get(field, "") + character
    assert_refused(await steps.initiate(merchant, order(**{field: value})), field)


async def test_nul_in_a_keyword_is_rejected(merchant: Merchant) -> None:
    reply = await steps.initiate(merchant, order(allow_payment_methods=["card", "a\x00"]))
    assert_refused(reply, "allow_payment_methods")


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b" ", b"not json", b"[]", b'"text"', b"null", b"5", b"true", b"{", b"{}{}"),
        b"payment_amount=1000&currency_code=NGN",
        b"<payment><amount>1000</amount></payment>",
        b"{'payment_amount': 1000}",
        b'{"payment_amount": 1000,}',
        b'{"description": "a\nb"}',
        b'{"description": "\\x41"}',
    ],
)
async def test_a_body_that_is_not_a_json_object_is_rejected(
    merchant: Merchant, body: bytes
) -> None:
    assert_not_read(await steps.initiate(merchant, body))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
async def test_a_body_that_is_not_utf8_is_rejected(merchant: Merchant, encoding: str) -> None:
    text = json.dumps(order(customer_name="Zoë"), ensure_ascii=False)
    assert_not_read(await steps.initiate(merchant, text.encode(encoding)))


@pytest.mark.parametrize("name", ["payment_amount", "ref_trx", "unknown"])
async def test_a_duplicate_key_is_rejected(merchant: Merchant, name: str) -> None:
    body = steps.encoded(order() | {name: 1})
    assert_not_read(await steps.initiate(merchant, body[:-1] + b', "%b": 1}' % name.encode()))


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
async def test_nesting_is_limited_to_16_levels(
    merchant: Merchant, opening: str, closing: str
) -> None:
    def nested(levels: int) -> bytes:
        """Returns a request body with this many levels of nesting, including the body itself."""
        inner = opening * (levels - 1) + "1" + closing * (levels - 1)
        return steps.order_of("1000", unknown="?").replace(b'"?"', inner.encode())

    assert (await steps.initiate(merchant, nested(16))).status == 200
    assert_not_read(await steps.initiate(merchant, nested(17)))
    assert_not_read(await steps.initiate(merchant, nested(5000)))


async def test_a_body_of_64_kib_is_accepted_and_one_byte_more_is_not(merchant: Merchant) -> None:
    def padded(size: int) -> bytes:
        body = steps.encoded(order(unknown="?"))
        return body.replace(b'"?"', b'"' + b"x" * (size - len(body) + 1) + b'"')

    assert len(padded(64 * 1024)) == 64 * 1024
    assert (await steps.initiate(merchant, padded(64 * 1024))).status == 200
    assert_not_read(await steps.initiate(merchant, padded(64 * 1024 + 1)))


async def test_unknown_fields_are_ignored(merchant: Merchant) -> None:
    plain = (await steps.initiate(merchant, order())).json["info"]
    extras = {
        "merchant_id": 1,
        "environment": "production",
        "is_sandbox": False,
        "api_fee_percent": 100,
        "status": "success",
        "trx_id": "TXN1",
        "PAYMENT_AMOUNT": 5,
        "nested": {"a": [None, {"b": 1e300}]},
        "": "",
    }
    reply = await steps.initiate(merchant, order(**extras))
    assert reply.status == 200
    assert reply.json["info"] | {"ref_trx": ""} == plain | {"ref_trx": ""}


async def test_a_rejected_body_leaves_its_reference_available(merchant: Merchant) -> None:
    sent = order()
    for bad in ({"payment_amount": 0}, {"ipn_url": "x"}, {"currency_code": "USD"}):
        assert (await steps.initiate(merchant, sent | bad)).status in (400, 422)
    assert (await steps.initiate(merchant, sent)).status == 200


OPTIONAL = ("description", "customer_name", "customer_email")


@pytest.mark.parametrize("escape", [False, True], ids=["plain", "with an escape"])
@pytest.mark.parametrize("field", OPTIONAL)
async def test_empty_optional_text_counts_as_absent(
    merchant: Merchant, services: Services, field: str, escape: bool
) -> None:
    """Tests both JSON decoders. A body with an escape sequence is decoded field by field."""
    sent = json.dumps(order(**{field: ""})).encode()
    body = sent.replace(b"ORDER", b"\\u004fRDER") if escape else sent
    reply = await steps.initiate(merchant, body)
    assert (reply.status, reply.json["info"][field]) == (200, None)
    trx_id = steps.trx_id_of(reply)
    await steps.complete(services, merchant, trx_id)
    verified = (await steps.verify(merchant, trx_id)).json
    assert verified["customer"] == {"name": None, "email": None}
    assert verified["description"] is None


@pytest.mark.parametrize("keywords", ["", []])
async def test_an_empty_keyword_list_means_no_keywords(
    merchant: Merchant, keywords: object
) -> None:
    reply = await steps.initiate(merchant, order(allow_payment_methods=keywords))
    assert (reply.status, reply.json["info"]["allow_payment_methods"]) == (200, [])


@pytest.mark.parametrize("field", ["ref_trx", "currency_code", "ipn_url", "success_redirect"])
async def test_empty_required_text_is_rejected(merchant: Merchant, field: str) -> None:
    assert_refused(await steps.initiate(merchant, order(**{field: ""})), field)
