"""Payouts that are created in the dashboard, individually or from a file, are never sent twice."""

import csv
import io
import re
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, expect

from manilla.banks import learning
from manilla.bulk import file
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantUpdate
from manilla.providers.health import FAILURES_TO_TRIP
from manilla.providers.port import Direction, Unknown
from manilla.services import Services
from manilla.web.serving.request import BODY_BYTES_MAX
from tests.checkout.page_checks import accessibility_violations
from tests.dashboard.bulk_upload import BULK, GTBANK, HEADER, draft, upload
from tests.dashboard.merchant_dashboard import (
    MerchantDashboard,
    new_dashboard,
    redirect_target,
    unchunked,
)
from tests.payouts.payout_merchant import new_account, new_reference
from tests.support.client import Reply, Site
from tests.support.provider_simulator import running_simulator
from tests.web.http_browser import HttpBrowser
from tests.web.signed_in_user import PASSWORD

PAYOUTS, ACCOUNTS = "/sandbox/payouts", "/sandbox/accounts"


@pytest.fixture(scope="module")
async def dashboard(services: Services, site: Site) -> AsyncIterator[MerchantDashboard]:
    async with running_simulator(
        services
    ):  # A rail is offered only if it has credentials, even in the sandbox.
        yield await new_dashboard(services, site)


async def _order(dashboard: MerchantDashboard, **changed: str) -> dict[str, str]:
    return {
        "method": str(await dashboard.method_id()),
        "bank_code": GTBANK,
        "account_number": new_account(),
        "amount": "1000",
        "once": new_reference(),
        **changed,
    }


async def test_a_form_sent_twice_creates_one_payout_and_no_notification_without_a_url(
    dashboard: MerchantDashboard,
) -> None:
    before = await dashboard.balance()
    fields = await _order(dashboard)
    first = await dashboard.owner.post(PAYOUTS, fields)
    second = await dashboard.owner.post(PAYOUTS, {**fields, "amount": "2000"})
    assert (first.status, second.status) == (303, 303)
    assert first.headers["location"] == second.headers["location"]
    trx_id = redirect_target(first).rsplit("/", 1)[1]
    [row] = await dashboard.rows(PAYOUTS, q=fields["once"])
    assert (row[0], row[2]) == (trx_id, "pending")
    assert before - await dashboard.balance() >= 1000_00
    assert before - await dashboard.balance() < 2000_00

    await dashboard.run_jobs()
    [row] = await dashboard.rows(PAYOUTS, q=trx_id)
    assert row[2] == "completed"
    shown = (await dashboard.owner.get(f"{PAYOUTS}/{trx_id}")).body.decode()
    assert f"Ordered by {dashboard.owner.email}" in shown
    assert "None, because the payout has no notification URL" in shown
    assert "Wallet debited" in shown
    assert await _notifications(dashboard, trx_id) == []


async def test_a_payout_with_a_url_is_notified_as_created_by_a_user(
    dashboard: MerchantDashboard,
) -> None:
    fields = await _order(dashboard, ipn_url="https://shop.example/ipn", reference=new_reference())
    await dashboard.owner.post(PAYOUTS, fields)
    await dashboard.run_jobs()
    [row] = await dashboard.rows(PAYOUTS, q=fields["reference"], status="completed")
    [body] = await _notifications(dashboard, row[0])
    assert '"api_merchant_payout":false' in body


async def _notifications(dashboard: MerchantDashboard, trx_id: str) -> list[str]:
    """Returns the payout's notification bodies, without events that are not sent to a URL."""
    records = await dashboard.services.db.records(
        "SELECT body FROM notification"
        " WHERE merchant_id = $1 AND trx_id = $2 AND state <> 'not_sent'",
        *(dashboard.merchant.new.id, trx_id),
    )
    return [bytes(record["body"]).decode() for record in records]


@pytest.mark.parametrize("typed", ["058", "000013", "GTBank", "Guaranty Trust Bank Plc"])
async def test_any_code_or_name_of_a_bank_is_paid_with_the_rails_own_code(
    dashboard: MerchantDashboard, typed: str
) -> None:
    fields = await _order(dashboard, bank_code=typed)
    review = (await dashboard.owner.post(f"{PAYOUTS}/new", fields)).body.decode()
    assert "SANDBOX BENEFICIARY" in review
    assert "Guaranty Trust Bank (058)" in review
    assert (await dashboard.owner.post(PAYOUTS, fields)).status == 303
    exported = await dashboard.owner.get(f"{PAYOUTS}?format=csv&q={fields['once']}")
    [row] = csv.DictReader(io.StringIO(unchunked(exported).decode()))
    assert (row["bank"], row["bank_name"]) == ("058", "Guaranty Trust Bank")


