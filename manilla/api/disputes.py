"""API endpoints that list and answer disputes."""

from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from multipart import (  # type: ignore[import-untyped]
    MultipartError,
    MultipartSegment,
    PushMultipartParser,
    parse_options_header,
)

from manilla.api.endpoint import Call, Endpoint, Upload
from manilla.api.fields import Amount, Lines, Reference
from manilla.api.lists import Cursors, PeriodQuery
from manilla.api.refusals import InvalidAmount, ValidationFailed
from manilla.api.request import remember
from manilla.disputes import listing, store
from manilla.disputes.dispute import (
    TEXT_LENGTH_MAX,
    DeadlinePassed,
    Dispute,
    DisputeClosed,
    DisputeFile,
    DisputeStatus,
    EvidenceIncomplete,
    EvidenceRejected,
)
from manilla.disputes.evidence import EvidenceFileNotFound
from manilla.disputes.fields import DisputeInfo, EvidenceFileInfo, describe
from manilla.disputes.listing import DisputeFilter
from manilla.kit import strict_json
from manilla.kit.database.connections import Connection
from manilla.kit.listing import Moment
from manilla.ledger.idempotency import Remember
from manilla.ledger.transactions import KeyUsedBefore, TransactionNotFound
from manilla.merchants.documents import BYTES_MAX, BadDocument
from manilla.merchants.rights import Right
from manilla.services import Services

DISPUTES, DISPUTE = "/api/v1/disputes", "/api/v1/disputes/{disputeId}"
FILE_FIELD = "file"
FORM_BYTES = 64 * 1024  # what a form can have in addition to its file
PARTS_MAX = 10
NO_FILE = "Expected one file, as `multipart/form-data`."

_ANSWERING = (TransactionNotFound, DisputeClosed, DeadlinePassed)


