import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const form = /^fl_([0-9A-Za-z]{30})([0-9A-Za-z]{6})$/

/** Generates an API key: `fl_`, 30 random base62 characters, and 6 of their CRC32, which reveals typing errors. */
export function generateKey(): string {
  const random = Array.from({ length: 30 }, () => alphabet[randomInt(62)]).join('')
  return `fl_${random}${checksum(random)}`
}

/** True when the form and the checksum are right. The key need not exist. */
export function isWellFormedKey(key: string): boolean {
  const parts = form.exec(key)
  return parts !== null && checksum(parts[1] ?? '') === parts[2]
}

/** Returns the hash that is stored. A fast hash is enough for a key with 178 bits of entropy. */
export function hashKey(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}

function checksum(value: string): string {
  let rest = crc32(value)
  let digits = ''
  for (let i = 0; i < 6; i++) {
    digits = alphabet[rest % 62] + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}
