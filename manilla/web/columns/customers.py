"""The console's list of customers."""

from markupsafe import Markup

from manilla.customers.customer import CustomerRow
from manilla.kit.fields import Fields
from manilla.web import table_cells
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, Place, time_column

EXPORT = Fields(CustomerRow).select(
    "reference id merchant_id environment name email phone bvn_given nin_given status created_at"
    " updated_at"
)


def _name(request: PageRequest, row: CustomerRow) -> Markup:
    return table_cells.link(request, f"/customers/{row.id}", row.name)


COLUMNS = (
    time_column("Created", "created_at"),
    ListColumn("name", "Name", _name, place=Place.NAME),
    ListColumn("reference", "Reference", lambda _, row: table_cells.text(row.reference)),
    ListColumn("status", "Status", lambda _, row: table_cells.status(row.status), Place.STATUS),
    ListColumn("email", "Email", lambda _, row: table_cells.text(row.email or "")),
    ListColumn("phone", "Phone", lambda _, row: row.phone or "", is_default=False),
)
