"""Reads the emails in the outbox as their recipients would see them."""

from manilla.kit.database.connections import Database
from manilla.mail.letter import LetterWriter
from manilla.mail.queries import Mail, find
from manilla.mail.transport import OutgoingMail


async def mails_to(db: Database, recipient: str) -> list[Mail]:
    rows = await db.records("SELECT id FROM mail WHERE recipient = $1 ORDER BY id", recipient)
    found = [await find(db, row["id"]) for row in rows]
    return [mail for mail in found if mail is not None]


async def letters_to(db: Database, writer: LetterWriter, recipient: str) -> list[OutgoingMail]:
    return [writer.write([mail]) for mail in await mails_to(db, recipient)]
