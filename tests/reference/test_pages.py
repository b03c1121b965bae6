"""The documentation at /docs is complete, its links work, and it matches the code."""

import html
import re
import shlex
from pathlib import Path
from urllib.parse import quote, urljoin

import msgspec
import pytest

from manilla.kit.errors import Refusal
from manilla.notify.events.kinds import EVENT_TYPES
from manilla.payments.payment import PaymentErrorCode
from manilla.platform.settings import PlatformSettings
from manilla.reference import code_samples, guidance
from manilla.reference.pages import Documentation
from manilla.reference.search import BETWEEN
from manilla.refunds import initiate, postings
from manilla.transfers.refusals import PayoutErrorCode
from tests.support.client import Site
from tests.web import markup

HREF = re.compile(r'href="([^"]+)"')
ID = re.compile(r'\bid="([^"]+)"')
TAG = re.compile(r"<[^>]+>")
# Maps the addresses of former pages to the ids of their sections.
FORMER = {
    "/docs/idempotency": "with-an-idempotency-key without-a-key what-to-retry rate-limit",
    "/docs/python-client": "errors retries notifications the-command language-models",
    "/docs/typescript-client": "install get-started methods amounts errors retries notifications",
    "/docs/php-client": "install get-started methods amounts errors retries notifications laravel",
}


async def test_every_page_renders_under_a_strict_content_security_policy(
    site: Site, documentation: Documentation
) -> None:
    for page in documentation.pages:
        reply = await site.send("GET", page.address)
        assert reply.status == 200, page.address
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        assert "unsafe" not in reply.headers["content-security-policy"]
        text = reply.body.decode()
        assert text.count("<h1>") == 1, page.address
        assert not re.search(r"<script>|<style|style=", text), page.address
        ids = ID.findall(text)
        assert len(ids) == len(set(ids)), f"{page.address}: an id occurs twice"
    assert (await site.send("GET", "/docs/nothing")).status == 404
    assert (await site.send("GET", "/docs/api/nothing")).status == 404


async def test_every_link_and_anchor_resolves(site: Site, documentation: Documentation) -> None:
    texts: dict[str, str] = {}
    seen: set[str] = set()
    waiting = ["/docs"]
    while waiting:
        address = waiting.pop()
        reply = await site.send("GET", address)
        # A redirect to the sign-in page shows that the URL exists.
        assert reply.status in (200, 303), address
        if address.startswith("/docs"):
            texts[address] = reply.body.decode()
            for href in HREF.findall(texts[address]):
                target = urljoin(address, html.unescape(href)).partition("#")[0]
                if target.startswith("/") and target not in seen:
                    seen.add(target)
                    waiting.append(target)
    assert {page.address for page in documentation.pages} <= set(texts)
    for address, text in texts.items():
        for href in HREF.findall(text):
            target, mark, anchor = urljoin(address, html.unescape(href)).partition("#")
            if mark and target in texts:
                assert anchor in ID.findall(texts[target]), f"{address}: {href}"


@pytest.mark.parametrize(("former", "ids"), FORMER.items())
async def test_a_former_page_redirects_to_a_page_with_its_sections(
    site: Site, former: str, ids: str
) -> None:
    reply = await site.send("GET", former)
    assert reply.status == 303
    text = (await site.send("GET", reply.headers["location"])).body.decode()
    assert set(ids.split()) <= set(ID.findall(text))


def test_every_page_that_a_document_names_exists(
    project: Path, documentation: Documentation
) -> None:
    rendered = documentation.render_all(PlatformSettings()).pages
    ids = {address: set(ID.findall(page.html)) for address, page in rendered.items()}
    documents = (
        *project.glob("*.md"),
        *project.glob("docs/**/*.md"),
        *project.glob("clients/*/*.md"),
    )
    named = {
        (document.name, *found)
        for document in documents
        if document.name != "CHANGELOG.md"
        for found in re.findall(r"`(/docs(?:/[a-z-]+)*)(?:#([\w-]+))?`", document.read_text())
    }
    assert len(named) > 20
    for document, address, anchor in named:
        assert address in ids, f"{document}: {address}"
        assert not anchor or anchor in ids[address], f"{document}: {address}#{anchor}"


