from collections.abc import AsyncIterator

import msgspec
import pytest

from manilla.providers.port import Adapter, TransferOrder
from manilla.providers.rails import Rails
from tests.providers.conftest import adapter
from tests.providers.paystack.paystack_server import REFERENCE, PaystackServer
from tests.providers.samples import TRANSFER
from tests.providers.scripted import Scripted


@pytest.fixture
def paystack(rails: Rails) -> Adapter:
    return adapter(rails, "paystack")


@pytest.fixture
async def api(server: Scripted) -> AsyncIterator[PaystackServer]:
    """Paystack's API. Every request of a test must match its schema."""
    api = PaystackServer(server)
    yield api
    api.assert_requests_are_documented()


@pytest.fixture
def order() -> TransferOrder:
    return msgspec.structs.replace(TRANSFER, reference=REFERENCE)
