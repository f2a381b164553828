/** See protections.js, which is plain JavaScript because it is run without a build. */
export declare const PROTECTIONS: readonly {
  readonly name: string;
  readonly meaning: string;
  readonly test: readonly string[];
  readonly changes: readonly { readonly file: string; readonly find: string; readonly replace: string }[];
}[];
