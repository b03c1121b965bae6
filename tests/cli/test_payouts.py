"""The commands for payouts, saved accounts, cases, settlements and refunds."""

import asyncio
import itertools
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec
import pytest

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger import trx_ids
from manilla.merchants.merchants import NewMerchant
from tests.payments.orders import INITIATE as INITIATE_PAYMENT
from tests.payments.orders import order as payment_order
from tests.support.client import Merchant
from tests.support.command import manilla
from tests.support.instance import Instance
from tests.support.timeouts import TIMEOUT_SECONDS

pytestmark = pytest.mark.long

A, MANUAL = "providera_ngn_transfer", "platform"
PAYOUT_FIELDS = [
    *("trx_id", "merchant_id", "environment", "ref_trx", "status", "error_code", "on_hold"),
    *("currency", "payout_amount", "fee", "method", "bank", "bank_name", "created_at"),
]
CASE_FIELDS = [
    *("id", "merchant_id", "environment", "kind", "reference", "trx_id", "provider", "currency"),
    *("amount", "status", "opened_at", "detail"),
]
REFUND_FIELDS = [
    *("trx_id", "payment_trx_id", "merchant_id", "environment", "currency", "amount"),
    *("commission", "status", "waits_for", "on_hold", "reason", "detail"),
]
RECONCILED_FIELDS = [
    *("provider", "currency", "ledger", "under_way", "coming_in", "balance", "difference"),
    *("result", "transfers_asked", "transfers_differ"),
]
HUGE = "99999999999999999999"

_numbers = itertools.count(time.time_ns())


