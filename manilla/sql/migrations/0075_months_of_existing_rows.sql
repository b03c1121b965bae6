-- In a transaction of its own: reads the whole request log, but blocks no request.

ALTER TABLE api_request VALIDATE CONSTRAINT api_request_months;
