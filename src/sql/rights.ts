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
                  order by 1) as "closedTables"
     from (select to_regnamespace($1)::oid as oid) n`,
    [store.schema],
  );
  return row;
}
