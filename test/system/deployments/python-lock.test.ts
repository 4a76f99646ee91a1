import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { prefix } from '../../harness/temporary.ts'

const program = fileURLToPath(new URL('../../../server/assets/python/install-lock.py', import.meta.url))
const run = promisify(execFile)

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), prefix))
  // The program uses pip's libraries, which an environment has.
  await run('python3', ['-m', 'venv', join(directory, '.venv')])
}, 120_000)
afterAll(() => rm(directory, { recursive: true }))

/** Returns the requirements that the reader of this name gives pip for these files. */
async function requirements(reader: string, path: string, files: Readonly<Record<string, string>>): Promise<string[]> {
  const folder = await mkdtemp(join(directory, 'app-'))
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(join(folder, name), text)
  }
  const code = `import json, runpy, sys; print(json.dumps(runpy.run_path(${JSON.stringify(program)})['${reader}']('${path}')))`
  const { stdout } = await run(join(directory, '.venv/bin/python'), ['-I', '-c', code], { cwd: folder })
  return JSON.parse(stdout) as string[]
}

const a = 'sha256:aa'
const b = 'sha256:bb'

describe('the lock file of uv', () => {
  const entry = (name: string, more = '', source = '{ registry = "https://pypi.org/simple" }') =>
    `[[package]]\nname = "${name}"\nversion = "1.0"\nsource = ${source}\n${more}\n`
  const files = `wheels = [{ url = "https://x/a.whl", hash = "${a}", size = 1 }]\nsdist = { url = "https://x/a.tgz", hash = "${b}" }`
  const hashed = (name: string) => `${name}==1.0 --hash=${a} --hash=${b}`

  test('gives the production packages for this machine, with all hashes', async () => {
    const lock = [
      'version = 1\nrequires-python = ">=3.8"\n',
      entry(
        'shop',
        `dependencies = [
          { name = "web", extra = ["standard"] },
          { name = "winonly", marker = "sys_platform == 'win32'" },
        ]
        [package.optional-dependencies]
        plots = [{ name = "plot" }]
        [package.dev-dependencies]
        dev = [{ name = "pytest" }]`,
        '{ virtual = "." }',
      ),
      entry(
        'web',
        `${files}\ndependencies = [{ name = "core" }]\n[package.optional-dependencies]\nstandard = [{ name = "loop", marker = "sys_platform != 'win32'" }]`,
      ),
      entry('core', `${files}\ndependencies = [{ name = "web" }]`),
      ...['loop', 'winonly', 'plot', 'pytest'].map((name) => entry(name, files)),
    ].join('\n')
    expect(await requirements('read_uv', 'uv.lock', { 'uv.lock': lock })).toEqual(['web', 'core', 'loop'].map(hashed))
  })

  test('gives the project, members of its workspace and git commits', async () => {
    const lock = [
      'version = 1\n',
      entry('shop', 'dependencies = [{ name = "part" }, { name = "tool" }, { name = "file" }]', '{ editable = "." }'),
      entry('part', '', '{ editable = "packages/part" }'),
      entry('tool', '', '{ git = "https://example.com/tool.git?rev=main#0123abc" }'),
      entry('file', files, '{ url = "https://example.com/file.whl" }'),
    ].join('\n')
    expect(await requirements('read_uv', 'uv.lock', { 'uv.lock': lock })).toEqual([
      '-e ./.',
      '-e ./packages/part',
      'tool @ git+https://example.com/tool.git@0123abc',
      `file @ https://example.com/file.whl --hash=${a} --hash=${b}`,
    ])
  })

  test('chooses the right one of two versions for this Python', async () => {
    const fork = (version: string, marker: string) =>
      `[[package]]\nname = "np"\nversion = "${version}"\nsource = { registry = "x" }\nresolution-markers = ["${marker}"]\n`
    const dependency = (version: string, marker: string) =>
      `{ name = "np", version = "${version}", source = { registry = "x" }, marker = "${marker}" }`
    const [old, current] = ["python_full_version < '3'", "python_full_version >= '3'"] as const
    const lock = [
      entry('shop', `dependencies = [${dependency('1.0', old)}, ${dependency('2.0', current)}]`, '{ virtual = "." }'),
      fork('1.0', old),
      fork('2.0', current),
    ].join('\n')
    expect(await requirements('read_uv', 'uv.lock', { 'uv.lock': lock })).toEqual(['np==2.0'])
  })
})

