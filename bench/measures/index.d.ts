export const MEASURES: readonly { readonly name: string }[];
export const ON_REQUEST: readonly { readonly name: string }[];
