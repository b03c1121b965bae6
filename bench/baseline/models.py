"""The Manilla tables and indexes that the baseline uses."""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Numeric,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    type_annotation_map = {  # noqa: RUF012
        int: BigInteger,
        Decimal: Numeric(7, 4),
        datetime: TIMESTAMP(timezone=True),
        list[str]: ARRAY(Text),
        dict[str, str]: JSONB,
    }


class Merchant(Base):
    __tablename__ = "merchant"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    status: Mapped[str]
    commission_percent: Mapped[Decimal]
    commission_bearer: Mapped[str]
    gateways: Mapped[list[str] | None]  # None: every gateway that is available to the merchant
    currencies: Mapped[list[str]]
    has_bvn: Mapped[bool]
    payouts_enabled: Mapped[bool] = mapped_column(server_default=text("true"))


class Credential(Base):
    __tablename__ = "credential"

    merchant_key: Mapped[str] = mapped_column(primary_key=True)
    environment: Mapped[str] = mapped_column(primary_key=True)
    merchant_id: Mapped[int] = mapped_column(ForeignKey("merchant.id"))
    api_key_hash: Mapped[bytes]
    secret: Mapped[bytes]  # not encrypted, unlike in Manilla

    merchant: Mapped[Merchant] = relationship()


class Setting(Base):
    __tablename__ = "setting"

    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class RateWindow(Base):
    __tablename__ = "rate_window"
    __table_args__ = {"prefixes": ["UNLOGGED"]}  # noqa: RUF012

    bucket: Mapped[str] = mapped_column(primary_key=True)
    started_at: Mapped[datetime]
    used: Mapped[int]


class Wallet(Base):
    __tablename__ = "wallet"
    __table_args__ = (CheckConstraint("balance_minor >= 0"),)

    merchant_id: Mapped[int] = mapped_column(primary_key=True)
    environment: Mapped[str] = mapped_column(primary_key=True)
    currency: Mapped[str] = mapped_column(primary_key=True)
    balance_minor: Mapped[int]
    status: Mapped[str] = mapped_column(server_default="active")


class Provider(Base):
    __tablename__ = "provider"

    code: Mapped[str] = mapped_column(primary_key=True)
    pay_in_enabled: Mapped[bool]
    pay_out_enabled: Mapped[bool] = mapped_column(server_default=text("true"))
    is_sandbox: Mapped[bool]


class Method(Base):
    __tablename__ = "method"

    id: Mapped[int] = mapped_column(primary_key=True)
    code: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    kind: Mapped[str]
    provider_code: Mapped[str] = mapped_column(ForeignKey("provider.code"))
    flow: Mapped[str | None]
    currency: Mapped[str]
    active: Mapped[bool]
    position: Mapped[int]
    min_minor: Mapped[int]
    max_minor: Mapped[int | None]
    fee_fixed_minor: Mapped[int] = mapped_column(server_default="0")
    fee_percent: Mapped[Decimal] = mapped_column(server_default="0")

    provider: Mapped[Provider] = relationship()


class Payment(Base):
    __tablename__ = "payment"
    __table_args__ = (
        UniqueConstraint("merchant_id", "environment", "ref_trx"),
        CheckConstraint("environment IN ('sandbox', 'production')"),
        CheckConstraint("status IN ('pending', 'success', 'failed')"),
        CheckConstraint("amount_minor > 0 AND commission_minor >= 0"),
        {"postgresql_with": {"fillfactor": 85}},
    )

    merchant_id: Mapped[int] = mapped_column(primary_key=True)
    trx_id: Mapped[str] = mapped_column(primary_key=True)
    environment: Mapped[str]
    ref_trx: Mapped[str]
    status: Mapped[str] = mapped_column(server_default="pending")
    error_code: Mapped[str | None]
    currency: Mapped[str]
    amount_minor: Mapped[int]
    commission_minor: Mapped[int]
    commission_bearer: Mapped[str]
    description: Mapped[str | None]
    customer_name: Mapped[str | None]
    customer_email: Mapped[str | None]
    ipn_url: Mapped[str]
    success_redirect: Mapped[str | None]
    cancel_redirect: Mapped[str | None]
    allow_payment_methods: Mapped[list[str]]
    remarks: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime]


class Payout(Base):
    __tablename__ = "payout"
    __table_args__ = (
        UniqueConstraint("merchant_id", "environment", "ref_trx"),
        CheckConstraint("environment IN ('sandbox', 'production')"),
        CheckConstraint("status IN ('pending', 'completed', 'failed', 'canceled')"),
        CheckConstraint("amount_minor > 0 AND fee_minor >= 0"),
        {"postgresql_with": {"fillfactor": 80}},
    )

    merchant_id: Mapped[int] = mapped_column(primary_key=True)
    trx_id: Mapped[str] = mapped_column(primary_key=True)
    environment: Mapped[str]
    ref_trx: Mapped[str]
    status: Mapped[str] = mapped_column(server_default="pending")
    error_code: Mapped[str | None]
    currency: Mapped[str]
    amount_minor: Mapped[int]
    fee_minor: Mapped[int]
    method_id: Mapped[int]
    method_code: Mapped[str]
    method_name: Mapped[str]
    provider_code: Mapped[str]
    beneficiary: Mapped[dict[str, str]]
    account_name: Mapped[str]
    description: Mapped[str | None]
    ipn_url: Mapped[str]
    remarks: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Timeline(Base):
    __tablename__ = "timeline"

    merchant_id: Mapped[int] = mapped_column(primary_key=True)
    trx_id: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    event: Mapped[str]
    from_status: Mapped[str]
    to_status: Mapped[str]
    detail: Mapped[str | None]


class Job(Base):
    __tablename__ = "job"
    __table_args__ = (
        Index("job_due", "kind", "due_at", postgresql_where=text("parked_at IS NULL")),
        {"postgresql_with": {"fillfactor": 70}},
    )

    merchant_id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    due_at: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(server_default="0")
    failures: Mapped[int] = mapped_column(server_default="0")
    parked_at: Mapped[datetime | None]
    last_error: Mapped[str | None]


class Posting(Base):
    __tablename__ = "posting"
    __table_args__ = (UniqueConstraint("merchant_id", "trx_id", "kind"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    merchant_id: Mapped[int]
    environment: Mapped[str]
    currency: Mapped[str]
    kind: Mapped[str]
    trx_id: Mapped[str]
    posted_at: Mapped[datetime] = mapped_column(server_default=func.now())


class Entry(Base):
    __tablename__ = "entry"
    __table_args__ = (
        Index(
            "entry_wallet",
            "merchant_id",
            "environment",
            "currency",
            "posting_id",
            postgresql_where=text("account = 'wallet'"),
        ),
    )

    posting_id: Mapped[int] = mapped_column(ForeignKey("posting.id"), primary_key=True)
    line: Mapped[int] = mapped_column(primary_key=True)
    merchant_id: Mapped[int]
    environment: Mapped[str]
    currency: Mapped[str]
    account: Mapped[str]
    amount_minor: Mapped[int]
    balance_minor: Mapped[int | None]
