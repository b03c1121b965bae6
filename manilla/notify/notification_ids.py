"""Notification ids, with microseconds so that one transaction's ids sort in order of events."""

from datetime import datetime

from manilla.kit.ids import TimedIds
from manilla.kit.listing import Clock, id_clock

NOTIFICATION_IDS = TimedIds("msg_", 1, 12)
CLOCK = id_clock("id", NOTIFICATION_IDS)
# The order of all merchants' rows, for which the creation time has an index.
CLOCK_OF_ALL = Clock(
    ("created_at", "id"), tuple[datetime, str], lambda moment: (moment, ""), lambda key: key[0]
)

new, merchant_of = NOTIFICATION_IDS.new, NOTIFICATION_IDS.owner_of
