"""Connects a shop, whose settings the merchant pastes as one text."""

from manilla.dashboard.developers.credentials import NOT_YET, is_pending
from manilla.dashboard.webhooks.pages import url_problem
from manilla.kit.errors import Refusal
from manilla.merchants.api_keys import NAME_LENGTH_MAX
from manilla.notify import shops
from manilla.notify.endpoints.endpoint import URL_LENGTH_MAX
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse


async def show_form(request: PageRequest) -> PageResponse:
    if is_pending(request):
        return request.redirect("~/credentials", failed=NOT_YET)
    return request.page("shop_new.html")


async def connect(request: PageRequest) -> PageResponse:
    if is_pending(request):
        return request.redirect("~/credentials", failed=NOT_YET)
    services, form = request.services, request.form
    try:
        name = form.required("name", at_most=NAME_LENGTH_MAX)
        url = form.required("url", at_most=URL_LENGTH_MAX)
        problem = url_problem(request, url)
        if problem is not None:
            raise BadForm.at("url", problem)
        await request.confirm_identity()
        connection = await shops.connect(
            *(request.db, services.keyring, request.tenant, services.base_url, name, url)
        )
    except Refusal as refusal:
        return request.form_with_errors("shop_new.html", refusal)
    # Render a page instead of redirecting, because the secrets are shown only once.
    return request.page("shop_connected.html", name=name, url=url, text=connection.text)
