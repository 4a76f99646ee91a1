import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { BuildPlan } from '../../../server/src/builds/build-plan.ts'
import { chooseOutput } from '../../../server/src/builds/choose-output.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'fairlead-output-'))
  await mkdir(join(root, 'dist/client'), { recursive: true })
  await writeFile(join(root, 'dist/client/200.html'), '')
  await symlink('/etc/hostname', join(root, 'outside'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const start = (name: string) => ({ argv: ['node', name] }) as const
const plan = (...paths: readonly (readonly string[])[]): BuildPlan => ({
  kind: 'node',
  build: [],
  start: start('x'),
  outputs: paths.map((each) => ({ paths: each, start: start(each[0] ?? ''), advice: 'Add an adapter.' })),
})

test('the first output that the build has made is started, and nothing outside of the sources', async () => {
  const chosen = await chooseOutput(
    root,
    plan(['server.js'], ['outside'], ['dist/client/index.html', 'dist/client/200.html']),
  )
  expect(chosen).toEqual({ ok: true, value: { kind: 'node', build: [], start: start('dist/client/index.html') } })
})

test('a build that made none fails with what was looked for, and what to do', async () => {
  const failed = await chooseOutput(root, plan(['server.js'], ['build/index.html', 'build/200.html']))
  expect(failed).toMatchObject({ ok: false, failure: { code: 'no_build_output' } })
  const message = failed.ok ? '' : failed.failure.message
  for (const part of ['server.js, build/index.html', 'Add an adapter.', 'fairlead.json'])
    expect(message).toContain(part)
  expect(message.match(/Add an adapter/g)).toHaveLength(1)
})

test('a plan whose start is known already stays as it is', async () => {
  const known: BuildPlan = { kind: 'node', build: [], start: start('server.js') }
  expect(await chooseOutput(root, known)).toEqual({ ok: true, value: known })
})
