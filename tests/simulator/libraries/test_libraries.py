"""Libraries for the providers' real APIs also work with the simulator's dialects.

The libraries are installed from PyPI and npm, and their files are not changed. `library.py`
explains how they reach the simulator.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from manilla_simulator.names import holder_of
from manilla_simulator.transfers import STAYS_PENDING

from tests.contract.runners import OFFLINE as NPM_OFFLINE
from tests.operating.test_wheel_installation import OFFLINE as PIP_OFFLINE
from tests.samples.languages import skip_without
from tests.simulator.libraries.library import FOLDER, Library, python_library, running
from tests.simulator.merchant_platform import Platform

pytestmark = pytest.mark.long

BASE = Path(sys.base_prefix) / "bin" / "python3"
INSTALL_SECONDS = 600  # This timeout only ends an installation that hangs.
ACCOUNT = STAYS_PENDING  # The test decides when a transfer is delivered.
REFERENCE = "txn0000000000000001"


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the interpreter of an environment that contains only the libraries."""
    if subprocess.run(
        [BASE, "-m", "pip", "--version"], capture_output=True, check=False
    ).returncode:
        pytest.skip("the interpreter has no pip")
    environment = tmp_path_factory.mktemp("libraries")
    subprocess.run([BASE, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    pip = [BASE, "-m", "pip", "--python", python, "--disable-pip-version-check", "install"]
    pinned = [*pip, "--no-input", "--no-deps", "--require-hashes", "--requirement"]
    install([*pinned, FOLDER / "requirements.txt"], environment, PIP_OFFLINE)
    # Without isolation, the pinned setuptools builds the library.
    source = [*pinned, FOLDER / "source.txt", "--no-build-isolation"]
    install(source, environment, PIP_OFFLINE)
    return python


@pytest.fixture
def node_modules(tmp_path: Path) -> Path:
    for program in ("node", "npm"):
        skip_without(program)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    install(command, tmp_path, NPM_OFFLINE)
    return tmp_path / "node_modules"


def install(command: list[Any], folder: Path, offline: tuple[str, ...]) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS
    )
    if done.returncode and any(reason in done.stderr for reason in offline):
        pytest.skip("the package index cannot be reached to install the providers' libraries")
    assert done.returncode == 0, done.stderr


async def test_pypaystack2(platform: Platform, interpreter: Path, tmp_path: Path) -> None:
    async with python_library("paystack", interpreter, platform.simulator, tmp_path) as library:
        await collect_with_paystack(platform, library)
        await pay_out_with_paystack(platform, library)


async def collect_with_paystack(platform: Platform, library: Library) -> None:
    charge = {"email": "ada@example.com", "amount": 1000_00}
    opened = await parsed(library, "transactions.initialize", **charge, reference="TXN1-1")
    assert opened["reference"] == "TXN1-1"
    await platform.control("paystack/charges/TXN1-1/pay", {})
    paid = await parsed(library, "transactions.verify", reference="TXN1-1")
    assert (paid["status"], paid["amount"], paid["fees"]) == ("success", 1000_00, 15_00)
    transfer = {"account_expires_at": "2030-01-01T00:00:00Z"}
    # The library has no model for this response, so only `raw` contains it.
    account = await library.call("charge.charge", {**charge, "bank_transfer": transfer})
    assert account["raw"]["data"]["status"] == "pending_bank_transfer"
    refund = await parsed(library, "refunds.create", transaction="TXN1-1", amount=400_50)
    listed = await parsed(library, "refunds.get_refunds", transaction=str(paid["id"]))
    assert [each["id"] for each in listed] == [refund["id"]]
    found = await parsed(library, "refunds.get_refund", reference=str(refund["id"]))
    assert (found["amount"], found["transaction_reference"]) == (400_50, "TXN1-1")


async def pay_out_with_paystack(platform: Platform, library: Library) -> None:
    banks = await parsed(library, "miscellaneous.get_banks", country="NG")
    assert "058" in {bank["code"] for bank in banks}
    account = {"account_number": ACCOUNT, "bank_code": "058"}
    resolved = await parsed(library, "verification.resolve_account_number", **account)
    assert resolved["account_name"] == holder_of(ACCOUNT)
    recipient = await parsed(
        library, "transfer_recipients.create", type_="nuban", name="Ada", **account
    )
    transfer = {
        "amount": 1000_00,
        "recipient": recipient["recipient_code"],
        "reason": "Rent",
        "reference": REFERENCE,
        "source": "balance",
    }
    # The library's model expects a session, which Paystack's documented response does not have.
    sent = await library.call("transfers.initiate", transfer)
    assert sent["raw"]["data"]["status"] == "pending"
    again = await library.call("transfers.initiate", transfer)
    assert (again["status_code"], again["type"]) == (400, "validation_error")
    await platform.control(f"paystack/transfers/{REFERENCE}/settle", {"status": "success"})
    verified = await parsed(library, "transfers.verify", reference=REFERENCE)
    assert (verified["status"], verified["amount"]) == ("success", 1000_00)
    unknown = await library.call("transfers.verify", {"reference": "txn0000000000000002"})
    assert (unknown["status_code"], unknown["message"]) == (404, "Transfer not found")
    (balance,) = await parsed(library, "transfer_control.check_balance")
    ledger = await parsed(library, "transfer_control.get_balance_ledger")
    assert ledger[0]["balance"] == balance["balance"]


async def parsed(library: Library, method: str, **arguments: Any) -> Any:
    """Returns the response's data, which the library's own model has parsed."""
    reply = await library.call(method, arguments)
    assert reply.get("data") is not None, reply
    return reply["data"]


async def test_monnify_python(platform: Platform, interpreter: Path, tmp_path: Path) -> None:
    async with python_library("monnify", interpreter, platform.simulator, tmp_path) as library:
        await collect_with_monnify(platform, library)
        await pay_out_with_monnify(platform, library)


async def collect_with_monnify(platform: Platform, library: Library) -> None:
    charge = {
        "amount": "1000.50",
        "customerName": "Ada Obi",
        "customerEmail": "ada@example.com",
        "paymentReference": "TXN1-1",
        "paymentDescription": "Order 7",
        "currencyCode": "NGN",
        "contractCode": "1234567890",
        "redirectUrl": "https://shop.example.com/back",
    }
    opened = await body(library, "Transaction.initialize_transaction", data=charge)
    own = opened["transactionReference"]
    transfer = {"transactionReference": own, "bankCode": "035"}
    account = await body(library, "Transaction.pay_with_bank_transfer", data=transfer)
    assert account["totalPayable"] == 1000.5
    await platform.control("monnify/charges/TXN1-1/pay", {})
    for method in ("get_transaction_status", "get_transaction_status_v2"):
        paid = await body(library, f"Transaction.{method}", transaction_reference=own)
        assert (paid["paymentStatus"], paid["amountPaid"]) == ("PAID", "1000.50")
    # The library itself sends refunds without the documented field `refundAmount`.
    refund = {
        "transactionReference": own,
        "refundAmount": 400.5,
        "refundReference": "TXN2",
        "refundReason": "Order canceled",
        "customerNote": "Order 7",
    }
    post = {"url_path": "/api/v1/refunds/initiate-refund", "data": refund}
    await body(library, "TransactionRefund.do_post", **post)
    found = await body(library, "TransactionRefund.get_refund_status", refund_reference="TXN2")
    assert found["refundAmount"] == 400.5
    listed = await body(library, "TransactionRefund.get_all_refunds", start_date=0, end_date=1)
    assert [each["refundReference"] for each in listed["content"]] == ["TXN2"]


async def pay_out_with_monnify(platform: Platform, library: Library) -> None:
    transfer = {
        "amount": "1000.50",
        "reference": REFERENCE,
        "narration": "Rent",
        "destinationBankCode": "058",
        "destinationAccountNumber": ACCOUNT,
        "destinationAccountName": holder_of(ACCOUNT),
        "currency": "NGN",
        "sourceAccountNumber": "8012345678",
        "async": True,
    }
    single = "DisbursementSingle"
    sent = await body(library, f"{single}.initiate_transfer", data=transfer)
    assert (sent["status"], sent["amount"]) == ("PENDING", 1000.5)
    again = await library.call(f"{single}.initiate_transfer", {"data": transfer})
    assert '"responseCode":"D05"' in again["error"]
    await platform.control(f"monnify/transfers/{REFERENCE}/settle", {"status": "success"})
    delivered = await body(library, f"{single}.get_transfer_status", reference=REFERENCE)
    assert delivered["status"] == "SUCCESS"
    unknown = await library.call(f"{single}.get_transfer_status", {"reference": "TXN404"})
    assert '"responseCode":"D02"' in unknown["error"]
    listed = await body(library, f"{single}.list_all_transfers")
    assert [each["reference"] for each in listed["content"]] == [REFERENCE]
    wallet = {"wallet_account_number": "8012345678"}
    balance = await body(library, f"{single}.get_wallet_balance", **wallet)
    assert set(balance) == {"availableBalance", "ledgerBalance"}


async def body(library: Library, method: str, **arguments: Any) -> Any:
    result = await library.call(method, arguments)
    assert isinstance(result, list), result
    status, document = result
    assert (status, document["responseCode"]) == (200, "0")
    return document["responseBody"]


async def test_flutterwave_node_v3(platform: Platform, node_modules: Path) -> None:
    command = ["node", FOLDER / "call_node.cjs", f"{platform.simulator}/flutterwave/"]
    async with running(command, {"NODE_PATH": str(node_modules)}) as library:
        await collect_with_flutterwave(platform, library)
        await pay_out_with_flutterwave(library)


async def collect_with_flutterwave(platform: Platform, library: Library) -> None:
    charge = {"tx_ref": "TXN1-1", "amount": "1000", "currency": "NGN", "email": "ada@example.com"}
    opened = await library.call("Charge.bank_transfer", charge)
    assert opened["meta"]["authorization"]["transfer_amount"] == "1000.00"
    await platform.control("flutterwave/charges/TXN1-1/pay", {})
    paid = await data(library, "Transaction.verify_by_tx", tx_ref="TXN1-1")
    assert (paid["status"], paid["amount"]) == ("successful", 1000)
    number = str(paid["id"])
    assert await data(library, "Transaction.verify", id=number) == paid
    refund = await data(library, "Transaction.refund", id=number, amount="400.5")
    assert (refund["status"], refund["amount_refunded"]) == ("completed", 400.5)


async def pay_out_with_flutterwave(library: Library) -> None:
    assert "044" in {bank["code"] for bank in await data(library, "Bank.country", country="NG")}
    account = {"account_number": ACCOUNT, "account_bank": "044"}
    resolved = await data(library, "Misc.verify_Account", **account)
    assert resolved["account_name"] == holder_of(ACCOUNT)
    (fee,) = await data(library, "Transfer.fee", amount="5500", currency="NGN")
    assert fee["fee"] == 26.875
    transfer = {**account, "amount": "5500", "currency": "NGN", "reference": REFERENCE}
    sent = await data(library, "Transfer.initiate", **transfer)
    assert (sent["status"], sent["amount"]) == ("NEW", 5500)
    again = await library.call("Transfer.initiate", transfer)
    assert again["status"] == "error"
    # The library sends the following requests to paths that start with two slashes.
    (listed,) = await data(library, "Transfer.fetch", reference=REFERENCE)
    assert listed["id"] == sent["id"]
    found = await data(library, "Transfer.get_a_transfer", id=str(sent["id"]))
    assert found["reference"] == REFERENCE
    balance = await data(library, "Misc.bal_currency", currency="NGN")
    reply = await library.call("Misc.bal")
    assert reply["data"] == [balance]


async def data(library: Library, method: str, **argument: Any) -> Any:
    reply = await library.call(method, argument)
    assert reply.get("status") == "success", reply
    return reply["data"]
