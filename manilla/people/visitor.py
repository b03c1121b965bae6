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
    has_password: bool
    # The merchant whose provider began the session, 0 for the console's, or None for a password.
    provider_merchant_id: int | None
    # Whether the merchant, the console or the user's role requires company sign-in, and the user
    # has not used it.
    must_use_company: bool

    @property
    def permissions(self) -> frozenset[Permission]:
        return permissions_of(self.role)

    def may(self, permission: Permission) -> bool:
        return permission in self.permissions

    @property
    def is_by_company(self) -> bool:
        return self.provider_merchant_id is not None

    def reaches(self, merchant_id: int | None) -> bool:
        """Whether the session may know what the user does at this merchant."""
        return self.provider_merchant_id in (None, merchant_id or 0)

    @property
    def owes_code(self) -> bool:
        """Whether the user signed in with a provider, which never replaces the second factor."""
        return self.is_by_company and self.has_totp and not self.second_factor

    @property
    def is_stepped_up(self) -> bool:
        if self.stepped_up_at is None:
            return False
        return datetime.now(UTC) < self.stepped_up_at + STEP_UP
