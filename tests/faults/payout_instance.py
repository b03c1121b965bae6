"""An instance with a merchant that sends payouts, and checks that must pass after every fault."""

import itertools
import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from manilla.ledger import invariants
from tests.faults.live_instance import LiveInstance
from tests.payouts.payout_merchant import ACCOUNT, BANKS, CODES, INITIATE, MANUAL
from tests.support import kinds
from tests.support.client import Reply
from tests.support.instance import MANILLA
from tests.support.invariants import ALL

GTBANK = "058"
# The simulator accepts transfers to this account, and reports them as failed later.
FAILS_LATER = "0000000001"

_numbers = itertools.count(time.time_ns())


class PayoutInstance(LiveInstance):
    def __init__(self, folder: Path) -> None:
        # There is only one API process, so a test kills the process whose caches it has filled.
        super().__init__(folder, "--workers", "1")
        words = ("NGN", "1000000", "--environment", "production")
        self.instance.command("wallet", "fund", str(self.merchant["id"]), *words)

    async def order(
        self, rail: str = "a", *, account: str = ACCOUNT, ref_trx: str | None = None
    ) -> dict[str, Any]:
        beneficiary = {"bank_code": BANKS.get(rail, GTBANK), "account_number": account}
        if rail == MANUAL:
            beneficiary = {"Bank Name": "GTBank", "Account Number": account}
        code = CODES.get(rail, rail)
        return {
            "payout_amount": 1000,
            "currency_code": "NGN",
            "ref_trx": ref_trx or f"PAYOUT-{next(_numbers)}",
            "ipn_url": "https://shop.example/ipn",
            "withdraw_method_id": await self.db.value(
                "SELECT id FROM method WHERE code = $1", code
            ),
            "beneficiary": beneficiary,
        }

    async def ask(self, order: dict[str, Any]) -> Reply | None:
        """Requests a payout. Returns None if the process died before it responded."""
        try:
            return await self.call("POST", INITIATE, json.dumps(order).encode())
        except (OSError, IndexError):
            return None

    async def ask_until_answered(self, order: dict[str, Any]) -> Reply:
        """Repeats the request until the response shows the outcome, as a merchant would."""
        answer: Reply | None = None

        async def is_answered() -> bool:
            nonlocal answer
            answer = await self.ask(order)
            return answer is not None and answer.status != 503

        await self.until(is_answered)
        assert answer is not None
        return answer

    async def pay_out(self, rail: str = "a", *, account: str = ACCOUNT) -> str:
        reply = await self.ask_until_answered(await self.order(rail, account=account))
        assert reply.status == 200, reply.body
        trx_id: str = reply.json["trx_id"]
        return trx_id

    async def payout(self, trx_id: str) -> dict[str, Any]:
        return dict(await self.db.record("SELECT * FROM payout WHERE trx_id = $1", trx_id))

    async def payouts_of(self, ref_trx: str) -> list[str]:
        records = await self.db.records("SELECT trx_id FROM payout WHERE ref_trx = $1", ref_trx)
        return [record["trx_id"] for record in records]

    async def until_status(self, trx_id: str, status: str) -> None:
        async def is_so() -> bool:
            return bool((await self.payout(trx_id))["status"] == status)

        await self.until(is_so)

    async def until_crash(self, point: str) -> None:
        async def has_crashed() -> bool:
            return self.has_crashed(point)

        await self.until(has_crashed)

    async def balance(self) -> int:
        minor: int = await self.db.value(
            "SELECT balance_minor FROM wallet WHERE merchant_id = $1 AND environment = $2",
            *(self.merchant["id"], "production"),
        )
        return minor

    async def notifications(self, trx_id: str) -> list[tuple[str, str, str]]:
        records = await self.db.records(
            "SELECT id, status, body FROM notification WHERE trx_id = $1 ORDER BY id", trx_id
        )
        return [(r["id"], r["status"], json.loads(r["body"])["message"]) for r in records]

    async def steps(self, trx_id: str) -> list[str]:
        records = await self.db.records(
            """
            SELECT to_status FROM timeline
             WHERE trx_id = $1 AND to_status <> from_status ORDER BY number""",
            trx_id,
        )
        return [record["to_status"] for record in records]

    async def transfers(self, trx_id: str, rail: str = "a") -> list[Any]:
        return await self._at_provider(rail, "transfers", trx_id)

    async def calls(self, trx_id: str, rail: str = "a") -> list[str]:
        return [call["call"] for call in await self._at_provider(rail, "requests", trx_id)]

    async def _at_provider(self, rail: str, what: str, trx_id: str) -> list[Any]:
        reference = kinds.BY_RAIL[rail].reference(trx_id)
        found = await self.control(f"{rail}/{what}?limit=1000&reference={reference}")
        listed: list[Any] = found[what]
        return listed

    async def is_paid_once(self, trx_id: str, rail: str = "a") -> bool:
        found = await self.transfers(trx_id, rail)
        row = await self.payout(trx_id)
        return [(t["reference"], t["amount"] * 100, t["duplicates"]) for t in found] == [
            (kinds.BY_RAIL[rail].reference(trx_id), row["amount_minor"], 0)
        ]

    async def cases(self, trx_id: str) -> list[str]:
        records = await self.db.records(
            "SELECT kind FROM operator_case WHERE reference = $1", trx_id
        )
        return [record["kind"] for record in records]

    async def check_invariants(self) -> None:
        assert [f for f in await invariants.check(self.db, ALL) if f.count] == []

    async def let_a_day_pass(self, trx_id: str) -> None:
        """Simulates that the transfer was sent a day ago, and makes its job due."""
        age = "UPDATE payout SET began_at = began_at - interval '25 hours' WHERE trx_id = $1"
        await self.db.execute(age, trx_id)
        await self.end_leases()

    def worker(self) -> int:
        [pid] = [
            pid
            for pid in self.instance.tree()
            if Path(f"/proc/{pid}/cmdline").read_bytes().endswith(b"\0worker\0")
        ]
        return pid

    def start_worker(self) -> "subprocess.Popen[bytes]":
        with (self.instance.folder / "logs" / "second-worker.log").open("ab") as log:
            return subprocess.Popen(
                [*MANILLA, "worker", "--data", str(self.instance.folder)],
                stdout=log,
                stderr=subprocess.STDOUT,
            )


def stop_worker(worker: "subprocess.Popen[bytes]") -> None:
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 0
