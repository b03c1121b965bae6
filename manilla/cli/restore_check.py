"""`manilla restore-check`: finds transfers that a restored database does not have."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from manilla.cli.instance import Data, InstanceRefusal, Tools, run
from manilla.cli.output import Json, print_json, print_table
from manilla.cli.providers.rails import check_provider, configured_rails
from manilla.proofs import restored
from manilla.proofs.restored import FoundTransfer, LostTransfer
from manilla.providers.port import WebhookSubject
from manilla.transfers.events import ProviderState, is_known

REFERENCES_MAX = 100_000


class RestoreReport(msgspec.Struct, frozen=True):
    open: list[FoundTransfer]
    lost: list[LostTransfer]

    @property
    def is_clear(self) -> bool:
        is_doubted = any(each.is_in_doubt for each in self.open)
        return not is_doubted and all(each.has_moved_nothing for each in self.lost)


def restore_check(
    provider: Annotated[
        str | None,
        typer.Option("--provider", help="The provider of the transfers in --references."),
    ] = None,
    references: Annotated[
        Path | None,
        typer.Option(
            "--references",
            metavar="FILE",
            help="A file with our references at the provider since the backup, one per line.",
        ),
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Query providers about all open transfers during a hold. Exits with 1 if one is in doubt."""
    if (provider is None) != (references is None):
        raise typer.BadParameter("must be used together.", param_hint="--provider, --references")
    listed = _read(references) if references else []
    report = run(data, lambda tools: _query(tools, provider, listed))
    _print(report, as_json)
    if not report.is_clear:
        raise typer.Exit(1)


async def _query(tools: Tools, provider: str | None, listed: list[str]) -> RestoreReport:
    await check_provider(tools, provider)
    async with configured_rails(tools) as rails:
        found = await restored.look(tools.db, rails)
        lost = await restored.missing(tools.db, rails, provider, listed) if provider else []
        return RestoreReport(found, lost)


def _read(file: Path) -> list[str]:
    try:
        lines = [line.strip() for line in file.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InstanceRefusal(f"{file} cannot be read: {error}.") from error
    if len(lines) > REFERENCES_MAX:
        raise InstanceRefusal(f"{file} has more than {REFERENCES_MAX} lines.")
    return [line for line in lines if line]


def _print(report: RestoreReport, as_json: bool) -> None:
    payouts = [_payout_row(each) for each in report.open if each.kind is WebhookSubject.TRANSFER]
    refunds = [_refund_row(each) for each in report.open if each.kind is WebhookSubject.REFUND]
    lost = [_lost_row(each) for each in report.lost]
    if as_json:
        is_clear = report.is_clear
        print_json({"clear": is_clear, "payouts": payouts, "refunds": refunds, "lost": lost})
        return
    print_table(payouts, empty="No payout from before the hold is still open.")
    if refunds:
        print_table(refunds)
    if lost:
        print_table(lost)


def _payout_row(found: FoundTransfer) -> dict[str, Any]:
    payout = found.transfer
    return {
        "payout": payout.trx_id,
        "merchant_id": payout.merchant_id,
        "provider": payout.provider,
        "amount": payout.amount,
        "sent_at": payout.sent_at,
        "provider_says": _said(found.said, found.problem),
        "then": _then(found),
    }


def _refund_row(found: FoundTransfer) -> dict[str, Any]:
    refund = found.transfer
    return {
        "refund": refund.trx_id,
        "merchant_id": refund.merchant_id,
        "provider": refund.provider,
        "amount": refund.amount,
        "provider_says": found.said.status if found.said else found.problem,
    }


def _then(found: FoundTransfer) -> str:
    if found.said is not None and not is_known(found.said):
        return "will be sent on release"
    return "in doubt" if found.is_in_doubt else "will be queried"


def _lost_row(lost: LostTransfer) -> dict[str, Any]:
    amount = lost.said.amount if lost.said else None
    return {
        "lost_transfer": lost.reference,
        "merchant_id": lost.merchant_id,
        "amount": amount,
        "provider_says": _said(lost.said, lost.problem),
    }


def _said(said: ProviderState | None, problem: str) -> str:
    return f"no usable response: {problem}" if said is None else said.status
