"""A merchant's KYC page: checklist, documents, decision and KYC level."""

from manilla.compliance import documents, dossiers, reviews, sections
from manilla.compliance.dossiers import DossierState
from manilla.console.merchants import merchant_number
from manilla.kit.errors import Refusal
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantLevel, MerchantUpdate
from manilla.web.exports import attachment
from manilla.web.forms import BadForm
from manilla.web.page_request import NO_STORE, PageRequest
from manilla.web.serving.policy import content_policy
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

DONE = {
    DossierState.APPROVED: "KYC approved. The merchant is verified.",
    DossierState.NEEDS_INFORMATION: "Requested. The merchant sees your note in the dashboard.",
    DossierState.REJECTED: "KYC rejected. The merchant sees your note in the dashboard.",
}
# Content security policy of the page that shows a document in a frame.
FRAMING = content_policy(frames="'self'")
# Content security policy of the document itself. Browsers display a PDF as an object.
FRAMED = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"


async def show(request: PageRequest) -> PageResponse:
    merchant = await merchants.get(request.db, merchant_number(request))
    view = await sections.view(request.db, merchant)
    chosen = request.query.text("document")
    return request.page(
        "dossier.html",
        headers={"Content-Security-Policy": FRAMING},
        view=view,
        shown=next((each for each in view.documents if str(each.id) == chosen), None),
        merchant=merchant,
        events=await dossiers.history(request.db, merchant.id),
        decisions=dossiers.NEXT[view.dossier.state] if view.dossier else (),
    )


async def decide(request: PageRequest) -> PageResponse:
    """Decides on the KYC dossier. The merchant's status does not change."""
    merchant_id = merchant_number(request)
    back = f"/merchants/{merchant_id}/dossier"
    try:
        state = request.form.choice("state", DossierState)
        if state not in DONE:
            raise BadForm(errors={"state": "Choose one of the options."})
        await reviews.decide_dossier(
            request.db,
            request.services.keyring,
            merchant_id,
            state,
            request.form.text("note", at_most=dossiers.NOTE_LENGTH_MAX),
            was=request.form.choice("was", DossierState),
        )
    except Refusal as refusal:
        return request.redirect_with_errors(back, refusal)
    return request.redirect(back, done=DONE[state])


async def set_level(request: PageRequest) -> PageResponse:
    merchant_id = merchant_number(request)
    level = request.form.choice("level", MerchantLevel)
    wanted = MerchantUpdate(level=level)
    await merchants.change(request.db, request.services.keyring, merchant_id, wanted)
    return request.redirect(f"/merchants/{merchant_id}", done=f"The merchant is now {level}.")


async def send_document(request: PageRequest) -> PageResponse:
    document, content = await _document(request)
    return attachment(document.download_name, document.media_type, content)


async def show_content(request: PageRequest) -> PageResponse:
    """Sends a document that the browser displays. Its content runs no scripts in our pages."""
    document, content = await _document(request)
    headers = {
        **NO_STORE,
        "Content-Security-Policy": FRAMED,
        "Content-Disposition": f'inline; filename="{document.download_name}"',
    }
    return PageResponse(content, media_type=document.media_type, headers=headers)


async def _document(request: PageRequest) -> tuple[documents.Document, bytes]:
    about = merchant_number(request), int(request.parameter("document"))
    try:
        return await documents.read(request.db, request.services.keyring, *about)
    except documents.DocumentNotFound:
        raise PageNotFound from None
