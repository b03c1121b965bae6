"""The control page: the commands of the control API as forms, with one page per provider."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from manilla_simulator import commands, views
from manilla_simulator.commands import Invalid, NotFound
from manilla_simulator.faults import CallName, Fault, NextFault, RefundOutcome, WebhookMode
from manilla_simulator.provider import Provider
from manilla_simulator.rendering import render
from manilla_simulator.transfers import NotPossible
from manilla_simulator.world import World

ROWS = 15

Form = Mapping[str, str]
Command = TypeVar("Command")


def add_routes(app: web.Application, world: World) -> None:
    app.router.add_get("/", _to_first)
    app.router.add_get("/control", _to_first)
    app.router.add_get("/control/{provider}", _page(world))
    app.router.add_post("/control/{provider}/{action}", _act(world))


async def _to_first(_request: web.Request) -> web.StreamResponse:
    raise web.HTTPSeeOther("/control/a")


def _page(world: World) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        provider = world.provider(request.match_info["provider"])
        if provider is None:
            raise web.HTTPSeeOther("/control/a")
        return _show(world, provider)

    return handle


def _show(world: World, provider: Provider, error: str | None = None) -> web.Response:
    lists = {
        kind: list(islice(listed(provider, None), ROWS)) for kind, listed in views.LISTS.items()
    }
    return render(
        "control.html",
        400 if error else 200,
        provider=provider,
        providers=world.providers.values(),
        overview=views.overview(provider),
        calls=list(CallName),
        faults=list(Fault),
        webhook_modes=list(WebhookMode),
        refund_outcomes=list(RefundOutcome),
        error=error,
        **lists,
    )


def _act(world: World) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        provider = world.provider(request.match_info["provider"])
        act = ACTIONS.get(request.match_info["action"])
        if provider is None or act is None:
            raise web.HTTPNotFound
        form = {name: str(value) for name, value in (await request.post()).items()}
        try:
            act(provider, form)
        except (Invalid, NotFound, NotPossible) as error:
            return _show(world, provider, str(error))
        raise web.HTTPSeeOther(f"/control/{provider.wire.key}")

    return handle


def _change_faults(provider: Provider, form: Form) -> None:
    plan = {name: form.get(name, "") for name in ("mode", "delay_seconds", "copies")}
    change = {
        "latency_seconds": form.get("latency_seconds", ""),
        "settle_seconds": form.get("settle_seconds", ""),
        "outage": "outage" in form,
        "refunds": form.get("refunds", ""),
        "webhooks": plan,
    }
    commands.change_faults(provider, _convert(change, commands.ChangeFaults))


def _plan_fault(provider: Provider, form: Form) -> None:
    planned = {name: value for name, value in form.items() if value}
    if planned.get("times") == "always":
        planned["times"] = "null"
    fault = _convert(planned, NextFault)
    change = commands.ChangeFaults(next=[*provider.faults.next, fault])
    commands.change_faults(provider, change)


def _clear_faults(provider: Provider, _form: Form) -> None:
    commands.change_faults(provider, commands.ChangeFaults(next=[]))


def _set_balance(provider: Provider, form: Form) -> None:
    commands.set_balance(provider, _convert(form, commands.SetBalance))


def _change_account(provider: Provider, form: Form) -> None:
    """Changes the account. An omitted checkbox is unchecked, and an empty field means no value."""
    current = msgspec.to_builtins(provider.account)
    change = {
        name: name in form if isinstance(value, bool) else form.get(name) or None
        for name, value in current.items()
    }
    commands.change_account(provider, change)


def _approve(provider: Provider, form: Form) -> None:
    commands.approve_transfer(provider, form.get("reference", ""))


def _settle(provider: Provider, form: Form) -> None:
    command = _convert({"status": form.get("status")}, commands.Settle)
    commands.settle_transfer(provider, form.get("reference", ""), command)


def _pay(provider: Provider, form: Form) -> None:
    chosen = {name: form[name] for name in ("outcome", "reason") if name in form}
    commands.pay_charge(provider, form.get("reference", ""), _convert(chosen, commands.Pay))


def _expire(provider: Provider, form: Form) -> None:
    commands.expire_charge(provider, form.get("reference", ""))


def _release(provider: Provider, _form: Form) -> None:
    provider.outbox.release()


def _reset(provider: Provider, _form: Form) -> None:
    provider.reset()


ACTIONS: dict[str, Callable[[Provider, Form], None]] = {
    "faults": _change_faults,
    "next": _plan_fault,
    "clear": _clear_faults,
    "balance": _set_balance,
    "account": _change_account,
    "approve": _approve,
    "settle": _settle,
    "pay": _pay,
    "expire": _expire,
    "release": _release,
    "reset": _reset,
}


def _convert(values: Any, kind: type[Command]) -> Command:
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"{error}.") from None
