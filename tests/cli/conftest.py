import pytest

from manilla.kit.embedded.postgres import Cluster
from manilla.settings import Settings
from tests.support.databases import database
from tests.support.instance import InstanceFolder, idle_instance


@pytest.fixture(scope="module")
async def idle(
    cluster: Cluster,
    settings: Settings,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> InstanceFolder:
    """An instance that runs only its database, which is sufficient for most commands."""
    name = request.module.__name__.rpartition(".")[2]
    own = await database(cluster, settings, name, is_migrated=True)
    return idle_instance(tmp_path_factory.mktemp("idle") / "data", own)
