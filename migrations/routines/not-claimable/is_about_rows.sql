-- Whether an error says something about the rows at hand, and not about the server, a lock or a connection. The same list is in isAboutTheValues.
create or replace function is_about_rows(p_sqlstate text) returns boolean
language sql immutable
as $$
  select p_sqlstate ~ '^(09|21|22|23|27|38|39|44|54001|P0|EB004|EB005|XX001|XX002)'
    or p_sqlstate !~ '^(0[0-3ABFLPZ]|0[89]|10|2[0-8BDF]|34|38|39|3[BDF]|40|42|44|53|54|55|57|58|72|F0|HV|P0|XX|EB)'
$$;
