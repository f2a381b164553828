/** The migration files that ship with this version, in order. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { packageFile } from "../package-files.ts";

export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
  readonly checksum: string;
  /** The oldest version of the code (by the newest migration it ships) that still works after this one. */
  readonly compatibleFrom: number;
}

const FOLDER = packageFile("migrations");

export function readMigrations(folder: string = FOLDER): readonly Migration[] {
  return readdirSync(folder)
    .filter((file) => /^\d{4}_.*\.sql$/.test(file))
    .sort()
    .map((file) => {
      const sql = readFileSync(`${folder}/${file}`, "utf8");
      const version = Number(file.slice(0, 4));
      const header = /^-- compatible-from: (\d+)$/m.exec(sql);
      return {
        version,
        name: file.replace(/\.sql$/, ""),
        sql,
        checksum: createHash("sha256").update(sql).digest("hex"),
        compatibleFrom: header ? Number(header[1]) : version,
      };
    });
}
