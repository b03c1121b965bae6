"""The files of a dispute's evidence, which are checked by content and encrypted.

The caller has locked the dispute's payment, and has checked that the dispute can be answered.
"""

from manilla.disputes import store
from manilla.disputes.dispute import FILES_MAX, Dispute, DisputeFile
from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection
from manilla.kit.database.rows import RowSource
from manilla.kit.errors import Refusal
from manilla.merchants.documents import BadDocument, media_type_of, plain_name


class EvidenceFileNotFound(Refusal):
    status, code = 404, "DOCUMENT_NOT_FOUND"
    message = "There is no such file."


async def add(
    connection: Connection, keyring: Keyring, dispute: Dispute, name: str, content: bytes
) -> DisputeFile:
    media_type = media_type_of(content)
    files = await store.files_of(connection, dispute.merchant_id, dispute.trx_id)
    if len(files) >= FILES_MAX:
        raise BadDocument(f"You can add at most {FILES_MAX} files. Remove one first.")
    number = 1 + max((each.number for each in files), default=0)
    sealed = keyring.seal(content, _context(dispute.merchant_id, dispute.trx_id, number))
    await connection.execute(
        """
        INSERT INTO dispute_file (merchant_id, trx_id, number, name, media_type, size_bytes,
                                  content_sealed)
        VALUES ($1, $2, $3, $4, $5, $6, $7)""",
        *(dispute.merchant_id, dispute.trx_id, number, plain_name(name), media_type),
        *(len(content), sealed),
    )
    return await find(connection, dispute, number)


async def find(db: RowSource, dispute: Dispute, number: int) -> DisputeFile:
    files = await store.files_of(db, dispute.merchant_id, dispute.trx_id)
    found = next((each for each in files if each.number == number), None)
    if found is None:
        raise EvidenceFileNotFound
    return found


async def remove(connection: Connection, dispute: Dispute, number: int) -> None:
    await find(connection, dispute, number)
    await connection.execute(
        "DELETE FROM dispute_file WHERE merchant_id = $1 AND trx_id = $2 AND number = $3",
        *(dispute.merchant_id, dispute.trx_id, number),
    )


async def read(db: RowSource, keyring: Keyring, file: DisputeFile) -> bytes:
    sealed: bytes = await db.value(
        """
        SELECT content_sealed FROM dispute_file
         WHERE merchant_id = $1 AND trx_id = $2 AND number = $3""",
        *(file.merchant_id, file.trx_id, file.number),
    )
    return keyring.open(sealed, _context(file.merchant_id, file.trx_id, file.number))


async def save_upload(db: RowSource, file: DisputeFile, provider_file: str) -> None:
    """Saves the provider's name of an uploaded file, so that it is not uploaded again."""
    await db.record(
        """
        UPDATE dispute_file SET provider_file = $4
         WHERE merchant_id = $1 AND trx_id = $2 AND number = $3 RETURNING true""",
        *(file.merchant_id, file.trx_id, file.number, provider_file),
    )


def _context(merchant_id: int, trx_id: str, number: int) -> str:
    return f"merchant:{merchant_id}:dispute:{trx_id}:file:{number}"


SEALED = SealedColumn(
    "dispute_file",
    "content_sealed",
    ("merchant_id", "trx_id", "number"),
    lambda row: _context(row["merchant_id"], row["trx_id"], row["number"]),
)
