"""The console's search finds merchants, people, cases, and the transactions of all merchants."""

from urllib.parse import urlencode

from manilla.console import transactions
from manilla.people.roles import ConsoleRole
from manilla.services import Services
from manilla.transaction_types import BY_NAME
from tests.console.conftest import PopulatedConsole
from tests.dashboard.merchant_dashboard import new_dashboard
from tests.payments.orders import new_reference
from tests.support.client import Site, new_merchant
from tests.web.signed_in_user import SignedInUser


async def results(visitor: SignedInUser, text: str) -> str:
    reply = await visitor.get(f"/search/results?{urlencode({'q': text})}")
    assert reply.status == 200, reply.body
    return reply.body.decode()


async def test_transactions_of_all_merchants_are_found(
    services: Services, site: Site, populated: PopulatedConsole
) -> None:
    reference = new_reference()
    email = f"{reference}@example.com"
    paid = {}
    for _ in range(2):
        shop = await new_dashboard(services, site)
        paid[shop.merchant.new.id] = await shop.pay_in(
            ref_trx=reference, customer_email=email, payment_amount=4321.98
        )
    for text in (reference, reference.lower(), email, "4321.98"):
        page = await results(populated.administrator, text)
        for trx_id in paid.values():
            assert f"/console/transactions/{trx_id}" in page, text
    for trx_id in paid.values():
        page = await results(populated.administrator, trx_id)
        assert f"Transaction ID: {trx_id}" in page
    reply = await populated.administrator.get(f"/search?q={trx_id}")
    assert reply.headers["location"].endswith(trx_id.lower())


async def test_merchants_and_cases_are_found(
    services: Services, site: Site, populated: PopulatedConsole
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    name = new_reference()
    await services.db.execute(
        "UPDATE merchant SET name = $2 WHERE id = $1", merchant.new.id, f"Shop {name} Ltd"
    )
    page = await results(populated.administrator, name.lower())
    assert f"/console/merchants/{merchant.new.id}" in page
    case = populated.samples["case"]
    assert f"/console/cases/{case}" in await results(populated.administrator, case)


async def test_only_those_who_manage_people_find_them(populated: PopulatedConsole) -> None:
    administrator = populated.people[ConsoleRole.ADMINISTRATOR]
    support = populated.people[ConsoleRole.SUPPORT]
    assert "<h2>People</h2>" in await results(administrator, support.email)
    assert "<h2>People</h2>" not in await results(support, administrator.email)


def test_every_type_of_transaction_has_a_list_in_the_console() -> None:
    assert list(transactions.LISTS) == list(BY_NAME)
