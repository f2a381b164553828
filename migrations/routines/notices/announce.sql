-- The same from inside a transaction that may go on for long: it must not hold the bell until then, and whether a
-- worker is idle when it commits cannot be known now. So it always notifies, once per queue and transaction.
create or replace function announce(p_queues text[]) returns void
language sql set search_path from current
as $$ select notify_all('ready', q) from unnest(p_queues) q $$;
