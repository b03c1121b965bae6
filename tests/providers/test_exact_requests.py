"""The exact requests to each provider kind, for difficult amounts and references."""

import re

import msgspec
import pytest

from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers.kinds.monnify import answers as monnify
from manilla.providers.port import Refused, Unknown
from tests.providers.adapters import Adapters
from tests.providers.conftest import PROVIDERS, envelope
from tests.providers.samples import CHARGE, TRANSFER
from tests.providers.scripted import Scripted, answering
from tests.providers.test_hostile_responses import NEEDED_FIRST

AMOUNTS = ["100.10", "0.01", "19.99", "1234567.89", "0.29", "4503599627370.49"]
# The limits that each provider documents for a transfer's reference.
REFERENCES = {"paystack": r"[a-z0-9_-]{16,50}", "kora": r".{5,}", "flutterwave": r".{1,100}"}
DUPLICATES = [
    "Duplicate Transaction Reference. Please use a unique reference",
    "Duplicate Transaction Reference",
    "Duplicate payment reference",
    "Please provide a unique reference. Reference already exists on a transfer",
    "Transfer reference already exists",
    "Reference has already been used",
    "This reference was already used",
    "This reference has been used before",
    "A transfer with this reference has been made already",
    "Transfer already in progress",
    "The reference must be unique",
]


@pytest.fixture(autouse=True)
def _answers_what_is_needed_first(server: Scripted) -> None:
    server.fixed = {path: answering(200, document) for path, document in NEEDED_FIRST.items()}


def _written(provider: str, amount: str) -> list[str]:
    """Returns the valid notations of this amount, in the unit and type that the provider uses."""
    if provider == "paystack":
        return [str(Money.of(amount, "NGN").minor)]
    return [f'"{amount}"'] if provider == "providerb" else [amount, amount.rstrip("0")]


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_amount_is_sent_exactly(
    adapters: Adapters, server: Scripted, provider: str, amount: str
) -> None:
    each, money = adapters.of(provider), Money.of(amount, "NGN")
    sent = await each.send(msgspec.structs.replace(TRANSFER, amount=money))
    created = await each.create_checkout(msgspec.structs.replace(CHARGE, amount=money))
    if provider == "monnify" and money < monnify.AMOUNT_MIN:
        assert isinstance(sent, Refused)
        assert isinstance(created, Refused)
        assert not server.calls
        return
    assert len(server.calls) == 2
    for call in server.calls:
        found = re.findall(r'"amount":\s*("?[0-9.eE+-]+"?)', call.body.decode())
        assert found, call.body
        assert set(found) <= set(_written(provider, amount))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("merchant_id", [1, 999_999_999])
async def test_a_reference_is_within_the_providers_limits(
    adapters: Adapters, server: Scripted, provider: str, merchant_id: int
) -> None:
    each, trx_id = adapters.of(provider), trx_ids.new(merchant_id)
    reference = each.transfer_reference(trx_id)
    assert re.fullmatch(REFERENCES.get(provider, ".{1,50}"), reference)
    await each.send(msgspec.structs.replace(TRANSFER, reference=reference))
    [call] = server.calls
    assert f'"{reference}"' in call.body.decode()
    assert reference.upper() == trx_id


@pytest.mark.parametrize("message", DUPLICATES)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_used_reference_is_never_a_refusal(
    adapters: Adapters, server: Scripted, provider: str, message: str
) -> None:
    each = adapters.of(provider)
    for status in (400, 403, 409, 422):
        server.answers(status, envelope(provider, None, success=False, message=message))
        assert isinstance(await each.send(TRANSFER), Unknown), status
        assert not isinstance(await each.create_checkout(CHARGE), Refused), status