async def test_every_endpoint_has_a_page_with_all_its_fields_and_errors(
    site: Site, documentation: Documentation
) -> None:
    for operation in documentation.operations:
        text = (await site.send("GET", f"/docs/api/{operation.slug}")).body.decode()
        fields = [*operation.headers, *operation.parameters]
        for shape in [*operation.answers, *([operation.body] if operation.body else [])]:
            fields += shape.fields
        for field in fields:
            assert f"<code>{field.name}</code>" in text, f"{operation.id}: {field.name}"
        for error in operation.errors:
            assert f"/docs/errors#{error.code}" in text, f"{operation.id}: {error.code}"
    payment = documentation.of("initiatePayment")
    signed_by = ["X-Merchant-Key", "X-API-Key", "X-Timestamp", "X-Signature"]
    assert [field.name for field in payment.headers][:4] == signed_by
    assert documentation.of("initiatePaymentLegacy").headers[0].name == "Authorization"
    assert payment.body is not None
    needed = [field.is_required for field in payment.body.fields]
    assert needed == sorted(needed, reverse=True), "required fields come first"


async def test_every_error_code_has_guidance_and_no_guidance_is_unused(
    documentation: Documentation,
) -> None:
    codes = {error.code for operation in documentation.operations for error in operation.errors}
    codes |= {refusal.code for refusal in guidance.OUTSIDE}
    assert set(guidance.GUIDANCE) == codes
    assert {code.value for code in PayoutErrorCode} <= set(guidance.GUIDANCE)
    assert set(guidance.OUTCOMES) == {code.value for code in PaymentErrorCode}


async def test_every_rejection_of_a_refund_has_guidance() -> None:
    classes = [*vars(postings).values(), *vars(initiate).values()]
    refusals = {one for one in classes if isinstance(one, type) and issubclass(one, Refusal)}
    assert refusals - {Refusal} == set(guidance.REFUNDS)


async def test_every_error_is_shown_with_its_cause_and_its_fix(site: Site) -> None:
    text = html.unescape(TAG.sub("", (await site.send("GET", "/docs/errors")).body.decode()))
    for code, one in {**guidance.GUIDANCE, **guidance.OUTCOMES}.items():
        for words in (code, one.when, one.do):
            assert words.replace("`", "") in text, code


async def test_every_page_has_unique_ids_labels_and_names(
    site: Site, documentation: Documentation
) -> None:
    for page in documentation.pages:
        text = (await site.send("GET", page.address)).body.decode()
        assert not markup.problems(text), page.address


async def test_every_code_block_can_be_copied(site: Site, documentation: Documentation) -> None:
    for page in documentation.pages:
        text = (await site.send("GET", page.address)).body.decode()
        blocks = len(re.findall(r"<pre[ >]", text)) - text.count(" data-string>")
        assert blocks == len(re.findall(r"<button[^>]+data-copy-code", text)), page.address


async def test_names_keep_their_capitals_in_a_sentence(site: Site) -> None:
    errors = (await site.send("GET", "/docs/errors")).body.decode()
    assert "Yes, with the same Idempotency-Key." in errors
    notifications = (await site.send("GET", "/docs/notifications")).body.decode()
    assert "Fields: a legacy API payment" in notifications


async def test_the_programs_shown_are_the_tested_files(site: Site) -> None:
    for address, name in (
        ("/docs/quick-start", "sign_and_pay"),
        ("/docs/quick-start", "verify_payment"),
        ("/docs/quick-start", "verify_ipn"),
        ("/docs/api/verify-payment", "verify_payment"),
        ("/docs/payouts", "payout"),
        ("/docs/refunds", "refund"),
        ("/docs/api/verify-refund", "refund"),
        ("/docs/api/list-payouts", "list_payments"),
        ("/docs/notifications", "verify_ipn"),
        ("/docs/webhook-endpoints", "verify_webhook"),
    ):
        text = html.unescape(TAG.sub("", (await site.send("GET", address)).body.decode()))
        for sample in code_samples.samples(name):
            assert sample.text.strip() in text, f"{address}: {sample.language}"
            path = code_samples.SAMPLES.rglob(sample.file)
            assert sample.text in [file.read_text() for file in path]


