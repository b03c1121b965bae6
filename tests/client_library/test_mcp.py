"""`manilla-client mcp`: a language model reads a merchant's data, and can change nothing."""

import inspect
import json
import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from manilla_client import AsyncClient, calls, transport
from manilla_client.calls import Call
from manilla_client.command import read_only_server
from manilla_client.command.accounts import Account
from manilla_client.command.read_only_server import MerchantTools, NotReadOnly, ReadOnlyApi
from manilla_client.transport import Answer, Failure, Request
from mcp import Client, StdioServerParameters
from mcp.server import MCPServer
from mcp_types import CallToolResult

from manilla.customers import service as customers
from manilla.customers.customer import CustomerTerms, PersonalNumbers
from manilla.disputes import states
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.ledger.scope import Tenant
from manilla.merchants.rights import Right
from manilla.notify.events.kinds import EVENT_TYPES
from manilla.payments import store as payments
from manilla.payments.payment import SANDBOX
from manilla.providers.port import DisputeState, ReportedDisputeStatus
from manilla.services import Services
from tests.api.test_keys import new_key
from tests.client_library.conftest import credentials_of
from tests.client_library.test_calls import due_now, payment, payout
from tests.client_library.tool import environment, tool, variables
from tests.support.client import Merchant, Site
from tests.support.provider_simulator import ProviderSimulator

LISTS = (
    *("list_payments", "list_payouts", "list_refunds", "list_disputes"),
    *("list_statement_lines", "list_events"),
)
OF_CUSTOMER = ("customer", "accounts", "saved_ways")
TOOLS = {
    *(*LISTS, *OF_CUSTOMER),
    *("balances", "transaction", "dispute", "list_customers", "documentation"),
}


class Reader:
    """The official client of an MCP server."""

    def __init__(self, server: MCPServer[Any] | StdioServerParameters, merchant: Merchant) -> None:
        self._server = server
        self._secrets = (merchant.credentials.api_key, merchant.credentials.api_secret)

    async def tools(self) -> list[Any]:
        async with Client(self._server) as client:
            return (await client.list_tools()).tools

    async def read(self, tool_name: str, **arguments: Any) -> Any:
        answer = await self._call(tool_name, arguments)
        text = answer.content[0].text  # type: ignore[union-attr]
        assert not answer.is_error, text
        assert not [each for each in self._secrets if each in text]
        # Every number in the output is an integer: amounts are strings.
        assert json.loads(text, parse_float=_refuse_float) == answer.structured_content
        return answer.structured_content

    async def error(self, tool_name: str, **arguments: Any) -> str:
        answer = await self._call(tool_name, arguments)
        assert answer.is_error
        text: str = answer.content[0].text  # type: ignore[union-attr]
        assert not [each for each in self._secrets if each in text]
        return text

    async def _call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        # A client must be closed by the task that opened it, so no fixture can keep it open.
        async with Client(self._server) as client:
            return await client.call_tool(name, arguments)


def _refuse_float(text: str) -> float:
    raise AssertionError(f"{text} is not exact")


def account_of(merchant: Merchant) -> Account:
    return Account("tests", f"http://127.0.0.1:{merchant.site.port}", credentials_of(merchant))


@pytest.fixture
async def reader_key(services: Services, merchant: Merchant) -> Merchant:
    """The same merchant with an API key that has only the right `read`."""
    return await new_key(services, merchant, Right.READ)


@pytest.fixture
async def reader(reader_key: Merchant) -> AsyncIterator[Reader]:
    tools = MerchantTools(account_of(reader_key))
    yield Reader(read_only_server.build(tools), reader_key)
    await tools.close()


@pytest.mark.long
async def test_the_official_client_reads_over_standard_input_and_output(
    client: AsyncClient,
    simulator: ProviderSimulator,
    site: Site,
    reader_key: Merchant,
    tmp_path: Path,
) -> None:
    trx_id = (await client.initiate_payment(**payment())).trx_id
    await due_now(simulator, trx_id)
    own = reader_key.credentials
    keys = variables(site.port, own.merchant_key, own.api_key, own.api_secret)
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "manilla_client", "mcp"],
        env=environment(tmp_path, **keys),
    )
    reader = Reader(server, reader_key)
    assert {each.name for each in await reader.tools()} == TOOLS
    assert (await reader.read("transaction", trx_id=trx_id))["kind"] == "payment"
    assert "no transaction" in await reader.error("transaction", trx_id="TXN0")


