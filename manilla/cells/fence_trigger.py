"""Reports to the caller that a merchant's fence in the database has rejected a change."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from manilla.kit.errors import Refusal

# The function of PostgreSQL that runs PL/pgSQL's RAISE. Of our triggers, only the fence uses RAISE
# with this error.
RAISE = "exec_stmt_raise"


class MerchantElsewhere(Refusal):
    """An administrator has changed a merchant in a cell that must not act for it."""

    status, code = 409, "MERCHANT_ELSEWHERE"
    message = (
        "The merchant lives in another cell, or is being moved."
        " Make the change in the merchant's current cell."
    )


@contextmanager
def refused_when_fenced(refusal: type[Refusal]) -> Iterator[None]:
    """Raises the refusal if the fence has rejected a change of a merchant's rows."""
    try:
        yield
    except asyncpg.ObjectNotInPrerequisiteStateError as error:
        if error.server_source_function != RAISE:  # an error of PostgreSQL itself
            raise
        raise refusal from error
