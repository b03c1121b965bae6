"""Notification ids. They contain microseconds, so that a transaction's ids sort by event."""

from manilla.kit.ids import TimedIds

NOTIFICATION_IDS = TimedIds("msg_", 1, 12)

new, merchant_of = NOTIFICATION_IDS.new, NOTIFICATION_IDS.owner_of
