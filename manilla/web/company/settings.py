"""The settings of company sign-in: of the console, and of a merchant."""

from typing import Any

import msgspec

from manilla.approvals import changes
from manilla.approvals.changes import ApprovalRequested
from manilla.kit.errors import Refusal
from manilla.people import throttle
from manilla.people.company import providers
from manilla.people.company.providers import BadProvider, SignInProviderChange
from manilla.people.roles import Permission, Realm
from manilla.web.company.pages import CALLBACK, SIGN_OUT, failure_limit
from manilla.web.forms import Form
from manilla.web.page_request import PageRequest
from manilla.web.routes import Route
from manilla.web.serving.response import PageResponse

PAGE = "/company-sign-in"
ASKED = "Another person must approve this change."


async def show(request: PageRequest) -> PageResponse:
    return request.page("company_settings.html", **await _about(request))


async def _about(request: PageRequest) -> dict[str, Any]:
    provider = await providers.find(request.db, _merchant_id(request))
    # The provider must know the URLs before it issues a client ID.
    key = provider.key if provider else request.form.text("key") or providers.new_key()
    start = request.services.base_url + request.at(f"/sign-in/company/{key}")
    return {
        "provider": provider,
        "key": key,
        "urls": {
            "Sign-in link for your team": start,
            "Redirect URI": start + CALLBACK,
            "Back-channel logout URI": start + SIGN_OUT,
            "Post-logout redirect URI": request.services.base_url + request.at("/sign-in"),
        },
        "roles": providers.granted_roles(request.realm),
        "claim": providers.DEFAULT_CLAIM,
    }


async def save(request: PageRequest) -> PageResponse:
    try:
        change = _read(request.form, _merchant_id(request))
        await changes.check(request.approvals, change)
        buckets = throttle.using_provider(request.realm, request.address)
        async with failure_limit(request.db, buckets):
            await request.services.company.client.check(change.merchant_id, change.issuer)
        await request.confirm_identity()
        result = await changes.apply_or_ask(request.approvals, change)
    except Refusal as refusal:
        about = await _about(request)
        return request.form_with_errors("company_settings.html", refusal, **about)
    done = ASKED if isinstance(result, ApprovalRequested) else "Company sign-in saved."
    return request.redirect(PAGE, done=done)


async def remove(request: PageRequest) -> PageResponse:
    try:
        change = SignInProviderChange(merchant_id=_merchant_id(request))
        result = await changes.apply_or_ask(request.approvals, change)
    except Refusal as refusal:
        return request.redirect(PAGE, failed=refusal.text)
    done = ASKED if isinstance(result, ApprovalRequested) else "Company sign-in removed."
    return request.redirect(PAGE, done=done)


def _merchant_id(request: PageRequest) -> int:
    return providers.CONSOLE if request.realm is Realm.CONSOLE else request.merchant_id


def _read(form: Form, merchant_id: int) -> SignInProviderChange:
    change = SignInProviderChange(
        merchant_id=merchant_id,
        key=form.text("key"),
        issuer=form.required("issuer", at_most=500),
        client_id=form.required("client_id"),
        secret=form.secret("secret") or None,
        groups_claim=form.text("groups_claim") or providers.DEFAULT_CLAIM,
        roles=_roles(form.text("roles", at_most=5000)),
        is_required=form.is_checked("is_required"),
        break_glass=form.text("break_glass").lower(),
    )
    return msgspec.structs.replace(change, issuer=change.issuer.strip())


def _roles(text: str) -> dict[str, str]:
    """Parses lines such as `payments-support: support`. A group's name can contain colons."""
    roles: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        group, colon, role = line.rpartition(":")
        if not colon:
            raise BadProvider.at("roles", "Enter a group and its role in each line: group: role.")
        roles[group.strip()] = role.strip()
    return roles


def routes(needs: Permission) -> list[Route]:
    return [
        Route("GET", PAGE, show, needs),
        Route("POST", PAGE, save, needs, step_up=True, checks_first=True),
        Route("POST", PAGE + "/remove", remove, needs, step_up=True),
    ]
