-- What customers see of a merchant besides its name: logo, color and support contact.

CREATE TABLE merchant_branding (
    merchant_id   bigint PRIMARY KEY REFERENCES merchant,
    accent        text CHECK (accent ~ '^[0-9a-f]{6}$'),
    support_email text,
    support_phone text,
    logo          bytea CHECK (length(logo) <= 2000000),  -- a PNG that we have encoded
    logo_version  text,  -- changes with the logo, so that browsers can cache it
    CHECK ((logo IS NULL) = (logo_version IS NULL))
);
