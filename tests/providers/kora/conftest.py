import pytest

from manilla.providers.port import Adapter
from manilla.providers.rails import Rails
from tests.providers.conftest import adapter


@pytest.fixture
def kora(rails: Rails) -> Adapter:
    return adapter(rails, "kora")
