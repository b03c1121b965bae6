"""Which parts of a provider's responses the report of `manilla provider check` may show."""

import pytest

from manilla.kit.logs import HIDDEN
from manilla.providers.checks.redaction import FIELDS_MAX, ITEMS_MAX, Redactor
from manilla.providers.wire import Exchange, ProviderCall


def redactor_of(raw: bytes, *secrets: str) -> Redactor:
    redactor = Redactor(secrets)
    call = ProviderCall("GET", "/", None, None, {"Authorization": "Bearer tok-4711"})
    redactor.learn(Exchange(call, 200, raw, None, ""))
    return redactor


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b'{"account_number": "0123456789"}', {"account_number": "******6789"}),
        (b'{"transfer_account": 7825397990}', {"transfer_account": "******7990"}),
        (b'{"destinationAccountNumber": "0123456789"}', {"destinationAccountNumber": "******6789"}),
        (b'{"phone": "08012345678"}', {"phone": "******5678"}),
        (b'{"customer_email": "ada@shop.example"}', {"customer_email": HIDDEN}),
        (b'{"customer": {"name": "Ada Obi"}}', {"customer": {"name": HIDDEN}}),
        (b'{"code": "044", "name": "Access Bank"}', {"code": "044", "name": "Access Bank"}),
        (b'{"bankName": "Wema Bank"}', {"bankName": "Wema Bank"}),
        (b'{"accessToken": "eyJhbGciOi"}', {"accessToken": HIDDEN}),
        (b'{"balance": 10000000000}', {"balance": 10000000000}),
        (b'{"owner": 2212345678901}', {"owner": "******8901"}),
        (b'{"message": "ADA OBI 0123456789", "account_name": "ADA OBI"}',)
        + ({"message": f"{HIDDEN} ******6789", "account_name": HIDDEN},),
        (b'{"message": "got tok-4711 and key-1"}', {"message": f"got {HIDDEN} and {HIDDEN}"}),
        (b'{"key-1": true}', {HIDDEN: True}),
        (b"<p>key-1 for ada@shop.example</p>", f"<p>{HIDDEN} for {HIDDEN}</p>"),
        (b"null", None),
    ],
)
def test_credentials_and_personal_data_are_hidden(raw: bytes, shown: object) -> None:
    assert redactor_of(raw, "key-1").body(raw) == shown


def test_a_long_answer_is_cut_after_it_was_redacted() -> None:
    raw = b'{"text": "%b", "list": [1, 2, 3, 4, 5], "more": {%b}}' % (
        b"a" * 295 + b"secret-key",
        b",".join(b'"f%d": 1' % number for number in range(FIELDS_MAX + 5)),
    )
    shown = redactor_of(raw, "secret-key").body(raw)
    assert "secr" not in shown["text"]
    assert shown["list"] == [1, 2, 3, f"… and {5 - ITEMS_MAX} more"]
    assert len(shown["more"]) == FIELDS_MAX
