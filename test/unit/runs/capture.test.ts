import { expect, it } from 'vitest'
import { createCapture } from '../../../server/src/features/runs/executor.ts'
import { createMasker } from '../../../server/src/logs/masking.ts'

const secret = 'correct-horse-battery-staple'
const { mask } = createMasker([secret])
const mostBytes = 64 * 1024

function captured(chunks: readonly string[]): string {
  const capture = createCapture()
  const stream = capture.open()
  for (const chunk of chunks) stream.write(chunk)
  return capture.text(mask)
}

it('a short output is kept completely, with secrets masked', () => {
  expect(captured(['a', '\0', `b ${secret}\n`])).toBe('a\ufffdb ***\n')
})

it('the end of a long output is kept, in chunks of any size', () => {
  for (const size of [1, 1_000, 200_000]) {
    const all = Array.from({ length: 200_000 }, (_, at) => String(at % 10)).join('')
    const chunks = Array.from({ length: Math.ceil(all.length / size) }, (_, at) =>
      all.slice(at * size, (at + 1) * size),
    )
    const kept = captured(chunks)
    expect(kept[0]).toBe('…')
    expect(kept.slice(1)).toBe(all.slice(-mostBytes))
  }
})

it('no part of a secret remains where the output was cut', () => {
  for (let at = 1; at < secret.length; at++) {
    const rest = mostBytes + 1_024 - (secret.length - at)
    for (const end of ['x'.repeat(rest), `${secret} `.repeat(rest).slice(0, rest)]) {
      const kept = captured(['begin'.repeat(1_000), secret, end])
      expect(kept.slice(0, 40)).not.toContain(secret.slice(-4))
    }
  }
})
