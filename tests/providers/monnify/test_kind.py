"""The settings that the provider kind Monnify declares."""

from manilla.providers.kind import Credentials
from manilla.providers.kinds import KINDS
from manilla.providers.kinds.monnify import KIND
from tests.providers.monnify.conftest import KEYS


def test_the_kind_is_found_and_needs_four_settings() -> None:
    assert KINDS["monnify"] is KIND
    assert Credentials("monnify", KIND).missing == list(KEYS)
    assert Credentials("monnify", KIND, KEYS).is_valid


def test_the_sandbox_has_its_own_host() -> None:
    for given, url in (
        ({}, "https://api.monnify.com"),
        ({"sandbox": "true"}, "https://sandbox.monnify.com"),
        ({"api_key": "MK_TEST_1"}, "https://sandbox.monnify.com"),
        ({"sandbox": "true", "base_url": "http://127.0.0.1:1"}, "http://127.0.0.1:1"),
    ):
        assert Credentials("monnify", KIND, {**KEYS, **given}).value("base_url") == url


def test_secrets_are_not_shown() -> None:
    shown = Credentials("monnify", KIND, KEYS).shown()
    assert (shown["api_key"], shown["secret_key"]) == ("set", "set")
    assert (shown["contract_code"], shown["source_account_number"]) == (
        "1234567890",
        "8012345678",
    )


def test_a_refund_is_never_sent_again() -> None:
    assert KIND.capabilities.resend_transfer
    assert KIND.capabilities.refund_status
    assert not KIND.capabilities.resend_refund
