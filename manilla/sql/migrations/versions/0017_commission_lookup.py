"""An index for finding a payment by the id of its commission."""

from manilla.sql import script

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    script.create_index(
        "payment_commission",
        "payment (merchant_id, commission_trx_id) WHERE commission_trx_id IS NOT NULL",
        unique=True,
    )
