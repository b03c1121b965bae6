"""`manilla-client trigger` creates a sandbox transaction, which causes an event."""

import argparse
import uuid
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from manilla_client.bodies import MethodField, PaymentOrder, PayoutMethod, PayoutOrder
from manilla_client.calls import Scenario
from manilla_client.command import accounts
from manilla_client.command.failure import CommandFailed
from manilla_client.command.output import print_fields
from manilla_client.synchronous import Client

SHOP = "https://shop.example"
REASON = "manilla-client trigger"
OUTCOME_SECONDS_MAX = 120  # A sandbox transaction gets its final status within seconds.
ACCOUNT_NUMBER = "0000000000"  # The sandbox accepts this account number on every rail.


class Trigger(NamedTuple):
    kind: str
    scenario: Scenario


TRIGGERS = {
    "payment.success": Trigger("payment", "success"),
    "payment.failed": Trigger("payment", "failed"),
    "payout.completed": Trigger("payout", "success"),
    "payout.failed": Trigger("payout", "failed"),
    "refund.completed": Trigger("refund", "success"),
}


def add_to(commands: Any) -> None:
    about = "Create a payment, payout or refund in the sandbox, and wait for its event."
    parser = commands.add_parser("trigger", help=about, description=about)
    parser.add_argument("event", metavar="EVENT", choices=TRIGGERS, help=", ".join(TRIGGERS))
    parser.add_argument("--amount", type=_amount, default=Decimal(1000), help="Default: 1000.")
    parser.add_argument("--currency", default="NGN", help="Default: NGN.")
    parser.add_argument(
        "--ipn-url",
        default=f"{SHOP}/ipn",
        metavar="URL",
        help="Where the platform sends the notification. The default is a URL that does not exist.",
    )
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    accounts.add_option(parser)
    parser.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    account = accounts.choose(given.profile)
    if account.credentials.environment != "sandbox":
        raise CommandFailed("This works in the sandbox only: use keys that begin with test_.")
    kind, scenario = TRIGGERS[given.event]
    with Client(account.url, account.credentials) as client:
        create = {"payment": _pay, "payout": _pay_out, "refund": _refund}[kind]
        made = create(client, scenario, given.amount, given.currency, given.ipn_url)
    print_fields({"event": given.event, **made}, as_json=given.json)
    return 0


def _amount(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount") from None


def _pay(
    client: Client, scenario: Scenario, amount: Decimal, currency: str, ipn_url: str
) -> Mapping[str, str]:
    order = PaymentOrder(
        payment_amount=amount,
        currency_code=currency,
        ref_trx=_new_reference(),
        success_redirect=f"{SHOP}/paid",
        cancel_redirect=f"{SHOP}/basket",
        ipn_url=ipn_url,
        description=REASON,
    )
    trx_id = client.initiate_payment(scenario=scenario, **order).trx_id
    found = client.wait_for_payment(trx_id, OUTCOME_SECONDS_MAX)
    return {"trx_id": trx_id, "ref_trx": order["ref_trx"], "status": found.status}


def _pay_out(
    client: Client, scenario: Scenario, amount: Decimal, currency: str, ipn_url: str
) -> Mapping[str, str]:
    method = _payout_method(client, currency)
    order = PayoutOrder(
        payout_amount=max(amount, method.min_withdraw),
        currency_code=currency,
        ref_trx=_new_reference(),
        ipn_url=ipn_url,
        withdraw_method_id=method.id,
        beneficiary=_beneficiary(client, method),
        description=REASON,
    )
    trx_id = client.initiate_payout(scenario=scenario, **order).trx_id
    found = client.wait_for_payout(trx_id, OUTCOME_SECONDS_MAX)
    return {"trx_id": trx_id, "ref_trx": order["ref_trx"], "status": found.status}


def _refund(
    client: Client, scenario: Scenario, amount: Decimal, currency: str, ipn_url: str
) -> Mapping[str, str]:
    """Creates and refunds a payment. As in the notification, `trx_id` is the payment's id."""
    payment = _pay(client, "success", amount, currency, ipn_url)
    made = client.initiate_refund(
        trx_id=payment["trx_id"], ref_trx=_new_reference(), reason=REASON, scenario=scenario
    )
    found = client.wait_for_refund(made.trx_id, OUTCOME_SECONDS_MAX)
    return {**payment, "refund_trx_id": made.trx_id, "status": found.status}


def _payout_method(client: Client, currency: str) -> PayoutMethod:
    """Returns an automatic method, because manual payouts must be completed by an administrator."""
    for method in client.payout_methods(currency).methods:
        if method.type == "auto":
            return method
    raise CommandFailed(f"The platform offers no automatic payout method in {currency} now.")


def _beneficiary(client: Client, method: PayoutMethod) -> Mapping[str, str]:
    def value(field: MethodField) -> str:
        if field.name == "bank_code":
            return client.bank_list(method.method_code).banks[0].bank_code
        return ACCOUNT_NUMBER

    return {each.name: value(each) for each in method.fields if not each.api_auto_resolved}


def _new_reference() -> str:
    return f"TRIGGER-{uuid.uuid4().hex[:16]}"
