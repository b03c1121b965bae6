"""The list of merchants, pending merchants first, and the suggestions of the merchant picker."""

from markupsafe import Markup

from manilla.kit import listing
from manilla.kit.listing.sorting import SortOrder
from manilla.merchants import roster
from manilla.merchants.merchants import MerchantStatus
from manilla.merchants.queries import MerchantRow
from manilla.merchants.roster import MerchantFilter
from manilla.web import lists, record_list, table_cells
from manilla.web.display import badge
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, ListFilter, Place, RecordList, time_column
from manilla.web.serving.response import PageResponse

QUEUE_ROWS = 5
SUGGESTED = 20

COLUMNS = roster.FIELDS.select(
    "id name email status status_reason commission_percent commission_bearer payouts kyc_verified"
    " phone_verified currencies created_at"
)


async def show_names(request: PageRequest) -> PageResponse:
    """Suggests merchants whose name contains the typed text."""
    text = request.query.text("q", at_most=listing.SEARCH_LENGTH_MAX)
    wanted = MerchantFilter(search=text or None)
    found = await roster.merchants(request.db, wanted, limit=SUGGESTED)
    return request.page("merchant_names.html", merchants=found.rows)


def _name(request: PageRequest, row: MerchantRow) -> Markup:
    return table_cells.link(request, f"/merchants/{row.id}", row.name)


def _kyc(_request: PageRequest, row: MerchantRow) -> Markup:
    return badge("approved", "Verified") if row.kyc_verified else badge("inactive", "Not verified")


LIST = RecordList(
    "merchants",
    "merchant",
    (
        time_column("Created", "created_at"),
        ListColumn("name", "Merchant", _name, sorts=(SortOrder.NAME,), place=Place.NAME),
        ListColumn("number", "Number", lambda _, row: row.id),
        ListColumn("email", "Email", lambda _, row: table_cells.text(row.email), place=Place.ASIDE),
        ListColumn(
            "status",
            "Status",
            lambda _, row: badge(row.status),
            sorts=(SortOrder.STATUS,),
            place=Place.STATUS,
        ),
        ListColumn("kyc", "KYC", _kyc),
        ListColumn(
            "payouts",
            "Payouts",
            lambda _, row: "On" if row.payouts_enabled else "Off",
            is_default=False,
        ),
        ListColumn(
            "currencies", "Currencies", lambda _, row: ", ".join(row.currencies), is_default=False
        ),
        ListColumn(
            "commission",
            "Commission",
            lambda _, row: f"{row.commission_percent:g} %",
            is_number=True,
            is_default=False,
        ),
    ),
    roster.merchants,
    roster.totals,
)


async def show_all(request: PageRequest) -> PageResponse:
    wanted = lists.read_filter(request, MerchantFilter, "status")
    is_plain = wanted == MerchantFilter() and lists.after(request) is None
    filters = [ListFilter("status", "Status", record_list.choices(list(MerchantStatus)))]
    return await LIST.show(
        *(request, "merchants.html", COLUMNS, [], wanted, filters),
        queue=await roster.pending(request.db, QUEUE_ROWS) if is_plain else [],
        pending=await roster.count_pending(request.db) if is_plain else 0,
    )
