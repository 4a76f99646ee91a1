import { randomInt } from 'node:crypto'

/** Consonants alone, so that codes spell no words and are typed easily, and 0 and O are not confused (RFC 8628 §6.1). */
const letters = 'BCDFGHJKLMNPQRSTVWXZ'
const length = 8

/** Returns a code for people, such as `WDJB-MJHT`: 34 random bits, which are worth something for ten minutes. */
export function newUserCode(): string {
  const code = Array.from({ length }, () => letters[randomInt(letters.length)]).join('')
  return `${code.slice(0, 4)}-${code.slice(4)}`
}

/** Returns the code that somebody typed in its one form; `undefined` when it can be none. */
export function readUserCode(given: string): string | undefined {
  const code = given.toUpperCase().replace(/[\s-]/g, '')
  if (code.length !== length || [...code].some((letter) => !letters.includes(letter))) return undefined
  return `${code.slice(0, 4)}-${code.slice(4)}`
}
