export const price = (pieces) => pieces * 7
