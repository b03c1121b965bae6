"""The times from which rows have what earlier versions did not write.

A new epoch of events starts after a restore.

Events are ordered by PostgreSQL's transaction number, and a new database cluster starts to count
from one. After a backup has been restored into a new cluster, all new events must come after the
restored events.
"""

BEGIN_AFTER_RESTORE = """
    INSERT INTO event_epoch (number, system_identifier)
    SELECT last.number + 1, this.system_identifier::text
      FROM pg_control_system() AS this,
           (SELECT number, system_identifier FROM event_epoch ORDER BY number DESC LIMIT 1) AS last
     WHERE last.system_identifier <> this.system_identifier::text
        ON CONFLICT DO NOTHING"""

# The previous version's calls of `payout_initiate` that have not ended write no digest.
BEGIN_DESTINATIONS = """
    INSERT INTO destination_epoch (since) VALUES (now() + interval '10 minutes')
        ON CONFLICT DO NOTHING"""
