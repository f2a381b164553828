/** Records as applications have them, of about so many bytes as JSON: names, numbers and text with quotes in it. */
export function recordsOf(bytes) {
  const records = [];
  let size = 0;
  let seed = 42;
  const next = (below) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed % below;
  };
  while (size < bytes) {
    const id = next(1_000_000_000);
    const record = {
      id,
      email: `${id.toString(36)}@example.com`,
      cents: next(100_000),
      note: `"${next(1e9).toString(36)}", as said`,
    };
    records.push(record);
    size += JSON.stringify(record).length + 1;
  }
  return records;
}
