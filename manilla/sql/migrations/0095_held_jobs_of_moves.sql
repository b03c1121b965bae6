-- Whether a worker held the job when the merchant left. Its calls to a provider may not have ended.
ALTER TABLE moved_job ADD was_held boolean NOT NULL DEFAULT false;
