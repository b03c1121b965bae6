"""The documents in a dossier. They are validated by content, encrypted, and never shown inline."""

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from manilla.audit import audit
from manilla.compliance import dossiers
from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.errors import Refusal
from manilla.merchants.documents import (
    EXTENSIONS,
    BadDocument,
    MediaType,
    media_type_of,
    plain_name,
)

DOCUMENTS_MAX = 10


class DocumentPurpose(StrEnum):
    REGISTRATION = "registration"
    IDENTITY = "identity"
    ADDRESS = "address"
    OTHER = "other"


PURPOSES = {
    DocumentPurpose.REGISTRATION: "Certificate of registration",
    DocumentPurpose.IDENTITY: "Owner's identity document",
    DocumentPurpose.ADDRESS: "Proof of address",
    DocumentPurpose.OTHER: "Other document",
}
NEEDED = (DocumentPurpose.REGISTRATION, DocumentPurpose.IDENTITY)


class Document(msgspec.Struct, frozen=True):
    """A document without its content."""

    merchant_id: int
    id: int
    purpose: DocumentPurpose
    file_name: str
    media_type: MediaType
    size_bytes: int
    uploaded_by: str
    created_at: datetime

    @property
    def title(self) -> str:
        return PURPOSES[self.purpose]

    @property
    def download_name(self) -> str:
        """A name that is safe in a header and on disk, regardless of the uploaded file's name."""
        return f"merchant-{self.merchant_id}-document-{self.id}.{EXTENSIONS[self.media_type]}"


class DocumentNotFound(Refusal):
    status, code = 404, "DOCUMENT_NOT_FOUND"
    message = "There is no such document."


async def add(
    db: Database,
    keyring: Keyring,
    merchant_id: int,
    purpose: DocumentPurpose,
    file_name: str,
    content: bytes,
    *,
    by: str,
) -> Document:
    media_type = media_type_of(content)
    async with db.transaction() as connection:
        await dossiers.lock_to_edit(connection, merchant_id)
        if len(await list_of(connection, merchant_id)) >= DOCUMENTS_MAX:
            raise BadDocument(
                f"You can add at most {DOCUMENTS_MAX} documents. Remove one before you add another."
            )
        document_id: int = await connection.value(
            "SELECT nextval(pg_get_serial_sequence('dossier_document', 'id'))"
        )
        await connection.execute(
            """
            INSERT INTO dossier_document (merchant_id, id, purpose, file_name, media_type,
                   size_bytes, content_sealed, uploaded_by)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)""",
            *(merchant_id, document_id, purpose, plain_name(file_name), media_type),
            *(len(content), keyring.seal(content, _context(merchant_id, document_id)), by),
        )
        document = await find(connection, merchant_id, document_id)
        await _record(connection, "dossier.document_add", document)
    return document


async def list_of(db: Database | Connection, merchant_id: int) -> list[Document]:
    return await db.rows(
        Document,
        f"SELECT {columns(Document)} FROM dossier_document WHERE merchant_id = $1 ORDER BY id",
        merchant_id,
    )


async def find(db: Database | Connection, merchant_id: int, document_id: int) -> Document:
    found = await db.row(
        Document,
        f"SELECT {columns(Document)} FROM dossier_document WHERE merchant_id = $1 AND id = $2",
        *(merchant_id, document_id),
    )
    if found is None:
        raise DocumentNotFound
    return found


async def read(
    db: Database, keyring: Keyring, merchant_id: int, document_id: int
) -> tuple[Document, bytes]:
    """Returns a document with its content. The audit log records who read it."""
    async with db.transaction() as connection:
        document = await find(connection, merchant_id, document_id)
        sealed: bytes = await connection.value(
            "SELECT content_sealed FROM dossier_document WHERE merchant_id = $1 AND id = $2",
            *(merchant_id, document_id),
        )
        content = keyring.open(sealed, _context(merchant_id, document_id))
        await _record(connection, "dossier.document_read", document)
    return document, content


async def remove(db: Database, merchant_id: int, document_id: int) -> None:
    async with db.transaction() as connection:
        await dossiers.lock_to_edit(connection, merchant_id)
        document = await find(connection, merchant_id, document_id)
        await connection.execute(
            "DELETE FROM dossier_document WHERE merchant_id = $1 AND id = $2",
            *(merchant_id, document_id),
        )
        await _record(connection, "dossier.document_remove", document)


async def delete_old(db: Database, days: int) -> None:
    """Deletes documents of merchants that have been rejected or disabled for this long."""
    await db.execute(
        """
        DELETE FROM dossier_document d USING merchant m
         WHERE m.id = d.merchant_id AND m.status IN ('rejected', 'disabled')
           AND greatest(m.updated_at, d.created_at) < now() - $1::interval""",
        timedelta(days=days),
    )


async def _record(connection: Connection, action: str, document: Document) -> None:
    await audit.record(
        connection,
        action,
        f"document:{document.id}",
        merchant_id=document.merchant_id,
        purpose=document.purpose,
        media_type=document.media_type,
        size_bytes=document.size_bytes,
    )


def _context(merchant_id: int, document_id: int) -> str:
    return f"merchant:{merchant_id}:document:{document_id}"


SEALED = SealedColumn(
    "dossier_document",
    "content_sealed",
    ("merchant_id", "id"),
    lambda row: _context(row["merchant_id"], row["id"]),
)