async def test_balances_and_amounts_are_exact_strings(
    client: AsyncClient, simulator: ProviderSimulator, reader: Reader
) -> None:
    trx_id = (await client.initiate_payment(**payment())).trx_id
    await due_now(simulator, trx_id)
    paid = await client.verify_payment(trx_id)
    [wallet] = (await reader.read("balances"))["balances"]
    assert wallet["available"] == format((await client.balance()).balances[0].available, "f")
    [listed] = (await reader.read("list_payments"))["data"]
    assert Decimal(listed["amount"]) == paid.amount  # type: ignore[union-attr]
    assert read_only_server.exact({"a": [Decimal("90071992547409.90"), 1, None]}) == {
        "a": ["90071992547409.90", 1, None]
    }


async def test_a_transactions_story_has_its_events_and_statement_lines(
    client: AsyncClient, simulator: ProviderSimulator, reader: Reader
) -> None:
    sent = (await client.initiate_payout(**await payout(client))).trx_id
    pending = await reader.read("transaction", trx_id=sent)
    assert (pending["kind"], pending["transaction"]["status"]) == ("payout", "pending")
    assert [line["kind"] for line in pending["statement_lines"]] == ["payout"]
    other = (await client.initiate_payment(**payment())).trx_id
    await due_now(simulator, sent)
    await due_now(simulator, other)
    story = await reader.read("transaction", trx_id=sent)
    assert story["transaction"]["status"] == "success"
    assert [event["type"] for event in story["events"]] == ["payout.completed"]
    assert {line["trx_id"] for line in story["statement_lines"]} == {sent}
    assert story["is_complete"]


async def test_disputes_are_listed_and_one_is_read(
    services: Services, client: AsyncClient, simulator: ProviderSimulator, reader: Reader
) -> None:
    payment_trx_id, trx_id = await disputed(services, client, simulator)
    [listed] = (await reader.read("list_disputes", trx_id=payment_trx_id))["data"]
    shown = await reader.read("dispute", dispute_id=trx_id)
    assert listed["id"] == shown["id"] == trx_id
    assert shown["withheld"] == shown["amount"] == "1500.50"
    assert (await reader.read("list_disputes", status="won"))["data"] == []
    assert "404 TRANSACTION_NOT_FOUND" in await reader.error("dispute", dispute_id="DSP0")


async def test_customers_are_found_with_their_accounts(client: AsyncClient, reader: Reader) -> None:
    made = await client.create_customer(reference="pupil-17", name="Ada Obi", bvn="22222222222")
    await client.create_customer(reference="pupil-18", name="Eve")
    [account] = (await client.request_accounts("pupil-17")).data
    [listed] = (await reader.read("list_customers", search="ada"))["data"]
    shown = await reader.read("customer", customer="pupil-17")
    assert listed["id"] == shown["id"] == made.id
    assert "22222222222" not in json.dumps(shown)
    [number] = (await reader.read("accounts", customer="pupil-17"))["data"]
    assert (number["id"], number["status"]) == (account.id, "pending")
    assert "404 CUSTOMER_NOT_FOUND" in await reader.error("accounts", customer="pupil-19")


async def customer_of(services: Services, trx_id: str) -> str:
    """Creates a customer of the payment's merchant, and returns the reference."""
    merchant_id = trx_ids.merchant_of(trx_id)
    assert merchant_id is not None
    payment = await payments.payment(services.db, merchant_id, trx_id)
    assert payment is not None
    tenant = Tenant(merchant_id, payment.environment)
    made = await customers.create(
        *(services.db, services.keyring, tenant, "C-1"),
        *(CustomerTerms(name="Ada Obi"), PersonalNumbers()),
    )
    return made.reference


async def disputed(
    services: Services, client: AsyncClient, simulator: ProviderSimulator
) -> tuple[str, str]:
    """Returns the ids of a paid payment and of its dispute."""
    trx_id = (await client.initiate_payment(**payment())).trx_id
    await due_now(simulator, trx_id)
    paid = await client.verify_payment(trx_id)
    state = DisputeState(
        provider_reference=f"sandbox-{trx_id}",
        status=ReportedDisputeStatus.NEEDS_RESPONSE,
        charge_reference=trx_id,
        amount=Money.of(paid.amount, "NGN"),  # type: ignore[union-attr]
    )
    reported = await states.report(services.db, services.platform.now, SANDBOX, state)
    assert reported.dispute is not None
    return trx_id, reported.dispute.trx_id


