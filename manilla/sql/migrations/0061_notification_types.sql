-- The type of the event that a notification reports; null if it is a test. Until now it was derived
-- from the event, the status and a sentence in the body.

ALTER TABLE notification ADD type text;

-- Processes of the previous version do not write the type.
CREATE FUNCTION notification_type() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    NEW.type := event_type(NEW.event, NEW.status, NEW.body);
    RETURN NEW;
END $$;
CREATE TRIGGER notification_type BEFORE INSERT ON notification
    FOR EACH ROW WHEN (NEW.type IS NULL) EXECUTE FUNCTION notification_type();
