/** What is written from these results, by path from the project's folder. */
export function docsFrom(file: string): Record<string, string>;