async def test_lists_have_pages_filters_and_limits(client: AsyncClient, reader: Reader) -> None:
    made = [(await client.initiate_payment(**payment())).trx_id for _ in range(3)]
    first = await reader.read("list_payments", limit=2)
    second = await reader.read("list_payments", limit=2, cursor=first["next_cursor"])
    found = [each["trx_id"] for each in (*first["data"], *second["data"])]
    assert found == made[::-1]
    assert (await reader.read("list_payments", status="failed"))["data"] == []
    assert "less than or equal to 100" in await reader.error("list_payments", limit=101)
    assert "timezone" in await reader.error("list_payments", since="2026-01-01T00:00:00")
    assert "cursor" in await reader.error("list_payments", cursor="invalid")


async def test_only_event_types_of_the_api_are_suggested(reader: Reader) -> None:
    [tool] = [each for each in await reader.tools() if each.name == "list_events"]
    [known, _] = tool.input_schema["properties"]["type"]["anyOf"]
    assert known["enum"] == list(EVENT_TYPES)
    assert (await reader.read("list_events", type=known["enum"][0]))["data"] == []
    assert "payment.success" in await reader.error("list_events", type="payment.completed")


async def test_an_unknown_argument_is_an_error(reader: Reader) -> None:
    needed = {
        "transaction": {"trx_id": "TXN1"},
        "dispute": {"dispute_id": "DSP1"},
        **{name: {"customer": "C-1"} for name in OF_CUSTOMER},
    }
    for offered in await reader.tools():
        assert offered.input_schema["additionalProperties"] is False
        given = {**needed.get(offered.name, {}), "refference": "ORDER-1"}
        assert "refference" in await reader.error(offered.name, **given)


async def test_documentation_is_returned_in_parts(reader: Reader) -> None:
    summary = await reader.read("documentation")
    assert "## Signing" in summary["text"]
    part, text = await reader.read("documentation", name="full"), ""
    while part["next_start"] is not None:
        text += part["text"]
        part = await reader.read("documentation", name="full", start=part["next_start"])
    assert "initiate-payout" in text + part["text"]


async def test_every_tool_says_that_it_only_reads(reader: Reader) -> None:
    tools = await reader.tools()
    assert {each.name for each in tools} == TOOLS
    assert all(each.annotations.read_only_hint and each.description for each in tools)


async def test_no_tool_sends_anything_but_get_requests(
    services: Services,
    client: AsyncClient,
    simulator: ProviderSimulator,
    reader: Reader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trx_id, dispute_id = await disputed(services, client, simulator)
    send, sent = transport.Transport.send, []

    def record(self: transport.Transport, request: Request) -> Answer | Failure:
        sent.append((request.method, request.body))
        return send(self, request)

    monkeypatch.setattr(transport.Transport, "send", record)
    customer = await customer_of(services, trx_id)
    needed = {
        "transaction": {"trx_id": trx_id},
        "dispute": {"dispute_id": dispute_id},
        **{name: {"customer": customer} for name in OF_CUSTOMER},
    }
    for name in TOOLS:
        await reader.read(name, **needed.get(name, {}))
    assert len(sent) >= len(TOOLS)
    assert set(sent) == {("GET", b"")}


async def test_a_call_that_writes_is_never_sent(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: transport.Transport, request: Request) -> Answer:
        raise AssertionError(f"{request.method} was sent")

    monkeypatch.setattr(transport.Transport, "send", refuse)
    source = inspect.getsource(calls)
    methods = {method for method in ("POST", "PATCH", "DELETE", "PUT") if f'"{method}"' in source}
    assert {"POST", "PATCH", "DELETE"} <= methods
    account = account_of(merchant)
    async with ReadOnlyApi(account.url, account.credentials) as api:
        for method in methods:
            with pytest.raises(NotReadOnly):
                await api.fetch(Call(method, "/api/v1/payment-links", lambda document: document))


async def test_a_key_without_the_right_to_read_gets_a_readable_error(
    services: Services, merchant: Merchant
) -> None:
    payer = await new_key(services, merchant, Right.PAYOUTS)
    tools = MerchantTools(account_of(payer))
    error = await Reader(read_only_server.build(tools), payer).error("balances")
    await tools.close()
    assert "does not have the right `read`" in error
    assert "Use an API key with the right that the message names." in error


def test_without_the_package_mcp_the_command_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manilla_client.command.mcp.find_spec", lambda _name: None)
    keys = variables(1, "test_merchant", "test_key", "test_secret")
    run = tool(tmp_path, "mcp", **keys)
    assert (run.returncode, "manilla-client[mcp]" in run.stderr) == (1, True)
