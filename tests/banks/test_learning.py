"""Bank codes come from a provider's bank list, from manual mapping or from the bank registry."""

import asyncio
import secrets

import pytest
from manilla_simulator import banks as simulated

from manilla.audit import audit
from manilla.banks import learning
from manilla.banks.learning import LISTED_MAX, BadMapping, RailBank, UnknownBankCode
from manilla.banks.matching import Doubt, MatchedBy
from manilla.banks.nigeria import BY_CODE
from manilla.banks.registry import AmbiguousBankCode, BankRegistry
from manilla.kit.changes import ChangeWatch
from manilla.kit.database.connections import Database
from manilla.services import Services
from tests.support.freshness import outdate

ACCESS, ZENITH = BY_CODE["044"], BY_CODE["057"]
PROVIDER_C = [(bank.code, bank.name) for bank in simulated.PROVIDER_C.values()]


@pytest.fixture
def account() -> str:
    """Returns a provider account name that no other test uses."""
    return f"t{secrets.token_hex(8)}"


async def stored(db: Database, account: str) -> dict[str, RailBank]:
    return {row.code: row for row in await learning.load(db, account)}


async def registry(db: Database) -> BankRegistry:
    """Returns the bank registry as a newly started process loads it."""
    watch = ChangeWatch(db)
    loaded = BankRegistry(db, watch)
    await watch.ensure_fresh()
    return loaded


async def version(db: Database) -> int:
    return await db.number("SELECT version FROM change WHERE topic = 'banks'")


async def test_a_learned_list_gives_each_bank_the_providers_own_code(
    db: Database, account: str
) -> None:
    await learning.learn(db, account, PROVIDER_C)
    banks = await registry(db)
    assert banks.code_at(account, ACCESS) == "C044"
    assert banks.bank_at(account, "C044") == ACCESS
    assert account in banks.providers_with(ACCESS)
    assert banks.code_at("nobody", ACCESS) is None
    assert banks.code_at(account, BY_CODE["120003"]) is None
    assert account not in banks.providers_with(BY_CODE["120003"])


async def test_a_running_process_sees_what_another_learns(
    services: Services, db: Database, account: str
) -> None:
    await learning.learn(db, account, PROVIDER_C)
    await outdate(services)
    await services.watch.ensure_fresh()
    assert services.registry.code_at(account, ZENITH) == "C057"


async def test_an_unchanged_list_is_not_stored_again(db: Database, account: str) -> None:
    await learning.learn(db, account, PROVIDER_C)
    before = await version(db)
    await db.execute(
        "UPDATE provider_bank SET last_seen_at = now() - interval '1 hour' WHERE provider = $1",
        account,
    )
    await learning.learn(db, account, PROVIDER_C)
    assert await version(db) == before
    rows = (await stored(db, account)).values()
    assert all(row.last_seen_at >= row.first_seen_at for row in rows)


async def test_a_bank_that_leaves_the_list_is_not_offered_but_its_code_is_still_understood(
    db: Database, account: str
) -> None:
    await learning.learn(db, account, PROVIDER_C)
    await learning.learn(db, account, [each for each in PROVIDER_C if each[0] != "C044"])
    banks = await registry(db)
    assert banks.code_at(account, ACCESS) is None
    assert account not in banks.providers_with(ACCESS)
    assert banks.bank_at(account, "C044") == ACCESS


async def test_several_processes_learn_one_list_at_the_same_time(
    db: Database, account: str
) -> None:
    await asyncio.gather(*(learning.learn(db, account, PROVIDER_C) for _ in range(8)))
    rows = await stored(db, account)
    assert len(rows) == len(PROVIDER_C)
    assert all(row.is_certain for row in rows.values())


async def test_a_hostile_list_is_not_learned_and_does_not_replace_what_is_known(
    db: Database, account: str
) -> None:
    await learning.learn(db, account, PROVIDER_C)
    before = await stored(db, account)
    await learning.learn(db, account, [(f"X{n}", f"Bank {n}") for n in range(100_000)])
    await learning.learn(db, account, [])
    await learning.learn(db, account, [("", "Access Bank"), ("a\0b", "Zenith"), ("x" * 51, "y")])
    assert await stored(db, account) == before


async def test_the_longest_list_with_odd_names_is_learned(db: Database, account: str) -> None:
    odd = ["", " ", "\U0001f3e6", "e\u0301cobank", "ß" * 200, "%s", "'; --"]
    names = [*odd, *(f"Bank {n}" for n in range(LISTED_MAX - len(odd)))]
    await learning.learn(db, account, [(f"X{n}", name) for n, name in enumerate(names)])
    rows = await stored(db, account)
    assert len(rows) == LISTED_MAX
    assert {row.bank for row in rows.values()} == {None}


