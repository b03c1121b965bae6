"""Pages on which a merchant completes and submits its KYC dossier."""

from typing import Any

from manilla.compliance import documents, dossiers, reviews, sections
from manilla.compliance.documents import DocumentPurpose
from manilla.compliance.sections import DossierView, Section
from manilla.dashboard import uploads
from manilla.kit.errors import Refusal
from manilla.merchants import merchants
from manilla.merchants.documents import BYTES_MAX, BadDocument
from manilla.people.roles import Permission
from manilla.web.exports import attachment
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

# This limit exceeds the document size limit, so that the page can report a document as too large.
# If a request exceeds this limit, the server closes the connection without a message.
UPLOAD_BYTES_MAX = 3 * BYTES_MAX
# The form fields of each section of the KYC dossier.
FIELDS = {
    Section.BUSINESS: ("legal_form", "legal_name", "registration_number"),
    Section.ADDRESS: ("address",),
    Section.DIRECTORS: ("directors",),
    Section.WEBSITE: ("website", "has_no_website"),
    Section.VOLUME: ("volume",),
}
TEXT_LENGTH_MAX = 3_000


async def show(request: PageRequest) -> PageResponse:
    return request.page("verification.html", **await _overview(request))


async def show_section(request: PageRequest) -> PageResponse:
    return request.page("verification_section.html", **await _details(request))


async def save(request: PageRequest) -> PageResponse:
    """Saves one section of the KYC dossier."""
    section = _section(request)
    try:
        given = {name: request.form.text(name, at_most=TEXT_LENGTH_MAX) for name in FIELDS[section]}
        values = sections.read(section, given, (await _view(request)).merchant.currencies[0])
        await dossiers.save(request.db, request.merchant_id, values)
    except Refusal as refusal:
        details = await _details(request)
        return request.form_with_errors("verification_section.html", refusal, **details)
    return request.redirect("/verification", done=f"{sections.TITLES[section]}: saved.")


async def upload(request: PageRequest) -> PageResponse:
    try:
        purpose = request.form.choice("purpose", DocumentPurpose)
        uploaded = request.form.file("file")
        await uploads.count(request)
        await documents.add(
            request.db,
            request.services.keyring,
            request.merchant_id,
            purpose,
            uploaded.name,
            uploaded.content,
            by=request.visitor.email,
        )
    except Refusal as refusal:
        return request.form_with_errors(
            "verification_documents.html",
            refusal,
            at=((BadDocument, "file"),),
            **await _overview(request),
        )
    return request.redirect("/verification/documents", done="Document saved.")


async def show_documents(request: PageRequest) -> PageResponse:
    return request.page("verification_documents.html", **await _overview(request))


async def send_document(request: PageRequest) -> PageResponse:
    about = request.merchant_id, int(request.parameter("document"))
    try:
        document, content = await documents.read(request.db, request.services.keyring, *about)
    except documents.DocumentNotFound:
        raise PageNotFound from None
    return attachment(document.download_name, document.media_type, content)


async def remove_document(request: PageRequest) -> PageResponse:
    try:
        number = int(request.parameter("document"))
        await documents.remove(request.db, request.merchant_id, number)
    except documents.DocumentNotFound:
        raise PageNotFound from None
    except Refusal as refusal:
        return request.redirect("/verification/documents", failed=refusal.text)
    return request.redirect("/verification/documents", done="Document removed.")


async def submit(request: PageRequest) -> PageResponse:
    try:
        await reviews.submit(request.db, request.merchant_id)
    except Refusal as refusal:
        return request.redirect_with_errors("/verification", refusal)
    return request.redirect("/verification", done="Submitted. This page will show the decision.")


async def _view(request: PageRequest) -> DossierView:
    return await sections.view(request.db, await merchants.get(request.db, request.merchant_id))


async def _overview(request: PageRequest) -> dict[str, Any]:
    view = await _view(request)
    is_open = view.dossier is None or view.dossier.is_editable
    return {
        "view": view,
        "may_edit": is_open and request.may(Permission.PROFILE),
        "events": await dossiers.history(request.db, request.merchant_id),
        "purposes": list(documents.PURPOSES.items()),
        "documents_max": documents.DOCUMENTS_MAX,
        "forms": sections.FORMS,
    }


async def _details(request: PageRequest) -> dict[str, Any]:
    section = _section(request)
    return {
        "section": section,
        "title": sections.TITLES[section],
        "legal_forms": [("", "Choose"), *sections.LEGAL_FORMS.items()],
        **await _overview(request),
    }


def _section(request: PageRequest) -> Section:
    wanted = request.parameter("section")
    found = next((each for each in FIELDS if each.value == wanted), None)
    if found is None:
        raise PageNotFound
    return found
