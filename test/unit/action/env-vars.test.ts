import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseVariables, secretsIn } from '../../../action/src/inputs/env-vars.ts'

const lines = (...text: readonly string[]) => text.join('\n')

/** Returns the variables, or fails with their problems. */
function variables(text: string): Readonly<Record<string, string>> {
  const read = parseVariables(text)
  if ('problems' in read) throw new Error(read.problems.join('; '))
  return read.value
}

function problems(text: string): readonly string[] {
  const read = parseVariables(text)
  return 'problems' in read ? read.problems : []
}

describe('lines', () => {
  test('nothing gives no variables', () => {
    expect(variables(' \n\n')).toEqual({})
  })

  test('gives the variables of a dotenv file', () => {
    const text = lines('# first', '', 'A=b # why', '  # second', 'export B="c\\nd"', "C='e'")
    expect(variables(text)).toEqual({ A: 'b', B: 'c\nd', C: 'e' })
  })

  test('may have a PEM key in quotes over several lines', () => {
    const pem = lines('-----BEGIN PRIVATE KEY-----', 'MIIEvQ==', '', '# no comment', '-----END PRIVATE KEY-----', '')
    expect(variables(lines('A=1', `KEY="${pem}"`, 'B=2'))).toEqual({ A: '1', KEY: pem, B: '2' })
    expect(variables(`KEY="${pem}"\nB=2`.replaceAll('\n', '\r\n'))).toEqual({ KEY: pem, B: '2' })
    expect(variables(lines('A=1', `KEY='${pem}' # why`, 'B=2'))).toEqual({ A: '1', KEY: pem, B: '2' })
  })

  test('may have a name that every object has as a property', () => {
    expect(Object.entries(variables('__proto__=1'))).toEqual([['__proto__', '1']])
  })

  test('has a problem for every wrong line, and no problem shows a value', () => {
    const text = lines(
      'A=1',
      'c2VjcmV0',
      'c2VjcmV0 b=',
      '2A=secret',
      `B='secret' secret`,
      'C="secret" secret',
      'A=secret',
      'D="secret',
    )
    const found = problems(text)
    expect(found).toEqual([
      expect.stringMatching(/^line 2: has no "="/),
      expect.stringMatching(/^line 3: has no valid name/),
      expect.stringMatching(/^line 4: has no valid name/),
      expect.stringMatching(/^line 5: B: has text after/),
      expect.stringMatching(/^line 6: C: has text after/),
      expect.stringMatching(/^line 7: A: is set on line 1 already/),
      expect.stringMatching(/^line 8: D: has no closing double quote/),
    ])
    expect(found.join()).not.toMatch(/secret|c2VjcmV0/)
  })
})

test('reports an unclosed quote with its line, and without the text after it', () => {
  expect(problems(`A=1\nB='secret\nsecret=1`)).toEqual(['line 2: B: has no closing single quote'])
  expect(problems('A="secret\nsecret=1')).toEqual(['line 1: A: has no closing double quote'])
})

describe('JSON', () => {
  test('gives its strings as they are', () => {
    const given = { A: 'x', B: 'a\nb', C: '', __proto__x: '1' }
    expect(variables(`\n ${JSON.stringify(given, null, 2)}`)).toEqual(given)
  })

  test('has a problem for every value that is not a string', () => {
    expect(problems('{"A": 1, "B": null, "C": "x", "D": {"E": "x"}}')).toEqual([
      expect.stringMatching(/^A: must be a string/),
      expect.stringMatching(/^B: must be a string/),
      expect.stringMatching(/^D: must be a string/),
    ])
  })

  test('has a problem for an invalid name', () => {
    expect(problems('{"a-b": "x"}')).toEqual([expect.stringMatching(/^"a-b": a name is/)])
  })

  test.each(['{"A": "secret" "B"}', '{\n"A": secret}', '{"A": "secret', '{secret}', '{} secret', '{'])(
    'that is broken does not show the text of %s',
    (text) => {
      expect(problems(text)).toEqual([expect.stringMatching(/^(line \d+: )?is not valid JSON$/)])
    },
  )
})

const name = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,20}$/)
const quote = (value: string) => `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\r', '\\r')}"`
/** Values with the characters that need escaping. */
const value = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.constantFrom('"', "'", '\\', '\n', '\r', '#', ' ', '=', 'n', 'a', '\t') }),
)

describe('any text', () => {
  test('is read or refused, and never throws', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: fc.constantFrom('"', "'", '\\', '\n', '\r', '#', ' ', '=', 'A', '{', '}', ':') }),
    )
    fc.assert(
      fc.property(text, (given) => void parseVariables(given)),
      { numRuns: 1000 },
    )
  })

  test('survives a round trip through double quotes', () => {
    const given = fc.dictionary(name, value)
    fc.assert(
      fc.property(given, (all) => {
        const text = Object.entries(all).map(([key, content]) => `${key}=${quote(content)}`)
        expect(Object.entries(variables(text.join('\n')))).toEqual(Object.entries(all))
      }),
    )
  })

  test('survives a round trip through JSON', () => {
    fc.assert(
      fc.property(fc.dictionary(name, value), (all) => {
        expect(Object.entries(variables(JSON.stringify(all)))).toEqual(Object.entries(all))
      }),
    )
  })

  test('is never shown in a problem', () => {
    const secret = 'S3CR3T'
    const part = fc.constantFrom('"', "'", '\\', '\n', '#', ' ', '=', 'A', secret)
    fc.assert(
      fc.property(fc.string({ unit: part }), (text) => {
        // Messages show names, and a secret before "=" looks like a name: the test replaces these.
        const found = problems(text.replaceAll(/S3CR3T(?=(?:S3CR3T|[\sA])*=)/g, 'A')).join()
        expect(found).not.toContain(secret)
      }),
      { numRuns: 1000 },
    )
  })
})

describe('masked texts', () => {
  test('are the lines of all sufficiently long values', () => {
    const hidden = secretsIn({ A: 'hunter2-hunter2', B: '{\n  "password": "x"\n}', C: 'true', D: '1234567' }, [])
    expect(hidden).toEqual(['hunter2-hunter2', '"password": "x"'])
  })

  test('are neither the address nor parts of the address', () => {
    const url = 'https://shop-staging.example.com'
    expect(secretsIn({ A: url, B: 'shop-staging', C: `${url}/callback` }, [url])).toEqual([`${url}/callback`])
  })

  test('are not common words', () => {
    expect(secretsIn({ NODE_ENV: 'production' }, [])).toEqual([])
  })
})
