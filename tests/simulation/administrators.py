"""The steps of the administrators, through the `manilla` command."""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from manilla.approvals import approvals
from manilla.approvals.kinds import WalletAdjustment
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from tests.simulation import dispute_records, prices
from tests.simulation.facts import Decision, Kind, Operation
from tests.simulation.faults import DATABASE_ERRORS, Progress
from tests.simulation.model import PENDING, SUCCESS
from tests.simulation.operations import PAYOUT
from tests.simulation.plan import Step
from tests.simulation.shops import CODES, FEES, LOST, Keys, Shop
from tests.simulation.world import PREVIOUS_KEYS, World
from tests.support.approving import approvals_of
from tests.support.kinds import BY_RAIL
from tests.web.signed_in_user import SignedInUser

STEPS_BETWEEN = 10
NOT_HELD = "Payouts are not on hold."
EXPECTED = (*LOST, *DATABASE_ERRORS, AssertionError, Refusal)
SECONDS_MAX = 8.0
TRIES = 30
RETRY_SECONDS = 0.5


class AdministratorSteps:
    """Runs the steps of the administrators. `progress(n)` waits for n more steps of merchants."""

    def __init__(self, world: World, progress: Progress) -> None:
        self.world = world
        self._progress = progress

    async def run(self, step: Step) -> None:
        run: Callable[..., Any] = getattr(self, step.name)
        await run(**step.arguments)
        self.world.operations[f"administrator: {step.name.replace('_', ' ')}"] += 1

    async def payouts_off_and_on(self, merchant: int) -> None:
        words = ("merchant", "set", str(self.world.shops[merchant].id), "--payouts")
        await self._for_some_time((*words, "off"), (*words, "on"))

    async def disable_and_approve(self, merchant: int) -> None:
        words = ("merchant", "set", str(self.world.shops[merchant].id), "--status")
        await self._for_some_time((*words, "disabled"), (*words, "approved"))

    async def drain_and_undrain(self, rail: str) -> None:
        account = BY_RAIL[rail].provider
        await self._for_some_time(("rail", "drain", account), ("rail", "undrain", account))

    async def withdrawals_off_and_on(self) -> None:
        words = ("setting", "set", "withdrawals_enabled")
        await self._for_some_time((*words, "false"), (*words, "true"))

    async def hold_and_release(self) -> None:
        await self._for_some_time(("payout", "hold"), ("payout", "release"), NOT_HELD)

    async def change_setting(self, seconds: int) -> None:
        words = ("setting", "set", "timestamp_tolerance_seconds", str(seconds))
        await self.world.try_command(*words)

    async def rotate_master_key(self, is_new: bool) -> None:
        """Encrypts all secrets with one of the two master keys that all processes know."""
        first = (self.world.live.instance.folder / "master.key").read_text()
        second = os.environ[PREVIOUS_KEYS]
        keys = (second, first) if is_new else (first, second)
        variables = dict(zip(("MANILLA_MASTER_KEY", PREVIOUS_KEYS), keys, strict=True))
        await self.world.try_command("master-key", "rewrap", **variables)

    async def reconcile(self) -> None:
        """Compares the ledger with the providers while transfers are under way."""
        await self.world.try_command("reconcile")

    async def change_fee(self, method: str, which: int) -> None:
        """Changes the fee of a method while merchants use it."""
        fee = f"{Decimal(FEES[method][which]) / 100:.2f}"
        await self.world.try_command("withdraw-method", "set", CODES[method], "--fee-fixed", fee)

    async def revoke_key(self, merchant: int) -> None:
        """Gives a merchant an additional API key, and revokes it while the merchant uses it."""
        shop = self.world.shops[merchant]
        scope = (str(shop.id), "--environment", "production")
        rights = [word for right in RIGHTS for word in ("--right", right)]
        words = ("api-key", "create", scope[0], "Till", *scope[1:], *rights)
        made = await self.world.try_command(*words)
        if made is None:
            return
        till = shop.keys = Keys(made["merchant_key"], made["api_key"], made["api_secret"])
        await self._wait()
        for key in await self._insist("api-key", "list", *scope):
            if key["revoked_at"] is None:
                await self._insist("api-key", "revoke", scope[0], str(key["number"]), *scope[1:])
        await self._try_revoked(shop, till)
        shop.keys = shop.main_keys

    async def _try_revoked(self, shop: Shop, revoked: Keys) -> None:
        """A payout request with a revoked key must be rejected at once."""
        using = replace(shop, keys=revoked)
        fields = {
            "payout_amount": 100,
            "currency_code": "NGN",
            "ref_trx": f"revoked {revoked.api_key[:8]}",
            "ipn_url": f"{self.world.receiver.url}/{shop.id}",
            "withdraw_method_id": self.world.methods[CODES["manual"]],
            "beneficiary": {"Bank Name": "GTBank", "Account Number": "0123456789"},
        }
        reply = await self.world.call(using, "POST", PAYOUT, json.dumps(fields).encode())
        if reply is not None and reply.status == 200:
            self.world.violations.append(f"merchant {shop.id} paid out with a revoked key")

    async def change_version(self) -> None:
        """Upgrades the second host from the previous release, or rolls it back.

        Version 0.15.0 knows no price plans, and no customers.
        """
        if not self.world.is_upgraded:
            await asyncio.to_thread(self.world.second.change_version)

    async def change_plan(self, plan: str, which: int, merchant: int | None) -> None:
        """Sets a plan's lines, and gives the plan to a merchant or to all merchants."""
        owner = prices.EVERYONE if merchant is None else self.world.shops[merchant].id
        await self._change_lines(prices.EVERYONE, plan, which)
        await self._change_prices("assign", plan, *_of(owner), assigned={owner: plan})

    async def change_own_prices(self, merchant: int, which: int) -> None:
        """Sets the exceptions of a merchant."""
        await self._change_lines(self.world.shops[merchant].id, "own", which)

    async def _change_lines(self, owner: int, plan: str, which: int) -> None:
        file = self.world.folder / "plan.csv"
        rows = [
            f"{direction},NGN,{way},{terms.percent},{','.join(map(_major, terms[1:]))}"
            for (direction, way), terms in prices.LINES[which].items()
        ]
        names = "direction,currency,way,percent,fixed,waived_below,maximum"
        file.write_text("\n".join([names, *rows]))
        words = ("set", plan, "--title", "Simulated", "--file", str(file), *_of(owner))
        await self._change_prices(*words, plans={(owner, plan): which})

    async def change_tax(self, which: int) -> None:
        """Adds a tax, replaces its rule, or ends it."""
        name, tax = prices.TAXES[which]
        base = ("--base", "fee" if name == prices.VAT else "transfer", "--on", tax.directions)
        rate = ("--percent", tax.percent, "--fixed", _major(tax.fixed))
        who = ("--borne-by", tax.borne_by, "--returned", "on" if tax.returned else "off")
        words = ("add", name, *base, *rate, *who, "--threshold", _major(tax.threshold))
        await self._change_prices(*words, program="tax", taxes={name: tax})

    async def _change_prices(
        self, *words: str, program: str = "price-plan", **changed: Any
    ) -> None:
        """Repeats a command with a new start until it succeeds. A repetition changes nothing."""
        await self.world.upgrade()
        self.world.prices.change(**changed)
        await self._insist(program, *words, start=self.world.prices.next_start)

    async def remit_tax(self, naira: int) -> None:
        """Records a transfer to the authority. It fails if the platform owes less."""
        reference = f"Remittance {self.world.operations.total()}"
        words = ("remit", prices.VAT, str(naira), "--reference", reference)
        await self.world.try_command("tax", *words)

    async def adjust_wallet(self, merchant: int, amount: int, is_approved: bool) -> None:
        """An administrator requests an adjustment, and two others decide at the same time."""
        shop, first = self.world.shops[merchant], self.world.administrators[0]
        change = WalletAdjustment(
            shop.id, Environment.PRODUCTION, Money("NGN", amount), "Simulated adjustment"
        )
        with contextlib.suppress(*EXPECTED):
            with acting(Actor(ActorKind.PERSON, first.person_id, first.email, "console")):
                number = await approvals.request(approvals_of(self.world.services), change)
            wanted = self.world.model.adjust(shop.id, f"approval {number}", amount)
            self.world.adjustments[number] = wanted
            actions = ("approve", "approve" if is_approved else "refuse")
            people = self.world.administrators[1:]
            decide = map(self._decide_approval, people, actions, [number] * len(people))
            await asyncio.gather(*decide)

    async def _decide_approval(self, person: SignedInUser, action: str, number: int) -> None:
        with contextlib.suppress(*EXPECTED):
            user = await self.world.sign_in(person)
            await user.post(f"/approvals/{number}/{action}", {"reason": "Simulated"})

    async def decide(self, back: int, is_paid: bool) -> None:
        """Decides on a manual payout, or on a refund that an administrator must pay."""
        waiting = [each for each in self.world.model.operations.values() if _waits(each)]
        if waiting:
            chosen = waiting[-1 - back % len(waiting)]
            await decide(self.world, chosen, Decision.PAID if is_paid else Decision.REJECTED)

    async def look_for_disputes(self) -> None:
        """Polls providers, records what the others show, and sends answers there."""
        with contextlib.suppress(*EXPECTED):
            await dispute_records.poll(self.world)
            await dispute_records.record_manually(self.world)
            await dispute_records.send_manually(self.world)

    async def review_answers(self) -> None:
        """Reviews the merchants' answers to disputes for some time."""
        words = ("setting", "set", "dispute_review")
        await self._for_some_time((*words, "true"), (*words, "false"))

    async def reverse(self, back: int, rail: str) -> None:
        """A provider returns a transfer that it has delivered."""
        found = [each for each in self.world.model.operations.values() if _is_delivered(each)]
        if not found:
            return
        chosen = found[-1 - back % len(found)]
        with contextlib.suppress(*LOST):
            path = f"{rail}/transfers?reference={chosen.trx_id}"
            if (await self.world.control(path))["transfers"]:
                self.world.model.reverse(chosen)
                path = f"{rail}/transfers/{chosen.trx_id}/settle"
                await self.world.control(path, {"status": "reversed"})

    async def _for_some_time(
        self, during: tuple[str, ...], afterwards: tuple[str, ...], is_done: str = ""
    ) -> None:
        await self.world.try_command(*during)
        await self._wait()
        await self._insist(*afterwards, is_done=is_done)

    async def _wait(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_MAX):
                await self._progress(STEPS_BETWEEN)

    async def _insist(
        self, *words: str, is_done: str = "", start: Callable[[], str] | None = None
    ) -> Any:
        """Repeats a command until it succeeds, because faults can make it fail.

        A command can fail after its commit. `is_done` is the error of the next attempt.
        """
        for _ in range(TRIES):
            starts = ("--starts", start()) if start else ()
            if (done := await self.world.try_command(*words, *starts)) is not None:
                return done
            if is_done and is_done in self.world.last_failure:
                return []
            await asyncio.sleep(RETRY_SECONDS)
        self.world.violations.append(f"a command does not succeed: {self.world.last_failure}")
        return []


