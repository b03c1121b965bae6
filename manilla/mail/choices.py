"""Email preferences: users' choices, and unsubscribe links."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.mail.kinds import RULES, Audience, MailKind
from manilla.mail.queries import Mail

UNSUBSCRIBE = "/mail/unsubscribe/"
PATHS = {realm: f"/{realm}/account/email" for realm in ("dashboard", "console")}
TOKEN_LENGTH_MAX = 700


class Subscription(msgspec.Struct, frozen=True, array_like=True):
    """The recipient and the kind of email that an unsubscribe link applies to."""

    merchant_id: int  # 0 if the holder is a user
    holder: str  # `person:ID`, or a customer's email address
    kind: MailKind


class BadUnsubscribeLink(Refusal):
    status, code = 404, "BAD_UNSUBSCRIBE_LINK"
    message = "This link is incomplete. Open it again from the email."


def holder_of(person_id: int) -> str:
    return f"person:{person_id}"


async def of_person(db: Database, person_id: int, kinds: Collection[MailKind]) -> set[MailKind]:
    """Returns which of these kinds of emails the user is subscribed to."""
    rows = await db.records(
        "SELECT kind, is_on FROM mail_choice WHERE merchant_id = 0 AND holder = $1",
        holder_of(person_id),
    )
    chosen = {row["kind"]: row["is_on"] for row in rows}
    return {kind for kind in kinds if chosen.get(kind, RULES[kind].is_on)}


async def choose(
    db: Database, person_id: int, kinds: Collection[MailKind], wanted: Collection[MailKind]
) -> None:
    """Saves which of these kinds of emails the user wants.

    Security emails cannot be switched off.
    """
    for kind in kinds:
        if not RULES[kind].is_security:
            await _save(db, Subscription(0, holder_of(person_id), kind), is_on=kind in wanted)


async def unsubscribe(db: Database, keyring: Keyring, token: str) -> Subscription:
    subscription = read_token(keyring, token)
    await _save(db, subscription, is_on=False)
    return subscription


async def _save(db: Database, subscription: Subscription, *, is_on: bool) -> None:
    await db.execute(
        """
        INSERT INTO mail_choice (merchant_id, holder, kind, is_on) VALUES ($1, $2, $3, $4)
            ON CONFLICT (merchant_id, holder, kind) DO UPDATE
           SET is_on = excluded.is_on, updated_at = now()""",
        *(subscription.merchant_id, subscription.holder, subscription.kind, is_on),
    )


def unsubscribe_url(keyring: Keyring, base_url: str, mail: Mail) -> str | None:
    """Returns the unsubscribe link for this email, or None for a security email."""
    kind = MailKind(mail.kind)
    if RULES[kind].is_security:
        return None
    if RULES[kind].audience is Audience.CUSTOMER:
        about = Subscription(mail.merchant_id, mail.recipient.lower(), kind)
    else:
        assert mail.person_id is not None
        about = Subscription(0, holder_of(mail.person_id), kind)
    body = base64.urlsafe_b64encode(msgspec.json.encode(about)).decode().rstrip("=")
    return f"{base_url}{UNSUBSCRIBE}{body}.{_macs(keyring, body)[0]}"


def read_token(keyring: Keyring, token: str) -> Subscription:
    """Verifies and decodes a link's token.

    Tokens never expire, so links in old emails still work.
    """
    body, _, mac = token[:TOKEN_LENGTH_MAX].rpartition(".")
    given = mac.encode("utf-8", "replace")
    if not any(hmac.compare_digest(each.encode(), given) for each in _macs(keyring, body)):
        raise BadUnsubscribeLink
    try:
        content = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        return msgspec.json.decode(content, type=Subscription)
    except (binascii.Error, msgspec.DecodeError):  # the kind of email in the link no longer exists
        raise BadUnsubscribeLink from None


def _macs(keyring: Keyring, body: str) -> list[str]:
    return [
        hmac.digest(key, body.encode("utf-8", "replace"), hashlib.sha256).hex()
        for key in keyring.derive_all("mail-unsubscribe")
    ]
