import { parseEnv } from 'node:util'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseDotenv, readDotenv } from '../../../server/src/contract/dotenv.ts'

const lines = (...text: readonly string[]) => text.join('\n')

/** Returns the variables, or fails and shows the wrong line. */
function variables(text: string): Readonly<Record<string, string>> {
  const read = parseDotenv(text)
  if (!read.ok) throw new Error(`line ${read.line}: ${read.message}`)
  return read.variables
}

describe('a dotenv file', () => {
  test('without lines has no variables', () => {
    expect(variables('')).toEqual({})
    expect(variables(' \n\n')).toEqual({})
  })

  test.each([
    ['a plain value', 'A=b', 'b'],
    ['an empty value', 'A=', ''],
    ['white space around the name and the value', '  A =  b c  ', 'b c'],
    ['equals signs in the value', 'A=postgres://u:p@h/d?x=1&y==', 'postgres://u:p@h/d?x=1&y=='],
    ['commas', 'A=1,2,3', '1,2,3'],
    ['a comment behind the value', 'A=b # why', 'b'],
    ['a comment instead of a value', 'A= # why', ''],
    ['a hash at the start of the value', 'A=#ff0000', '#ff0000'],
    ['a hash in the middle of a word', 'A=a#b', 'a#b'],
    ['backslashes without quotes', String.raw`A=C:\new`, String.raw`C:\new`],
    ['quotes in the middle', `A=say "hi"`, 'say "hi"'],
    ['single quotes', `A='b # "c" \\n'`, 'b # "c" \\n'],
    ['backticks', 'A=`b # "c" \'d\' \\n` # why', 'b # "c" \'d\' \\n'],
    ['double quotes', 'A="b # c"  # why', 'b # c'],
    ['white space before the quote', 'A =  "b"', 'b'],
    ['escapes in double quotes', String.raw`A="a\nb\t\"c\" \\ \d"`, 'a\nb\t"c" \\ \\d'],
    ['an empty value in quotes', 'A=""', ''],
    ['dollar signs', 'A="$B $(C)"', '$B $(C)'],
    ['export', 'export A=b', 'b'],
    ['export and quotes', '  export\tA = "b"', 'b'],
    ['Windows line ends', 'A=b\r\n', 'b'],
    ['a carriage return at the end', 'A=b\r', 'b'],
    ['a byte order mark', '\uFEFFA=b', 'b'],
  ])('may have %s', (_, text, value) => {
    expect(variables(text)).toEqual({ A: value })
  })

  test('may set variables named like a keyword or a property of every object', () => {
    expect(Object.entries(variables('export=1\n__proto__=2'))).toEqual([
      ['export', '1'],
      ['__proto__', '2'],
    ])
  })

  test('may have blank lines and comments between its variables', () => {
    expect(variables(lines('# first', '', 'A=1', '  # second = 2', 'B=2'))).toEqual({ A: '1', B: '2' })
  })

  test.each(['"', "'", '`'])('may have a value of several lines in %s', (quote) => {
    const pem = lines('-----BEGIN PRIVATE KEY-----', 'MIIEvQ==', '', '# no comment', '-----END PRIVATE KEY-----', '')
    const text = lines('A=1', `KEY=${quote}${pem}${quote} # why`, 'B=2')
    expect(variables(text)).toEqual({ A: '1', KEY: pem, B: '2' })
    expect(variables(text.replaceAll('\n', '\r\n'))).toEqual({ A: '1', KEY: pem, B: '2' })
  })
})

describe('a wrong line', () => {
  test('is reported with its number; parseDotenv reports the first one', () => {
    expect(parseDotenv('A=1\n\nno assignment\nB')).toEqual({
      ok: false,
      line: 3,
      message: 'has no "="; write NAME=VALUE, and put values of several lines in double quotes',
    })
  })

  test.each([
    ['export A', 'has no "="'],
    ['=b', 'has no valid name'],
    ['2A=b', 'has no valid name'],
    ['A-B=b', 'has no valid name'],
    ['exports A=b', 'has no valid name'],
    [`A='b' c`, 'A: has text after its closing quote'],
    ['A="b"c', 'A: has text after its closing quote'],
    ['A=`b` c', 'A: has text after its closing quote'],
    [`A='b`, 'A: has no closing single quote'],
    ['A="b\\"', 'A: has no closing double quote'],
    ['A=`b\nC=d', 'A: has no closing backtick'],
    ['A=b\nA=b', 'A: is set on line 1 already', 2],
    ['B="\n\n"\n\nA', 'has no "="', 5],
  ])('is %j', (text, message, line = 1) => {
    expect(parseDotenv(text)).toEqual({ ok: false, line, message: expect.stringContaining(message) })
  })

  test('leaves the other lines readable for readDotenv', () => {
    const { variables, problems } = readDotenv(lines('A=1', 'wrong', `B='x' y`, 'C="', '"', 'A=2', 'D="x'))
    expect(variables).toEqual({ A: '1', C: '\n' })
    expect(problems.map(({ line }) => line)).toEqual([2, 3, 6, 7])
  })
})

