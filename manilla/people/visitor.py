"""The signed-in user of a request."""

from datetime import UTC, datetime, timedelta

import msgspec

from manilla.people.roles import Permission, Realm, permissions_of

STEP_UP = timedelta(minutes=10)


class Visitor(msgspec.Struct, frozen=True):
    """A valid session and its user, loaded from the database for each request."""

    session_id: int
    person_id: int
    realm: Realm
    name: str
    email: str
    role: str | None  # None if the user has no membership or no merchant is chosen
    merchant_id: int | None
    merchant_name: str | None
    merchant_status: str | None
    stepped_up_at: datetime | None
    has_totp: bool
    second_factor: bool  # whether the user has entered a code in this session

    @property
    def permissions(self) -> frozenset[Permission]:
        return permissions_of(self.role)

    def may(self, permission: Permission) -> bool:
        return permission in self.permissions

    @property
    def is_stepped_up(self) -> bool:
        if self.stepped_up_at is None:
            return False
        return datetime.now(UTC) < self.stepped_up_at + STEP_UP
