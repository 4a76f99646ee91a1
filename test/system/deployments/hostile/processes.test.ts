import { existsSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { userOf } from '../../../../server/src/platform/processes.ts'
import { deployAndSettle, processesOf } from '../../../harness/deployments.ts'
import { nodeApp, repository } from '../../../harness/repository.ts'
import { type ServerWithTrap, serverWithTrap } from '../../../harness/server-with-trap.ts'

const isRoot = process.getuid?.() === 0

let given: ServerWithTrap
beforeAll(async () => {
  given = await serverWithTrap()
})
afterAll(() => given?.[Symbol.asyncDispose]())

const scripts = (build: string) => ({
  'package.json': JSON.stringify({ scripts: { build, start: 'node server.js' } }),
  'server.js': nodeApp('up')['server.js'] ?? '',
})

const daemon = (options: string) =>
  `node -e "require('child_process').spawn(process.execPath,['-e','setInterval(()=>{},1e3)'],${options}).unref()"`

test.each([
  ['a build that leaves a daemon', scripts(daemon("{detached:true,stdio:'ignore'}"))],
  ['a build that leaves a daemon without environment', scripts(daemon("{detached:true,stdio:'ignore',env:{}}"))],
  ['a build in the background', scripts('sleep 600 & exit 0')],
  ['a build that ends itself', scripts('node -e "process.kill(process.ppid, 9)"')],
  ['a build that suspends itself', scripts('node -e "process.kill(-1, 15)"')],
  ['a build that drops its rights', scripts('mkdir closed && touch closed/file && chmod 0 closed')],
  ['a build that fills its folder with links', scripts(`ln -s / root && ln -s ${'/etc/passwd'} passwd`)],
  [
    'an install script',
    {
      ...scripts('true'),
      'package.json': JSON.stringify({ scripts: { preinstall: 'id', start: 'node server.js' } }),
    },
  ],
  ['an app that ends at once', { ...scripts('true'), 'server.js': 'process.exit(0)' }],
  [
    'an app that ignores SIGTERM',
    { ...scripts('true'), 'server.js': `process.on('SIGTERM', () => {})\n${nodeApp('stubborn')['server.js']}` },
  ],
  [
    'an app that forks twice and hides',
    {
      ...scripts('true'),
      'server.js': `require('child_process').spawn(process.execPath, ['-e', "require('child_process').spawn('/bin/sleep', ['600'], { detached: true, stdio: 'ignore', env: {} }).unref()"], { detached: true, stdio: 'ignore', env: {} }).unref()\n${nodeApp('forks')['server.js']}`,
    },
  ],
  [
    'an app that signals everybody',
    { ...scripts('true'), 'server.js': `try { process.kill(-1, 9) } catch {}\n${nodeApp('kills')['server.js']}` },
  ],
  [
    'an app that hides its name',
    { ...scripts('true'), 'server.js': `process.title = 'x'.repeat(4000)\n${nodeApp('title')['server.js']}` },
  ],
] as [string, Record<string, string>][])('%s leaves nothing running', async (_, files) => {
  // Without root, builds and apps run as the user of the tests, and a signal to every process would end the tests.
  if (!isRoot && Object.values(files).some((text) => text.includes('kill(-1'))) return
  const made = await given.deployRepository((source) => source.commit(files))
  expect(['running', 'failed']).toContain(made.status)
  expect(made.failure?.code).not.toBe('server_error')
  if (made.status === 'running') await given.stop(made.id)
  await expect.poll(() => processesOf(made.id)).toEqual([])
  if (isRoot) await expect.poll(() => processesOfApps()).toEqual([])
  await given.expectUnharmed()
})

test.each([
  { NODE_OPTIONS: '--require /tmp/nonexistent-evil.js' },
  { LD_PRELOAD: '/tmp/nonexistent-evil.so' },
  { BASH_ENV: '/etc/passwd', ENV: '/etc/passwd' },
  { npm_config_prefix: '/', npm_config_script_shell: '/bin/false' },
  { GIT_SSH_COMMAND: 'touch /tmp/evil', GIT_EXTERNAL_DIFF: 'x' },
  { FAIRLEAD_DATA_DIR: '/', DATABASE_URL: 'postgres://evil' },
] as Record<string, string>[])('the variables %j do no harm', async (env_vars) => {
  await using honest = await repository(nodeApp('honest'))
  const body = { name: 'variables', git_url: honest.url, env_vars }
  const { id, status } = await deployAndSettle(given.server.client, given.projectId, body)
  expect(['running', 'failed']).toContain(status)
  if (status === 'running') await given.stop(id)
  await given.expectUnharmed()
})

/** Returns the processes of this server's app users, including processes that hide their owner. */
async function processesOfApps(): Promise<number[]> {
  const apps = await readdir(join(given.server.dataDirectory, 'apps'))
  const own = new Set<number>()
  for (const app of apps) {
    const home = await stat(join(given.server.dataDirectory, 'apps', app, 'home')).catch(() => null)
    if (home !== null) own.add(home.uid)
  }
  return (await readdir('/proc'))
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && existsSync(`/proc/${pid}/exe`))
    .filter((pid) => own.has(userOf(pid) ?? -1))
}
