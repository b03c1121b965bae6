-- What the provider reported above `paid_minor` after the charge's money had been posted. It was posted
-- to the suspense account.
ALTER TABLE charge ADD excess_minor bigint NOT NULL DEFAULT 0;
