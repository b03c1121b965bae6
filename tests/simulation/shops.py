"""Merchants with their keys, and the world in which they send requests and get notifications."""

import asyncio
import json
import time
import urllib.error
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from manilla.kit.database.connections import Database
from tests.simulation.disputed import key_of
from tests.simulation.facts import Decision, Operation
from tests.simulation.model import Model
from tests.simulation.plan import RAILS
from tests.simulation.prices import Prices
from tests.simulation.receiver import Receiver
from tests.support.client import Reply
from tests.support.kinds import BY_RAIL, TestedKind
from tests.support.signing import sign

COMMISSION_PERCENT = Decimal("1.5")
PROVIDER_BALANCE = 10**12
UNAVAILABLE = 503
# The possible fees of each payout method, in minor units. The first fee is the fee at the start.
FEES = {
    **dict.fromkeys(RAILS, (0,)),
    "a": (2500,),
    "b": (1000, 1700),
    "auto": (1500, 900),
    "manual": (5000,),
}
CODES = {rail: BY_RAIL[rail].transfer_method for rail in RAILS}
BANK = {**{rail: BY_RAIL[rail].bank_code for rail in RAILS}, "auto": "058", "manual": ""}
CODES |= {"auto": "auto_ngn", "manual": "platform"}
LOST = (OSError, IndexError, ValueError, TimeoutError, urllib.error.URLError)
SETTLE_SECONDS = 0.2  # the time that the providers take to deliver a transfer

# Runs a `manilla` command, and returns its output.
Command = Callable[..., Awaitable[Any]]


@dataclass
class Keys:
    merchant_key: str
    api_key: str
    api_secret: str

    @classmethod
    def of(cls, created: dict[str, Any]) -> "Keys":
        """Takes the keys from the output of `manilla merchant create`."""
        given = created["production"]
        return cls(given["merchant_key"], given["api_key"], given["api_secret"])


@dataclass(frozen=True)
class OpenedDispute:
    """A dispute that a customer's bank has opened."""

    rail: str
    reference: str
    amount: int
    step: str  # the step in which it was opened

    @property
    def keys(self) -> tuple[str, str]:
        """The model's keys of the dispute, in the round in which it is opened and later."""
        return self.step, key_of(self.rail, self.reference)


@dataclass
class Account:
    """A customer's account. Its number is empty until the provider has created it."""

    rail: str
    customer: str
    id: str
    number: str = ""


@dataclass
class Card:
    """A card that a customer has perhaps saved, with the payment that saves it."""

    rail: str
    customer: str
    payment: Operation
    is_revoked: bool = False


@dataclass
class Shop:
    """A merchant of the simulation, with everything that it has to remember."""

    id: int
    keys: Keys
    pays_commission: bool
    # The accepted requests and those with an unknown outcome, by idempotency key.
    requests: dict[str, tuple[str, bytes, Operation]] = field(default_factory=dict)
    sent_at: dict[str, float] = field(default_factory=dict)  # when each request was first sent
    link: str = ""
    disputes: list[OpenedDispute] = field(default_factory=list)
    accounts: list[Account] = field(default_factory=list)
    cards: list[Card] = field(default_factory=list)
    # The idempotency keys of the requests whose outcome is still unknown.
    unknown: set[str] = field(default_factory=set)


