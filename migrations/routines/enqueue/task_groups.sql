-- The groups as rows. Without a search_path of its own, so that it becomes a part of the statement that asks it.
create or replace function task_groups(p_terms json, p_inputs json)
returns table (ids uuid[], inputs json, name text, queue text, priority smallint, run_at timestamptz, expires_at timestamptz, unique_key text,
               exclusive_key text, exclusive_limit smallint, rate_key text, rate_limit integer, rate_per_ms bigint, metadata json)
language sql stable
as $$
  select g.ids, g.inputs, g.name, g.queue, g.priority,
    coalesce(g."runAt", now() + make_interval(secs => coalesce(g."delayMs", 0) / 1000.0)),
    case when g."expiresAt" is not null or g."expiresInMs" is not null then
      expiry_of(g.name, coalesce(g."runAt", now() + make_interval(secs => nullif(g."delayMs", 0) / 1000.0)),
        coalesce(g."expiresAt", now() + make_interval(secs => g."expiresInMs" / 1000.0))) end,
    g."uniqueKey", g."exclusiveKey", g."exclusiveLimit", g."rateKey", g."rateLimit", g."ratePerMs", g.metadata::json
  from rows from (
    json_to_recordset(p_terms) as (
      ids uuid[], name text, queue text, priority smallint, "runAt" timestamptz, "delayMs" bigint, "expiresAt" timestamptz,
      "expiresInMs" bigint, "uniqueKey" text, "exclusiveKey" text, "exclusiveLimit" smallint, "rateKey" text,
      "rateLimit" integer, "ratePerMs" bigint, metadata text),
    json_array_elements(p_inputs)
  ) as g (ids, name, queue, priority, "runAt", "delayMs", "expiresAt", "expiresInMs", "uniqueKey", "exclusiveKey", "exclusiveLimit",
          "rateKey", "rateLimit", "ratePerMs", metadata, inputs)
$$;
