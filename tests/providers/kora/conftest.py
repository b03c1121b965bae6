import pytest

from manilla.providers.port import Adapter
from tests.providers.adapters import Adapters


@pytest.fixture
def kora(adapters: Adapters) -> Adapter:
    return adapters.of("kora")
