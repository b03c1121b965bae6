"""The privileges of the application's database role on each table: only what the code needs.

During an upgrade the previous version has these privileges too, so a privilege is revoked only one
release after the last statement that needs it was removed.
"""

from typing import Any

READ = "SELECT"
APPEND = "SELECT, INSERT"
CHANGE = "SELECT, UPDATE"  # privileges on tables with a fixed set of rows
KEEP = "SELECT, INSERT, UPDATE"  # privileges on tables whose rows are never deleted
EXPIRE = "SELECT, INSERT, DELETE"  # privileges on tables whose rows are never updated
ALL = "SELECT, INSERT, UPDATE, DELETE"

RIGHTS = {
    "alembic_version": READ,
    "api_key": KEEP,
    "api_request": EXPIRE,
    "approval": KEEP,
    "archive_month": CHANGE,
    "audit": APPEND,
    "audit_head": CHANGE,
    "case_event": APPEND,
    "cell": ALL,
    "change": CHANGE,
    "charge": KEEP,
    "checkout_origins": KEEP,
    "clearing_difference": KEEP,
    "clearing_movement": APPEND,
    "clearing_total": KEEP,
    "clearing_total_head": CHANGE,
    "credential": ALL,
    "day_sign_off": APPEND,
    "deleted_notifications": READ,
    "delivery_attempt": EXPIRE,
    "destination_epoch": READ,
    "dossier": KEEP,
    "dossier_document": ALL,
    "dossier_event": APPEND,
    "endpoint_delivery": ALL,
    "endpoint_secret": ALL,
    "entry": APPEND,
    "event_epoch": APPEND,
    "function_set": READ,
    "gateway_order": KEEP,
    "idempotency": EXPIRE,
    "invitation": ALL,
    "job": ALL,
    "mail": ALL,
    "mail_choice": KEEP,
    "master_key_proof": KEEP,
    "membership": ALL,
    "merchant": KEEP,
    "merchant_branding": KEEP,
    "merchant_fence": READ,
    "merchant_key": APPEND,
    "merchant_move": READ,
    "method": KEEP,
    "move_marker": READ,
    "moved_job": READ,
    "moved_merchant": "SELECT, INSERT, DELETE",
    "notification": KEEP,
    "operator_case": KEEP,
    "password_reset": ALL,
    "payment": KEEP,
    "payment_link": KEEP,
    "payout": KEEP,
    "payout_account": KEEP,
    "payout_alone": ALL,
    "payout_attempt": KEEP,
    "payout_batch": KEEP,
    "payout_batch_row": ALL,
    "payout_threshold": KEEP,
    "person": KEEP,
    "posting": APPEND,
    "posting_chain": APPEND,
    "posting_chain_head": CHANGE,
    "posting_kind": READ,
    "proof": CHANGE,
    "provider_account": APPEND,
    "provider_bank": ALL,
    "provider_credentials": ALL,
    "rail_bank_minute": ALL,
    "rail_minute": ALL,
    "rail_state": KEEP,
    "rate_window": ALL,
    "refund": KEEP,
    "reported_balance": KEEP,
    "session": ALL,
    "setting": KEEP,
    "settlement": KEEP,
    "settlement_account": KEEP,
    "settlement_plan": KEEP,
    "shop_news": EXPIRE,
    "shop_order": EXPIRE,
    "statement_day": KEEP,
    "statement_line": KEEP,
    "timeline": APPEND,
    "transfer_fee": KEEP,
    "unmatched_transaction": EXPIRE,
    "wallet": KEEP,
    "webhook": ALL,
    "webhook_endpoint": ALL,
}

# What was accepted never changes, so the role cannot update these columns. The previous version
# updates `payout.beneficiary`, so only the trigger `as_accepted` refuses changes of that column.
FIXED = {
    "charge": ("merchant_id", "reference", "trx_id", "method_code", "provider", "currency"),
    "payout": (
        *("merchant_id", "trx_id", "environment", "ref_trx", "currency", "amount_minor"),
        *("fee_minor", "method_id", "method_code", "method_name"),
    ),
    "payout_account": ("merchant_id", "id", "method_code", "beneficiary", "account_name"),
    "refund": (
        *("merchant_id", "trx_id", "payment_trx_id", "environment", "currency", "amount_minor"),
        *("reason", "provider", "charge_reference", "commission_minor", "customer_credit_minor"),
    ),
    "settlement_account": (
        *("merchant_id", "id", "environment", "currency", "method_code", "beneficiary"),
        *("bank_name", "account_name", "set_by", "created_at", "effective_at"),
    ),
}


OTHER_COLUMNS = """
    SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
     WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
       AND attname <> ALL ($2::text[])"""


async def grant(connection: Any, role: str) -> None:
    """Grants exactly these privileges and revokes all others. Must run in a transaction."""
    if role == await connection.fetchval("SELECT quote_ident(current_user)"):
        # If the application uses the owner's role, only the triggers protect the ledger.
        return
    await connection.execute(f"""
        GRANT USAGE ON SCHEMA public TO {role};
        REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role};
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role};
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {role};""")
    for table, rights in RIGHTS.items():
        columns = await connection.fetchval(OTHER_COLUMNS, table, list(FIXED.get(table, ())))
        granted = rights.replace("UPDATE", f"UPDATE ({columns})") if table in FIXED else rights
        await connection.execute(f"GRANT {granted} ON {table} TO {role}")
