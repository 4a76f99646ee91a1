import { describe, expect, it } from 'vitest'
import { phrasesIn } from '../../../scripts/phrases.ts'

const found = (source: string) => phrasesIn('a.ts', source)

describe('phrases', () => {
  it.each([
    ['a comment', '/** The limit is that of the plan. */', '"that of"'],
    ['a line break in a comment', '/**\n * Each build has a network of\n * its own.\n */', '"of its own"'],
    [
      'a line break between line comments',
      '// The app serves\n// meanwhile, in spite of the\n// one that ended.',
      'meanwhile',
    ],
    ['a string', "throw new Error('is nobody\\'s')\nthrow new Error('An app, whoever made it')", '"whoever"'],
    ['a template', 'const text = `a path is no file of this app`', '"is no file"'],
    ['the text of a limit', "const message = 'is for sources alone'", '"for sources alone"'],
  ])('are reported in %s', (_, source, phrase) => {
    expect(found(source).join('\n')).toContain(phrase)
  })

  it('are reported with file, line and what to write', () => {
    expect(found("const a = 1\n\n// Ends meanwhile.\nconst b = 'the one that failed'")).toEqual([
      'a.ts:3 says "meanwhile". Write when: "during the copy", "since then", "until then".',
      'a.ts:4 says "the one that". Write the noun in place of "the one".',
    ])
  })

  it.each([
    [
      'plain English',
      '// The limit comes from the plan. There is none without a plan, and the server is no longer asked.',
    ],
    ['names in code', 'const meanwhile = 1\nexport const whoever = (whatever: string) => whatever + meanwhile'],
    ['code around a regular expression', 'const a = /`/; const meanwhile = b / c / d'],
  ])('are not reported in %s', (_, source) => {
    expect(found(source)).toEqual([])
  })
})
