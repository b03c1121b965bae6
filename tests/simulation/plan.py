"""The plan: all steps of a run, generated from the seed before the run.

A plan is an endless sequence of rounds. The steps of a round are divided into lanes: one for each
merchant (its calls and its customers), one for the administrators and one for the faults. The lanes
of a round run at the same time, and the steps of a lane run in order. A round ends with a quiet
moment. A plan can be printed, read again, and shortened.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

ADMINISTRATOR, FAULT = "administrator", "fault"
MERCHANTS = 8
RAILS = ("a", "b", "c", "kora", "paystack", "flutterwave", "monnify")
MERCHANT_STEPS = 24
ADMINISTRATOR_STEPS = 3
PRICE_STEPS = 2  # in runs in which prices change
FAULT_STEPS = 8

Choices = dict[str, Sequence[Any]]

AMOUNT = range(100_00, 5_000_00)
METHOD = [*RAILS, "auto", "auto", "auto", "manual"]
# The simulator's test accounts, in this order: delivered; failed later; not found by the lookup;
# pending until a later step decides (twice); the provider's balance is too low.
ACCOUNT = ["0123456789"] * 8 + [
    "0000000001",
    "0000000002",
    "0000000003",
    "0000000003",
    "0000000004",
]
# The rows of payout files.
FILE = [[150_00], [200_00, 350_50], [100_00, 999_99, 480_25, 120_00, 310_10]]
AT_ONCE = [[100_00, 250_00, 333_33], [500_00] * 5]  # the amounts of concurrent payouts
OUTCOME = ["success"] * 6 + ["failed", "abandoned"]
ADJUSTMENT = [2_500_00, 75_25, -60_00, -1_200_50]
# `back` selects one of the lane's earlier steps of the right kind, counted from the newest.
BACK = range(6)
DAY_SECONDS = 24 * 3600  # how long a merchant can answer a dispute, unless it is seconds

MERCHANT: dict[str, tuple[float, Choices]] = {
    "pay": (7, {"amount": AMOUNT, "rail": RAILS, "outcome": OUTCOME}),
    "pay_wrong_amount": (
        0.8,
        {"amount": AMOUNT, "rail": ["kora", "flutterwave"], "percent": [40, 99, 130]},
    ),
    "pay_by_link": (2, {"amount": AMOUNT, "rail": RAILS, "outcome": OUTCOME}),
    "pay_out": (8, {"amount": AMOUNT, "method": METHOD, "account": ACCOUNT}),
    "pay_file": (0.4, {"amounts": FILE, "account": ACCOUNT}),
    "settle": (0.8, {}),
    "decide_request": (1, {"is_approved": [True, True, False]}),
    "refund": (3, {"back": BACK, "percent": [10, 30, 100]}),
    "pay_out_at_once": (0.6, {"amounts": AT_ONCE, "method": ["a", "auto"]}),
    "overdraw": (0.4, {}),
    "refund_at_once": (0.6, {"back": BACK}),
    "dispute": (
        3,
        {
            "back": BACK,
            "has_api": [True, True, False],
            "percent": [25, 60, 100, 100, 150],
            "category": ["fraud", "chargeback"],
            "due_seconds": [1, 5, DAY_SECONDS, DAY_SECONDS],
        },
    ),
    "bank_acts": (3, {"back": BACK, "how": ["won", "lost", "reopen", "remind"]}),
    "answer_dispute": (
        4,
        {
            "back": BACK,
            "how": ["accept", "accept_part", "contest", "contest"],
            "copies": [1, 1, 2],
        },
    ),
    "repeat": (3, {"back": BACK, "copies": [1, 1, 3]}),
    "verify": (3, {"back": BACK}),
    "read_balance": (5, {}),
    "wrong_clock": (1, {"skew_seconds": [-7200, 3600, 86400]}),
    "rotate_keys": (0.2, {"overlap_minutes": [0, 60]}),
}
ADMIN: dict[str, tuple[float, Choices]] = {
    "payouts_off_and_on": (2, {"merchant": range(MERCHANTS)}),
    "disable_and_approve": (2, {"merchant": range(MERCHANTS)}),
    "drain_and_undrain": (2, {"rail": RAILS}),
    "withdrawals_off_and_on": (1, {}),
    "hold_and_release": (1, {}),
    "change_setting": (1, {"seconds": [60, 120, 300]}),
    "rotate_master_key": (1, {"is_new": [True, False]}),
    "reconcile": (1, {}),
    "change_fee": (2, {"method": ["b", "auto"], "which": [0, 1]}),
    "revoke_key": (2, {"merchant": range(MERCHANTS)}),
    "decide": (4, {"back": BACK, "is_paid": [True, True, False]}),
    "adjust_wallet": (
        2,
        {"merchant": range(MERCHANTS), "amount": ADJUSTMENT, "is_approved": [True, True, False]},
    ),
    "change_version": (1, {}),
    "look_for_disputes": (5, {}),
    "review_answers": (1, {}),
    "reverse": (2, {"back": BACK, "rail": ["a", "c"]}),
}
# Version 0.15.0 knows no price plans, customers and splits. So only runs with an odd seed have the
# steps of `PRICES`, `CUSTOMERS`, `CUSTOMER_FAULTS`, `SPLITS` and `SPLIT_FAULTS`, and their second
# host is not rolled back after the first one.
PRICES: dict[str, tuple[float, Choices]] = {
    "change_plan": (
        6,
        {
            "plan": ["standard", "special"],
            "which": range(4),
            "merchant": [None] * MERCHANTS + [*range(MERCHANTS)],
        },
    ),
    "change_own_prices": (3, {"merchant": range(MERCHANTS), "which": range(4)}),
    "change_tax": (7, {"which": range(8)}),
    "remit_tax": (1, {"naira": [1, 20, 300]}),
}
WITH_ACCOUNTS = ["paystack", "flutterwave", "kora", "monnify"]
WITH_CARDS = ["paystack", "flutterwave", "monnify"]
BANK_ANSWERS = ["success"] * 5 + ["declined", "insufficient_funds", "expired", "confirm", "pending"]
CUSTOMERS: dict[str, tuple[float, Choices]] = {
    "open_account": (2, {"rail": WITH_ACCOUNTS}),
    "transfer": (
        8,
        {
            "back": BACK,
            "amount": [5_00, 150_25, *AMOUNT[::500]],
            "copies": [1, 1, 3],
            "rail": WITH_ACCOUNTS,
        },
    ),
    "close_account": (0.4, {"back": BACK}),
    "save_card": (2, {"amount": AMOUNT, "rail": WITH_CARDS}),
    "charge_card": (
        8,
        {
            "back": BACK,
            "amount": AMOUNT,
            "outcome": BANK_ANSWERS,
            "copies": [1, 1, 2],
            "rail": WITH_CARDS,
        },
    ),
    "revoke_card": (0.6, {"back": BACK, "amount": AMOUNT, "is_charged": [True, False]}),
}
SPLITS: dict[str, tuple[float, Choices]] = {
    "pay_split": (
        6,
        {
            "amount": AMOUNT,
            "rail": RAILS,
            "outcome": OUTCOME,
            "percents": [["30"], ["33.3333", "10"], ["0.01", "60"]],
            "fees": ["owner", "owner", "proportional"],
            "hold": ["none", "none", "release", 1],
        },
    ),
    "release_shares": (2, {"back": BACK}),
    "empty_wallet": (0.8, {}),
}
POINTS = [
    "after_webhook_stored",
    "amid_payment_credit",
    "before_payment_commit",
    "after_payment_commit",
    "before_charge_commit",
    "after_charge_commit",
    "after_charge_is_created",
    "before_refund_commit",
    "before_dispute_commit",
    "after_dispute_commit",
    "before_dispute_answer",
    "after_dispute_answer",
    "before_intake_commit",
    "after_intake_commit",
    "before_payout_commit",
    "after_payout_commit",
    "between_status_and_refund",
    "before_move_commit",
    "after_move_commit",
    "before_transfer_is_sent",
    "after_send_is_begun",
    "after_transfer_is_sent",
    "after_notification_is_delivered",
    "after_settlement_is_started",
    "after_settlement_is_ordered",
]
PROCESS = ["serve", "worker"]
CALL = ["transfer", "transfer", "transfer_status", "charge", "charge_status", "refund", "resolve"]
DISPUTE_CALL = ["dispute_list", "dispute_status", "dispute_answer", "dispute_answer", "evidence"]
DISPUTED = ["paystack", "flutterwave", "kora"]  # the providers with an API for disputes
LIE = ["webhook_amount", "webhook_status", "unknown_status", "no_amount"]
ANSWER = [
    "5xx_before",
    "5xx_after_accept",
    "reset",
    "reset_after_accept",
    "garbage_after_accept",
    "refuse",
]
WHICH = range(3)  # selects one of the processes of a program on both hosts
HOUR_SECONDS = 3600
JUMP = [-20, 90, HOUR_SECONDS, 5 * HOUR_SECONDS, 26 * HOUR_SECONDS, 4 * 24 * HOUR_SECONDS]
SKEW = [-7200, -200, -40, 50, 280, 86400]
FAULTS: dict[str, tuple[float, Choices]] = {
    "crash": (8, {"point": POINTS}),
    "kill": (3, {"process": PROCESS, "which": WHICH}),
    "freeze": (3, {"process": [*PROCESS, "simulator"], "which": WHICH, "steps": [6, 12]}),
    "kill_database_connections": (2, {}),
    "kill_database_process": (1, {}),
    "kill_database": (0.7, {}),
    "lose_standby": (0.5, {}),
    "failover": (0.7, {"primary": ["lost", "frozen"]}),
    "clock_jumps": (3, {"seconds": JUMP}),
    "clock_is_wrong": (2, {"host": ["second"], "seconds": SKEW}),
    "database_clock_is_wrong": (1, {"seconds": [-120, -20, 45, 240]}),
    "provider_answers": (6, {"rail": RAILS, "call": CALL, "answer": ANSWER, "times": [1, 2, 3]}),
    "dispute_answers": (
        2,
        {"rail": DISPUTED, "call": DISPUTE_CALL, "answer": ANSWER, "times": [1, 2, 3]},
    ),
    "provider_lies": (1.5, {"rail": DISPUTED, "lie": LIE}),
    "provider_is_down": (2, {"rail": RAILS, "steps": [6, 12]}),
    "provider_is_slow": (1, {"rail": RAILS, "steps": [6, 12]}),
    "webhooks": (
        4,
        {"rail": RAILS, "mode": ["duplicate", "reorder", "hold", "lost", "forge"]},
    ),
    "receiver_fails": (2, {"how": ["error", "lost", "slow"], "times": [1, 3]}),
    "time_passes": (2, {}),
    "checkouts_expire": (1, {}),
}

CUSTOMER_POINTS = [
    "before_account_request",
    "after_account_request",
    "before_account_transfer_commit",
    "before_way_charge_starts",
    "before_way_charge_commit",
    "before_way_charge_is_sent",
    "after_way_charge_is_sent",
]
CUSTOMER_CALL = ["account", "account_status", "account_transfers", "charge_again", "forget_card"]
CUSTOMER_FAULTS: dict[str, tuple[float, Choices]] = {
    "crash_with_customers": (5, {"point": CUSTOMER_POINTS}),
    "customer_answers": (
        4,
        {"rail": WITH_ACCOUNTS, "call": CUSTOMER_CALL, "answer": ANSWER, "times": [1, 2, 3]},
    ),
}
SPLIT_FAULTS: dict[str, tuple[float, Choices]] = {
    "crash_with_splits": (2, {"point": ["amid_shares"]}),
}


@dataclass(frozen=True)
class Step:
    """One step of a lane. `number` is unique in the round, and part of a merchant's references."""

    round: int
    number: int
    lane: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict, hash=False)
    # A step of the administrators or of the faults starts after this many steps of merchants.
    after: int = 0

    def __str__(self) -> str:
        given = " ".join(f"{key}={value}" for key, value in self.arguments.items())
        when = f" after {self.after} steps" if self.lane in (ADMINISTRATOR, FAULT) else ""
        return f"{self.round}.{self.number} {self.lane}{when}: {self.name} {given}".rstrip()