const name = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,20}$/)
const special = fc.constantFrom('"', "'", '`', '\\', '\n', '\r', '#', ' ', '=', 'n', 'a', '\t', '$')
const value = fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: special }))
const doubleQuoted = (text: string) =>
  `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\r', '\\r')}"`

describe('any text', () => {
  test('is read or refused with the number of an existing line, and never throws', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.string({ unit: special })), (text) => {
        const read = parseDotenv(text)
        if (read.ok) return
        expect(read.line).toBeGreaterThan(0)
        expect(read.line).toBeLessThanOrEqual(text.split('\n').length)
      }),
      { numRuns: 1000 },
    )
  })

  test('survives a round trip through double quotes', () => {
    fc.assert(
      fc.property(fc.dictionary(name, value), (all) => {
        const text = Object.entries(all).map(([key, content]) => `${key}=${doubleQuoted(content)}`)
        expect(Object.entries(variables(text.join('\n')))).toEqual(Object.entries(all))
      }),
    )
  })

  test.each(["'", '`'])('without %s and carriage returns survives a round trip through these quotes', (quote) => {
    fc.assert(
      fc.property(value, (content) => {
        const literal = content.replaceAll(quote, '').replaceAll('\r', '')
        expect(variables(`A=${quote}${literal}${quote}\nB=1`)).toEqual({ A: literal, B: '1' })
      }),
    )
  })

  test('means the same with Windows line ends', () => {
    fc.assert(
      fc.property(fc.string({ unit: special }), (given) => {
        const text = given.replaceAll('\r', '')
        expect(readDotenv(text.replaceAll('\n', '\r\n'))).toEqual(readDotenv(text))
      }),
      { numRuns: 1000 },
    )
  })

  test('never appears in a message', () => {
    const secret = 'S3CR3T'
    const part = fc.constantFrom('"', "'", '`', '\\', '\n', '#', ' ', '=', 'A', secret)
    fc.assert(
      fc.property(fc.string({ unit: part }), (text) => {
        // Messages show names, and a secret before "=" looks like a name: the test replaces these.
        const { problems } = readDotenv(text.replaceAll(/S3CR3T(?=(?:S3CR3T|[\sA])*=)/g, 'A'))
        expect(problems.map(({ message }) => message).join()).not.toContain(secret)
      }),
      { numRuns: 1000 },
    )
  })

  test('has Node’s result when it uses only the common syntax', () => {
    // Excludes escapes other than "\n", equal names, "#" without white space, and empty values without quotes.
    const text = fc.stringMatching(/^[\w ,:/=$.-]{0,20}$/)
    const written = fc.oneof(
      fc.stringMatching(/^[\w,:/$.=-][\w ,:/$.=-]{0,20}$/),
      fc.tuple(text, text).map(([one, two]) => `"${one}\\n # \n${two}"`),
      fc.tuple(text, text).map(([one, two]) => `'${one}"\\n # \n${two}'`),
      fc.tuple(text, text).map(([one, two]) => `\`${one}'"\\n # \n${two}\``),
    )
    const before = fc.constantFrom('', '# why\n', '\n', 'export ', '  ')
    const assignment = fc.record({ name, before, written, after: fc.constantFrom('', ' ', ' # why') })
    const file = fc
      .uniqueArray(assignment, { selector: (each) => each.name })
      .map((all) => all.map((each) => `${each.before}${each.name}=${each.written}${each.after}`).join('\n'))
    fc.assert(fc.property(file, (given) => void expect(variables(given)).toEqual({ ...parseEnv(given) })))
  })
})
