-- Leaves free space in the job table's pages, so that claiming a job updates no index.

-- Finished jobs leave dead rows at the front of the queue, where the next claim searches.
ALTER TABLE job SET (
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
