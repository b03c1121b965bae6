from collections.abc import AsyncIterator

import pytest

from manilla.kit.embedded.postgres import Cluster
from manilla.settings import Settings
from tests.moving.movers import Mover, two_cells

# Two cells and a move take seconds, so `make test` runs only these tests of whole moves.
SHORT = {
    "test_a_merchant_works_in_its_new_cell_as_before",
    "test_a_move_is_taken_back_under_the_fence",
    "test_only_one_cell_can_act_at_any_time",
}


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    for item in items:
        if "mover" in item.fixturenames and item.originalname not in SHORT:
            item.add_marker(pytest.mark.long)


@pytest.fixture
async def mover(cluster: Cluster, settings: Settings) -> AsyncIterator[Mover]:
    async with two_cells(cluster, settings) as both:
        yield both
