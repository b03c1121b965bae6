"""Notification ids, with microseconds so that one transaction's ids sort in order of events."""

from manilla.kit.ids import TimedIds
from manilla.kit.listing import id_clock

NOTIFICATION_IDS = TimedIds("msg_", 1, 12)
CLOCK = id_clock("id", NOTIFICATION_IDS)

new, merchant_of = NOTIFICATION_IDS.new, NOTIFICATION_IDS.owner_of
