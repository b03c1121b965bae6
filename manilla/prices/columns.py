"""SQL expressions about the stored price of a transaction: the column `price` of its table."""

# The taxes that the platform owes. Fields with their default are absent.
OWED = "t ->> 'collected_by' IS NULL"
# They reduce the platform's income, because nobody pays them on top of the fee.
OF_INCOME = f"{OWED} AND (t ->> 'included' = 'true' OR t ->> 'borne_by' = 'platform')"
# A transaction that fails does not give them back.
KEPT = f"{OWED} AND t ->> 'returned' = 'false'"


def fee(table: str) -> str:
    """Returns the SQL of the fee in a stored price, in minor units."""
    return f"""coalesce((
        SELECT sum((part ->> 'minor')::bigint)
          FROM jsonb_array_elements({table}.price -> 'parts') AS part), 0)"""


def taxes(table: str, condition: str) -> str:
    """Returns the SQL of the sum of a transaction's taxes, in minor units."""
    return f"""coalesce((
        SELECT sum((t ->> 'minor')::bigint)
          FROM jsonb_array_elements({table}.price -> 'taxes') AS t WHERE {condition}), 0)"""