def _of(merchant: int) -> tuple[str, ...]:
    return ("--merchant", str(merchant)) if merchant else ()


def _major(minor: int) -> str:
    return f"{Decimal(minor) / 100:.2f}" if minor else ""


RIGHTS = ("payments", "payouts", "refunds", "read")


async def decide(world: World, operation: Operation, decision: Decision, *options: str) -> None:
    """Records a decision. If the command fails, the quiet moment finds out whether it worked."""
    if operation.kind is Kind.PAYOUT:
        words = {Decision.PAID: ("payout", "complete"), Decision.REJECTED: ("payout", "reject")}
    else:
        words = {Decision.PAID: ("refunds", "confirm"), Decision.REJECTED: ("refunds", "reject")}
    reason = ("--reason", "Simulated") if decision is Decision.REJECTED else ()
    world.attempted[operation.trx_id] = decision
    if await world.try_command(*words[decision], operation.trx_id, *reason, *options) is not None:
        operation.decision = decision


def _waits(operation: Operation) -> bool:
    return (
        operation.is_manual
        and operation.kind in (Kind.PAYOUT, Kind.REFUND)
        and bool(operation.trx_id)
        and operation.status == PENDING
        and operation.decision is Decision.NONE
    )


def _is_delivered(operation: Operation) -> bool:
    return (
        operation.kind is Kind.PAYOUT
        and operation.status == SUCCESS
        and not operation.is_manual
        and not operation.is_reversed
    )
