"""A merchant's sample data: a payment, payouts, a payout file, a notification and an account."""

import csv
import io
from datetime import UTC, datetime

from manilla.approvals import approvals
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.beneficiaries import accounts
from manilla.bulk import drafts
from manilla.bulk.drafts import Drafting
from manilla.bulk.file import COLUMNS
from manilla.compliance import documents, dossiers
from manilla.compliance.documents import DocumentPurpose
from manilla.compliance.dossiers import DossierState
from manilla.customers import service as customers
from manilla.customers.customer import CustomerTerms, PersonalNumbers
from manilla.disputes import states
from manilla.invoices import issuing
from manilla.invoices.fees import MonthFees
from manilla.invoices.invoice import Party, read_month
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.ledger.trx_ids import WAY_IDS
from manilla.merchants import api_keys
from manilla.merchants.api_keys import ApiKeyTerms
from manilla.merchants.rights import Right
from manilla.methods.method import Method, MethodKind
from manilla.notify.endpoints import changes as endpoint_changes
from manilla.notify.endpoints import deliveries
from manilla.notify.endpoints.endpoint import EndpointTerms
from manilla.payments import states as payment_states
from manilla.payments.checkout import SandboxOutcome
from manilla.payments.payment import SANDBOX
from manilla.payments.payment_links import store as payment_links
from manilla.payments.payment_links.link import LinkTerms
from manilla.payments.states import PaymentEvent
from manilla.payouts.protection.protection import ThresholdChange
from manilla.people.roles import Realm
from manilla.platform.settings import PlatformSettings
from manilla.providers.port import DisputeState, ReportedDisputeStatus
from manilla.refunds import initiate as refunds
from manilla.saved_ways import store as saved_ways
from manilla.saved_ways.way import SavedWay, WayKind, WayStatus
from manilla.services import Services
from manilla.settlements import store as settlements
from manilla.settlements.store import SettlementOrder, SettlementState
from manilla.splits import service as splits
from manilla.splits import store as split_store
from tests.compliance.files import PNG
from tests.payments.orders import INITIATE, order
from tests.payouts.payout_merchant import ACCOUNT, MANUAL, new_reference
from tests.payouts.payout_merchant import INITIATE as PAY_OUT
from tests.support.approving import approvals_of
from tests.support.client import Merchant, new_merchant


async def create_sample_data(services: Services, merchant: Merchant, text: str) -> dict[str, str]:
    """Creates sample data, with `text` as every value that the merchant or a customer can enter."""
    payment = await _payment(services, merchant, text)
    payout = await _payout(merchant, text)
    method = services.methods.by_code(MethodKind.WITHDRAW, MANUAL)
    assert method is not None
    account = await accounts.add(
        *(services.db, merchant.new.id, MANUAL),
        {"Bank Name": text[:60], "Account Number": ACCOUNT},
        label=text[:60],
    )
    notification = await services.db.value(
        "SELECT id FROM notification WHERE merchant_id = $1 LIMIT 1", merchant.new.id
    )
    assert notification is not None
    endpoint = await _endpoint(services, merchant, text, notification)
    return {
        **await create_dispute(services, merchant, payment, text),
        **await create_share(services, merchant),
        "endpoint": endpoint,
        **await _dossier(services, merchant, text),
        "trx_id": payment,
        "payout": payout,
        "refund": (await refunds.start(services.db, payment, "1", text[:200])).trx_id,
        "link": await _link(services, merchant, text),
        **await _customer(services, merchant, text),
        "account": str(account),
        "key": await create_key(services, merchant, text),
        "batch": await _batch(services, merchant, method, text),
        "method": str(method.id),
        "notification": notification,
        "approval": await _approval(services, merchant),
        "settlement": await _settlement(services, merchant, text),
        "invoice": await _invoice(services, merchant, text),
    }


