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
  ])('are those of a shell, without everything else of it: %s', (text, words) => {
    expect(wordsOf(text)).toEqual(words)
  })

  it.each([`echo 'open`, 'echo "open'])('are not known while a quote is open: %s', (text) => {
    expect(wordsOf(text)).toBeNull()
  })

  it('are the same when they are written as a text', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme' })), (words) => {
        expect(wordsOf(textOfWords(words))).toEqual(words)
      }),
    )
  })
})
