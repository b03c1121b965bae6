"""Converts audit entries to events of the Open Cybersecurity Schema Framework (schema 1.3.0)."""

from typing import Any

import msgspec

from manilla import __version__
from manilla.audit.actor import ActorKind
from manilla.audit.entry import AuditEntry
from manilla.kit.logs import redact

VERSION = "1.3.0"
IAM = 3  # the category Identity & Access Management
ACCOUNT_CHANGE, AUTHENTICATION, ENTITY_MANAGEMENT = 3001, 3002, 3004
OTHER = 99
SUCCESS, FAILURE = 1, 2
INFORMATIONAL, LOW, HIGH = 1, 2, 4
USER, SYSTEM = 1, 3


class EventType(msgspec.Struct, frozen=True):
    class_uid: int
    activity_id: int


_TYPES = {
    "sign_in.done": EventType(AUTHENTICATION, 1),
    "sign_in.failed": EventType(AUTHENTICATION, 1),
    "sign_in.break_glass": EventType(AUTHENTICATION, 1),
    "sign_in.provider_sign_out": EventType(AUTHENTICATION, 2),
    "step_up.failed": EventType(AUTHENTICATION, OTHER),
    "person.sign_out": EventType(AUTHENTICATION, 2),
    "person.create": EventType(ACCOUNT_CHANGE, 1),
    "person.enable": EventType(ACCOUNT_CHANGE, 2),
    "person.password": EventType(ACCOUNT_CHANGE, 3),
    "person.reset_link": EventType(ACCOUNT_CHANGE, 4),
    "person.disable": EventType(ACCOUNT_CHANGE, 5),
    "person.second_factor_on": EventType(ACCOUNT_CHANGE, 10),
    "person.second_factor_off": EventType(ACCOUNT_CHANGE, 11),
}
# Actions that are not listed above, by their last word.
_BY_VERB = {
    **dict.fromkeys(("add", "create", "ask", "key_create"), 1),
    **dict.fromkeys(("change", "role", "set", "lock", "threshold", "profile", "save"), 3),
    **dict.fromkeys(("remove", "clear", "key_revoke", "cancel", "withdraw"), 4),
}
_SEVERITIES = {"sign_in.break_glass": HIGH, "sign_in.failed": LOW, "step_up.failed": LOW}


def type_of(action: str) -> EventType:
    if action in _TYPES:
        return _TYPES[action]
    kind, _, verb = action.rpartition(".")
    if kind == "person":
        return EventType(ACCOUNT_CHANGE, OTHER)
    return EventType(ENTITY_MANAGEMENT, _BY_VERB.get(verb, OTHER))


def event(entry: AuditEntry, instance: str) -> dict[str, Any]:
    """Returns the event of an audit entry. `instance` is the URL of this installation."""
    of_class, detail = type_of(entry.action), redact(entry.detail)
    event: dict[str, Any] = {
        "category_uid": IAM,
        "class_uid": of_class.class_uid,
        "activity_id": of_class.activity_id,
        "activity_name": entry.action,
        "type_uid": of_class.class_uid * 100 + of_class.activity_id,
        "severity_id": _SEVERITIES.get(entry.action, INFORMATIONAL),
        "status_id": FAILURE if entry.action.endswith(".failed") else SUCCESS,
        "time": round(entry.at.timestamp() * 1000),
        "message": f"{entry.action} {entry.subject} by {entry.actor_name}",
        "metadata": _metadata(entry, instance),
        "actor": _actor(entry),
        **_about(of_class.class_uid, entry, detail),
        # The hashes link the entries, so a reader can verify that none is missing.
        "unmapped": {
            "subject": entry.subject,
            "merchant_id": entry.merchant_id,
            "detail": detail,
            "hash": entry.hash.hex(),
            "previous_hash": entry.previous_hash.hex(),
        },
    }
    if isinstance(detail.get("address"), str):
        event["src_endpoint"] = {"ip": detail["address"]}
    if "outcome" in detail:
        event["status_detail"] = str(detail["outcome"])
    return event


def _metadata(entry: AuditEntry, instance: str) -> dict[str, Any]:
    product = {"name": "Manilla", "vendor_name": "Manilla", "version": __version__}
    return {
        "version": VERSION,
        "profiles": ["host"],  # which has the attribute `actor`
        "product": {**product, "url_string": instance},
        # The same for an event that is sent again, but not for the entries after a restore, which
        # get the numbers of the lost ones.
        "uid": f"{entry.id}:{entry.hash.hex()[:16]}",
        "sequence": entry.id,
        "event_code": entry.action,
        "log_name": "audit",
    }


def _actor(entry: AuditEntry) -> dict[str, Any]:
    user: dict[str, Any] = {"name": entry.actor_name, "type_id": USER}
    if entry.actor_kind == ActorKind.SYSTEM:
        user["type_id"] = SYSTEM
    if entry.actor_id is not None:
        user["uid"] = f"{entry.actor_realm}:{entry.actor_id}"
    return {"user": user, "app_name": entry.actor_realm or entry.actor_kind}


def _about(class_uid: int, entry: AuditEntry, detail: dict[str, Any]) -> dict[str, Any]:
    """Returns the attributes that say what the event is about."""
    kind, _, name = entry.subject.partition(":")
    if class_uid == ENTITY_MANAGEMENT:
        return {"entity": {"uid": entry.subject, "name": name, "type": kind}}
    email = detail.get("email")
    user: dict[str, Any] = {"name": email or "unknown", "type_id": USER}
    if kind == "person":
        user["uid"] = f"{detail.get('realm', entry.actor_realm)}:{name}"
    if email:
        user["email_addr"] = email
    if class_uid == ACCOUNT_CHANGE:
        return {"user": user}
    return {"user": user, "service": {"name": f"Manilla {detail.get('realm', '')}".strip()}}
