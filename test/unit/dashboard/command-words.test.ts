import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { textOfWords, wordsOf } from '../../../server/dashboard/src/data/run/command-words.ts'

describe('the words of a command', () => {
  it.each([
    ['npm run  migrate', ['npm', 'run', 'migrate']],
    ['', []],
    [`sh -c 'echo "$HOME" && ls'`, ['sh', '-c', 'echo "$HOME" && ls']],
    [`echo "a \\"b\\" \\n" c\\ d ''`, ['echo', 'a "b" \\n', 'c d', '']],
    [`a"b"'c'`, ['abc']],
    [`'C:\\temp\\'`, ['C:\\temp\\']],
    ['a | b > c', ['a', '|', 'b', '>', 'c']],
  ])('follow the rules of a shell, without its other features: %s', (text, words) => {
    expect(wordsOf(text)).toEqual(words)
  })

  it.each([`echo 'open`, 'echo "open'])('are unknown while a quote is open: %s', (text) => {
    expect(wordsOf(text)).toBeNull()
  })

  it('survive a round trip through text', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme' })), (words) => {
        expect(wordsOf(textOfWords(words))).toEqual(words)
      }),
    )
  })
})
