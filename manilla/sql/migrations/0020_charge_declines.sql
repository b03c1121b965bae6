-- Why a provider declined a charge, used as the payment's error code when its link expires.

ALTER TABLE charge ADD error_code text;  -- null: not declined by the provider