class DisputesQuery(PeriodQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Literal["needs_response", "submitted", "won", "lost", "accepted"] | None = None
    ref_trx: Reference | None = None
    trx_id: str | None = None
    respond_before: Moment | None = None


class DisputeAcceptanceRequest(Struct, frozen=True, kw_only=True):
    amount: Amount | None = None


class DisputeEvidenceRequest(Struct, frozen=True, kw_only=True):
    text: Annotated[Lines, Meta(max_length=TEXT_LENGTH_MAX)] | None = None
    fields: dict[str, str] | None = None


class DisputeList(Struct, frozen=True):
    data: list[DisputeInfo]
    next_cursor: str | None


class DeletedFile(Struct, frozen=True):
    id: int
    deleted: bool = True


def endpoints(services: Services) -> list[Endpoint]:
    return [*_reading(services), *_answering(services), *_evidence(services), *_files(services)]


def _reading(services: Services) -> list[Endpoint]:
    cursors = Cursors(services.keyring, DISPUTES)

    async def list_disputes(call: Call) -> DisputeList:
        db, wanted = services.db, _filter(call.query)
        after, limit = cursors.read(call), call.query.limit
        page = await listing.disputes(db, call.tenant, wanted, after=after, limit=limit)
        trx_ids = [each.trx_id for each in page.rows]
        files = await store.files_by_dispute(db, call.tenant.merchant_id, trx_ids)
        data = [describe(each, files[each.trx_id]) for each in page.rows]
        return DisputeList(data, cursors.write(call, page.next))

    async def get_dispute(call: Call) -> DisputeInfo:
        found = await services.disputes.get(call.tenant, call.parameter)
        return await _describe(services, found)

    return [
        Endpoint(
            method="GET",
            path=DISPUTES,
            operation_id="listDisputes",
            summary="List disputes",
            description="Lists the disputes of your payments, newest first.",
            right=Right.READ,
            answers=(DisputeList,),
            use_case=list_disputes,
            query=DisputesQuery,
        ),
        Endpoint(
            method="GET",
            path=DISPUTE,
            operation_id="getDispute",
            summary="Get a dispute",
            description="Returns one dispute, with its deadline and your evidence.",
            right=Right.READ,
            answers=(DisputeInfo,),
            use_case=get_dispute,
            refusals=(TransactionNotFound,),
        ),
    ]


def _answering(services: Services) -> list[Endpoint]:
    """Returns the endpoints that accept a dispute, or contest it."""

    async def accept_dispute(call: Call) -> DisputeInfo:
        amount: Decimal | None = call.body.amount
        own = _remember(call)
        accepted = await services.disputes.accept(call.tenant, call.parameter, amount, own)
        return await _describe(services, accepted)

    async def submit_dispute(call: Call) -> DisputeInfo:
        own = _remember(call)
        submitted = await services.disputes.submit(call.tenant, call.parameter, own)
        return await _describe(services, submitted)

    return [
        Endpoint(
            method="POST",
            path=DISPUTE + "/accept",
            operation_id="acceptDispute",
            summary="Accept a dispute",
            description="Accepts that the customer gets the disputed amount back, or a part of it. "
            "You cannot take this back.",
            right=Right.REFUNDS,
            answers=(DisputeInfo,),
            use_case=accept_dispute,
            body=DisputeAcceptanceRequest,
            refusals=(InvalidAmount, *_ANSWERING, KeyUsedBefore),
            is_repeatable=True,
        ),
        Endpoint(
            method="POST",
            path=DISPUTE + "/submit",
            operation_id="submitDispute",
            summary="Contest a dispute",
            description="Sends your evidence to the provider. You cannot change it afterwards.",
            right=Right.REFUNDS,
            answers=(DisputeInfo,),
            use_case=submit_dispute,
            refusals=(*_ANSWERING, EvidenceIncomplete, EvidenceRejected, KeyUsedBefore),
            is_repeatable=True,
        ),
    ]


def _evidence(services: Services) -> list[Endpoint]:
    async def set_evidence(call: Call) -> DisputeInfo:
        body: DisputeEvidenceRequest = call.body
        sent = strict_json.decode(call.raw_body) if call.raw_body else {}
        text = (body.text or "") if "text" in sent else None
        fields = (body.fields or {}) if "fields" in sent else None
        changed = await services.disputes.set_evidence(call.tenant, call.parameter, text, fields)
        return await _describe(services, changed)

    return [
        Endpoint(
            method="PUT",
            path=DISPUTE + "/evidence",
            operation_id="setDisputeEvidence",
            summary="Save evidence",
            description="Replaces the text or the fields that you send. Null removes them. Nothing "
            "is sent to the provider until you call submit.",
            right=Right.REFUNDS,
            answers=(DisputeInfo,),
            use_case=set_evidence,
            body=DisputeEvidenceRequest,
            refusals=_ANSWERING,
        ),
    ]


def _files(services: Services) -> list[Endpoint]:
    """Returns the endpoints that add and remove files of the evidence."""

    async def add_file(call: Call) -> EvidenceFileInfo:
        name, content = _read_file(call)
        own = remember(call, _file_info)
        added = await services.disputes.add_file(call.tenant, call.parameter, name, content, own)
        return _file_info(added)

    async def remove_file(call: Call) -> DeletedFile:
        trx_id, text = call.parameters
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            await services.disputes.get(call.tenant, trx_id)
            raise EvidenceFileNotFound
        await services.disputes.remove_file(call.tenant, trx_id, int(text))
        return DeletedFile(int(text))

    return [
        Endpoint(
            method="POST",
            path=DISPUTE + "/files",
            operation_id="addDisputeFile",
            summary="Add a file to the evidence",
            description="Adds a PDF, PNG or JPEG file of at most 5 MB. The content decides the "
            "type. As always, the signature covers the raw body.",
            right=Right.REFUNDS,
            answers=(EvidenceFileInfo,),
            use_case=add_file,
            upload=Upload(
                FILE_FIELD,
                BYTES_MAX + FORM_BYTES,
                partial(BadDocument, "The file is larger than 5 MB."),
            ),
            refusals=(BadDocument, *_ANSWERING, KeyUsedBefore),
            is_repeatable=True,
        ),
        Endpoint(
            method="DELETE",
            path=DISPUTE + "/files/{fileId}",
            operation_id="removeDisputeFile",
            summary="Remove a file from the evidence",
            description="Removes a file that you have not submitted yet.",
            right=Right.REFUNDS,
            answers=(DeletedFile,),
            use_case=remove_file,
            refusals=(*_ANSWERING, EvidenceFileNotFound),
        ),
    ]


def _filter(query: DisputesQuery) -> DisputeFilter:
    since, until = query.period
    return DisputeFilter(
        status=DisputeStatus(query.status) if query.status else None,
        ref_trx=query.ref_trx,
        payment_trx_id=query.trx_id,
        respond_before=query.respond_before,
        since=since,
        until=until,
    )


async def _describe(services: Services, dispute: Dispute) -> DisputeInfo:
    files = await store.files_of(services.db, dispute.merchant_id, dispute.trx_id)
    return describe(dispute, files)


def _remember(call: Call) -> Remember:
    """Returns a function that stores the response with the evidence's files."""

    async def keep(connection: Connection, dispute: Dispute) -> None:
        files = await store.files_of(connection, dispute.merchant_id, dispute.trx_id)
        await remember(call, partial(describe, files=files))(connection, dispute)

    return keep


def _file_info(file: DisputeFile) -> EvidenceFileInfo:
    return EvidenceFileInfo(file.number, file.name, file.size_bytes)


def _read_file(call: Call) -> tuple[str, bytes]:
    """Parses the file's name and content from a form."""
    media_type, options = parse_options_header(
        call.headers.get(b"content-type", b"").decode("latin-1")
    )
    files: list[tuple[str, bytes]] = []
    try:
        if media_type == "multipart/form-data" and b"content-encoding" not in call.headers:
            files = _files_of(call.raw_body, options.get("boundary", ""))
    except (MultipartError, UnicodeError):
        files = []
    if len(files) != 1:
        raise ValidationFailed(errors={FILE_FIELD: NO_FILE})
    return files[0]


def _files_of(body: bytes, boundary: str) -> list[tuple[str, bytes]]:
    files: list[tuple[str, bytes]] = []
    segment: Any = None
    content = bytearray()
    with PushMultipartParser(boundary, max_segment_count=PARTS_MAX) as parser:
        for found in parser.parse(body):
            if isinstance(found, MultipartSegment):
                segment, content = found, bytearray()
            elif found is not None:
                content += found
            elif segment is not None and segment.name == FILE_FIELD:
                files.append((segment.filename or "", bytes(content)))
    return files
