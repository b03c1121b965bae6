import asyncio
from collections import Counter

import pytest

from manilla.kit import ratelimit
from manilla.kit.database.connections import Database
from manilla.kit.ratelimit import RateLimiter, address_bucket


async def test_the_count_is_exact_across_several_limiters(db: Database) -> None:
    limiters = [RateLimiter(db) for _ in range(4)]
    taken = await asyncio.gather(
        *(limiters[number % 4].take("exact", 120) for number in range(300))
    )
    assert sorted(allowance.used for allowance in taken) == list(range(1, 301))
    assert Counter(allowance.exceeded for allowance in taken) == {False: 120, True: 180}


async def test_buckets_are_independent(db: Database) -> None:
    limiter = RateLimiter(db)
    taken = await asyncio.gather(*(limiter.take(f"own {n % 10}", 1) for n in range(20)))
    assert Counter(allowance.used for allowance in taken) == {1: 10, 2: 10}


async def test_peeking_counts_nothing_and_starts_no_window(db: Database) -> None:
    limiter = RateLimiter(db)
    assert (await limiter.take("look", 5, cost=0)).remaining == 5
    await _age(db, "look", 59)
    assert (await limiter.take("look", 5)).resets_in_seconds == 60
    assert (await limiter.take("look", 5, cost=0)).remaining == 4


async def test_a_window_lasts_sixty_seconds_from_its_first_request(db: Database) -> None:
    limiter = RateLimiter(db)
    await limiter.take("window", 1)
    await _age(db, "window", 58)
    late = await limiter.take("window", 1)
    assert (late.exceeded, late.resets_in_seconds <= 2) == (True, True)
    await _age(db, "window", 3)
    assert not (await limiter.take("window", 1)).exceeded


async def test_expired_windows_are_deleted_and_open_ones_kept(db: Database) -> None:
    limiter = RateLimiter(db)
    await limiter.take("ended", 1)
    await limiter.take("open", 1)
    await _age(db, "ended", 61)
    await ratelimit.delete_ended_windows(db)
    left = await db.records("SELECT bucket FROM rate_window WHERE bucket IN ('ended', 'open')")
    assert [record["bucket"] for record in left] == ["open"]


async def _age(db: Database, bucket: str, seconds: int) -> None:
    await db.execute(
        "UPDATE rate_window SET started_at = started_at - make_interval(secs => $2)"
        " WHERE bucket = $1",
        bucket,
        seconds,
    )


@pytest.mark.parametrize(
    ("address", "bucket"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::ffff:c000:207", "192.0.2.7"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("unix:" + "x" * 100, "unix:" + "x" * 59),
    ],
)
def test_an_ip_address_has_one_bucket_in_every_notation(address: str, bucket: str) -> None:
    assert address_bucket(address) == bucket
