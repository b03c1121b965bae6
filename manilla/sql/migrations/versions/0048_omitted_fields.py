"""No change to a table: the API omits more fields that have their default.

The functions accept such items since this revision, so the API must not start before it.
"""

revision = "0048"
down_revision = "0047"


def upgrade() -> None:
    pass
