-- Whether this transaction keeps the snapshot that it began with. Becomes a part of the statement that asks.
create or replace function sees_the_past() returns boolean
language sql stable
as $$ select current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') $$;
