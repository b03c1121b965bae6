"""An answer as one file, for the administrator who sends it at the provider manually."""

import io
import zipfile
from collections.abc import Sequence

from manilla.disputes.dispute import Dispute, DisputeFile
from manilla.kit.clock import LAGOS
from manilla.kit.display import money
from manilla.merchants.documents import EXTENSIONS, MediaType
from manilla.providers.port import EvidenceField

ANSWER = "answer.txt"


def pack(
    dispute: Dispute,
    fields: Sequence[EvidenceField],
    files: Sequence[tuple[DisputeFile, bytes]],
) -> bytes:
    """Returns a ZIP archive with the answer as text and the files of the evidence."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(ANSWER, _text(dispute, fields))
        for file, data in files:
            archive.writestr(file_name(file), data)
    return content.getvalue()


def file_name(file: DisputeFile) -> str:
    """A name that is safe in a header and on disk, regardless of the uploaded file's name."""
    return f"{file.trx_id}-{file.number}.{EXTENSIONS[MediaType(file.media_type)]}"


def _text(dispute: Dispute, fields: Sequence[EvidenceField]) -> str:
    accepted = dispute.accepted
    deadline = dispute.respond_by.astimezone(LAGOS)
    titles = {each.name: each.title for each in fields}
    lines = [
        ("Answer", "Contest" if accepted is None else f"Accept {money(accepted)}"),
        ("Dispute at the provider", dispute.provider_reference),
        ("Amount", money(dispute.amount)),
        ("Charge", dispute.charge_reference or ""),
        ("Payment", dispute.payment_trx_id),
        ("Reason", dispute.reason),
        ("Answer before", f"{deadline:%d %b %Y %H:%M} (Africa/Lagos)"),
        *((titles.get(name, name), value) for name, value in dispute.fields.items() if value),
    ]
    text = "\n".join(f"{name}: {value}" for name, value in lines if value)
    return f"{text}\n\n{dispute.evidence_text}\n" if dispute.evidence_text else f"{text}\n"
