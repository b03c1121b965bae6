"""The same tables as the product's, as far as the bench uses them, with the same indexes."""

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, UniqueConstraint, func, text
from sqlalchemy.dialects.postgresql import TIMESTAMP
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class Base(DeclarativeBase):
    type_annotation_map = {int: BigInteger, datetime: TIMESTAMP(timezone=True)}  # noqa: RUF012


class Merchant(Base):
    __tablename__ = "merchant"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    status: Mapped[str]


class Credential(Base):
    __tablename__ = "credential"

    merchant_key: Mapped[str] = mapped_column(primary_key=True)
    environment: Mapped[str] = mapped_column(primary_key=True)
    merchant_id: Mapped[int] = mapped_column(ForeignKey("merchant.id"))
    api_key_hash: Mapped[bytes]
    secret: Mapped[bytes]  # the product's is sealed; opening it is spared here

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
