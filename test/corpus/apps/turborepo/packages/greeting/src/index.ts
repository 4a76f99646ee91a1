export const greet = (name: string): string => `Hello from ${name}`