async def _invoice(services: Services, merchant: Merchant, text: str) -> str:
    """Issues an invoice without lines, because the ledger has no fees of that month."""
    line = text[:100]
    operator = PlatformSettings(
        legal_name=line,
        legal_address=line,
        legal_tax_id=line,
        legal_email="billing@operator.example",
        invoice_prefix=f"S{merchant.new.id}X",
    )
    party = Party(line, line, text[:40])
    await issuing.set_recipient(services.db, merchant.new.id, party)
    month = read_month("2001-01")
    found = MonthFees(merchant.new.id, "NGN", [])
    issued = await issuing.issue(services.db, operator, month, found)
    assert issued is not None
    await issuing.record_reference(services.db, issued.number, line, line)
    return issued.number


async def create_share(services: Services, merchant: Merchant) -> dict[str, str]:
    """Creates another merchant's sandbox payment, of which the merchant gets a share."""
    owner = await new_merchant(merchant.site, services.db, services.keyring)
    await splits.invite(services.db, owner.new.id, merchant.new.id, is_accepted=True)
    split = {"receivers": [{"merchant_id": merchant.new.id, "percent": 30}]}
    reply = await owner.post(INITIATE, order(split=split))
    trx_id = reply.json["payment_url"].partition("?")[0].rpartition("/")[2]
    await payment_states.end_in_sandbox(services.db, owner.new.id, trx_id, PaymentEvent.PAID)
    [share] = await split_store.shares_of(services.db, owner.new.id, trx_id)
    return {"share": share.trx_id, "partner": str(owner.new.id)}


async def create_dispute(
    services: Services, merchant: Merchant, payment: str, text: str
) -> dict[str, str]:
    """Opens a dispute of a sandbox payment, with evidence and a file."""
    state = DisputeState(
        provider_reference=f"sandbox-{payment}",
        status=ReportedDisputeStatus.NEEDS_RESPONSE,
        charge_reference=payment,
        amount=Money("NGN", 200_00),
        stage=text,
        category=text,
        reason=text,
    )
    settings = services.platform.now
    dispute = (await states.report(services.db, settings, SANDBOX, state)).dispute
    assert dispute is not None
    key = Tenant(merchant.new.id, merchant.environment), dispute.trx_id
    await services.disputes.set_evidence(*key, text, {"delivered_by": text})
    file = await services.disputes.add_file(*key, text, PNG)
    return {"dispute": dispute.trx_id, "file": str(file.number)}


async def _customer(services: Services, merchant: Merchant, text: str) -> dict[str, str]:
    """Creates a customer with an active mandate."""
    tenant = Tenant(merchant.new.id, merchant.environment)
    terms = CustomerTerms(name=text[:100], email=text[:100])
    made = await customers.create(
        *(services.db, services.keyring, tenant, new_reference()[:60], terms, PersonalNumbers())
    )
    now = datetime.now(UTC)
    way = SavedWay(
        merchant_id=merchant.new.id,
        id=WAY_IDS.new(merchant.new.id),
        environment=merchant.environment,
        customer_reference=made.reference,
        kind=WayKind.MANDATE,
        status=WayStatus.ACTIVE,
        provider=SANDBOX,
        currency="NGN",
        label=text[:60],
        email=text[:100],
        consent_text=text,
        consented_at=now,
        created_at=now,
        updated_at=now,
    )
    async with services.db.transaction() as connection:
        await saved_ways.insert(connection, way)
    return {"customer": made.id, "way": way.id}


async def _link(services: Services, merchant: Merchant, text: str) -> str:
    tenant = Tenant(merchant.new.id, merchant.environment)
    terms = LinkTerms(title=text[:100], currency="NGN", description=text, amount_minor=5000)
    return (await payment_links.create(services.db, tenant, terms)).id


async def _endpoint(services: Services, merchant: Merchant, text: str, notification: str) -> str:
    """Creates a webhook endpoint that receives the notification."""
    tenant = Tenant(merchant.new.id, merchant.environment)
    url = "https://shop.example/webhooks"
    terms = EndpointTerms(url=url, events=["*"], description=text[:200])
    new = await endpoint_changes.create(services.db, services.keyring, tenant, terms)
    await deliveries.schedule(services.db, new.endpoint, [notification])
    return new.endpoint.id


