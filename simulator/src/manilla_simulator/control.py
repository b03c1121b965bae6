"""The JSON control API: enables faults, settles transactions and returns the providers' state."""

from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from manilla.kit import strict_json
from manilla_simulator import accounts, cards, commands, mandates, views
from manilla_simulator.commands import Invalid, NotFound
from manilla_simulator.provider import Provider
from manilla_simulator.transfers import NotPossible
from manilla_simulator.world import World

LIMIT_DEFAULT, LIMIT_MAX = 100, 1000
NUMBER_DIGITS_MAX = 9

Command = TypeVar("Command")
ProviderHandler = Callable[[Provider, web.Request], Awaitable[Any]]


def add_routes(app: web.Application, world: World) -> None:
    root = "/control/api"

    def add(method: str, path: str, answer: ProviderHandler) -> None:
        app.router.add_route(method, f"{root}/{{provider}}/{path}", _for_provider(world, answer))

    add("POST", "faults", _faults)
    add("POST", "account", _account)
    add("POST", "balance", _balance)
    add("POST", "reset", _reset)
    add("POST", "transfers/{reference}/settle", _settle)
    add("POST", "transfers/{reference}/approve", _approve)
    add("POST", "charges/{reference}/pay", _pay)
    add("POST", "charges/{reference}/expire", _expire)
    add("POST", "charges/{reference}/status", _set_charge_status)
    add("POST", "accounts/{reference}/transfer", _send_transfer)
    add("POST", "accounts/{reference}/number", _give_number)
    add("POST", "charges/{reference}/card", _change_card)
    add("POST", "mandates/{reference}/status", _set_mandate_status)
    add("POST", "refunds/{reference}/settle", _settle_refund)
    add("POST", "charges/{reference}/dispute", _open_dispute)
    add("POST", "disputes/{reference}/remind", _remind_of_dispute)
    add("POST", "disputes/{reference}/resolve", _resolve_dispute)
    add("POST", "disputes/{reference}/reopen", _reopen_dispute)
    add("POST", "webhooks/release", _release)
    add("POST", "webhooks/send", _send)
    for kind in views.LISTS:
        add("GET", kind, _list_of(kind))
    app.router.add_get(f"{root}/state", _state(world))
    app.router.add_post(f"{root}/reset", _reset_all(world))


def _for_provider(world: World, answer: ProviderHandler) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        provider = world.provider(request.match_info["provider"])
        try:
            if provider is None:
                raise NotFound(f"There is no such provider: use {', '.join(world.providers)}.")
            return reply(await answer(provider, request))
        except NotFound as error:
            return reply({"error": str(error)}, 404)
        except NotPossible as error:
            return reply({"error": str(error)}, 409)
        except Invalid as error:
            return reply({"error": str(error)}, 400)

    return handle


async def _faults(provider: Provider, request: web.Request) -> Any:
    commands.change_faults(provider, await _read(request, commands.ChangeFaults))
    return views.overview(provider)["faults"]


async def _account(provider: Provider, request: web.Request) -> Any:
    commands.change_account(provider, await _read(request, dict[str, Any]))
    return views.overview(provider)["account"]


async def _balance(provider: Provider, request: web.Request) -> Any:
    commands.set_balance(provider, await _read(request, commands.SetBalance))
    return views.overview(provider)["balance"]


async def _reset(provider: Provider, _request: web.Request) -> Any:
    provider.reset()
    await provider.outbox.finish_posting()
    return views.overview(provider)


async def _settle(provider: Provider, request: web.Request) -> Any:
    command = await _read(request, commands.Settle)
    reference = request.match_info["reference"]
    return views.transfer(commands.settle_transfer(provider, reference, command))


async def _approve(provider: Provider, request: web.Request) -> Any:
    reference = request.match_info["reference"]
    return views.transfer(commands.approve_transfer(provider, reference))


async def _settle_refund(provider: Provider, request: web.Request) -> Any:
    command = await _read(request, commands.SettleRefund)
    reference = request.match_info["reference"]
    return views.refund(commands.settle_refund(provider, reference, command))


