"""What tests do with customers' accounts: requests, transfers at a provider, and payments."""

from typing import Any

from manilla.customers import account_states, account_store, accounts, service, store
from manilla.customers.account import AccountStatus, CustomerAccount
from manilla.customers.customer import CustomerRow, CustomerTerms, PersonalNumbers
from manilla.kit.environment import Environment
from manilla.ledger import invariants
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller
from manilla.payments import store as payments
from manilla.payments.payment import Payment
from manilla.providers.port import AccountState, ReportedAccountStatus
from tests.payments.shop import Shop
from tests.support.invariants import ALL

BVN, NIN = "22222222222", "12345678901"


class Customers:
    """A merchant whose customers have accounts at a simulated provider."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.services = shop.services
        self.db = shop.services.db
        self.keyring = shop.services.keyring

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.shop.merchant.new.id, self.shop.merchant.environment)

    async def caller(self) -> Caller:
        return await self.services.directory.read(self.tenant.environment, self.tenant.merchant_id)

    async def customer(self, reference: str = "pupil-17", **changed: Any) -> CustomerRow:
        terms: dict[str, Any] = {"name": "Ada Obi", "phone": "+2348012345678"}
        numbers = PersonalNumbers(changed.pop("bvn", BVN), changed.pop("nin", None))
        return await service.create(
            *(self.db, self.keyring, self.tenant, reference),
            *(CustomerTerms(**(terms | changed)), numbers),
        )

    async def request(self, customer: CustomerRow, rail: str, **how: Any) -> CustomerAccount:
        caller = await self.caller()
        offered = accounts.methods(self.services.methods, self.services.rails, caller)
        made = await accounts.request(
            *(self.db, offered, caller, customer.reference),
            codes=[f"{rail}_ngn_va"],
            email_domain="pay.example.com",
            **how,
        )
        return made[0]

    async def account(
        self, rail: str, reference: str = "pupil-17", **changed: Any
    ) -> CustomerAccount:
        """Returns an active account of a new customer."""
        customer = await self.customer(reference, **changed)
        requested = await self.request(customer, rail)
        return await self.until(requested, AccountStatus.ACTIVE)

    async def account_without_provider(
        self, number: str, rail: str = "paystack"
    ) -> CustomerAccount:
        """Returns an active account of a new customer, which no provider knows."""
        customer = await self.customer()
        async with self.db.transaction() as connection:
            wanted = await account_store.insert(
                *(connection, customer, "paystack_ngn_va", "paystack", "NGN", "", "example.com")
            )
            await accounts.raise_job(connection, wanted)
        state = AccountState(
            status=ReportedAccountStatus.ACTIVE,
            bank_name="Wema Bank",
            account_number=number,
            account_name="Ada Obi",
        )
        return await account_states.apply(self.db, wanted, AccountStatus.ACTIVE, state)

    async def now(self, account: CustomerAccount) -> CustomerAccount:
        found = await account_store.account(self.db, account.merchant_id, account.id)
        assert found is not None
        return found

    async def customer_of(self, account: CustomerAccount) -> CustomerRow:
        found = await store.customer(self.db, account.merchant_id, account.customer_id)
        assert found is not None
        return found

    async def until(self, account: CustomerAccount, status: AccountStatus) -> CustomerAccount:
        async def is_so() -> bool:
            await self.make_due()
            return (await self.now(account)).status is status

        await self.shop.simulator.until(is_so)
        return await self.now(account)

    async def make_due(self) -> None:
        await self.db.execute(
            "UPDATE job SET due_at = now() WHERE kind IN ('account', 'account.transfer')"
            " AND due_at < now() + interval '1 hour'"
        )

    async def poll(self, account: CustomerAccount) -> None:
        await self.shop.simulator.run_job_now("account", account.id)

    async def send(self, account: CustomerAccount, amount: str, **payer: str) -> str:
        """Sends a transfer at the provider. Returns the provider's reference of it."""
        target = f"{account.provider}/accounts/{account.account_number}/transfer"
        sent = await self.shop.simulator.control(target, {"amount": amount, **payer})
        return str(sent["reference"])

    async def payments(self) -> list[Payment]:
        return await self.db.rows(
            Payment,
            f"SELECT {payments.PAYMENT_COLUMNS} FROM payment"
            " WHERE merchant_id = $1 ORDER BY trx_id",
            self.tenant.merchant_id,
        )

    async def until_payments(self, count: int) -> list[Payment]:
        async def is_so() -> bool:
            await self.make_due()
            return len(await self.payments()) == count

        await self.shop.simulator.until(is_so)
        return await self.payments()

    async def until_cases(self, *kinds: str) -> None:
        async def is_so() -> bool:
            await self.make_due()
            return [kind for kind, _ in await self.cases()] == list(kinds)

        await self.shop.simulator.until(is_so)

    async def cases(self) -> list[tuple[str, str]]:
        records = await self.db.records(
            "SELECT kind, detail FROM operator_case WHERE merchant_id = $1 AND status = 'open'"
            " ORDER BY id",
            self.tenant.merchant_id,
        )
        return [(each["kind"], each["detail"]) for each in records]

    async def events(self) -> list[str]:
        records = await self.db.records(
            "SELECT type FROM notification WHERE merchant_id = $1 ORDER BY id",
            self.tenant.merchant_id,
        )
        return [record["type"] for record in records]

    async def broken_rules(self) -> list[tuple[str, list[Any]]]:
        found = await invariants.check(self.db, ALL)
        return [(each.name, each.examples) for each in found if each.count]

    @property
    def is_sandbox(self) -> bool:
        return self.tenant.environment is Environment.SANDBOX