async def test_every_signed_endpoint_shows_a_program_or_the_command_of_its_example(
    site: Site, documentation: Documentation
) -> None:
    for operation in documentation.operations:
        text = (await site.send("GET", f"/docs/api/{operation.slug}")).body.decode()
        shown = 'id="complete-code-samples"' in text
        assert shown == (operation.id in code_samples.PROGRAMS), operation.id
        if not shown and operation.is_signed:
            assert operation.command in html.unescape(TAG.sub("", text)), operation.id
            tool, command, method, target, *data = shlex.split(operation.command)
            assert (tool, command, method) == ("manilla-client", "request", operation.method)
            assert target.partition("?")[0] == operation.path
            assert data == (["--data", next(iter(operation.requests.values()))] if data else [])
            assert bool(data) == (operation.body is not None), operation.id
    methods = documentation.of("payoutMethods").command
    assert methods == "manilla-client request GET '/api/v1/payout-methods?currency={currency}'"


async def test_the_page_of_webhook_endpoints_explains_every_type(site: Site) -> None:
    text = (await site.send("GET", "/docs/webhook-endpoints")).body.decode()
    for event_type in EVENT_TYPES:
        assert re.search(rf"<td><code>{event_type}</code></td><td>\w", text), event_type
    assert "5 seconds, 5 minutes, 30 minutes, 2 hours, 5 hours" in text


async def test_the_search_works_without_javascript(site: Site) -> None:
    reply = await site.send("GET", "/docs/search?q=insufficient_balance")
    assert b'href="/docs/errors#insufficient_balance"' in reply.body
    nothing = await site.send("GET", "/docs/search?q=" + quote("<script>stolen()</script>"))
    assert b"No results for" in nothing.body
    assert b"<script>stolen" not in nothing.body
    assert (await site.send("GET", "/docs/search")).status == 200


async def test_the_search_ranks_titles_before_headings_before_text(site: Site) -> None:
    async def found(query: str) -> list[list[str]]:
        reply = await site.send("GET", "/docs/search.json?q=" + quote(query))
        return [each["title"].split(BETWEEN) for each in reply.json]

    refunds = await found("refund")
    headings = [title for title in refunds if len(title) == 2]
    assert (refunds[0], headings[0]) == (["Refunds and disputes"], ["Take payments", "Refunds"])
    assert refunds.index(headings[0]) == len(refunds) - len(headings)  # titles come first
    assert (await found("errors"))[0] == ["Errors"]
    assert (await found("webhook endpoint"))[0] == ["Webhook endpoints"]
    assert (await found("verify-payment"))[0] == ["Verify a payment"]
    assert (await found("verify payment"))[0] == ["Verify a payment"]
    assert (await found("initiate payment"))[0] == ["Initiate a payment"]
    assert (await found("initiate payout"))[0] == ["Initiate a payout"]
    assert (await found("wrong amount"))[0] == ["Take payments", "Wrong amounts"]
    assert (await found("client errors"))[0] == ["Client libraries", "Errors"]
    is_heading = [len(title) == 2 for title in await found("payout")]
    assert is_heading == sorted(is_heading)
    named = ["signature" in title[-1].lower() for title in await found("signature")]
    assert named == sorted(named, reverse=True)
    assert (any(named), all(named)) == (True, False)
    assert await found("") == []
    assert await found("zzzz") == []


async def test_an_unchanged_page_is_not_sent_again(site: Site) -> None:
    first = await site.send("GET", "/docs")
    # The test client converts header names to lower case.
    tag = first.headers["etag"].replace("w/", "W/")
    again = await site.send("GET", "/docs", {"If-None-Match": tag})
    assert (again.status, again.body) == (304, b"")


async def test_numbers_on_the_pages_follow_the_settings(documentation: Documentation) -> None:
    settings = msgspec.structs.replace(
        PlatformSettings(), rate_limit_per_minute=77, timestamp_tolerance_seconds=41
    )
    rendered = documentation.render_all(settings).pages
    assert "77 requests" in rendered["/docs/api-basics"].html
    assert "within 41 seconds of our time" in rendered["/docs/authentication"].html