async def create_key(services: Services, merchant: Merchant, text: str) -> str:
    terms = ApiKeyTerms(name=text[:60], rights=[Right.READ], networks=["203.0.113.0/24"])
    db, merchant_id, environment = services.db, merchant.new.id, merchant.environment
    await api_keys.create(db, services.keyring, merchant_id, environment, terms)
    return str((await api_keys.list_keys(db, merchant_id, environment))[0].number)


async def _dossier(services: Services, merchant: Merchant, text: str) -> dict[str, str]:
    db, merchant_id = services.db, merchant.new.id
    values = {"legal_form": "company", "legal_name": text, "registration_number": "RC1234"}
    await dossiers.save(db, merchant_id, {**values, "address": text, "directors": [text]})
    document = await documents.add(
        *(db, services.keyring, merchant_id, DocumentPurpose.OTHER, text, PNG), by="ada@example.com"
    )
    async with db.transaction() as connection:
        dossier = await dossiers.lock_to_edit(connection, merchant_id)
        await dossiers.move(connection, dossier, DossierState.SUBMITTED, note=text)
    return {"section": "business", "document": str(document.id)}


async def _approval(services: Services, merchant: Merchant) -> str:
    """Requests a change to the payout protection that needs a second person's approval."""
    asker = Actor(ActorKind.PERSON, 0, "Ada", Realm.DASHBOARD)
    with acting(asker):
        change = ThresholdChange(merchant.new.id, "NGN", None)
        return str(await approvals.request(approvals_of(services), change))


async def _settlement(services: Services, merchant: Merchant, text: str) -> str:
    order = SettlementOrder(
        merchant_id=merchant.new.id,
        environment=merchant.environment,
        currency="NGN",
        day=datetime.now(UTC).date(),
        attempt=1,
        amount_minor=100_00,
        ordered_by=text,
    )
    async with services.db.transaction() as connection:
        started = await settlements.start(connection, order)
        assert started is not None
        await settlements.end(connection, started, SettlementState.FAILED, text)
    return str(started.id)


async def _batch(services: Services, merchant: Merchant, method: Method, text: str) -> str:
    written = io.StringIO()
    csv.writer(written).writerows(
        [COLUMNS, ["1000", text[:60], ACCOUNT, text[:60], new_reference(), text[:100]]]
    )
    caller = await services.directory.of(merchant.environment, merchant.new.id)
    return await drafts.draft(
        Drafting(services.db, services.previews, caller, method),
        file_name=text,
        raw=written.getvalue().encode(),
        uploaded_by="ada@example.com",
    )


async def _payment(services: Services, merchant: Merchant, text: str) -> str:
    reply = await merchant.post(
        INITIATE,
        order(
            ref_trx=text[:60],
            description=text,
            customer_name=text[:100],
            customer_email="ada+script@example.com",
            allow_payment_methods=[],
        ),
    )
    assert reply.status == 200, reply.body
    trx_id: str = reply.json["payment_url"].split("/checkout/")[1].split("?")[0]
    await services.checkout.pretend(trx_id, SandboxOutcome.PAY)
    return trx_id


async def _payout(merchant: Merchant, text: str) -> str:
    methods = await merchant.get("/api/v1/payout-methods?currency=NGN")
    [rail] = [m for m in methods.json["methods"] if m["method_code"] == MANUAL]
    reply = await merchant.post(
        PAY_OUT,
        {
            "payout_amount": 1000,
            "currency_code": "NGN",
            "ref_trx": new_reference(),
            "withdraw_method_id": rail["id"],
            "description": text[:255],
            "ipn_url": "https://shop.example/ipn",
            "beneficiary": {"Bank Name": text[:60], "Account Number": ACCOUNT},
        },
    )
    assert reply.status == 200, reply.body
    trx_id: str = reply.json["trx_id"]
    return trx_id
