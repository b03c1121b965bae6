"""Logs and counts security events. Failures and exports are also written to the audit log.

An event never contains a password or a code. Unknown email addresses are not logged either, because
people sometimes type a password into that field.
"""

from enum import StrEnum
from typing import Any

import msgspec
import structlog

from manilla import metrics
from manilla.audit import audit
from manilla.audit.actor import address
from manilla.kit.database.connections import Connection, Database
from manilla.people import throttle
from manilla.people.roles import Realm

log = structlog.get_logger(__name__)

# After this many failures per throttle window, only the 100th, 1000th and so on are audited.
# The limit prevents password guessing from filling the audit log or delaying other entries.
FAILURES_OF_KNOWN_MAX, FAILURES_OF_UNKNOWN_MAX = 300, 50


class SecurityEvent(StrEnum):
    SIGN_IN = "sign_in"
    STEP_UP = "step_up"
    SECOND_FACTOR = "second_factor"
    PERMISSION = "permission"
    EXPORT = "export"


class SecurityOutcome(StrEnum):
    DONE = "done"
    CODE_NEEDED = "code_needed"  # the password was correct, but a code is also required
    UNKNOWN_ACCOUNT = "unknown_account"
    DISABLED = "disabled"
    WRONG_PASSWORD = "wrong_password"  # noqa: S105
    WRONG_CODE = "wrong_code"
    LOCKED_OUT = "locked_out"
    REFUSED = "refused"
    NO_ROLE = "no_role"  # the provider's response is valid, but the user has no access here
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    BREAK_GLASS = "break_glass"  # a password was used where company sign-in is required
    TURNED_ON = "turned_on"
    TURNED_OFF = "turned_off"
    CODES_RENEWED = "codes_renewed"


_GOOD = (
    SecurityOutcome.DONE,
    SecurityOutcome.CODE_NEEDED,
    SecurityOutcome.TURNED_ON,
    SecurityOutcome.CODES_RENEWED,
)


# The alert needs the counters before they increase for the first time.
for _realm in Realm:
    metrics.security_events.labels(SecurityEvent.SIGN_IN, _realm, SecurityOutcome.BREAK_GLASS)


class SecuritySubject(msgspec.Struct, frozen=True):
    """The user, authenticated or not, whom a security event is about."""

    person_id: int
    email: str


def report(
    event: SecurityEvent,
    outcome: SecurityOutcome,
    realm: str,
    who: SecuritySubject | None,
    **detail: Any,
) -> None:
    """Logs a security event with the request's IP address, and counts it in the metrics."""
    metrics.security_events.labels(event, realm, outcome).inc()
    write = log.info if outcome in _GOOD else log.warning
    write(
        event.value,
        outcome=outcome.value,
        realm=str(realm),
        person_id=who.person_id if who else None,
        email=who.email if who else None,
        address=address.get(),
        **detail,
    )


async def record_failure(
    db: Database,
    event: SecurityEvent,
    outcome: SecurityOutcome,
    realm: Realm,
    who: SecuritySubject | None,
    *,
    is_repeated: bool = False,
) -> None:
    """Logs a failure, and writes it to the audit log unless there are too many failures.

    If `is_repeated`, for example for a user who is already locked out, the failure is not audited.
    """
    report(event, outcome, realm, who)
    if is_repeated:
        return
    limit = FAILURES_OF_KNOWN_MAX if who else FAILURES_OF_UNKNOWN_MAX
    count = await throttle.count(db, f"audit:{'known' if who else 'unknown'}")
    if count > limit and not _is_power_of_ten(count):
        return
    async with db.transaction() as connection:
        await audit.record(
            connection,
            f"{event}.failed",
            f"person:{who.person_id}" if who else f"{event}:{realm}",
            realm=realm,
            email=who.email if who else None,
            address=address.get(),
            outcome=outcome,
            failures_in_window=count,
        )


async def record_sign_in(
    connection: Connection, realm: Realm, who: SecuritySubject, **detail: Any
) -> None:
    """Writes a sign-in to the audit log if the log is sent to a target, which needs sign-ins too.

    Must be the last call in the transaction, like `audit.record`.
    """
    if await audit.is_streamed(connection):
        facts = {"realm": realm, "email": who.email, "address": address.get(), **detail}
        await audit.record(connection, "sign_in.done", f"person:{who.person_id}", **facts)


async def record_export(
    db: Database,
    realm: Realm,
    who: SecuritySubject,
    *,
    merchant_id: int | None,
    name: str,
    file_format: str,
) -> None:
    """Writes an export to the audit log. Must be called before the export starts."""
    async with db.transaction() as connection:
        await audit.record(
            connection,
            "export.create",
            f"export:{name}",
            merchant_id=merchant_id,
            realm=realm,
            format=file_format,
            address=address.get(),
        )
    report(SecurityEvent.EXPORT, SecurityOutcome.DONE, realm, who, file=name, format=file_format)


def _is_power_of_ten(number: int) -> bool:
    return str(number).rstrip("0") == "1"
