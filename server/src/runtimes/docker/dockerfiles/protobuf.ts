/*
 * Protocol buffers, as far as BuildKit's messages need them: fields of numbers and of bytes
 * (https://protobuf.dev/programming-guides/encoding).
 */

export interface Field {
  readonly number: number
  readonly value: bigint | Buffer
}

/**
 * Reads the fields of a message in order, without 32-bit and 64-bit values. Throws a `RangeError` for a truncated
 * message.
 */
export function* readFields(message: Buffer): Generator<Field> {
  for (let at = 0; at < message.length; ) {
    const key = readNumber(message, at)
    at = key.next
    const number = Number(key.value >> 3n)
    switch (Number(key.value & 7n)) {
      case 0: {
        const { value, next } = readNumber(message, at)
        yield { number, value }
        at = next
        break
      }
      case 1:
        at += 8
        break
      case 2: {
        const { value, next } = readNumber(message, at)
        at = next + Number(value)
        if (at > message.length) throw new RangeError('a field is longer than its message')
        yield { number, value: message.subarray(next, at) }
        break
      }
      case 5:
        at += 4
        break
      default:
        throw new RangeError('a field has a type that is not known')
    }
  }
}

function readNumber(message: Buffer, from: number): { readonly value: bigint; readonly next: number } {
  let value = 0n
  for (let at = from, shift = 0n; shift < 70n; at += 1, shift += 7n) {
    const byte = message[at]
    if (byte === undefined) break
    value |= BigInt(byte & 127) << shift
    if (byte < 128) return { value, next: at + 1 }
  }
  throw new RangeError('a number does not end')
}

/** Returns the text of the first field with this number; empty without such a field. */
export function textOf(message: Buffer, number: number): string {
  for (const field of readFields(message)) {
    if (field.number === number && typeof field.value !== 'bigint') return field.value.toString('utf8')
  }
  return ''
}

export function bytesField(number: number, value: Buffer): Buffer {
  return Buffer.concat([numberBytes((number << 3) | 2), numberBytes(value.length), value])
}

/** Encodes a field with a small number as its value. */
export const numberField = (number: number, value: number): Buffer =>
  Buffer.concat([numberBytes(number << 3), numberBytes(value)])

function numberBytes(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  return Buffer.from([...bytes, rest])
}
