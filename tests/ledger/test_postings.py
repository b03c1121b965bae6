"""Concurrent postings in any order keep all ledger invariants."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from functools import partial

import asyncpg
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manilla.kit.batch import Batcher
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import posting, trx_ids
from manilla.ledger.posting import Line, Posted, Posting, PostingOutcome
from manilla.posting_kinds import PostingKind
from tests.support.waiting import until

_merchants = iter(range(1_000_000, 2_000_000))


async def open_wallets(db: Database, merchant_id: int, balance_minor: int = 0) -> None:
    """Creates two NGN wallets, one for each environment, with an optional opening balance."""
    await db.execute(
        "INSERT INTO wallet (merchant_id, environment, currency)"
        " VALUES ($1, 'sandbox', 'NGN'), ($1, 'production', 'NGN')",
        merchant_id,
    )
    if balance_minor:
        first = [move(merchant_id, balance_minor, environment) for environment in Environment]
        assert {r.outcome for r in await posting.post(db, first)} == {PostingOutcome.POSTED}


def batched_postings(db: Database) -> Batcher[Posting, Posted]:
    """Submits postings through the batcher.

    A posting can be submitted again after `Unavailable`. If it was already stored, the second
    result is a duplicate.
    """
    return Batcher(partial(posting.post, db))


def move(
    merchant_id: int,
    minor: int,
    environment: Environment = Environment.SANDBOX,
    trx_id: str | None = None,
    fee: int = 0,
) -> Posting:
    return Posting(
        merchant_id=merchant_id,
        trx_id=trx_id or trx_ids.new(merchant_id),
        kind=PostingKind.ADJUSTMENT,
        environment=environment,
        wallet=Money("NGN", minor),
        lines=posting.nonzero(
            Line(posting.ADJUSTMENT, -minor - fee), Line(posting.PAYOUT_FEE, fee)
        ),
    )


async def balance(db: Database, merchant_id: int, environment: str = "sandbox") -> int:
    minor: int = await db.value(
        "SELECT balance_minor FROM wallet WHERE merchant_id = $1 AND environment = $2",
        merchant_id,
        environment,
    )
    return minor


async def test_one_statement_can_have_every_outcome_independently(
    db: Database,
) -> None:
    merchant, other, nobody = next(_merchants), next(_merchants), next(_merchants)
    await open_wallets(db, merchant, 1000)
    await open_wallets(db, other)
    once = move(merchant, 5)
    results = await posting.post(
        db,
        [
            once,
            move(merchant, -2000),
            move(other, 70),
            once,
            move(merchant, -1005, fee=5),
            move(nobody, 1),
            move(merchant, -1),
            move(other, 10**17 - 1, Environment.PRODUCTION),
        ],
    )
    assert [result.outcome for result in results] == [
        PostingOutcome.POSTED,
        PostingOutcome.INSUFFICIENT_BALANCE,
        PostingOutcome.POSTED,
        PostingOutcome.DUPLICATE,
        PostingOutcome.POSTED,
        PostingOutcome.NO_WALLET,
        PostingOutcome.INSUFFICIENT_BALANCE,
        PostingOutcome.POSTED,
    ]
    assert [r.balance_minor for r in results] == [1005, None, 70, None, 0, None, None, 10**17 - 1]
    assert (await balance(db, merchant), await balance(db, other)) == (0, 70)


async def test_a_posting_between_platform_accounts_needs_no_wallet(db: Database) -> None:
    merchant = next(_merchants)
    settled = Posting(
        merchant_id=merchant,
        trx_id=trx_ids.new(merchant),
        kind=PostingKind.SETTLE_SETTLEMENT,
        environment=Environment.PRODUCTION,
        wallet=Money("NGN", 0),
        lines=(Line(posting.BANK, -500), Line(posting.clearing("providera"), 500)),
    )
    assert [r.outcome for r in await posting.post(db, [settled])] == [PostingOutcome.POSTED]
    assert [r.outcome for r in await posting.post(db, [settled])] == [PostingOutcome.DUPLICATE]


async def test_a_wallet_has_a_maximum_balance(db: Database) -> None:
    merchant = next(_merchants)
    await open_wallets(db, merchant)
    largest = [move(merchant, 10**17 - 1) for _ in range(91)]
    outcomes = Counter(result.outcome for result in await posting.post(db, largest))
    assert outcomes == {PostingOutcome.POSTED: 90, PostingOutcome.BALANCE_LIMIT: 1}


async def test_the_database_rejects_a_posting_that_does_not_sum_to_zero(db: Database) -> None:
    merchant = next(_merchants)
    await open_wallets(db, merchant)
    crooked = move(merchant, 10)
    # Bypass the struct's assertion, to simulate a faulty caller.
    msgspec.structs.force_setattr(crooked, "lines", (Line(posting.ADJUSTMENT, -9),))
    with pytest.raises(asyncpg.RaiseError, match="sum to zero"):
        await posting.post(db, [crooked])


async def test_parallel_debits_never_overdraw_and_sum_exactly(db: Database) -> None:
    """Of 200 concurrent debits of 7 from a wallet of 1000, over 20 connections, 142 succeed."""
    merchant = next(_merchants)
    await open_wallets(db, merchant, 1000)
    results = await asyncio.gather(*(posting.post(db, [move(merchant, -7)]) for _ in range(200)))
    outcomes = Counter(result.outcome for [result] in results)
    assert outcomes == {PostingOutcome.POSTED: 142, PostingOutcome.INSUFFICIENT_BALANCE: 58}
    assert await balance(db, merchant) == 1000 - 142 * 7


async def test_a_posting_waiting_for_a_wallet_locks_none_that_comes_later(db: Database) -> None:
    """All SQL statements lock wallets in the same order, so two of them cannot deadlock."""
    first, second = next(_merchants), next(_merchants)
    for merchant in (first, second):
        await open_wallets(db, merchant)
    async with db.transaction() as holder:
        await holder.execute("SELECT FROM wallet WHERE merchant_id = $1 FOR UPDATE", first)
        waiting = asyncio.create_task(posting.post(db, [move(second, 3), move(first, 3)]))
        await until(
            lambda: db.value(
                "SELECT EXISTS (SELECT FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND query LIKE '%ledger_post%')"
            )
        )
        [done] = await posting.post(db, [move(second, 4)])
        assert (done.outcome, done.balance_minor) == (PostingOutcome.POSTED, 4)
        assert not waiting.done()
    assert [result.balance_minor for result in await waiting] == [7, 3]


async def test_one_posting_submitted_concurrently_is_posted_once(db: Database) -> None:
    merchant = next(_merchants)
    await open_wallets(db, merchant)
    once = move(merchant, 3)
    batchers = [batched_postings(db) for _ in range(8)]
    results = await asyncio.gather(*(batchers[n % 8].submit(once) for n in range(64)))
    outcomes = Counter(result.outcome for result in results)
    assert outcomes == {PostingOutcome.POSTED: 1, PostingOutcome.DUPLICATE: 63}
    assert await balance(db, merchant) == 3


@pytest.mark.parametrize("first", Environment)
async def test_the_first_of_two_equal_postings_counts_whichever_wallet_it_has(
    db: Database, first: Environment
) -> None:
    merchant, once = next(_merchants), trx_ids.new(1)
    await open_wallets(db, merchant)
    order = sorted(Environment, key=lambda environment: environment is not first)
    results = await posting.post(db, [move(merchant, 3, where, trx_id=once) for where in order])
    assert [r.outcome for r in results] == [PostingOutcome.POSTED, PostingOutcome.DUPLICATE]


async def test_one_posting_on_two_wallets_submitted_concurrently_is_posted_once(
    db: Database,
) -> None:
    """The two submissions lock different wallets, but have the same key.

    One of the submissions is reported as a duplicate.
    """
    for _ in range(20):
        merchant = next(_merchants)
        await open_wallets(db, merchant)
        trx_id = trx_ids.new(merchant)
        both = [move(merchant, 3, environment, trx_id) for environment in Environment]
        batchers = [batched_postings(db) for _ in both]
        results = await asyncio.gather(
            *(batcher.submit(item) for batcher, item in zip(batchers, both, strict=True))
        )
        outcomes = Counter(result.outcome for result in results)
        assert outcomes == {PostingOutcome.POSTED: 1, PostingOutcome.DUPLICATE: 1}


# An order has a merchant, an environment, an amount, and a number that identifies the transaction.
Order = tuple[int, str, int, int]
orders = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["sandbox", "production"]),
        st.integers(-400, 300).filter(bool),
        st.integers(0, 40),
    ),
    min_size=1,
    max_size=60,
)


def as_postings(merchants: Sequence[int], chosen: Sequence[Order]) -> list[Posting]:
    # A merchant's postings with the same number have the same transaction id and are duplicates.
    return [
        move(merchants[who], minor, Environment(where), trx_id=f"TXN{merchants[who]}{number:02}")
        for who, where, minor, number in chosen
    ]


few = settings(max_examples=12, derandomize=True, deadline=None)
many = settings(max_examples=100, deadline=None)
interleaved = given(chosen=orders, seed=st.integers(0, 2**32))


@few
@interleaved
async def test_an_interleaving_of_connections_keeps_the_ledger_consistent(
    db: Database, chosen: list[Order], seed: int
) -> None:
    await _interleave(db, chosen, seed)


@pytest.mark.long
@many
@interleaved
async def test_any_interleaving_of_connections_keeps_the_ledger_consistent(
    db: Database, chosen: list[Order], seed: int
) -> None:
    await _interleave(db, chosen, seed)


async def _interleave(db: Database, chosen: list[Order], seed: int) -> None:
    merchants = [next(_merchants) for _ in range(3)]
    for merchant in merchants:
        await open_wallets(db, merchant, 500)
    postings = as_postings(merchants, chosen)
    dice = random.Random(seed)
    pieces = []
    while postings:
        size = dice.randint(1, 8)
        pieces.append(postings[:size])
        postings = postings[size:]
    batcher: Batcher[Posting, Posted] = batched_postings(db)

    async def send(piece: list[Posting]) -> list[Posted]:
        await asyncio.sleep(dice.random() / 500)
        chosen_batcher = batcher if dice.random() < 0.5 else batched_postings(db)
        return list(await asyncio.gather(*(chosen_batcher.submit(item) for item in piece)))

    results = await asyncio.gather(*map(send, pieces))
    accepted: Counter[tuple[int, str]] = Counter()
    for piece, answers in zip(pieces, results, strict=True):
        for item, answer in zip(piece, answers, strict=True):
            if answer.outcome is PostingOutcome.POSTED:
                accepted[item.merchant_id, item.environment] += item.wallet.minor
    for merchant in merchants:
        for environment in Environment:
            now = await balance(db, merchant, environment)
            assert now == 500 + accepted[merchant, environment]
            assert now >= 0


@few
@given(chosen=orders)
async def test_a_batch_of_postings_gives_the_same_ledger_as_single_ones(
    db: Database, chosen: list[Order]
) -> None:
    await _compare_batch(db, chosen)


@pytest.mark.long
@many
@given(chosen=orders)
async def test_batched_postings_give_the_same_ledger_as_single_ones(
    db: Database, chosen: list[Order]
) -> None:
    await _compare_batch(db, chosen)


async def _compare_batch(db: Database, chosen: list[Order]) -> None:
    one_by_one = [next(_merchants) for _ in range(3)]
    together = [next(_merchants) for _ in range(3)]
    for merchant in one_by_one + together:
        await open_wallets(db, merchant, 500)
    singly = [(await posting.post(db, [item]))[0] for item in as_postings(one_by_one, chosen)]
    batcher = batched_postings(db)
    batched = await asyncio.gather(
        *(batcher.submit(item) for item in as_postings(together, chosen))
    )
    assert batched == singly
    for alone, batch in zip(one_by_one, together, strict=True):
        for environment in Environment:
            assert await balance(db, alone, environment) == await balance(db, batch, environment)


async def test_a_posting_to_a_wallet_that_changed_without_its_lock_is_retried(
    db: Database,
) -> None:
    merchant_id = next(_merchants)
    await open_wallets(db, merchant_id)
    place = "SELECT ctid FROM wallet WHERE merchant_id = $1 AND environment = 'sandbox'"
    earlier = await db.value(place, merchant_id)
    await posting.post(db, [move(merchant_id, 5)])
    with pytest.raises(asyncpg.SerializationError):
        await db.execute(
            "SELECT ledger_write("
            " ARRAY[nextval('posting_id_seq')], ARRAY[$1::bigint], ARRAY[$2], ARRAY['test'],"
            " ARRAY['sandbox'], ARRAY['NGN'], ARRAY[NULL::text], ARRAY[$3::tid], ARRAY[7::bigint],"
            " ARRAY[7::bigint], ARRAY[1], ARRAY['adjustment'], ARRAY[-7::bigint])",
            merchant_id,
            trx_ids.new(merchant_id),
            earlier,
        )
    assert await balance(db, merchant_id, Environment.SANDBOX) == 5


def _withdrawal(merchant_id: int, accounts: Sequence[str]) -> Posting:
    """Debits the wallet by 1, 2 and so on for each account."""
    lines = tuple(Line(account, minor) for minor, account in enumerate(accounts, 1))
    return Posting(
        merchant_id=merchant_id,
        trx_id=trx_ids.new(merchant_id),
        kind=PostingKind.ADJUSTMENT,
        environment=Environment.SANDBOX,
        wallet=Money("NGN", -sum(line.minor for line in lines)),
        lines=lines,
    )


EIGHT = (
    *(posting.IN_FLIGHT, posting.PAYOUT_FEE, posting.COMMISSION, posting.SUSPENSE, posting.BANK),
    *(posting.CUSTOMER_CREDIT, posting.clearing("providera"), posting.provider_fee("providera")),
)


async def test_a_posting_has_up_to_eight_lines_and_is_reversed_from_what_is_stored(
    db: Database,
) -> None:
    merchant_id = next(_merchants)
    await open_wallets(db, merchant_id, 100)
    withdrawal = _withdrawal(merchant_id, EIGHT)
    async with db.transaction() as connection:
        await posting.post(connection, [move(merchant_id, 1), withdrawal, move(merchant_id, 2)])
        key = merchant_id, withdrawal.trx_id
        stored = await posting.find(connection, *key, PostingKind.ADJUSTMENT)
        assert stored == withdrawal
        await posting.post(connection, [stored.reversed(PostingKind.FUNDING)])
    assert await balance(db, merchant_id, Environment.SANDBOX) == 103
    sums = await db.records(
        """
        SELECT e.account, sum(e.amount_minor) AS minor, array_agg(e.line ORDER BY p.id) AS lines
          FROM posting p
          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
         WHERE p.merchant_id = $1 AND p.trx_id = $2
         GROUP BY e.account ORDER BY min(e.line)""",
        *key,
    )
    assert [tuple(each) for each in sums] == [
        (account, 0, [line, line]) for line, account in enumerate(("wallet", *EIGHT), 1)
    ]


@pytest.mark.parametrize("accounts", [(*EIGHT, posting.ADJUSTMENT), (), ("savings",), ("wallet",)])
def test_a_posting_has_one_to_eight_lines_in_known_accounts(accounts: tuple[str, ...]) -> None:
    with pytest.raises(AssertionError):
        _withdrawal(1, accounts)


async def test_the_previous_version_can_post(db: Database) -> None:
    merchant_id = next(_merchants)
    await open_wallets(db, merchant_id, 100)
    trx_id = trx_ids.new(merchant_id)
    [posted] = await db.records(
        "SELECT * FROM ledger_post($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        *([7], [merchant_id], [trx_id], ["adjustment"], ["sandbox"], ["NGN"], ["why"], [-30]),
        *(["suspense"], [30], [None], [None]),
    )
    assert tuple(posted) == (7, "posted", 70)
    async with db.transaction() as connection:
        stored = await posting.find(connection, merchant_id, trx_id, PostingKind.ADJUSTMENT)
    assert stored is not None
    assert (stored.wallet.minor, stored.lines) == (-30, (Line(posting.SUSPENSE, 30),))
