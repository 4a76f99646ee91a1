import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { type InputName, inputNames, readInputs } from '../../action/src/inputs.ts'
import { pushEnvironment } from '../harness/run-action.ts'
import { KEY, PROJECT } from './support.ts'

type Given = Partial<Record<InputName, string>>

const complete: Given = { 'api-url': 'https://fairlead.example.com', 'api-key': KEY, 'project-id': PROJECT }

function read(given: Given, env: Readonly<Record<string, string>> = pushEnvironment) {
  return readInputs((name) => given[name] ?? '', env)
}

function inputs(given: Given = {}) {
  const result = read({ ...complete, ...given })
  if ('problems' in result) throw new Error(JSON.stringify(result.problems))
  return result.inputs
}

/** The names of the inputs that are found wrong, and the messages in one text. */
function wrong(given: Given, env?: Readonly<Record<string, string>>) {
  const result = read({ ...complete, ...given }, env)
  const problems = 'problems' in result ? result.problems : []
  return { names: problems.map(({ input }) => input), text: problems.map(({ message }) => message).join('\n') }
}

test('defaults come from the workflow', () => {
  expect(inputs()).toEqual({
    apiUrl: 'https://fairlead.example.com',
    apiKey: KEY,
    projectId: PROJECT,
    name: 'shop',
    branch: 'main',
    gitUrl: 'https://github.com/acme/shop.git',
    variables: {},
    wait: true,
    timeoutSeconds: 600,
  })
})

test('what is given goes before the defaults', () => {
  const given = { name: 'My shop', branch: 'next', 'git-url': 'git@example.com:a/b.git', wait: 'False', timeout: '5' }
  expect(inputs({ ...given, 'env-vars': 'A=1' })).toMatchObject({
    name: 'My shop',
    branch: 'next',
    gitUrl: 'git@example.com:a/b.git',
    variables: { A: '1' },
    wait: false,
    timeoutSeconds: 5,
  })
})

test('a full ref of a branch is its name', () => {
  expect(inputs({ branch: 'refs/heads/next' }).branch).toBe('next')
})

describe('api-url', () => {
  test.each([
    ['https://a.example.com/', 'https://a.example.com'],
    ['https://a.example.com/v1', 'https://a.example.com'],
    ['https://a.example.com/v1///', 'https://a.example.com'],
    ['http://127.0.0.1:3000', 'http://127.0.0.1:3000'],
    ['HTTPS://A.example.com', 'https://a.example.com'],
    ['https://example.com/fairlead/v1', 'https://example.com/fairlead'],
  ])('%s is read as %s', (given, apiUrl) => {
    expect(inputs({ 'api-url': given }).apiUrl).toBe(apiUrl)
  })

  test.each([
    'a.example.com',
    'localhost:3000',
    'ftp://a.example.com',
    'file:///etc/passwd',
    'https://',
    'https://user:secret@a.example.com',
    'https://a.example.com?key=secret',
    'https://a.example.com/#secret',
  ])('%s is refused', (given) => {
    expect(wrong({ 'api-url': given })).toEqual({ names: ['api-url'], text: expect.not.stringContaining('secret') })
  })
})

test.each<[InputName, string]>([
  ['api-key', 'fl_secret\nfl_secret'],
  ['api-key', 'fl_secré'],
  ['project-id', 'shop'],
  ['project-id', '../projects'],
  ['git-url', 'https://user:secret@example.com/a.git'],
  ['git-url', 'https://secret@example.com/a.git'],
  ['git-url', 'ssh://git:secret@example.com/a.git'],
  ['branch', 'refs/tags/v1'],
  ['branch', 'refs/pull/7/merge'],
  ['wait', 'yes'],
  ['wait', 'constructor'],
  ['timeout', '0'],
  ['timeout', '-1'],
  ['timeout', '1.5'],
  ['timeout', '10m'],
  ['timeout', '86401'],
  ['env-vars', 'A'],
])('%s refuses %j and does not repeat secrets', (input, given) => {
  expect(wrong({ [input]: given })).toEqual({ names: [input], text: expect.not.stringContaining('secr') })
})

test('everything wrong is reported at once', () => {
  const given: Given = {
    'api-url': '',
    'api-key': '',
    'project-id': '',
    'env-vars': 'x\ny',
    wait: 'no',
    timeout: 'long',
  }
  expect(wrong(given, {}).names).toEqual([
    'api-url',
    'api-key',
    'project-id',
    'name',
    'branch',
    'git-url',
    'env-vars',
    'env-vars',
    'wait',
    'timeout',
  ])
})

test('a tag is not deployed as if it were a branch', () => {
  const env = { ...pushEnvironment, GITHUB_REF: 'refs/tags/v1', GITHUB_REF_NAME: 'v1', GITHUB_REF_TYPE: 'tag' }
  expect(wrong({}, env)).toEqual({ names: ['branch'], text: expect.stringContaining('tag v1') })
})

test('action.yml declares exactly the inputs that are read, with the same defaults', () => {
  const text = readFileSync(new URL('../../action.yml', import.meta.url), 'utf8')
  const section = text.slice(text.indexOf('\ninputs:'), text.indexOf('\noutputs:'))
  expect([...section.matchAll(/^ {2}([\w-]+):$/gm)].map(([, name]) => name)).toEqual(inputNames)
  const defaults = [...section.matchAll(/^ {2}([\w-]+):\n(?: {4}.*\n)*? {4}default: '(.*)'$/gm)]
  const declared = Object.fromEntries(defaults.map(([, name, value]) => [name, value]))
  expect(declared).toEqual({ wait: 'true', timeout: '600' })
  expect(inputs(declared)).toEqual(inputs())
})
