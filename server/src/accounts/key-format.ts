import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const form = /^fl_([0-9A-Za-z]{30})([0-9A-Za-z]{6})$/

/** A new API key: `fl_`, 30 random base62 characters, 6 of their CRC32, so that a typing error is seen at once. */
export function generateKey(): string {
  const random = Array.from({ length: 30 }, () => alphabet[randomInt(62)]).join('')
  return `fl_${random}${checksum(random)}`
}

/** Whether the form and the checksum are right; says nothing about whether the key exists. */
export function isWellFormedKey(key: string): boolean {
  const parts = form.exec(key)
  return parts !== null && checksum(parts[1] ?? '') === parts[2]
}

/** What is stored of a key. A plain hash serves, because the key itself has 178 bits of entropy. */
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
