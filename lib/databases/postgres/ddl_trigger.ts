/** The prefix of our messages in the log. */
export const MESSAGE_PREFIX = "leased";
/** The content of the message that a transaction with DDL writes to the log. */
export const DDL_MARK = "ddl";
/** The event trigger, and its function. */
export const DDL_TRIGGER_NAME = "leased_ddl";

/**
 * The body of the function. It writes one message a transaction, also after a savepoint was rolled back: the setting is
 * rolled back with the message. A transaction without a number has changed nothing, and views cannot name temporary
 * objects of other sessions. Whatever fails here, the DDL succeeds: the origin then notices the change when it looks
 * once a second.
 */
const BODY = `
BEGIN
  IF coalesce(current_setting('${DDL_TRIGGER_NAME}.xact', true), '') <> pg_current_xact_id_if_assigned()::text AND
      (SELECT bool_and(schema_name = 'pg_temp') IS NOT true OR bool_or(schema_name IS NULL)
        FROM pg_event_trigger_ddl_commands()) THEN
    PERFORM pg_logical_emit_message(true, '${MESSAGE_PREFIX}', '${DDL_MARK}'::text);
    PERFORM set_config('${DDL_TRIGGER_NAME}.xact', pg_current_xact_id_if_assigned()::text, true);
  END IF;
EXCEPTION WHEN OTHERS THEN
  NULL;
END `;

/**
 * Statement that makes the event trigger, if the user may: only superusers may. It changes nothing the second time. The
 * function has its owner's rights, so that the role of the DDL needs none; only the trigger can call it. With
 * `ENABLE ALWAYS` it is also called in sessions that replicate.
 */
export const DDL_TRIGGER = `DO $leased$ BEGIN
  IF EXISTS (SELECT FROM pg_event_trigger JOIN pg_proc ON pg_proc.oid = evtfoid
      WHERE evtname = '${DDL_TRIGGER_NAME}' AND evtenabled = 'A' AND prosrc = $body$${BODY}$body$) THEN
    RETURN;
  END IF;
  IF EXISTS (SELECT FROM pg_event_trigger WHERE evtname = '${DDL_TRIGGER_NAME}') THEN
    DROP EVENT TRIGGER ${DDL_TRIGGER_NAME};
  END IF;
  CREATE OR REPLACE FUNCTION ${DDL_TRIGGER_NAME}() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $body$${BODY}$body$;
  CREATE EVENT TRIGGER ${DDL_TRIGGER_NAME} ON ddl_command_end EXECUTE FUNCTION ${DDL_TRIGGER_NAME}();
  ALTER EVENT TRIGGER ${DDL_TRIGGER_NAME} ENABLE ALWAYS;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE NOTICE 'only a superuser can make the event trigger ${DDL_TRIGGER_NAME}: changes of the schema are noticed within a second';
END $leased$;
`;

/** Statement that takes the event trigger and its function away, if the user may. */
export const DDL_TRIGGER_END = `DO $leased$
DECLARE
  made regprocedure := (SELECT evtfoid FROM pg_event_trigger WHERE evtname = '${DDL_TRIGGER_NAME}');
BEGIN
  IF made IS NOT NULL THEN
    DROP EVENT TRIGGER ${DDL_TRIGGER_NAME};
    EXECUTE format('DROP FUNCTION %s', made);
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE WARNING 'the event trigger ${DDL_TRIGGER_NAME} is left: a superuser drops it with its function';
END $leased$;
`;

/** The statements that drop the event trigger and its function; no row: there is none. */
export const DDL_TRIGGER_FOUND =
  `SELECT format('DROP EVENT TRIGGER ${DDL_TRIGGER_NAME}; DROP FUNCTION %s', evtfoid::regprocedure) AS remedy ` +
  `FROM pg_event_trigger WHERE evtname = '${DDL_TRIGGER_NAME}'`;
