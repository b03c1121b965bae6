"""A merchant's KYC page: checklist, documents, decision and KYC level."""

from manilla.compliance import documents, dossiers, reviews, sections
from manilla.compliance.dossiers import DossierState
from manilla.console.merchants import merchant_number
from manilla.kit.errors import Refusal
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantLevel, MerchantUpdate
from manilla.web.exports import attachment
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

DONE = {
    DossierState.APPROVED: "KYC approved. The merchant is verified.",
    DossierState.NEEDS_INFORMATION: "Requested. The merchant sees your note in the dashboard.",
    DossierState.REJECTED: "KYC rejected. The merchant sees your note in the dashboard.",
}


async def show(request: PageRequest) -> PageResponse:
    merchant = await merchants.get(request.db, merchant_number(request))
    view = await sections.view(request.db, merchant)
    return request.page(
        "dossier.html",
        view=view,
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
    about = merchant_number(request), int(request.parameter("document"))
    try:
        document, content = await documents.read(request.db, request.services.keyring, *about)
    except documents.DocumentNotFound:
        raise PageNotFound from None
    return attachment(document.download_name, document.media_type, content)
