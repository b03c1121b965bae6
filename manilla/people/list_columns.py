"""Stores the columns that each user has chosen for each list."""

from collections.abc import Sequence

from manilla.kit.database.connections import Database

LISTS_MAX = 30  # maximum number of column choices stored per user, one per list


async def columns_of(db: Database, person_id: int, name: str) -> list[str] | None:
    """Returns the list's chosen columns, or None if the user has not chosen any."""
    columns: list[str] | None = await db.value(
        """
        SELECT array(SELECT jsonb_array_elements_text(list_columns -> $2))
          FROM person WHERE id = $1 AND list_columns ? $2""",
        *(person_id, name),
    )
    return columns


async def choose(db: Database, person_id: int, name: str, columns: Sequence[str]) -> None:
    """Saves the columns that the user chose for a list. An empty choice restores the default."""
    await db.execute(
        """
        UPDATE person
           SET list_columns = CASE
               WHEN cardinality($3::text[]) = 0 THEN list_columns - $2
               ELSE list_columns || jsonb_build_object($2::text, to_jsonb($3::text[])) END
         WHERE id = $1
           AND (list_columns ? $2
                OR (SELECT count(*) FROM jsonb_object_keys(list_columns)) < $4)""",
        *(person_id, name, list(columns), LISTS_MAX),
    )