class OperatorSetup:
    """A running instance with its simulator, and a merchant that calls the instance's API."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        new = instance.command(
            "merchant", "create", "Ada Stores", "ada@example.com", "--status", "approved"
        )
        self.id = str(new["id"])
        self.live = Merchant(
            instance.site, msgspec.convert(new, NewMerchant), Environment.PRODUCTION
        )
        self.sandbox = msgspec.structs.replace(self.live, environment=Environment.SANDBOX)
        self.methods: dict[str, int] = {}
        [self.simulator] = re.findall(r"(http://\S+)/control", instance.output.read_text())

    async def open(self) -> "OperatorSetup":
        await self.commands(
            ("wallet", "fund", self.id, "NGN", "100000", "--environment", "production"),
            ("setting", "set", "sandbox_complete_seconds", "0"),
        )
        listed = (await self.live.get("/api/v1/payout-methods?currency=NGN")).json["methods"]
        self.methods = {each["method_code"]: each["id"] for each in listed}
        return self

    async def pay_out(self, code: str, **changed: Any) -> str:
        manual_id = {"Bank Name": "GTBank", "Account Number": "0123456789"}
        # The simulator keeps a transfer to this account pending until a test settles it.
        stays = {"bank_code": "058", "account_number": "0000000003"}
        body = {
            "payout_amount": 1000,
            "currency_code": "NGN",
            "ref_trx": f"PAYOUT-{next(_numbers)}",
            "ipn_url": "https://shop.example/ipn",
            "withdraw_method_id": self.methods[code],
            "beneficiary": manual_id if code == MANUAL else stays,
            **changed,
        }
        sent = {name: value for name, value in body.items() if value is not None}
        reply = await self.live.post("/api/v1/initiate-payout", sent)
        assert reply.status == 200, reply.body
        trx_id: str = reply.json["trx_id"]
        return trx_id

    async def refused(self, *commands: tuple[str, ...]) -> list[str]:
        """Runs commands that must fail, and returns each command's one-line error."""
        return await asyncio.gather(*(self._refused(*words) for words in commands))

    async def _refused(self, *words: str) -> str:
        run = await asyncio.to_thread(manilla, *words, "--data", str(self.instance.folder))
        assert (run.returncode, run.stdout) == (1, ""), (words, run.stderr)
        assert len(run.stderr.splitlines()) == 1, run.stderr
        assert run.stderr.startswith("manilla: ")
        return run.stderr

    async def commands(self, *commands: tuple[str, ...]) -> list[Any]:
        """Runs the commands in parallel and returns the output of each command."""
        run = (asyncio.to_thread(self.instance.command, *words) for words in commands)
        return await asyncio.gather(*run)

    def control(self, path: str, document: Any) -> bool:
        """Sends a command to the simulator. Returns False if the object does not exist yet."""
        url = f"{self.simulator}/control/api/{path}"
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(document).encode(), headers)
        try:
            urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS).close()
        except urllib.error.HTTPError as error:
            error.close()
            return False
        return True

    async def until(self, is_so: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not await is_so():
                await asyncio.sleep(0.05)

    async def until_paid(self, merchant: Merchant, trx_id: str) -> None:
        async def is_so() -> bool:
            reply = await merchant.get(f"/api/v1/verify-payment/{trx_id}")
            return bool(reply.json["status"] == "success")

        await self.until(is_so)

    async def until_delivered(self, trx_id: str) -> None:
        async def is_so() -> bool:
            reply = await self.live.get(f"/api/v1/verify-payout/{trx_id}")
            return bool(reply.json["status"] == "success")

        await self.until(is_so)


@pytest.fixture(scope="module")
async def operator(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OperatorSetup]:
    instance = Instance(tmp_path_factory.mktemp("payouts") / "data").wait()
    yield await OperatorSetup(instance).open()
    assert instance.stop() == 0


async def test_payouts_are_listed_newest_first_and_shown_in_full(operator: OperatorSetup) -> None:
    manual_id = await operator.pay_out(MANUAL, description="Rent")
    automatic = await operator.pay_out(A)
    filters = ("--status", "pending", "--manual", "--merchant", operator.id)
    listed, manual, shown = await operator.commands(
        ("payout", "list", "--merchant", operator.id),
        ("payout", "list", *filters),
        ("payout", "show", manual_id),
    )
    assert [row["trx_id"] for row in listed[:2]] == [automatic, manual_id]
    assert list(listed[1]) == PAYOUT_FIELDS
    expected = {
        "merchant_id": int(operator.id),
        "environment": "production",
        "status": "pending",
        "error_code": None,
        "currency": "NGN",
        "payout_amount": 1000,
        "fee": 0,
        "method": MANUAL,
    }
    assert expected.items() <= listed[1].items() <= shown.items()
    assert (listed[0]["bank"], listed[0]["bank_name"]) == ("058", "Guaranty Trust Bank")
    assert manual[0]["trx_id"] == manual_id
    assert {row["method"] for row in manual} == {MANUAL}
    assert shown["beneficiary"] == {"Bank Name": "GTBank", "Account Number": "0123456789"}
    assert (shown["payable_amount"], shown["description"]) == (1000, "Rent")
    assert all(step["status"] == "pending" for step in shown["timeline"])
    plain = manilla("payout", "show", automatic, "--data", str(operator.instance.folder))
    assert plain.returncode == 0
    assert automatic in plain.stdout
    assert "0000000003" in plain.stdout


async def test_a_manual_payout_is_completed_once(operator: OperatorSetup) -> None:
    trx_id = await operator.pay_out(MANUAL)
    [done] = await operator.commands(("payout", "complete", trx_id, "--bank-reference", "FT-7"))
    assert (done["status"], done["bank_reference"]) == ("completed", "FT-7")
    said = await operator.refused(
        ("payout", "complete", trx_id), ("payout", "reject", trx_id, "--reason", "no")
    )
    assert said == ["manilla: The payout is completed already.\n"] * 2
    reply = await operator.live.get(f"/api/v1/verify-payout/{trx_id}")
    assert reply.json["status"] == "success"


async def test_a_manual_payout_is_rejected_once(operator: OperatorSetup) -> None:
    trx_id = await operator.pay_out(MANUAL)
    words = ("payout", "reject", trx_id, "--reason", "The bank is closed.")
    [rejected] = await operator.commands(words)
    assert (rejected["status"], rejected["error_code"]) == ("canceled", "payout_failed")
    assert rejected["guidance"] == "The bank is closed."
    assert await operator.refused(words) == ["manilla: The payout is canceled already.\n"]
    reply = await operator.live.get(f"/api/v1/verify-payout/{trx_id}")
    assert reply.json["message"].endswith("The bank is closed.")


async def test_an_automatic_payout_is_requeued_and_cannot_be_decided_manually(
    operator: OperatorSetup,
) -> None:
    trx_id = await operator.pay_out(A)
    [said], [requeued] = await asyncio.gather(
        operator.refused(("payout", "complete", trx_id)),
        operator.commands(("payout", "requeue", trx_id)),
    )
    assert "provider" in said
    assert (requeued["trx_id"], requeued["status"]) == (trx_id, "pending")

    async def is_settled() -> bool:
        return operator.control(f"a/transfers/{trx_id}/settle", {"status": "success"})

    await operator.until(is_settled)

    await operator.until_delivered(trx_id)
    [again] = await operator.refused(("payout", "requeue", trx_id))
    assert "is completed already" in again


async def test_an_unknown_payout_is_rejected(operator: OperatorSetup) -> None:
    unknown = trx_ids.new(int(operator.id))
    said = await operator.refused(
        ("payout", "show", unknown),
        ("payout", "complete", "TXN1"),
        ("payment", "show", unknown),
        ("case", "resolve", "999999", "--note", "x"),
    )
    assert all("There is no" in line for line in said)


async def test_an_account_is_saved_listed_paid_and_removed(operator: OperatorSetup) -> None:
    words = ("account", "add", operator.id, A, "bank_code=058", "account=0123456789")
    [saved] = await operator.commands((*words, "--label", "Landlord"))
    fields = ["id", "merchant_id", "method", "beneficiary", "label", "active", "created_at"]
    assert list(saved) == fields
    assert (saved["method"], saved["label"], saved["active"]) == (A, "Landlord", True)
    assert saved["beneficiary"] == {"bank_code": "058", "account_number": "0123456789"}
    await operator.until_delivered(
        await operator.pay_out(A, beneficiary=None, withdraw_account_id=saved["id"])
    )
    remove = ("account", "remove", operator.id, str(saved["id"]))
    [removed], plain = await asyncio.gather(
        operator.commands(remove),
        asyncio.to_thread(
            manilla, "account", "list", operator.id, "--data", str(operator.instance.folder)
        ),
    )
    assert removed == saved | {"active": False}
    assert "bank code 058, account number 0123456789" in plain.stdout
    [again, nobody], [listed] = await asyncio.gather(
        operator.refused(remove, ("account", "list", "999999")),
        operator.commands(("account", "list", operator.id)),
    )
    assert "no active account" in again
    assert "There is no merchant 999999" in nobody
    assert removed | {"bank_name": "Guaranty Trust Bank"} in listed


async def test_an_account_that_cannot_be_paid_is_not_saved(operator: OperatorSetup) -> None:
    add = ("account", "add", operator.id)
    await operator.refused(
        (*add, A, "bank_code=058"),
        (*add, A, "bank_code=058", "account_number=123"),
        (*add, "providera-ngn", "bank_code=058", "account_number=0123456789"),
    )


async def test_balances_are_compared_settled_and_their_cases_resolved(
    operator: OperatorSetup,
) -> None:
    """The simulated providers start with a balance that our ledger does not contain."""
    folder = str(operator.instance.folder)
    first = manilla("reconcile", "--json", "--data", folder)
    assert first.returncode == 1, first.stderr
    rows = json.loads(first.stdout, parse_float=Decimal)
    assert [row["provider"] for row in rows] == ["providera", "providerb", "providerc"]
    assert list(rows[0]) == RECONCILED_FIELDS
    assert all(row["difference"] > 0 and not row["transfers_differ"] for row in rows)
    settled = await operator.commands(*(_top_up(row) for row in rows))
    assert all(each["trx_id"].startswith("TXN") for each in settled)
    assert [(each["kind"], each["provider"], each["currency"]) for each in settled] == [
        ("top_up", row["provider"], "NGN") for row in rows
    ]
    level = manilla("reconcile", "--json", "--data", folder)
    assert (level.returncode, level.stderr) == (0, ""), level.stdout
    assert [row["difference"] for row in json.loads(level.stdout)] == [0, 0, 0]


def _top_up(row: dict[str, Any]) -> tuple[str, ...]:
    amount = str(row["difference"])
    return ("settle", "top_up", row["provider"], amount, "--note", "opening balance")


async def _differ_for_minutes(operator: OperatorSetup, rail: str, available: float) -> None:
    """Makes a provider's balance differ from the ledger in two comparisons, minutes apart."""
    assert operator.control(f"{rail}/balance", {"available": available})
    folder = operator.instance.folder
    assert manilla("reconcile", "--data", str(folder)).returncode == 1
    url = json.loads((folder / "instance.json").read_text())["database_url"]
    db = await Database.open(url, size=1, name="tests")
    await db.execute("UPDATE clearing_difference SET since = since - interval '5 minutes'")
    await db.close()
    assert manilla("reconcile", "--data", str(folder)).returncode == 1


async def test_a_case_whose_difference_is_gone_is_closed_by_one_command(
    operator: OperatorSetup,
) -> None:
    level = json.loads(
        manilla("reconcile", "--json", "--data", str(operator.instance.folder)).stdout
    )
    [held] = [float(row["ledger"]) for row in level if row["provider"] == "providerb"]
    await _differ_for_minutes(operator, "b", held + 5)
    [listed] = await operator.commands(("case", "list"))
    [case] = [each for each in listed if each["reference"] == "providerb:NGN"]
    words = ("case", "close", str(case["id"]))
    assert "still exists" in (await operator.refused(words))[0]
    assert operator.control("b/balance", {"available": held})
    manilla("reconcile", "--data", str(operator.instance.folder))
    [closed] = await operator.commands(words)
    assert closed["status"] == "resolved"
    assert closed["vanished_at"] is not None


async def test_a_case_is_listed_shown_and_resolved_once(operator: OperatorSetup) -> None:
    await _differ_for_minutes(operator, "c", 12345.67)
    [listed] = await operator.commands(("case", "list"))
    [case] = [each for each in listed if each["reference"] == "providerc:NGN"]
    assert list(case) == CASE_FIELDS
    assert (case["kind"], case["status"], case["merchant_id"]) == ("clearing_differs", "open", None)
    words = ("case", "resolve", str(case["id"]), "--note", "a test's balance")
    [shown], [nothing_held, unasked] = await asyncio.gather(
        operator.commands(("case", "show", str(case["id"]))),
        operator.refused((*words, "--action", "credit"), ("case", "ask", str(case["id"]))),
    )
    assert "is not about a transaction at a provider" in unasked
    [opened], [way] = shown.pop("history"), shown.pop("ways")
    assert (opened["event"], opened["detail"]) == ("opened", case["detail"])
    assert way["action"] == "nothing"
    assert shown == {**case, "vanished_at": None, "resolution": None, "resolved_at": None}
    assert "suspense" in nothing_held
    [resolved] = await operator.commands(words)
    assert (resolved["status"], resolved["resolution"]) == ("resolved", "nothing: a test's balance")
    assert resolved["resolved_at"] is not None
    [again], lists = await asyncio.gather(
        operator.refused(words), operator.commands(("case", "list"), ("case", "list", "--all"))
    )
    assert "is resolved already" in again
    still_open, everything = ([each["id"] for each in each_list] for each_list in lists)
    assert (case["id"] in still_open, case["id"] in everything) == (False, True)


async def test_a_provider_that_does_not_respond_exits_1_with_a_clear_line(
    operator: OperatorSetup,
) -> None:
    assert operator.control("b/faults", {"outage": True})
    run = await asyncio.to_thread(
        manilla, "reconcile", "--json", "--data", str(operator.instance.folder)
    )
    assert operator.control("b/faults", {"outage": False})
    assert run.returncode == 1
    said = [line for line in run.stderr.splitlines() if line.startswith("manilla: ")]
    assert said == ["manilla: No usable response from providerb: not compared."]
    assert [row["balance"] is None for row in json.loads(run.stdout)] == [False, True, False]


async def test_an_invalid_settlement_is_rejected(operator: OperatorSetup) -> None:
    top_up = ("settle", "top_up", "providera")
    await operator.refused(
        (*top_up, "0", "--note", "x"),
        (*top_up, "1", "--note", " "),
    )


@pytest.mark.parametrize(
    "words",
    [
        ("settle", "gift", "providera", "1", "--note", "x"),
        ("settle", "top_up", "nobody", "1", "--note", "x"),
        ("settle", "top_up", "providera", "10.001", "--note", "x"),
        ("case", "show", HUGE),
        ("account", "remove", "1", HUGE),
        ("payout", "list", "--merchant", HUGE),
    ],
    ids=" ".join,
)
async def test_bad_usage_exits_2_with_an_explanation(
    operator: OperatorSetup, words: tuple[str, ...]
) -> None:
    run = manilla(*words, "--data", str(operator.instance.folder))
    assert "Traceback" not in run.stderr
    assert (run.returncode, run.stdout) == (2, "")


async def test_a_disabled_merchants_payouts_wait_and_are_sent_once_when_it_is_enabled(
    operator: OperatorSetup,
) -> None:
    hold, merchant = ("setting", "set", "payouts_held"), ("merchant", "set", operator.id)
    await operator.commands((*hold, "true"))
    trx_id = await operator.pay_out(A)
    rejected = await operator.pay_out(A)
    await operator.commands((*merchant, "--status", "disabled"))
    await operator.commands((*hold, "false"))
    listing = ("payout", "list", "--merchant", operator.id, "--on-hold")
    [listed, shown] = await operator.commands(listing, ("payout", "show", trx_id))
    assert {each["trx_id"]: each["on_hold"] for each in listed} == {
        trx_id: "merchant_disabled",
        rejected: "merchant_disabled",
    }
    assert shown["on_hold_reason"] == "The merchant is disabled."
    [canceled] = await operator.commands(("payout", "reject", rejected, "--reason", "Closed."))
    assert canceled["status"] == "canceled"
    [shown] = await operator.commands(("payout", "show", trx_id))
    assert shown["sent_at"] is None
    await operator.commands((*merchant, "--status", "approved", "--payouts", "off"))
    [shown] = await operator.commands(("payout", "show", trx_id))
    assert (shown["sent_at"], shown["on_hold"]) == (None, "merchant_payouts_off")
    await operator.commands((*merchant, "--payouts", "on"))

    async def is_sent() -> bool:
        [shown] = await operator.commands(("payout", "show", trx_id))
        return shown["accepted_at"] is not None

    await operator.until(is_sent)
    [listed] = await operator.commands(listing)
    assert listed == []


async def test_a_sandbox_payment_is_shown_and_refunded_in_parts(operator: OperatorSetup) -> None:
    reply = await operator.sandbox.post(INITIATE_PAYMENT, payment_order())
    trx_id = urlsplit(reply.json["payment_url"]).path.rsplit("/", 1)[1]
    await operator.until_paid(operator.sandbox, trx_id)
    words = ("refund", trx_id, "--reason", "Returned goods")
    [part] = await operator.commands((*words, "--amount", "400.25"))
    assert list(part) == REFUND_FIELDS
    assert (part["payment_trx_id"], part["amount"]) == (trx_id, 400.25)
    assert part["reason"] == "Returned goods"
    [too_much] = await operator.refused((*words, "--amount", "599.76"))
    assert "599.75" in too_much
    shown, listed, found, entries, accounts = await operator.commands(
        *(("payment", "show", trx_id), ("refunds", "list")),
        ("payment", "list", "--search", trx_id),
        *(("ledger", "postings", "--reference", trx_id), ("ledger", "accounts")),
    )
    assert [each["trx_id"] for each in found] == [trx_id]
    assert sum(each["amount"] for each in entries) == 0 < len(entries)
    assert {each["account"] for each in entries} <= {each["account"] for each in accounts}
    assert (shown["status"], shown["amount"], shown["refunded"]) == ("success", 1000, 400.25)
    assert shown["remarks"] == "SANDBOX_TRANSACTION"
    assert [each["trx_id"] for each in listed if each["payment_trx_id"] == trx_id] == [
        part["trx_id"]
    ]


async def test_a_refund_waiting_for_an_operator_is_confirmed_once(operator: OperatorSetup) -> None:
    trx_id = await _paid_through_provider_b(operator)
    [refund] = await operator.commands(("refund", trx_id, "--reason", "Returned goods"))

    async def is_waiting() -> bool:
        [listed] = await operator.commands(("refunds", "list", "--pending"))
        waiting = {each["trx_id"]: each["waits_for"] for each in listed}
        return waiting.get(refund["trx_id"]) == "operator"

    await operator.until(is_waiting)
    words = ("refunds", "confirm", refund["trx_id"], "--note", "FT-8")
    [confirmed] = await operator.commands(words)
    assert (confirmed["status"], confirmed["waits_for"]) == ("completed", None)
    [again], [shown] = await asyncio.gather(
        operator.refused(words), operator.commands(("payment", "show", trx_id))
    )
    assert "completed already" in again
    [charge] = shown["charges"]
    assert (charge["method"], charge["status"]) == ("providerb-ngn", "paid")


async def _paid_through_provider_b(operator: OperatorSetup) -> str:
    reply = await operator.live.post(INITIATE_PAYMENT, payment_order())
    address = urlsplit(reply.json["payment_url"])
    trx_id: str = address.path.rsplit("/", 1)[1]
    chosen = await operator.live.site.send(
        "POST",
        f"{address.path}/choose?{address.query}",
        {"Content-Type": "application/x-www-form-urlencoded"},
        urlencode({"method": "providerb-ngn"}).encode(),
    )
    assert chosen.status == 303, chosen.body
    assert operator.control(f"b/charges/{trx_id}-1/pay", {})
    await operator.until_paid(operator.live, trx_id)
    return trx_id
