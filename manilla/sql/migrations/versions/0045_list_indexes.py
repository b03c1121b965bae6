"""Indexes for the lists of cases, audit entries, emails and bulk files of any length."""

from manilla.sql import script

revision = "0045"
down_revision = "0044"

INDEXES = {
    "operator_case_number": "operator_case (id)",
    "operator_case_transaction": "operator_case (trx_id) WHERE trx_id IS NOT NULL",
    "operator_case_reference": "operator_case (reference)",
    "audit_actor": "audit (actor_name, id)",
    "mail_recipient": "mail (lower(recipient), id)",
    "payout_batch_age": "payout_batch (merchant_id, environment, created_at, id)",
}


def upgrade() -> None:
    for name, columns in INDEXES.items():
        script.create_index(name, columns)
