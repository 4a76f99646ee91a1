import { expect, it } from 'vitest'
import { hasInvisible, withVisible } from '../../../server/src/contract/invisible.ts'

it.each([
  ['a\u202egpj.exe', 'a[U+202E]gpj.exe'],
  ['pay\u200bpal', 'pay[U+200B]pal'],
  ['\ufeffname', '[U+FEFF]name'],
  ['ad\u200dmin', 'ad[U+200D]min'],
  ['x\u{e0041}', 'x[U+E0041]'],
  ['a\u2028b', 'a[U+2028]b'],
])('%j has invisible characters', (text, shown) => {
  expect(hasInvisible(text)).toBe(true)
  expect(withVisible(text)).toBe(shown)
})

it.each(['Zoë 漢字 😀', 'عربى', 'می\u200cخواهم', 'क्\u200dष', '👩\u200d💻', '❤\ufe0f', 'a b\tc'])(
  '%j has no invisible characters',
  (text) => {
    expect(hasInvisible(text)).toBe(false)
    expect(withVisible(text)).toBe(text)
  },
)
