"""How the console displays amounts, and which choices its forms offer."""

import re

from manilla.console import ledger
from manilla.ledger import posting
from manilla.payments.checkout import SandboxOutcome
from manilla.services import Services
from tests.console.conftest import PopulatedConsole
from tests.payments.orders import INITIATE, order


async def test_money_held_by_a_provider_is_shown_as_positive(
    populated: PopulatedConsole, services: Services
) -> None:
    # After this payment, the sandbox has money, whatever other tests have paid out.
    reply = await populated.merchant.post(INITIATE, order(payment_amount=50_000_000))
    trx_id = reply.headers["x-transaction-id"].upper()
    await services.checkout.pretend(trx_id, SandboxOutcome.PAY)
    page = (await populated.administrator.get("/ledger")).body.decode()
    row = re.search(r">Clearing: sandbox</td>.*?</tr>", page, re.DOTALL)
    assert row, "the sandbox has taken a payment"
    balance = re.search(r'class="at-amount num">(-?)₦', row.group(0))
    assert balance
    assert balance.group(1) == ""
    in_the_ledger = 'class="at-more num">-₦'
    assert in_the_ledger in row.group(0)
    assert ledger.EXPLANATIONS["clearing"] in page
    adjusted = re.search(r">Adjustment</td>.*?</tr>", page, re.DOTALL)
    assert adjusted
    # The page reverses the sign only for clearing accounts.
    assert in_the_ledger not in adjusted.group(0)


def test_every_account_of_the_ledger_is_explained() -> None:
    names = {each.partition(":")[0] for each in (*posting.ACCOUNTS, *posting.PREFIXES)}
    assert names == {*ledger.EXPLANATIONS}


async def test_only_currencies_with_a_method_are_offered(
    populated: PopulatedConsole, services: Services
) -> None:
    page = (await populated.administrator.get("/merchants/new")).body.decode()
    offered = set(re.findall(r'value="([A-Z]{3})"', page))
    codes = {row["currency"] for row in await services.db.records("SELECT currency FROM method")}
    assert offered == codes
