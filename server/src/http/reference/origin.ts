/** Stands in the page for the address of the server: each reader has reached it by one. */
export const originMark = 'https://fairlead.invalid'