describe('the lock file of Poetry', () => {
  const entry = (name: string, more: string) =>
    `[[package]]\nname = "${name}"\nversion = "1.0"\noptional = false\npython-versions = "*"\nfiles = [{file = "a.whl", hash = "${a}"}]\n${more}\n`
  const hashed = (name: string) => `${name}==1.0 --hash=${a}`

  test('of version 2.1 gives its main group', async () => {
    const lock = [
      entry(
        'web',
        'groups = ["main", "dev"]\nmarkers = {main = "python_version >= \\"3\\"", dev = "os_name == \\"nt\\""}',
      ),
      entry('win', 'groups = ["main"]\nmarkers = "sys_platform == \\"win32\\""'),
      entry('pytest', 'groups = ["dev"]'),
      '[metadata]\nlock-version = "2.1"\n',
    ].join('\n')
    const files = { 'poetry.lock': lock, 'pyproject.toml': '[tool.poetry]\npackage-mode = false\n' }
    expect(await requirements('read_poetry', 'poetry.lock', files)).toEqual([hashed('web')])
  })

  test('of earlier versions gives the project’s dependencies, and the project where it is a package', async () => {
    const lock = [
      entry(
        'web',
        '[package.dependencies]\ncore = ">=1"\nwin = {version = "*", markers = "sys_platform == \\"win32\\""}\nloop = {version = "*", optional = true, markers = "extra == \\"standard\\""}\n[package.extras]\nstandard = ["loop (>=1)"]',
      ),
      ...['core', 'win', 'loop', 'pytest'].map((name) => entry(name, '')),
      '[metadata]\nlock-version = "2.0"\n',
    ].join('\n')
    const project = `[tool.poetry]\nname = "my-shop"\n[tool.poetry.dependencies]\npython = "^3.8"\nweb = {version = "^1.0", extras = ["standard"]}\n[tool.poetry.group.dev.dependencies]\npytest = "*"\n[build-system]\nrequires = ["poetry-core"]\n`
    const files = { 'poetry.lock': lock, 'pyproject.toml': project }
    expect(await requirements('read_poetry', 'poetry.lock', files)).toEqual(['web', 'core', 'loop'].map(hashed))
    const packaged = await requirements('read_poetry', 'poetry.lock', { ...files, 'my_shop/__init__.py': '' })
    expect(packaged.at(-1)).toBe('-e .')
  })

  test('when it is missing, gives the project’s ranges', async () => {
    const project = `[tool.poetry.dependencies]
python = "^3.8"
web = "^1.2"
zero = "^0.3.1"
tilde = "~2.1"
any = "*"
exact = "1.5"
extras = {version = ">=1,<3", extras = ["x"]}
old = {version = "*", python = "<3"}
optional = {version = "*", optional = true}
git = {git = "https://example.com/git.git", rev = "abc"}
`
    expect(await requirements('read_poetry_project', 'pyproject.toml', { 'pyproject.toml': project })).toEqual([
      'web>=1.2,<2',
      'zero>=0.3.1,<0.4',
      'tilde>=2.1,<2.2',
      'any',
      'exact==1.5',
      'extras[x]>=1,<3',
      'git @ git+https://example.com/git.git@abc',
    ])
  })
})

test('the lock file of Pipenv gives its default section, and a Pipfile its ranges', async () => {
  const lock = {
    default: {
      web: { version: '==1.0', hashes: [a, b], extras: ['x'] },
      win: { version: '==1.0', hashes: [a], markers: "sys_platform == 'win32'" },
      tool: { git: 'https://example.com/tool.git', ref: 'abc' },
      part: { path: './part', editable: true },
    },
    develop: { pytest: { version: '==1.0' } },
  }
  expect(await requirements('read_pipfile_lock', 'Pipfile.lock', { 'Pipfile.lock': JSON.stringify(lock) })).toEqual([
    `web[x]==1.0 --hash=${a} --hash=${b}`,
    'tool @ git+https://example.com/tool.git@abc',
    '-e ./part',
  ])
  const pipfile = '[packages]\nweb = "*"\ncore = {version = ">=1", extras = ["y"]}\n[dev-packages]\npytest = "*"\n'
  expect(await requirements('read_pipfile', 'Pipfile', { Pipfile: pipfile })).toEqual(['web', 'core[y]>=1'])
})

test('the lock file of PDM gives its default group, in its present and its earlier format', async () => {
  const entry = (name: string, more: string) => `[[package]]\nname = "${name}"\nversion = "1.0"\n${more}\n`
  const files = `files = [{file = "a.whl", hash = "${a}"}]`
  const present = [
    entry('web', `groups = ["default"]\n${files}`),
    entry('web', `extras = ["x"]\ngroups = ["default"]\n${files}`),
    entry('win', `groups = ["default"]\nmarker = "sys_platform == \\"win32\\""\n${files}`),
    entry('pytest', `groups = ["dev"]\n${files}`),
  ].join('\n')
  expect(await requirements('read_pdm', 'pdm.lock', { 'pdm.lock': present })).toEqual([`web==1.0 --hash=${a}`])
  const earlier = [
    entry('web', 'dependencies = ["core>=1", "win; sys_platform == \\"win32\\""]'),
    ...['core', 'win', 'pytest'].map((name) => entry(name, '')),
    `[metadata.files]\n"web 1.0" = [{url = "https://x/a.whl", hash = "${a}"}]\n`,
  ].join('\n')
  const project = '[project]\ndependencies = ["web"]\n'
  expect(await requirements('read_pdm', 'pdm.lock', { 'pdm.lock': earlier, 'pyproject.toml': project })).toEqual([
    `web==1.0 --hash=${a}`,
    'core==1.0',
  ])
})

test('an invalid lock file is refused with a message', async () => {
  const folder = await mkdtemp(join(directory, 'app-'))
  for (const [name, text] of [
    ['uv.lock', 'version = 1\n'],
    ['Pipfile.lock', '[]'],
    ['poetry.lock', '= broken'],
  ] as const) {
    await writeFile(join(folder, name), text)
    const failure = await run(join(directory, '.venv/bin/python'), ['-I', program, name], { cwd: folder }).catch(
      (error: { stderr: string }) => error,
    )
    expect(failure.stderr).toMatch(new RegExp(`^${name}( cannot be read)?: .*\\.?\\n$`))
  }
})
