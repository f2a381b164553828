/** Everything in a schema as sorted lines of text: what a dump would say, without needing pg_dump. */
type Query = <Row>(text: string, values?: unknown[]) => Promise<Row[]>;

export async function describeSchema(query: Query, schema: string): Promise<string[]> {
  const rows = await query<{ line: string }>(
    `select format('table %s.%s%s', c.relname, a.attname, ' ' || format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end
              || case a.attidentity when 'a' then ' identity' else '' end || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')) as line
       from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
       left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
       where c.relnamespace = $1::text::regnamespace and c.relkind in ('r', 'p')
     union all
     select format('persistence %s %s', relname, relpersistence) from pg_class where relnamespace = $1::text::regnamespace and relkind in ('r', 'p', 'S')
     union all
     select format('index %s', indexdef) from pg_indexes where schemaname = $1::text
     union all
     select format('constraint %s %s %s', (select relname from pg_class where oid = conrelid), conname, pg_get_constraintdef(oid)) from pg_constraint
       where connamespace = $1::text::regnamespace and contype <> 'n' and conrelid <> 0
     union all
     select format('view %s.%s', c.relname, a.attname) from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
       where c.relnamespace = $1::text::regnamespace and c.relkind = 'v'
     union all
     select format('function %s(%s) returns %s %s', proname, pg_get_function_arguments(oid), pg_get_function_result(oid), array_to_string(proconfig, ' '))
       from pg_proc where pronamespace = $1::text::regnamespace
     union all
     select format('trigger %s %s', c.relname, tgname) from pg_trigger t join pg_class c on c.oid = t.tgrelid
       where c.relnamespace = $1::text::regnamespace and not tgisinternal`,
    [schema],
  );
  return rows.map((row) => row.line).sort();
}
