/** What the role that we connected with may do. */
import type { Store } from "../database/database.ts";

export interface Rights {
  readonly role: string;
  readonly databaseName: string;
  readonly hasSchema: boolean;
  /** May create schemas in this database. */
  readonly canCreateSchema: boolean;
  /** May create tables and functions in the schema, which migrations do. */
  readonly canChangeSchema: boolean;
  readonly canUseSchema: boolean;
  /** Tables of the schema that it cannot both read and write. */
  readonly closedTables: readonly string[];
  /** Tables that it cannot read. */
  readonly unreadableTables: readonly string[];
  /** There is a table into which it can write. */
  readonly canWrite: boolean;
  /** Sequences from which it cannot draw. Those of identity columns are left out: whoever may insert a row may draw from them. */
  readonly closedSequences: readonly string[];
  /** Functions that it cannot call. Those of triggers are left out: a trigger calls them whoever writes. */
  readonly closedFunctions: readonly string[];
}

export async function readRights(store: Store): Promise<Rights | undefined> {
  const [row] = await store.query<Rights>(
    `select current_user::text as role, current_database()::text as "databaseName", n.oid is not null as "hasSchema",
            has_database_privilege(current_database(), 'create') as "canCreateSchema",
            coalesce(has_schema_privilege(n.oid, 'create'), false) as "canChangeSchema",
            coalesce(has_schema_privilege(n.oid, 'usage'), false) as "canUseSchema",
            array(select c.relname::text from pg_class c
                  where c.relnamespace = n.oid and c.relkind = 'r' and not (
                    has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
                    and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete'))
                  order by 1) as "closedTables",
            array(select c.relname::text from pg_class c
                  where c.relnamespace = n.oid and c.relkind = 'r' and not has_table_privilege(c.oid, 'select')
                  order by 1) as "unreadableTables",
            exists (select from pg_class c
                    where c.relnamespace = n.oid and c.relkind = 'r'
                      and has_table_privilege(c.oid, 'insert, update, delete')) as "canWrite",
            array(select c.relname::text from pg_class c
                  where c.relnamespace = n.oid and case when c.relkind = 'S' then not has_sequence_privilege(c.oid, 'usage') end
                    and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'i')
                  order by 1) as "closedSequences",
            array(select p.proname::text from pg_proc p
                  where p.pronamespace = n.oid and p.prorettype <> 'trigger'::regtype and not has_function_privilege(p.oid, 'execute')
                  order by 1) as "closedFunctions"
     from (select to_regnamespace($1)::oid as oid) n`,
    [store.schema],
  );
  return row;
}
