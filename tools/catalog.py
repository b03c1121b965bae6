"""Writes the catalog of a new database to `manilla/sql/catalog.tsv`: `python -m tools.catalog`.

The auditor's pack compares databases with this file. Run the command after you change a migration
or a stored function.
"""

import asyncio
import tempfile
from pathlib import Path

from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.proofs import catalog
from tests.support import template


def main() -> None:
    with template.shared_folder(), tempfile.TemporaryDirectory() as folder:
        catalog.EXPECTED.write_text(asyncio.run(_read(Path(folder) / "data")))


async def _read(folder: Path) -> str:
    async with template.running_cluster(folder) as cluster:
        db = await Database.open(cluster.url(postgres.OWNER), size=1, name="catalog")
        try:
            async with db.read_only() as connection:
                return text(await catalog.read(connection))
        finally:
            await db.close()


def text(objects: list[catalog.CatalogObject]) -> str:
    return "".join(f"{each.line}\n" for each in objects)


if __name__ == "__main__":
    main()