async def test_a_code_is_mapped_manually_audited_and_survives_learning(
    db: Database, account: str
) -> None:
    listed = [("Z1", "Zenith Main"), ("A1", "Access Bank")]
    await learning.learn(db, account, listed)
    assert (await stored(db, account))["Z1"].needs_attention
    await learning.map_code(db, account, "Z1", "057")
    await learning.learn(db, account, listed)
    await learning.learn(db, account, [*listed, ("B1", "Another")])
    row = (await stored(db, account))["Z1"]
    assert (row.bank, row.matched_by, row.needs_attention) == ("057", MatchedBy.MANUAL, False)
    assert (await registry(db)).code_at(account, ZENITH) == "Z1"
    entry = (await audit.latest(db, "bank.map"))[f"provider:{account}"]
    assert entry.detail == {
        "bank_code": "Z1",
        "name": "Zenith Main",
        "before": None,
        "after": "057",
    }


async def test_an_unmapped_code_is_not_used_and_stays_unmapped(db: Database, account: str) -> None:
    await learning.learn(db, account, PROVIDER_C)
    await learning.map_code(db, account, "C044", None)
    await learning.learn(db, account, PROVIDER_C)
    assert (await registry(db)).code_at(account, ACCESS) is None
    row = (await stored(db, account))["C044"]
    assert (row.bank, row.needs_attention) == (None, False)


async def test_a_mapping_takes_the_bank_from_the_automatic_match(
    db: Database, account: str
) -> None:
    await learning.learn(db, account, [("044", "Access Bank"), ("A2", "New Access")])
    await learning.map_code(db, account, "A2", "044")
    assert (await stored(db, account))["044"].doubt is Doubt.DUPLICATE
    assert (await registry(db)).code_at(account, ACCESS) == "A2"
    await learning.map_code(db, account, "A2", None)
    assert (await registry(db)).code_at(account, ACCESS) == "044"


async def test_a_bad_mapping_is_rejected(db: Database, account: str) -> None:
    await learning.learn(db, account, [("A1", "One"), ("A2", "Two")])
    await learning.map_code(db, account, "A1", "044")
    with pytest.raises(BadMapping, match="already mapped to the code A1"):
        await learning.map_code(db, account, "A2", "044")
    with pytest.raises(BadMapping, match="no bank"):
        await learning.map_code(db, account, "A2", "nothing")
    with pytest.raises(UnknownBankCode):
        await learning.map_code(db, account, "A3", "057")


async def test_a_code_that_was_given_to_another_bank_is_not_used(
    db: Database, account: str
) -> None:
    await learning.learn(db, account, [("Z1", "Zenith Main")])
    await learning.map_code(db, account, "Z1", "057")
    await learning.learn(db, account, [("Z1", "Access Bank")])
    assert (await stored(db, account))["Z1"].needs_attention
    banks = await registry(db)
    assert banks.code_at(account, ZENITH) is None
    assert banks.bank_at(account, "Z1") is None


@pytest.mark.parametrize("text", ["044", "000014", " 044 ", "Access Bank Plc", "ACCESS"])
async def test_a_bank_is_found_by_its_codes_and_names(services: Services, text: str) -> None:
    assert services.registry.understand(text) == ACCESS


async def test_a_bank_is_found_by_the_code_of_any_provider(db: Database, account: str) -> None:
    own = f"OWN{account}"
    await learning.learn(db, account, [(own, "Access Bank")])
    banks = await registry(db)
    assert banks.find(own) == banks.understand(own) == ACCESS
    assert banks.find("no such code") is banks.understand("no such bank") is None


@pytest.mark.parametrize("other", ["Zenith Bank", "A bank that nobody knows"])
async def test_a_code_with_different_meanings_is_ambiguous(
    db: Database, account: str, other: str
) -> None:
    own = f"OWN{account}"
    await learning.learn(db, account, [(own, "Access Bank")])
    await learning.learn(db, f"{account}x", [(own, other)])
    banks = await registry(db)
    with pytest.raises(AmbiguousBankCode, match="different banks"):
        banks.find(own)
    assert banks.bank_at(account, own) == ACCESS


async def test_a_central_bank_code_wins_over_a_providers_own_code(
    db: Database, account: str
) -> None:
    await learning.learn(db, account, [("057", "Access Bank")])
    await learning.map_code(db, account, "057", "044")
    banks = await registry(db)
    assert banks.find("057") == ZENITH
    assert banks.bank_at(account, "057") == ACCESS
    assert banks.code_at(account, ACCESS) == "057"


async def test_rows_that_were_not_listed_for_months_are_deleted(db: Database, account: str) -> None:
    await learning.learn(db, account, [("A1", "One"), ("A2", "Two"), ("A3", "Three")])
    await learning.map_code(db, account, "A1", "044")
    await db.execute(
        "UPDATE provider_bank SET last_seen_at = now() - interval '1 year' WHERE provider = $1",
        account,
    )
    await learning.learn(db, account, [("A3", "Three")])
    await learning.learn(db, account, [("A3", "Three"), ("A4", "Four")])
    assert set(await stored(db, account)) == {"A1", "A3", "A4"}
