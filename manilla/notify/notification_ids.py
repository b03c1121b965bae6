"""Notification ids. They contain microseconds, so they sort in the order of the events."""

from manilla.kit.ids import TimedIds

NOTIFICATION_IDS = TimedIds("msg_", 1, 12)

new, merchant_of = NOTIFICATION_IDS.new, NOTIFICATION_IDS.owner_of
