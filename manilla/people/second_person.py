"""Checks that a second person, not the requester, decides on a request exactly once.

Each package stores its requests in a separate table. In one transaction, the package locks the
request, checks the decision here, applies the requested change, and saves the decision.
"""

from datetime import UTC, datetime, timedelta

import msgspec

from manilla.audit.actor import Actor, ActorKind
from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.people import members
from manilla.people.roles import Permission, Realm

# A request outlasts the wait of a member who is new when it is made.
REQUEST_LASTS = members.APPROVES_AFTER + timedelta(hours=24)


class ApprovalNotAllowed(Refusal):
    code = "APPROVAL_REFUSED"
    message = "You cannot decide on this approval."


class NoSecondPerson(Refusal):
    code = "NO_SECOND_PERSON"
    message = (
        "A second person who may move money must approve this, but your team has no such person. "
        "Invite another owner or finance member first."
    )


class TooNewToApprove(Refusal):
    status, code = 403, "TOO_NEW_TO_APPROVE"
    message = "New members cannot approve yet."


class Decider(msgspec.Struct, frozen=True):
    """A member of a merchant's team who requests or approves a change."""

    person_id: int
    email: str

    @property
    def actor(self) -> Actor:
        return Actor(ActorKind.PERSON, self.person_id, self.email, Realm.DASHBOARD)


class Approver(msgspec.Struct, frozen=True):
    """A member of a merchant's team who may approve a request, now or later."""

    person_id: int
    email: str
    waits_until: datetime | None  # None if the member may approve now


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an approval request, loaded from its locked row."""

    asked_by: Actor
    is_pending: bool  # neither decided nor expired
    has_ended: Refusal  # the error if the request is not pending
    is_own: Refusal  # the error if the requester tries to approve the request
    team: int | None = None  # the merchant whose new members may not approve yet


def check_pending(request: ApprovalRequest) -> None:
    if not request.is_pending:
        raise request.has_ended


async def check_approval(
    connection: Database | Connection, request: ApprovalRequest, actor: Actor
) -> None:
    check_pending(request)
    if actor.kind is ActorKind.SYSTEM:
        raise ApprovalNotAllowed("Only a person can approve a change.")
    if actor.is_same_as(request.asked_by):
        raise request.is_own
    if request.team is not None:
        await check_approver(connection, request.team, actor.id)


async def approvers(
    db: Database | Connection, merchant_id: int, environment: Environment, person_id: int | None
) -> list[Approver]:
    """Returns the members other than this person who may approve a request, the earliest first."""
    now = datetime.now(UTC)
    found = [
        Approver(each.person_id, each.email, None if waits is None or waits <= now else waits)
        for each in await members.able(db, merchant_id, Permission.MOVE_MONEY)
        for waits in [each.approves_from if environment is Environment.PRODUCTION else None]
        if each.person_id != person_id
    ]
    return sorted(found, key=lambda each: each.waits_until or now)


async def has_second(db: Database | Connection, merchant_id: int, person_id: int | None) -> bool:
    """Returns whether a member other than this person may move the merchant's money."""
    able = await members.able(db, merchant_id, Permission.MOVE_MONEY)
    return any(each.person_id != person_id for each in able)


async def check_has_second(connection: Connection, merchant_id: int, person_id: int | None) -> None:
    if not await has_second(connection, merchant_id, person_id):
        raise NoSecondPerson


async def check_approver(
    connection: Database | Connection, merchant_id: int, person_id: int | None
) -> None:
    """Rejects an approval by a member who got the permission to move money too recently."""
    start = await members.approves_from(connection, merchant_id, person_id or 0)
    if start is None or start > datetime.now(UTC):
        since = "" if start is None else f" Wait until {start.astimezone(LAGOS):%d %b, %H:%M}."
        raise TooNewToApprove(f"{TooNewToApprove.message}{since}")


async def mail_team(
    connection: Connection, merchant_id: int, by: Actor, what: str, path: str, total: str = ""
) -> None:
    """Emails the other members of the merchant's team who may approve the request."""
    await outbox.put(
        connection,
        MailKind.SECOND_PERSON,
        {"by": by.name, "what": what, "total": total},
        path=path,
        merchant_id=merchant_id,
        except_person=by.id,
    )
