"""A merchant's protections and settings move with it."""

import msgspec
import pytest

from manilla.cells.moving import move as moves
from manilla.cells.moving.fence import CannotMove
from manilla.cells.moving.stored import Step
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.methods import catalogue
from manilla.methods.method import MethodKind
from manilla.platform import master_key
from manilla.providers import credentials
from tests.moving.movers import Mover
from tests.payouts.payout_merchant import CODES

THRESHOLD = "SELECT amount_minor FROM payout_threshold WHERE merchant_id = $1"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        pytest.param(
            MerchantUpdate(status=MerchantStatus.DISABLED), "MERCHANT_SUSPENDED", id="status"
        ),
        pytest.param(MerchantUpdate(payouts_enabled=False), None, id="payouts_off"),
    ],
)
async def test_holds_of_a_merchant_move_with_it(
    mover: Mover, change: MerchantUpdate, code: str | None
) -> None:
    lagos, abuja = mover.payers["lagos"], mover.payers["abuja"]
    await lagos.change(change)
    await mover.pair.look()
    before = await lagos.ask()
    assert before.status in (403, 422)
    assert code is None or before.code == code
    await mover.move()
    after = await abuja.ask()
    assert (after.status, after.code) == (before.status, before.code)


async def test_payouts_to_saved_accounts_only_stay_so(mover: Mover) -> None:
    lagos, abuja = mover.payers["lagos"], mover.payers["abuja"]
    await mover.db("lagos").execute("UPDATE merchant SET accounts_locked = true")
    before = await lagos.ask()
    await mover.move()
    after = await abuja.ask()
    assert (after.status, after.code) == (before.status, before.code) == (422, before.code)


async def test_a_change_during_the_copy_applies_in_the_new_cell(mover: Mover) -> None:
    await mover.move_until(Step.COPY)
    await mover.payers["lagos"].change(MerchantUpdate(payouts_enabled=False))
    await mover.resume()
    assert (await mover.payers["abuja"].ask()).status in (403, 422)


async def test_limits_for_a_second_person_and_who_asked_move_with_the_merchant(
    mover: Mover,
) -> None:
    lagos, merchant_id = mover.db("lagos"), mover.merchant_id
    await _add_person(mover, "abuja", "someone@example.com")  # so that users' numbers differ
    asked = await _add_person(mover, "lagos", "asks@example.com")
    await mover.owners["lagos"].execute(
        "INSERT INTO membership (merchant_id, person_id, role) VALUES ($1, $2, 'finance')",
        *(merchant_id, asked),
    )
    await lagos.execute(
        "INSERT INTO payout_threshold (merchant_id, currency, amount_minor) VALUES ($1, 'NGN', 5)",
        merchant_id,
    )
    await lagos.execute(
        "INSERT INTO payout_alone (merchant_id, environment, currency, person, subject, cost_minor)"
        " VALUES ($1, 'production', 'NGN', 'asks@example.com', 'file:x', 7)",
        merchant_id,
    )
    await lagos.execute(
        "INSERT INTO payout_batch (merchant_id, id, environment, status, method_id, method_name,"
        " currency, file_name, uploaded_by, asked_by_id, asked_by, expires_at)"
        " VALUES ($1, 'x', 'production', 'asked', 1, 'x', 'NGN', 'x.csv', 'x', $2, 'x',"
        " now() + interval '1 day')",
        *(merchant_id, asked),
    )
    await mover.move()
    abuja = mover.db("abuja")
    assert await abuja.number(THRESHOLD, merchant_id) == 5
    assert await abuja.number("SELECT cost_minor FROM payout_alone") == 7
    moved = await abuja.number("SELECT id FROM person WHERE email = 'asks@example.com'")
    assert moved != asked
    assert await abuja.number("SELECT asked_by_id FROM payout_batch") == moved
    role = "SELECT role FROM membership WHERE merchant_id = $1 AND person_id = $2"
    assert await abuja.value(role, merchant_id, moved) == "finance"
    assert await lagos.number("SELECT count(*) FROM membership") == 0


async def _add_person(mover: Mover, cell: str, email: str) -> int:
    return await mover.db(cell).number(
        "INSERT INTO person (realm, email, name) VALUES ('dashboard', $1, 'x') RETURNING id", email
    )


async def test_a_move_lists_what_the_other_cell_lacks(mover: Mover) -> None:
    lagos, abuja = mover.payers["lagos"], mover.pair.abuja.services
    await lagos.pay_out()
    await credentials.clear(abuja.db, "providera")
    wanted = catalogue.MethodUpdate(active=False)
    await catalogue.change(abuja.db, MethodKind.WITHDRAW, CODES["b"], wanted)
    with pytest.raises(CannotMove) as refused:
        await mover.move()
    assert "does not have the provider account providera" in refused.value.text
    assert f"The method {CODES['b']} differs in the second cell: active." in refused.value.text
    assert await mover.db("lagos").number("SELECT count(*) FROM merchant_move") == 0
    assert (await lagos.ask()).status == 200


async def test_a_merchant_with_a_waiting_approval_stays(mover: Mover) -> None:
    await mover.db("lagos").execute(
        "INSERT INTO approval (kind, subject, merchant_id, detail, payload_sealed, reason,"
        " asked_kind, asked_name) VALUES ('x', 'x', $1, '{}', '', 'x', 'person', 'x')",
        mover.merchant_id,
    )
    with pytest.raises(CannotMove, match="wait for a second administrator"):
        await mover.move()


async def test_both_cells_record_the_move_in_their_audit_logs(mover: Mover) -> None:
    await mover.move()
    for cell, end in (("lagos", "cell.move.depart"), ("abuja", "cell.move.arrive")):
        rows = await mover.db(cell).records(
            "SELECT action FROM audit WHERE action LIKE 'cell.move%' ORDER BY id"
        )
        assert [row["action"] for row in rows] == ["cell.move.begin", end]


async def test_a_merchant_with_secrets_under_an_old_master_key_stays(mover: Mover) -> None:
    """The first cell is changing to the second cell's key, and has not encrypted its rows again."""
    cells = mover.cells("abuja")
    old = next(iter(cells.keyring._keys.values()))
    both = Keyring([crypto.decode_key(crypto.generate_key()), old])
    await mover.owners["abuja"].execute(
        "UPDATE master_key_proof SET sealed = $1", both.seal(b"proof", master_key.CONTEXT)
    )
    with pytest.raises(CannotMove, match="values in the table credential have another master key"):
        await moves.begin(msgspec.structs.replace(cells, keyring=both), mover.merchant_id, "abuja")


async def test_the_checks_are_repeated_before_the_api_stops(mover: Mover) -> None:
    await mover.move_until(Step.COPY)
    wanted = catalogue.MethodUpdate(active=False)
    await catalogue.change(mover.pair.abuja.services.db, MethodKind.WITHDRAW, CODES["b"], wanted)
    with pytest.raises(CannotMove, match="differs in the second cell: active"):
        await mover.resume()
    assert (await mover.payers["lagos"].ask()).status == 200
    await mover.abort()
    assert (await mover.payers["lagos"].ask()).status == 200
    assert await mover.is_clean()
