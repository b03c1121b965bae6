from collections.abc import AsyncIterator

import msgspec
import pytest

from manilla.providers.port import Adapter, TransferOrder
from tests.providers.adapters import Adapters
from tests.providers.paystack.paystack_server import REFERENCE, PaystackServer
from tests.providers.samples import TRANSFER
from tests.providers.scripted import Scripted


@pytest.fixture
def paystack(adapters: Adapters) -> Adapter:
    return adapters.of("paystack")


@pytest.fixture
async def api(server: Scripted) -> AsyncIterator[PaystackServer]:
    """The scripted Paystack API. Each request of a test must match the schema of its call."""
    api = PaystackServer(server)
    yield api
    api.assert_requests_are_documented()


@pytest.fixture
def order() -> TransferOrder:
    return msgspec.structs.replace(TRANSFER, reference=REFERENCE)