class MerchantWorld(ABC):
    """What merchants and their customers use: the API, checkout, providers and receivers."""

    shops: Sequence[Shop]

    def __init__(self) -> None:
        self.model = Model()
        self.prices = Prices()
        self.receiver = Receiver()
        self.methods: dict[str, int] = {}
        self.operations: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()  # of requests that were not accepted at once
        self.checks: Counter[str] = Counter()
        self.violations: list[str] = []
        # The administrators' decisions whose command may have failed after its commit.
        self.attempted: dict[str, Decision] = {}
        # The transfers into customers' accounts, by payer.
        self.transfers: dict[str, Operation] = {}

    @property
    @abstractmethod
    def databases(self) -> Sequence[Database]:
        """The databases that contain the merchants' transactions."""

    @abstractmethod
    async def send(
        self, method: str, target: str, headers: dict[str, str], body: bytes = b""
    ) -> Reply | None:
        """Sends a request. Returns None if the connection was lost."""

    @abstractmethod
    async def control(self, path: str, document: Any = None) -> Any:
        """Sends a command to the simulator, or reads its state without a command."""

    async def call(
        self,
        shop: Shop,
        method: str,
        target: str,
        body: bytes = b"",
        key: str = "",
        skew: int = 0,
        content_type: str = "",
    ) -> Reply | None:
        """Sends a signed request. Returns None if the connection was lost."""
        now = str(int(time.time()) + skew)
        headers = {
            "X-Environment": "production",
            "X-Merchant-Key": shop.keys.merchant_key,
            "X-API-Key": shop.keys.api_key,
            "X-Timestamp": now,
            "X-Signature": sign(shop.keys.api_secret, now, method, target, body),
        }
        if key:
            headers["Idempotency-Key"] = key
        if content_type:
            headers["Content-Type"] = content_type
        return await self.send(method, target, headers, body)

    async def prepare_providers(self, rails: Sequence[str]) -> None:
        for rail in rails:
            await self.control(f"{rail}/balance", {"available": PROVIDER_BALANCE})
            await self.control(f"{rail}/faults", {"settle_seconds": SETTLE_SECONDS})

    async def add_endpoint(self, shop: Shop, events: Sequence[str]) -> None:
        fields = {"url": f"{self.receiver.url}/endpoint/{shop.id}", "events": events}
        body = json.dumps(fields).encode()
        reply = await self.call(shop, "POST", "/api/v1/webhook-endpoints", body)
        while reply is not None and reply.status == UNAVAILABLE:
            # A busy machine may reject the request. Faults begin later, so nothing was created.
            await asyncio.sleep(1)
            reply = await self.call(shop, "POST", "/api/v1/webhook-endpoints", body)
        assert reply is not None, "The webhook endpoint was not created."
        self.receiver.endpoint_secrets[shop.id] = reply.json["secret"]

    async def create_merchant(self, command: Command, number: int, email: str) -> Any:
        """Creates a merchant with a commission. Every second merchant bears it itself."""
        made = await command("merchant", "create", f"Shop {number}", email, "--status", "approved")
        bearer = "merchant" if pays_commission(number) else "customer"
        percent = str(COMMISSION_PERCENT)
        terms = ("--commission-percent", percent, "--commission-bearer", bearer)
        rules = ("--overpaid", "hold", "--underpaid", "hold")
        await command("merchant", "set", str(made["id"]), *terms, *rules)
        self.receiver.secrets[made["id"]].add(made["production"]["api_secret"])
        return made

    async def fund(self, command: Command, shop: Shop, reference: str, minor: int) -> None:
        amount = f"{Decimal(minor) / 100:.2f}"
        words = (str(shop.id), "NGN", amount, "--environment", "production")
        await command("wallet", "fund", *words)
        self.model.fund(shop.id, reference, minor)


def pays_commission(number: int) -> bool:
    """Returns whether the merchant with this number in the simulation bears the commission."""
    return number % 2 == 1


async def configure_methods(command: Command, rails: Sequence[str]) -> None:
    """Activates the payout and payment methods of these rails, with known fees."""
    for method in (*rails, "auto", "manual"):
        amount = f"{Decimal(FEES[method][0]) / 100:.2f}"
        words = ("--fee-fixed", amount, "--active", "on")
        await command("withdraw-method", "set", CODES[method], *words)
    for rail in rails:
        for method in BY_RAIL[rail].methods:
            await command("deposit-method", "set", method, "--active", "on")


async def configure_account(command: Command, kind: TestedKind, simulator_url: str) -> None:
    """Makes an installation's provider account call the simulator."""
    given = kind.credentials(simulator_url).items()
    await command("provider", "set", kind.provider, *(f"{name}={text}" for name, text in given))


def minor_of(amount: Any) -> int:
    return int((Decimal(str(amount)) * 100).to_integral_exact())


def decoded(reply: Reply) -> Any:
    """Returns the response's JSON with exact decimals instead of floats."""
    return json.loads(reply.body, parse_float=Decimal)