async def _open_dispute(provider: Provider, request: web.Request) -> Any:
    command = await _read(request, commands.OpenDispute)
    reference = request.match_info["reference"]
    return views.dispute(commands.open_dispute(provider, reference, command))


async def _remind_of_dispute(provider: Provider, request: web.Request) -> Any:
    reference = request.match_info["reference"]
    return views.dispute(commands.remind_of_dispute(provider, reference))


async def _resolve_dispute(provider: Provider, request: web.Request) -> Any:
    command = await _read(request, commands.ResolveDispute)
    reference = request.match_info["reference"]
    return views.dispute(commands.resolve_dispute(provider, reference, command))


async def _reopen_dispute(provider: Provider, request: web.Request) -> Any:
    command = await _read(request, commands.ReopenDispute)
    reference = request.match_info["reference"]
    return views.dispute(commands.reopen_dispute(provider, reference, command))


async def _pay(provider: Provider, request: web.Request) -> Any:
    command = await _read(request, commands.Pay)
    return views.charge(commands.pay_charge(provider, request.match_info["reference"], command))


async def _send_transfer(provider: Provider, request: web.Request) -> Any:
    command = await _read(request, commands.SendTransfer)
    return views.charge(commands.send_transfer(provider, request.match_info["reference"], command))


async def _give_number(provider: Provider, request: web.Request) -> Any:
    command = await _read(request, commands.GiveNumber)
    account = commands.give_number(provider, request.match_info["reference"], command)
    return accounts.view(account)


async def _expire(provider: Provider, request: web.Request) -> Any:
    return views.charge(commands.expire_charge(provider, request.match_info["reference"]))


async def _set_charge_status(provider: Provider, request: web.Request) -> Any:
    command = await _read(request, commands.SetChargeStatus)
    reference = request.match_info["reference"]
    return views.charge(commands.set_charge_status(provider, reference, command))


async def _change_card(provider: Provider, request: web.Request) -> Any:
    command = await _read(request, cards.CardChange)
    reference = request.match_info["reference"]
    return views.charge(commands.change_card(provider, reference, command))


async def _set_mandate_status(provider: Provider, request: web.Request) -> Any:
    command = await _read(request, mandates.SetMandateStatus)
    reference = request.match_info["reference"]
    return views.mandate(commands.set_mandate_status(provider, reference, command))


async def _release(provider: Provider, _request: web.Request) -> Any:
    return {"released": provider.outbox.release()}


async def _send(provider: Provider, request: web.Request) -> Any:
    command = await _read(request, commands.SendWebhook)
    return views.webhook(commands.send_webhook(provider, command))


def _list_of(kind: str) -> ProviderHandler:
    async def answer(provider: Provider, request: web.Request) -> Any:
        listed = views.LISTS[kind](provider, request.query.get("reference"))
        limit, offset = _number(request, "limit", LIMIT_DEFAULT), _number(request, "offset", 0)
        if not 1 <= limit <= LIMIT_MAX:
            raise Invalid(f"limit must be a number from 1 to {LIMIT_MAX}.")
        return {kind: list(islice(listed, offset, offset + limit))}

    return answer


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    if not text.isdecimal() or len(text) > NUMBER_DIGITS_MAX:
        raise Invalid(f"{name} must be a number.")
    return int(text)


def _state(world: World) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        providers = world.providers.items()
        return reply({key: views.overview(provider) for key, provider in providers})

    return handle


def _reset_all(world: World) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        await world.reset()
        return reply({"reset": True})

    return handle


async def _read(request: web.Request, kind: type[Command]) -> Command:
    """Parses the body. An empty body is an empty object, because some commands need no fields."""
    try:
        return msgspec.json.decode(await request.read() or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"The body is not a valid command: {error}.") from None


def reply(value: Any, status: int = 200) -> web.Response:
    return web.Response(
        status=status, body=strict_json.encode(value), content_type="application/json"
    )
