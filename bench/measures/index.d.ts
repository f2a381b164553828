export const MEASURES: readonly { readonly name: string }[];
