-- These functions use our tables and functions, whatever the search path of the session is. The ones
-- in `functions/` have the setting in their definition.
ALTER FUNCTION cell_refuse_change() SET search_path = public, pg_temp;
ALTER FUNCTION lives_elsewhere(bigint) SET search_path = public, pg_temp;
ALTER FUNCTION merchant_arrives(bigint, bigint) SET search_path = public, pg_temp;
ALTER FUNCTION merchant_fence_on(text) SET search_path = public, pg_temp;
ALTER FUNCTION months_attach(text, text) SET search_path = public, pg_temp;
ALTER FUNCTION months_limit(text, text) SET search_path = public, pg_temp;
ALTER FUNCTION refuse_to_change_what_was_accepted() SET search_path = public, pg_temp;
ALTER FUNCTION refuse_to_delete_settled() SET search_path = public, pg_temp;
ALTER FUNCTION refuse_to_delete_unarchived() SET search_path = public, pg_temp;
ALTER FUNCTION refuse_to_rewrite_the_books() SET search_path = public, pg_temp;