Round = list[Step]


def rounds(seed: int) -> Iterator[Round]:
    """Yields the rounds of a seed. The same seed always yields the same rounds."""
    number = 0
    while True:
        number += 1
        yield _round(random.Random(f"{seed}-{number}"), number, is_new=seed % 2 == 1)


def first_rounds(seed: int, count: int) -> list[Round]:
    each = rounds(seed)
    return [next(each) for _ in range(count)]


def _round(chance: random.Random, number: int, *, is_new: bool) -> Round:
    """`is_new`: whether the round has the steps that the previous release does not know."""
    steps: Round = []
    merchant_steps = MERCHANT | (CUSTOMERS | SPLITS if is_new else {})
    faults = FAULTS | (CUSTOMER_FAULTS | SPLIT_FAULTS if is_new else {})

    def add(lane: str, choices: dict[str, tuple[float, Choices]], after: int = 0) -> None:
        steps.append(draw(chance, choices, Step(number, len(steps) + 1, lane, "", {}, after)))

    for merchant in range(MERCHANTS):
        for _ in range(MERCHANT_STEPS):
            add(f"merchant {merchant}", merchant_steps)
    total = MERCHANTS * MERCHANT_STEPS
    for lane, choices, count in (
        (ADMINISTRATOR, ADMIN, ADMINISTRATOR_STEPS),
        (ADMINISTRATOR, PRICES, PRICE_STEPS * is_new),
        (FAULT, faults, FAULT_STEPS),
    ):
        for after in sorted(chance.sample(range(total * 3 // 4), count)):
            add(lane, choices, after)
    return steps


def draw(chance: random.Random, choices: Mapping[str, tuple[float, Choices]], step: Step) -> Step:
    """Returns the step with a random name and random arguments."""
    weights = [weight for weight, _ in choices.values()]
    [name] = chance.choices(list(choices), weights)
    drawn = {key: chance.choice(values) for key, values in choices[name][1].items()}
    return replace(step, name=name, arguments=drawn)


def lanes(steps: Sequence[Step]) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    for step in steps:
        found.setdefault(step.lane, []).append(step)
    return found


def write(steps: Sequence[Step]) -> str:
    """Returns the steps as JSON lines, which `read` reads again."""
    return "".join(json.dumps(asdict(step)) + "\n" for step in steps)


def read(text: str) -> list[Round]:
    """Returns the rounds of a written plan."""
    found: dict[int, Round] = {}
    for line in text.splitlines():
        step = Step(**json.loads(line))
        found.setdefault(step.round, []).append(step)
    return list(found.values())
