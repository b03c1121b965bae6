"""Stored functions use our tables, whatever the search path of the session is."""

from manilla.kit.database.connections import Database
from manilla.kit.database.connector import SEARCH_PATH

# The planner replaces calls of these functions by their SQL only if they have no setting.
# They are called only by sessions with our search path.
INLINED = {
    *("destination_of_payout", "destination_of_refund", "payout_destination"),
    *("contradicting_webhooks", "hold_of_merchant", "hold_of_outgoing"),
}


async def test_functions_have_the_search_path_of_our_sessions(db: Database) -> None:
    """PostgreSQL has resolved the names in a function whose body it stores parsed."""
    without = await db.records(
        """
        SELECT proname FROM pg_proc
         WHERE pronamespace = 'public'::regnamespace AND prosqlbody IS NULL
           AND NOT coalesce(proconfig @> ARRAY['search_path=' || $1::text], false)""",
        SEARCH_PATH,
    )
    assert {row["proname"] for row in without} == INLINED
