"""The commands `manilla deposit-method` and `manilla withdraw-method`."""

from decimal import Decimal
from typing import Annotated, Any

import typer

from manilla.approvals.kinds import MethodAddition, MethodChange
from manilla.cli import changes
from manilla.cli.instance import Tools, command
from manilla.cli.options import Switch, percent
from manilla.kit.money import Money
from manilla.methods import catalogue
from manilla.methods.catalogue import MethodUpdate, NewMethod
from manilla.methods.method import Flow, Method, MethodKind

Code = Annotated[str, typer.Argument(metavar="CODE", help="The method's code.")]
Active = Annotated[Switch | None, typer.Option(help="Whether the method is offered.")]
Position = Annotated[int | None, typer.Option(min=0, max=10_000, help="Position in the list.")]
Name = Annotated[str | None, typer.Option()]
Min = Annotated[str | None, typer.Option("--min", metavar="AMOUNT")]
Max = Annotated[str | None, typer.Option("--max", metavar="AMOUNT|none")]
Amount = Annotated[str | None, typer.Option(metavar="AMOUNT")]
OrNone = Annotated[str | None, typer.Option(metavar="AMOUNT|none")]
Percent = Annotated[Decimal | None, typer.Option(parser=percent, metavar="P")]


def commands(kind: MethodKind) -> typer.Typer:
    app = typer.Typer(no_args_is_help=True)
    _add_list(app, kind)
    _add_deposit_set(app) if kind is MethodKind.DEPOSIT else _add_withdraw_set(app)
    _add_add(app, kind)
    return app


def _add_list(app: typer.Typer, kind: MethodKind) -> None:
    @command(app, "list")
    async def list_(tools: Tools) -> None:
        """List the methods in display order."""
        methods = await catalogue.load(tools.db)
        tools.print_rows([describe(method) for method in methods if method.kind is kind])


def _add_deposit_set(app: typer.Typer) -> None:
    @command(app, "set")
    async def set_(
        tools: Tools,
        code: Code,
        name: Name = None,
        active: Active = None,
        position: Position = None,
        min_: Min = None,
        max_: Max = None,
        provider_fee_fixed: Amount = None,
        provider_fee_percent: Percent = None,
        provider_fee_minimum: OrNone = None,
        provider_fee_maximum: OrNone = None,
    ) -> None:
        """Change a payment method. Omitted options stay unchanged. Takes effect within a second.

        If several gateways offer the same way to pay, checkout uses the provider's fee to choose
        one.

        In production mode, a second administrator must approve changes to fees and limits. Once a
        provider is configured, activating a method and changing its position need approval too.
        """
        wanted = MethodUpdate(
            name=name,
            active=None if active is None else active is Switch.ON,
            position=position,
            minimum=min_,
            maximum=max_,
            fee_fixed=provider_fee_fixed,
            fee_percent=provider_fee_percent,
            fee_minimum=provider_fee_minimum,
            fee_maximum=provider_fee_maximum,
        )
        await _apply(tools, MethodChange(MethodKind.DEPOSIT, code, wanted))


def _add_withdraw_set(app: typer.Typer) -> None:
    @command(app, "set")
    async def set_(
        tools: Tools,
        code: Code,
        name: Name = None,
        active: Active = None,
        position: Position = None,
        min_: Min = None,
        max_: Max = None,
        fee_fixed: Amount = None,
        fee_percent: Percent = None,
        fee_minimum: OrNone = None,
        fee_maximum: OrNone = None,
    ) -> None:
        """Change a method. Omitted options stay unchanged. Takes effect within a second.

        In production mode, a second administrator must approve changes to fees and limits. Once a
        provider is configured, activating a method and changing its position need approval too.
        """
        wanted = MethodUpdate(
            name=name,
            active=None if active is None else active is Switch.ON,
            position=position,
            minimum=min_,
            maximum=max_,
            fee_fixed=fee_fixed,
            fee_percent=fee_percent,
            fee_minimum=fee_minimum,
            fee_maximum=fee_maximum,
        )
        await _apply(tools, MethodChange(MethodKind.WITHDRAW, code, wanted))


def _add_add(app: typer.Typer, kind: MethodKind) -> None:
    @command(app)
    async def add(
        tools: Tools,
        code: Code,
        name: Annotated[str, typer.Option()],
        currency: Annotated[str, typer.Option(metavar="CODE", help="A currency code.")],
        provider: Annotated[str | None, typer.Option()] = None,
        flow: Annotated[Flow | None, typer.Option(help="How the customer pays.")] = None,
    ) -> None:
        """Add a method in any currency. A method without a provider is manual.

        In production mode, once a provider is configured, a second administrator must approve this.
        """
        new = NewMethod(kind, code, name, currency.upper(), provider, flow)
        await _apply(tools, MethodAddition(new))


async def _apply(tools: Tools, change: MethodChange | MethodAddition) -> None:
    tools.print_fields(describe(await changes.apply(tools, change)))


def describe(method: Method) -> dict[str, Any]:
    return {
        "id": method.id,
        "code": method.code,
        "name": method.name,
        "provider": method.provider,
        **({"flow": method.flow} if method.kind is MethodKind.DEPOSIT else {}),
        "currency": method.currency,
        "active": method.active,
        "position": method.position,
        "min": _amount(method, method.min_minor),
        "max": _amount(method, method.max_minor),
        **_fee(method),
    }


def _fee(method: Method) -> dict[str, Any]:
    """Returns the fee of a withdrawal method, or the provider's fee of a deposit method."""
    name = "fee" if method.kind is MethodKind.WITHDRAW else "provider_fee"
    return {
        f"{name}_fixed": _amount(method, method.fee.fixed_minor),
        f"{name}_percent": method.fee.percent.normalize() + 0,
        f"{name}_minimum": _amount(method, method.fee.minimum_minor),
        f"{name}_maximum": _amount(method, method.fee.maximum_minor),
    }


def _amount(method: Method, minor: int | None) -> Money | None:
    return None if minor is None else Money(method.currency, minor)


deposit_app = commands(MethodKind.DEPOSIT)
withdraw_app = commands(MethodKind.WITHDRAW)
