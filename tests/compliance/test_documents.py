"""Uploaded documents: the content determines the type, and the stored content is encrypted."""

import pytest
from hypothesis import given

from manilla.cells.moving import fence
from manilla.cli import master_key
from manilla.compliance import documents
from manilla.compliance.documents import DOCUMENTS_MAX, DocumentNotFound, DocumentPurpose
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.merchants import merchants
from manilla.merchants.documents import (
    BYTES_MAX,
    BadDocument,
    MediaType,
    media_type_of,
    plain_name,
)
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.services import Services
from tests.compliance.files import JPEG, PDF, PNG, SVG
from tests.support.client import Site, new_merchant
from tests.support.strategies import texts


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (PDF, MediaType.PDF),
        (PDF + b"\n\n", MediaType.PDF),
        (PNG, MediaType.PNG),
        (JPEG, MediaType.JPEG),
        (JPEG + b"\0\0", MediaType.JPEG),
        (PDF + bytes(BYTES_MAX - 2 * len(PDF)) + PDF, MediaType.PDF),
    ],
)
def test_a_complete_file_has_the_type_of_its_content(content: bytes, expected: MediaType) -> None:
    assert media_type_of(content) is expected


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (SVG, "not a complete"),
        (b"%PDF-1.7\n<html><script>alert(1)</script></html>", "not a complete"),
        (b"%PDF-1.7\n<html></html>\n%%EOF", "not a complete"),
        (b"<!-- %PDF-1.7 -->" + PDF, "not a complete"),
        (b"\x89PNG\r\n\x1a\n" + SVG, "not a complete"),
        (PNG[:-1], "not a complete"),
        (PNG + SVG, "not a complete"),
        (JPEG[:-2], "not a complete"),
        (JPEG + SVG, "not a complete"),
        (b"PK\x03\x04" + bytes(100), "not a complete"),
        (PDF + bytes(11 * 1024 * 1024), "larger than 5 MB"),
        (PDF + bytes(BYTES_MAX + 1 - 2 * len(PDF)) + PDF, "larger than 5 MB"),
    ],
)
def test_other_content_is_rejected_whatever_its_first_bytes_say(
    content: bytes, reason: str
) -> None:
    with pytest.raises(BadDocument, match=reason):
        media_type_of(content)


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("cac.pdf", "cac.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\ada\\cac.pdf", "cac.pdf"),
        ("a\r\nSet-Cookie: x.pdf", "aSet-Cookie: x.pdf"),
        ("\u202efdp.exe", "fdp.exe"),
        ("..", "document"),
        ("///", "document"),
        ("", "document"),
        ("x" * 500 + ".pdf", "x" * 96 + ".pdf"),
    ],
)
def test_a_file_name_loses_folders_and_control_characters(given_name: str, kept: str) -> None:
    assert plain_name(given_name) == kept


@given(texts())
def test_every_file_name_becomes_one_printable_line(name: str) -> None:
    kept = plain_name(name)
    assert kept
    assert len(kept) <= 100
    assert kept.isprintable()
    assert "/" not in kept
    assert "\\" not in kept


async def _add(services: Services, merchant_id: int, content: bytes = PNG) -> int:
    about = services.db, services.keyring, merchant_id, DocumentPurpose.OTHER
    return (await documents.add(*about, "a.png", content, by="ada@example.com")).id


async def test_stored_bytes_are_encrypted_and_read_back(services: Services, site: Site) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    number = await _add(services, merchant.new.id, PDF)
    sealed: bytes = await services.db.value(
        "SELECT content_sealed FROM dossier_document WHERE id = $1", number
    )
    assert b"%PDF" not in sealed
    document, content = await documents.read(services.db, services.keyring, merchant.new.id, number)
    assert content == PDF
    assert document.media_type == MediaType.PDF


async def test_a_merchant_cannot_read_or_remove_another_merchants_document(
    services: Services, site: Site
) -> None:
    first = await new_merchant(site, services.db, services.keyring)
    second = await new_merchant(site, services.db, services.keyring)
    number = await _add(services, first.new.id)
    with pytest.raises(DocumentNotFound):
        await documents.read(services.db, services.keyring, second.new.id, number)
    with pytest.raises(DocumentNotFound):
        await documents.remove(services.db, second.new.id, number)
    assert len(await documents.list_of(services.db, first.new.id)) == 1


async def test_a_dossier_has_at_most_ten_documents(services: Services, site: Site) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    for _ in range(DOCUMENTS_MAX):
        last = await _add(services, merchant.new.id)
    with pytest.raises(BadDocument, match="at most 10"):
        await _add(services, merchant.new.id)
    await documents.remove(services.db, merchant.new.id, last)
    await _add(services, merchant.new.id)


async def test_a_new_master_key_reads_documents_that_were_rewrapped(
    services: Services, site: Site
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    number = await _add(services, merchant.new.id, PDF)
    assert documents.SEALED in master_key.PLACES
    old = services.keyring._keys[services.keyring._current]
    new = crypto.decode_key(crypto.generate_key())
    await crypto.rewrap_column(services.db, Keyring([new, old]), documents.SEALED, fence.pass_copy)
    try:
        about = services.db, Keyring([new]), merchant.new.id, number
        assert (await documents.read(*about))[1] == PDF
    finally:  # Restore the old key, because other tests in this process use it.
        await crypto.rewrap_column(
            services.db, Keyring([old, new]), documents.SEALED, fence.pass_copy
        )
    assert (await documents.read(services.db, services.keyring, merchant.new.id, number))[1] == PDF


async def test_documents_are_deleted_long_after_the_merchant_was_rejected(
    services: Services, site: Site
) -> None:
    left = await new_merchant(site, services.db, services.keyring)
    stays = await new_merchant(site, services.db, services.keyring)
    for merchant in (left, stays):
        await _add(services, merchant.new.id)
        await services.db.execute(
            "UPDATE dossier_document SET created_at = now() - interval '11 days'"
            " WHERE merchant_id = $1",
            merchant.new.id,
        )
    change = MerchantUpdate(status=MerchantStatus.REJECTED)
    await merchants.change(services.db, services.keyring, left.new.id, change)
    await documents.delete_old(services.db, 10)
    assert len(await documents.list_of(services.db, left.new.id)) == 1
    await services.db.execute(
        "UPDATE merchant SET updated_at = now() - interval '11 days' WHERE id = $1", left.new.id
    )
    await documents.delete_old(services.db, 10)
    assert await documents.list_of(services.db, left.new.id) == []
    assert len(await documents.list_of(services.db, stays.new.id)) == 1