async def test_a_file_may_name_banks_and_shows_which_bank_and_code_is_paid(
    dashboard: MerchantDashboard,
) -> None:
    banks = ["GTB", "000013", "058", "Skye Bank", "Zenit Bank", "120003"]
    at = await draft(dashboard, [f"1000,{bank},{new_account()},,," for bank in banks])
    page = (await dashboard.owner.get(at)).body.decode()
    assert page.count("Guaranty Trust Bank (058)") == 3
    assert page.count("Polaris Bank (076)") == 1
    assert "“Zenit Bank” is not a bank of this method. Did you mean 057, Zenith Bank?" in page
    assert "“120003” is not a bank code of this method." in page


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"account_number": "0000000002"}, "The account could not be verified."),
        ({"account_number": "0000000004"}, "wallet cannot cover this payout now"),
        ({"account_number": "12345"}, "The account number must have 10 digits."),
        ({"bank_code": "120003"}, "120003 is not a bank code of providera"),
        ({"bank_code": "Zenit Bank"}, "Zenit Bank is not a bank code of providera"),
        ({"amount": "99"}, "The amount must be at least ₦100.00"),
        ({"amount": "4999999"}, "wallet"),
        ({"amount": "12.345"}, "at most 2 decimals"),
        ({"account_id": "999999999"}, "There is no such saved account."),
        ({"ipn_url": "javascript:alert(1)"}, "Enter a URL that starts with https:// or http://."),
    ],
)
async def test_a_rejected_payout_shows_the_reason_and_debits_nothing(
    dashboard: MerchantDashboard, changed: dict[str, str], reason: str
) -> None:
    before = await dashboard.balance()
    fields = await _order(dashboard, **changed)
    # The first request reviews the payout, and the second confirms it.
    for path in (f"{PAYOUTS}/new", PAYOUTS):
        reply = await dashboard.owner.post(path, fields)
        assert reply.status in (400, 422), path
        assert reason in reply.body.decode(), path
        # When the form is shown again, it has the same reference.
        assert fields["once"].encode() in reply.body
    assert await dashboard.balance() == before


async def test_another_providers_code_is_understood_once_its_bank_list_is_known(
    dashboard: MerchantDashboard, services: Services
) -> None:
    async def review(code: str) -> Reply:
        fields = await _order(dashboard, bank_code=code)
        return await dashboard.owner.post(f"{PAYOUTS}/new", fields)

    before = await dashboard.balance()
    unknown = await review("X058")
    assert unknown.status in (400, 422)
    assert "X058 is " in unknown.body.decode()
    await learning.learn(services.db, "another", [("X058", "Guaranty Trust Bank")])
    await services.registry.load()
    try:
        assert "Guaranty Trust Bank (058)" in (await review("X058")).body.decode()
        assert await dashboard.balance() == before
    finally:
        await services.db.execute("DELETE FROM provider_bank WHERE provider = 'another'")
        await services.registry.load()


async def test_a_rail_that_does_not_respond_is_shown_before_it_is_chosen(
    dashboard: MerchantDashboard,
) -> None:
    health = dashboard.services.rails.health
    rail = health.rail("providera", Direction.PAY_OUT)
    for _ in range(FAILURES_TO_TRIP):
        rail.record(Unknown("no answer", is_rail_down=True), 0.1)
    try:
        live = await dashboard.owner.get("/production/payouts/new")
        assert live.body.count(b"Currently unavailable") == 1
        sandbox = await dashboard.owner.get(f"{PAYOUTS}/new")
        assert b"Currently unavailable" not in sandbox.body  # The sandbox calls no provider.
    finally:
        await health.mark_up(rail)


