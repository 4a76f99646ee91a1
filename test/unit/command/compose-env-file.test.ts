// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the syntax of the files
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readComposeFile, readEnvFile } from '../../../server/src/commands/client/compose/file.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
beforeAll(async () => {
  directory = await temporaryDirectory()
})
afterAll(() => directory?.[Symbol.asyncDispose]())

/** Reads a file where the environment has `OUTER`, after a file with `BEFORE`. */
async function read(text: string, format?: string) {
  const path = join(directory.path, 'a.env')
  await writeFile(path, text)
  const variables = new Map([['BEFORE', 'b']])
  const missing: string[] = []
  await readEnvFile(path, variables, { outer: { OUTER: 'o' }, missing: (name) => void missing.push(name), format })
  variables.delete('BEFORE')
  return { variables: Object.fromEntries(variables), missing }
}

/** Texts, and Compose's variables for them. `fairlead env import` reads many of them differently. */
it.each<[string, Record<string, string>]>([
  ['BASE=/srv\nA="${BASE}/x"\nB=$BASE/y\nC=\'${BASE}\'', { BASE: '/srv', A: '/srv/x', B: '/srv/y', C: '${BASE}' }],
  ['A=1\nA=2', { A: '2' }],
  ['OUTER\nexport NOT_THERE\nA=1', { OUTER: 'o', A: '1' }],
  ['OUTER', { OUTER: 'o' }],
  ['OUTER=file\nA=$OUTER', { OUTER: 'file', A: 'o' }],
  ['A=${BEFORE}${NONE:-d}', { A: 'bd' }],
  ['A: 1\nexport B = 2 # comment\n# C=3\n\n  D=4', { A: '1', B: '2', D: '4' }],
  ['A=#ff0000\nB=a#b\nC=a\t#b', { A: '#ff0000', B: 'a#b', C: 'a\t#b' }],
  ["A=\"a # b\" # comment\nB='it\\'s'", { A: 'a # b', B: "it's" }],
  ['A="foo\\$BAR"\nB="\\${C}"\nD=pa$$1$2\nE=$', { A: 'foo$BAR', B: '${C}', D: 'pa$1$2', E: '$' }],
  ['A="a\\nb\\t\\"c\\\\ \\d"\nB=a\\nb\nC=\'a\\nb\'', { A: 'a\nb\t"c\\ \\d', B: 'a\\nb', C: 'a\\nb' }],
  ['A="\\0123 \\07"', { A: 'S \\7' }],
  ['A="two\nlines"\nB=`tick`\r\nC=', { A: 'two\nlines', B: '`tick`', C: '' }],
  ['\uFEFFA.b-c[0]=1\n__proto__=2', { 'A.b-c[0]': '1', ['__proto__']: '2' }],
])('a file is read as Compose reads it: %j', async (text, variables) => {
  expect((await read(text)).variables).toEqual(variables)
})

it('a variable without a value is empty and reported', async () => {
  expect(await read('A=${NONE}x')).toEqual({ variables: { A: 'x' }, missing: ['NONE'] })
})

it('a raw file is taken literally', async () => {
  const { variables } = await read('# comment\nA="${BASE}/x" # y\n\nOUTER\nNONE', 'raw')
  expect(variables).toEqual({ A: '"${BASE}/x" # y', OUTER: 'o' })
})

it.each([
  ['A=1\n\nB="secret', 'a.env, line 3: write NAME=value'],
  ['A="x" secret', 'a.env, line 1: A has text after its closing quote'],
  ['A B', 'a.env, line 1: '],
  ['secret value=1', 'a.env, line 1: write NAME=value'],
  ['=1', 'a.env, line 1: write NAME=value'],
  ['A=${secret', 'a.env, line 1: A has ${ without a name'],
])(
  'a file that Compose rejects or reads in a surprising way is reported without its values: %j',
  async (text, message) => {
    const error = await read(text).catch((failed: Error) => failed)
    expect(String(error)).toContain(message)
    expect(String(error)).not.toContain('secret')
  },
)

it('an unknown format is refused', async () => {
  await expect(read('A=1', 'toString')).rejects.toThrow('has the format toString, which is not known')
})

it('env_file sees the variables of .env and of its service’s environment, which takes precedence', async () => {
  const folder = join(directory.path, 'project')
  await mkdir(folder)
  const text = 'services: { web: { image: nginx, env_file: [one.env, two.env], environment: { OWN: service } } }'
  await writeFile(join(folder, 'compose.yaml'), text)
  await writeFile(join(folder, '.env'), 'BASE=/srv\nBASE="${ROOT}/srv"\nROOT')
  await writeFile(join(folder, 'one.env'), 'A=${BASE}/a ${OWN}\nOWN=file\nONE=1')
  await writeFile(join(folder, 'two.env'), 'B=${ONE}2\nBASE')
  const { environments } = await readComposeFile(folder, { ROOT: '/r' })
  expect(environments['web']).toEqual({ A: '/r/srv/a service', OWN: 'service', ONE: '1', B: '12', BASE: '/r/srv' })
})
