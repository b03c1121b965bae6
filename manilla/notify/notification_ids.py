"""Notification ids, with microseconds so that one transaction's ids sort in order of events."""

from manilla.kit.ids import TimedIds

NOTIFICATION_IDS = TimedIds("msg_", 1, 12)

new, merchant_of = NOTIFICATION_IDS.new, NOTIFICATION_IDS.owner_of
