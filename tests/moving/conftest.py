from collections.abc import AsyncIterator

import pytest

from manilla.kit.embedded.postgres import Cluster
from manilla.settings import Settings
from tests.moving.movers import Mover, two_cells


@pytest.fixture
async def mover(cluster: Cluster, settings: Settings) -> AsyncIterator[Mover]:
    async with two_cells(cluster, settings) as both:
        yield both
