-- Whether anybody still sweeps the source of this hold: its row is renewed for as long as it is held. One that is not was left behind, and holds nothing.
create or replace function hold_lasts(p_hold hold) returns boolean
language sql volatile
as $$ select p_hold.renewed_at + p_hold.kept_for > clock_timestamp() $$;
