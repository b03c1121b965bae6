"""Flutterwave's webhooks: the shared secret, and the status that a webhook reports."""

import json
from decimal import Decimal
from typing import Any

import pytest

from manilla.providers.port import (
    Adapter,
    Claim,
    Forged,
    ReportedChargeStatus,
    TransferStatus,
    Unreadable,
    WebhookEvent,
    WebhookSubject,
)
from tests.providers.flutterwave.conftest import SECRET_HASH, Build
from tests.providers.flutterwave.fixtures import CHARGE, TRANSFER

SIGNED = {b"verif-hash": [SECRET_HASH.encode()]}


def body(event: str, data: Any) -> bytes:
    return json.dumps({"event": event, "data": data, "event.type": "Transfer"}).encode()


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("successful", ReportedChargeStatus.PAID),
        ("failed", ReportedChargeStatus.FAILED),
        ("pending", ReportedChargeStatus.PENDING),
        ("odd", None),
    ],
)
def test_charges(flutterwave: Adapter, word: str, status: ReportedChargeStatus | None) -> None:
    raw = body("charge.completed", {**CHARGE, "status": word})
    assert flutterwave.read_webhook(SIGNED, raw) == WebhookEvent(
        WebhookSubject.CHARGE, "TXN0-1", Claim(Decimal("1015.5"), "NGN"), status
    )


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("SUCCESSFUL", TransferStatus.DELIVERED),
        ("FAILED", TransferStatus.FAILED),
        ("REVERSED", TransferStatus.RETURNED),
        ("NEW", None),
        ("PENDING", None),
        ("odd", None),
    ],
)
def test_transfers(flutterwave: Adapter, word: str, status: TransferStatus | None) -> None:
    raw = body("transfer.completed", {**TRANSFER, "status": word})
    assert flutterwave.read_webhook(SIGNED, raw) == WebhookEvent(
        WebhookSubject.TRANSFER, "TXN1", Claim(Decimal("5000.5"), "NGN"), status
    )


def test_a_test_suffix_is_removed_only_in_the_sandbox(build: Build) -> None:
    raw = body("transfer.completed", {**TRANSFER, "reference": "TXN1_PMCK_ST_F"})
    # The configured suffix may have changed since the transfer was created.
    for suffix in ("_PMCK_ST_F", "_PMCK", ""):
        sandbox = build(sandbox="true", test_reference_suffix=suffix)
        event = sandbox.read_webhook(SIGNED, raw)
        assert isinstance(event, WebhookEvent)
        assert event.reference == "TXN1"
    live = build(test_reference_suffix="_PMCK_ST_F").read_webhook(SIGNED, raw)
    assert isinstance(live, WebhookEvent)
    assert live.reference == "TXN1_PMCK_ST_F"


@pytest.mark.parametrize(
    ("amount", "claimed"),
    [("1015.50", Decimal("1015.50")), (None, None), (1015, Decimal(1015))],
)
def test_claimed_amounts(flutterwave: Adapter, amount: Any, claimed: Decimal | None) -> None:
    raw = body("charge.completed", {**CHARGE, "amount": amount})
    event = flutterwave.read_webhook(SIGNED, raw)
    assert isinstance(event, WebhookEvent)
    assert event.claim == Claim(claimed, "NGN")


def test_an_unreadable_amount_agrees_with_none(flutterwave: Adapter) -> None:
    event = flutterwave.read_webhook(SIGNED, body("charge.completed", {**CHARGE, "amount": "?"}))
    assert isinstance(event, WebhookEvent)
    assert event.claim is not None
    assert event.claim.amount is not None
    assert event.claim.amount.is_nan()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {b"verif-hash": []},
        {b"verif-hash": [b""]},
        {b"verif-hash": [b"another hash"]},
        {b"verif-hash": [SECRET_HASH.upper().encode()]},
        {b"verif-hash": [SECRET_HASH[:-1].encode()]},
        {b"verif-hash": [SECRET_HASH.encode()] * 2},
        {b"flutterwave-signature": [SECRET_HASH.encode()]},  # the header of version 4
    ],
)
def test_forged(flutterwave: Adapter, headers: Any) -> None:
    assert flutterwave.read_webhook(headers, body("charge.completed", CHARGE)) == Forged()


def test_without_a_secret_hash_everything_is_forged(build: Build) -> None:
    adapter = build(secret_hash="")
    for headers in ({}, {b"verif-hash": [b""]}):
        assert adapter.read_webhook(headers, body("charge.completed", CHARGE)) == Forged()


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        b"not json",
        b"[1]",
        body("charge.completed", {}),
        body("charge.completed", [CHARGE]),
        body("charge.completed", {**CHARGE, "tx_ref": 5}),
        body("transfer.completed", {**TRANSFER, "reference": None}),
        body("subscription.cancelled", CHARGE),
        json.dumps({"txRef": "TXN0-1", "status": "successful"}).encode(),  # the format of version 2
    ],
)
def test_unreadable(flutterwave: Adapter, raw: bytes) -> None:
    assert isinstance(flutterwave.read_webhook(SIGNED, raw), Unreadable)