async def test_another_merchants_payout_batch_and_account_are_not_found(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    paid = await dashboard.owner.post(PAYOUTS, await _order(dashboard))
    batch = await draft(dashboard, [f"1000,{GTBANK},{new_account()},,,"])
    await dashboard.owner.post(ACCOUNTS, await _order(dashboard, label="Landlord"))
    account_id = (await dashboard.rows(ACCOUNTS))[0][0]
    other_merchant = await new_dashboard(services, site)
    for path in (redirect_target(paid), batch, f"{batch}/progress"):
        assert (await other_merchant.owner.get(path)).status == 404, path
        assert (await dashboard.owner.get(path.replace("sandbox", "production"))).status == 404, (
            path
        )
    assert (await other_merchant.owner.post(f"{batch}/confirm", {})).status == 404
    remove = f"/accounts/{account_id}/remove"
    assert (await other_merchant.owner.post(remove, {"environment": "sandbox"})).status == 404
    fields = await _order(other_merchant, account_id=account_id)
    assert (
        b"There is no such saved account."
        in (await other_merchant.owner.post(PAYOUTS, fields)).body
    )


async def test_a_saved_account_is_paid_by_its_id_until_it_is_removed(
    dashboard: MerchantDashboard,
) -> None:
    number = new_account()
    saved = await dashboard.owner.post(
        ACCOUNTS, await _order(dashboard, account_number=number, label="=Rent()")
    )
    assert saved.status == 303
    [row] = await dashboard.rows(ACCOUNTS, q=number)
    assert row[1] == "'=Rent()"
    page = await dashboard.owner.get(f"{ACCOUNTS}?q={number}")
    assert f'data-copy="{row[0]}"'.encode() in page.body
    fields = {
        **await _order(dashboard),
        "bank_code": "",
        "account_number": "",
        "account_id": row[0],
    }
    assert (await dashboard.owner.post(PAYOUTS, fields)).status == 303
    [payout] = await dashboard.rows(PAYOUTS, q=fields["once"])
    assert number in payout

    removed = await dashboard.owner.post(f"/accounts/{row[0]}/remove", {"environment": "sandbox"})
    assert removed.headers["location"] == f"/dashboard{ACCOUNTS}"
    assert await dashboard.rows(ACCOUNTS, q=number) == []
    refused = await dashboard.owner.post(PAYOUTS, {**fields, "once": new_reference()})
    assert b"There is no such saved account." in refused.body
    bad = await dashboard.owner.post(ACCOUNTS, await _order(dashboard, account_number="0000000002"))
    assert b"The account could not be verified." in bad.body


async def test_a_row_paid_before_a_crash_is_not_paid_again(
    dashboard: MerchantDashboard,
) -> None:
    own = new_reference()
    batch = await draft(
        dashboard,
        [
            f"1000,{GTBANK},{new_account()},Ada,{own},July",
            f'"1,500.00",{GTBANK},{new_account()},,,',
            f"1000,{GTBANK},0000000002,,,",
        ],
    )
    before = await dashboard.balance()
    for _ in range(2):  # a double click
        assert (await dashboard.owner.post(f"{batch}/confirm", {})).status == 303
    await dashboard.run_jobs()
    results = await dashboard.rows(batch)
    assert [row[1] for row in results] == ["paid", "paid", "faulty"]
    assert results[2][2] == "The account could not be verified."
    after = await dashboard.balance()
    count = await dashboard.count("payout")

    # Simulate a crash before the results of the rows and the file were saved.
    batch_id = batch.rsplit("/", 1)[1]
    await _forget(dashboard, batch_id)
    await dashboard.run_jobs()
    again = await dashboard.rows(batch)
    assert [row[:4] for row in again] == [row[:4] for row in results]
    assert await dashboard.balance() == after
    assert await dashboard.count("payout") == count
    assert before - after >= 2500_00

    # If the same file is uploaded again, rows with a reference are recognized as duplicates.
    second_upload = await draft(dashboard, [f"1000,{GTBANK},{new_account()},Ada,{own},July"])
    assert (
        b"A payout with this reference already exists."
        in (await dashboard.owner.get(second_upload)).body
    )
    nothing = await dashboard.owner.post(f"{second_upload}/confirm", {})
    assert redirect_target(nothing) == second_upload
    await dashboard.run_jobs()
    assert await dashboard.count("payout") == count


async def test_the_file_page_shows_each_payouts_status_until_all_are_final(
    dashboard: MerchantDashboard,
) -> None:
    batch = await draft(
        dashboard,
        [f"1000,{GTBANK},{number},,," for number in (new_account(), "0000000001", "0000000003")],
    )
    await dashboard.owner.post(f"{batch}/confirm", {})
    await dashboard.run_jobs()
    page = (await dashboard.owner.get(batch)).body.decode()
    for text in ("2 of 3 payouts finished", "1 pending", "1 delivered", "1 failed"):
        assert text in page
    assert f'{batch}/progress?known=done-3-2" hx-trigger' in page
    unchanged = await dashboard.owner.get(f"{batch}/progress?known=done-3-2")
    assert unchanged.status == 204
    changed = await dashboard.owner.get(f"{batch}/progress?known=running-2-0")
    assert changed.status == 200
    # The columns of this file are in a different order.
    for text in ("2 of 3 payouts finished", "Paid (3)", "Completed"):
        assert text in changed.body.decode()


async def _forget(dashboard: MerchantDashboard, batch_id: str) -> None:
    db, merchant_id = dashboard.services.db, dashboard.merchant.new.id
    await db.execute(
        "UPDATE payout_batch SET status = 'running', ended_at = NULL"
        " WHERE merchant_id = $1 AND id = $2",
        *(merchant_id, batch_id),
    )
    await db.execute(
        "UPDATE payout_batch_row SET state = 'ready', trx_id = NULL"
        " WHERE merchant_id = $1 AND batch_id = $2 AND state = 'paid'",
        *(merchant_id, batch_id),
    )
    await db.execute(
        "INSERT INTO job (merchant_id, kind, subject, due_at)"
        " VALUES ($1, 'payout.bulk', $2, now())",
        *(merchant_id, batch_id),
    )


async def test_a_file_that_cannot_be_paid_shows_its_errors(
    dashboard: MerchantDashboard,
) -> None:
    good = f"1000,{GTBANK},0123456789,,,"
    wrong = {
        b"": "The file is empty.",
        HEADER.encode(): "The file has no payouts",
        b"amount,account_number\n1,2": "Missing: bank_code",
        "\n".join(
            [HEADER, *[good] * 10_001]
        ).encode(): "10,001 payouts. It can have at most 10,000",
        f"{HEADER}\n{good}".encode("utf-16"): "CSV in UTF-8",
        HEADER.encode() + b'\n"1000,058': "a quotation mark is not closed",
        HEADER.encode() + b"\n" + b"x" * file.BYTES_MAX: "larger than 10 MiB",
        HEADER.encode() + b"\n\r" * file.LINE_ENDS_MAX: "too many lines",
    }
    for content, reason in wrong.items():
        reply = await upload(dashboard, content)
        assert reply.status == 400, reason
        assert reason in reply.body.decode()

    rows = [
        good,
        f"abc,{GTBANK},123,,,",
        f"1,{GTBANK},0123456789,,,",
        f"1000,{GTBANK},123456789,,,",
        "1000,999999,0123456789,,,",
        f"1000,{GTBANK},0123456789,,SAME,",
        f"1000,{GTBANK},0123456789,,SAME,",
        f"1000,{GTBANK},0123456789,,{'R' * 61},",
    ]
    reply = await upload(dashboard, ("\ufeff" + "\r\n".join([HEADER, *rows])).encode())
    results = await dashboard.rows(redirect_target(reply))
    assert [row[1] for row in results] == ["ready", *["faulty"] * 4, "ready", *["faulty"] * 2]
    for row, reason in zip(
        [row[2] for row in results if row[1] == "faulty"],
        (
            "is not an amount. Write one such as 1500.50. The account number has 3 digits",
            "at least ₦100.00",
            "drop zeros",
            "bank code",
            "same",
            "60",
        ),
        strict=True,
    ):
        assert reason in row


async def test_a_template_can_be_uploaded_unchanged(dashboard: MerchantDashboard) -> None:
    for code in ("providerc_ngn_transfer", "platform"):
        method = await dashboard.method_id(code)
        template = await dashboard.owner.get(f"{BULK}/template/{method}")
        assert template.status == 200
        reply = await upload(dashboard, template.body, method)
        [row] = await dashboard.rows(redirect_target(reply))
        assert row[1] == "ready"
    banks = unchunked(await dashboard.owner.get(f"{BULK}/banks/{await dashboard.method_id()}"))
    assert GTBANK in {row[0] for row in csv.reader(io.StringIO(banks.decode("utf-8-sig")))}


async def test_a_user_pays_an_account_whose_name_appears_while_typing(
    dashboard: MerchantDashboard, browser: Browser
) -> None:
    path = f"{PAYOUTS}/new?method={await dashboard.method_id()}"
    async with dashboard.open_page(browser, path, width=1280) as page:
        await page.get_by_label("Bank", exact=True).fill(GTBANK)
        await page.get_by_label("Account number").press_sequentially("0123456789")
        await page.get_by_text("SANDBOX BENEFICIARY").wait_for()
        await page.get_by_label("Amount").fill("2,500.50")
        assert not await accessibility_violations(page)
        await page.get_by_role("button", name="Review payout").click()
        await page.get_by_text("Balance after").wait_for()
        assert "₦2,500.50" in await page.inner_text("main")
        await page.get_by_role("button", name="Pay ").click()
        await page.get_by_label("Your password").fill(PASSWORD)
        await page.get_by_role("button", name="Confirm").click()
        await page.get_by_text("Payout created.").wait_for()
        assert "SANDBOX BENEFICIARY" in await page.inner_text("main")
        assert not await accessibility_violations(page)
        await dashboard.run_jobs()
        # The page updates itself without being reloaded.
        await page.get_by_text("The bank transfer was delivered.").first.wait_for()


async def test_a_user_pays_a_file_and_follows_its_progress(
    dashboard: MerchantDashboard, browser: Browser
) -> None:
    rows = [f"1000,{GTBANK},{new_account()},Ada,,", f"250,{GTBANK},{new_account()},,,", "x,y,z,,,"]
    content = "\n".join([HEADER, *rows]).encode()
    async with dashboard.open_page(browser, BULK, width=1280) as page:
        file = {"name": "july.csv", "mimeType": "text/csv", "buffer": content}
        await page.locator("input[type=file]").set_input_files(file)  # type: ignore[arg-type]
        await page.get_by_label("Method").select_option(str(await dashboard.method_id()))
        await page.get_by_role("button", name="Check file").click()
        await page.get_by_text("2 payouts ready").wait_for()
        await page.get_by_text("1 row has an error").wait_for()
        # The errors of a row have the width of the table, and each field refers to its own error.
        errors, table = page.locator(".row-errors"), page.locator(".table-edit")
        [beside, whole] = [await each.bounding_box() for each in (errors, table)]
        assert beside
        assert whole
        assert beside["width"] > 0.9 * whole["width"]
        amount = page.get_by_label("Amount, row 3")
        await expect(amount).to_have_accessible_description(re.compile("is not an amount"))
        await page.get_by_role("button", name="Pay ").click()
        await page.get_by_label("Your password").fill(PASSWORD)
        await page.get_by_role("button", name="Confirm").click()
        await page.get_by_text("Paying: 0 of 2").wait_for()
        await dashboard.run_jobs()
        await page.get_by_text("2 delivered", exact=True).wait_for()
        await page.get_by_text("Done: 2 of 3 delivered").wait_for()
        await page.get_by_role("table").get_by_text("Completed").first.wait_for()
        assert not await accessibility_violations(page)


async def test_a_payout_and_its_receipt_show_the_session_id(
    services: Services, dashboard: MerchantDashboard
) -> None:
    await dashboard.owner.step_up(services)
    created = await dashboard.owner.post(PAYOUTS, await _order(dashboard))
    path = redirect_target(created)
    trx_id, session = path.rsplit("/", 1)[1], "000014261116080000123456789012"
    page, receipt = f"{PAYOUTS}/{trx_id}", f"{PAYOUTS}/{trx_id}/receipt"
    for shown in (page, receipt):
        assert "Session ID" not in (await dashboard.owner.get(shown)).body.decode()
    await services.db.execute(
        "UPDATE payout SET session_id = $2 WHERE trx_id = $1", *(trx_id, session)
    )
    for shown in (page, receipt):
        assert session in (await dashboard.owner.get(shown)).body.decode()
    [row] = await dashboard.rows(PAYOUTS, q=session)
    assert (row[0], session in row) == (trx_id, True)


async def test_gateways_that_the_platform_disabled_are_hidden_unless_selected(
    services: Services, dashboard: MerchantDashboard
) -> None:
    async def shown() -> bool:
        page = (await dashboard.owner.get("/sandbox/gateways")).body.decode()
        assert "providera-ngn" in page
        return "paystack-ngn" in page

    merchant_id = dashboard.merchant.new.id

    async def select(*codes: str) -> None:
        wanted = MerchantUpdate(gateways=list(codes))
        await merchants.change(services.db, services.keyring, merchant_id, wanted)

    assert not await shown()
    await select("paystack-ngn")
    try:
        assert await shown()
    finally:
        await select()
    assert not await shown()


async def test_a_form_without_files_is_short_also_where_files_are_uploaded(
    dashboard: MerchantDashboard,
) -> None:
    fields = {"method": "1", "file": "x" * BODY_BYTES_MAX}
    assert (await dashboard.owner.post(BULK, fields)).status == 413


async def test_a_payout_of_an_ended_session_returns_to_its_form_with_the_same_reference(
    dashboard: MerchantDashboard, services: Services
) -> None:
    """The form keeps its reference, so that an accepted payout is not paid twice."""
    user = dashboard.owner
    async with HttpBrowser.of(user.site) as browser:
        await browser.sign_in(user.email, PASSWORD)
        csrf = (await browser.get("/account")).csrf
        method = await dashboard.method_id()
        fields = {"method": str(method), "amount": "731.50", "once": "DASH-KEPT", "csrf": csrf}
        await services.db.execute(
            """
            UPDATE session SET seen_at = now() - interval '2 days'
             WHERE id = (SELECT max(id) FROM session WHERE person_id = $1)""",
            user.person_id,
        )
        page = "/sandbox/payouts/new"
        # The page that requests the password has the same URL as the form.
        sent = await browser.post("/sandbox/payouts", fields, referer="/sandbox/payouts")
        assert sent.headers["Location"].endswith("sandbox%2Fpayouts%2Fnew")
        entered = await browser.sign_in(user.email, PASSWORD, f"/dashboard{page}")
        assert entered.headers["Location"] == f"/dashboard{page}"
        form = (await browser.get(page)).text
        await browser.post("/sign-out", {"csrf": (await browser.get("/account")).csrf})
    assert 'name="once" value="DASH-KEPT"' in form
    assert 'value="731.50"' in form
    payouts = "SELECT count(*) FROM payout WHERE ref_trx = 'DASH-KEPT'"
    assert await services.db.number(payouts) == 0


async def test_all_wrong_rows_of_a_file_are_corrected_at_once(
    dashboard: MerchantDashboard,
) -> None:
    account = new_account()
    batch = await draft(
        dashboard,
        [f"many,{GTBANK},{account},,,", f"1000,{GTBANK},12,,,", "oops,nowhere,1,,,"],
    )
    fields = {
        "row": "1",
        "1.amount": "1500",
        "1.bank_code": GTBANK,
        "1.account_number": account,
        "2.amount": "1000",
        "2.bank_code": GTBANK,
        "2.account_number": "13",
        "3.remove": "on",
    }
    reply = await dashboard.owner.post(
        f"{batch}/rows", [*fields.items(), ("row", "2"), ("row", "3")]
    )
    page = await dashboard.owner.follow(reply)
    assert "2 rows saved. 1 row removed. 1 row still has an error." in page
    assert 'name="2.account_number" value="13"' in page, "the form keeps the entered values"
    assert ">₦1,000.00</td>" in page, "the list formats amounts, also in rows with errors"
    rows = [(row[0], row[1]) for row in await dashboard.rows(batch)]
    assert rows == [("1", "ready"), ("2", "faulty")]


async def test_rows_that_are_corrected_at_once_cannot_share_a_reference(
    dashboard: MerchantDashboard,
) -> None:
    accounts = [new_account(), new_account()]
    batch = await draft(dashboard, [f"many,{GTBANK},{account},,," for account in accounts])
    fields = [("row", "1"), ("row", "2")]
    for number, account in enumerate(accounts, 1):
        fields += [(f"{number}.amount", "1000"), (f"{number}.bank_code", GTBANK)]
        fields += [(f"{number}.account_number", account), (f"{number}.reference", "SAME-1")]
    page = await dashboard.owner.follow(await dashboard.owner.post(f"{batch}/rows", fields))
    assert "2 rows saved. 1 row still has an error." in page


async def test_a_stopped_file_does_not_say_that_paying_continues(
    dashboard: MerchantDashboard,
) -> None:
    batch = await draft(dashboard, [f"1000,{GTBANK},{new_account()},,,"])
    await dashboard.owner.post(f"{batch}/confirm", {})
    page = await dashboard.owner.follow(await dashboard.owner.post(f"{batch}/stop", {}))
    assert "stopped this file" in page
    assert "The payouts continue" not in page
