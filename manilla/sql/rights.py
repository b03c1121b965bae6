"""Grants the application's database role its privileges on each table."""

from typing import Any

from manilla.sql.tables import TABLES

RIGHTS = {table.name: table.rights for table in TABLES}
FIXED = {table.name: table.fixed for table in TABLES if table.fixed}

OTHER_COLUMNS = """
    SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
     WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
       AND attname <> ALL ($2::text[])"""


async def grant(connection: Any, role: str) -> None:
    """Grants exactly these privileges and revokes all others. Must run in a transaction."""
    if role == await connection.fetchval("SELECT quote_ident(current_user)"):
        # If the application uses the owner's role, only the triggers protect the ledger.
        return
    await connection.execute(f"""
        GRANT USAGE ON SCHEMA public TO {role};
        REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role};
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role};
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {role};""")
    for table, rights in RIGHTS.items():
        columns = await connection.fetchval(OTHER_COLUMNS, table, list(FIXED.get(table, ())))
        granted = rights.replace("UPDATE", f"UPDATE ({columns})") if table in FIXED else rights
        await connection.execute(f"GRANT {granted} ON {table} TO {role}")
