import pytest

from manilla.cli.cells import cell
from manilla.kit.embedded.postgres import Cluster
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of
from tests.support.databases import database


@pytest.fixture
async def own(cluster: Cluster, settings: Settings) -> Settings:
    """The settings of an empty installation with its own database."""
    return await database(cluster, settings, "cell_tests", is_migrated=True)


@pytest.fixture
def cells(own: Settings) -> InProcessCommand:
    return InProcessCommand(cell.app, environment_of(own))
