import { mkdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { installEverything } from '../../../server/src/platform/debian-packages.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { bootMachine, command, type Machine, noMachine } from './machine.ts'

const reason = await noMachine()
if (reason !== null) skipped('the service under a real systemd', reason)

const unitFile = '/etc/systemd/system/fairlead.service'
const url = 'http://127.0.0.1:3000'

/** The app shows its process, and the names of its variables and of its build's variables. */
const appFiles: Readonly<Record<string, string>> = {
  'fairlead.json': JSON.stringify({ build: ['node', 'build.js'], start: ['node', 'server.js'] }),
  'package.json': JSON.stringify({ name: 'app' }),
  'build.js': "require('node:fs').writeFileSync('build.json', JSON.stringify(Object.keys(process.env)))",
  'server.js': `const instance = require('node:crypto').randomUUID()
const variables = [...Object.keys(process.env), ...require('./build.json')]
require('node:http')
  .createServer((request, response) => response.end(JSON.stringify({ instance, variables })))
  .listen(process.env.PORT)
`,
}

/**
 * Returns the commands of the chapter on backups: the commands that copy the data, and the commands that restore it.
 */
async function backupCommands(): Promise<string[]> {
  const text = await readFile('docs/operations.md', 'utf8')
  const [, chapter = ''] = /\n## Backup\n([\s\S]*?)\n## /.exec(text) ?? []
  return [...chapter.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = '']) => block)
}

/** Every test continues where the previous test ended. */
describe.skipIf(reason !== null)('the service', () => {
  let machine: Machine
  let appUrl: string
  let instance: string

  beforeAll(async () => {
    machine = await bootMachine()
  }, 600_000)
  afterAll(() => machine?.[Symbol.asyncDispose]())

  const systemctl = (...args: string[]) => machine.run(['systemctl', ...args])
  const property = async (name: string, unit = 'fairlead') =>
    (await systemctl('show', unit, '--value', `--property=${name}`)).stdout.trim()
  const mainPid = () => property('MainPID')
  /** Returns the body, or the empty text without a response. */
  const answerOf = async (address: string) => {
    const program = `fetch(${JSON.stringify(address)}).then((answer) => answer.text()).then((text) => process.stdout.write(text), () => 0)`
    return (await machine.run(['/opt/fairlead/node_modules/node/bin/node', '-e', program])).stdout
  }
  const answers = () => expect.poll(() => answerOf(`${url}/readyz`), { timeout: 60_000 }).toContain('"ready"')
  const instanceOfApp = async () => {
    const answer = await answerOf(appUrl)
    return answer.startsWith('{"instance"') ? (JSON.parse(answer) as { instance: string }).instance : answer
  }
  const dropIn = async (name: string, text: string) => {
    const folder = join(machine.root, 'etc/systemd/system/fairlead.service.d')
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, name), text)
    await systemctl('daemon-reload')
  }

  it('is shown before the installation, and nothing is written', async () => {
    const { code, stdout } = await machine.fairlead(['service', 'install', '--dry-run'])
    expect(code).toBe(0)
    expect(stdout).toContain('Type=notify')
    expect((await machine.fairlead(['service', 'status'])).stdout).toContain('installed:  no.')
    await expect(stat(join(machine.root, unitFile))).rejects.toThrow('ENOENT')
  })

  it('is not installed where builds and apps cannot be isolated, and the missing packages are named', async () => {
    const { code, stdout, stderr } = await machine.fairlead(['service', 'install'])
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toContain('isolation: no bubblewrap')
    expect(stderr).toContain(`\n  ${installEverything(false)}\n`)
    await expect(stat(join(machine.root, unitFile))).rejects.toThrow('ENOENT')
  })

  it('is installed by one command, which returns when the server is ready', async () => {
    const { code, stdout, stderr } = await machine.fairlead(['service', 'install', '--without-isolation'])
    // A busy machine takes longer than the pause before these lines.
    const waits = /^(fairlead: Still starting the service \(\d+ s\)\.\n)*$/
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringMatching(waits) })
    expect(stdout).toContain(`Fairlead runs on ${url}`)
    expect(await answerOf(`${url}/readyz`)).toContain('"ready"')
    expect(await property('StatusText')).toBe(`Ready on ${url}`)
    expect(await property('UnitFileState')).toBe('enabled')
  })

  it('has a valid unit, and a file of settings that only root can read', async () => {
    const verified = await machine.run(['systemd-analyze', 'verify', unitFile])
    expect(verified).toMatchObject({ code: 0, stderr: '' })
    expect((await stat(join(machine.root, unitFile))).mode & 0o777).toBe(0o644)
    expect((await stat(join(machine.root, 'etc/fairlead/fairlead.env'))).mode & 0o777).toBe(0o600)
    const security = (await machine.run(['systemd-analyze', 'security', 'fairlead', '--no-pager'])).stdout
    // The server creates networks and sandboxes for apps. It needs rights for this that apps do not get.
    expect(Number(/exposure level for fairlead.service: ([\d.]+)/.exec(security)?.[1])).toBeLessThanOrEqual(5.4)
  })

  it('runs apps, which see nothing of the service manager', async () => {
    const repository = '/srv/app'
    await mkdir(join(machine.root, repository), { recursive: true })
    for (const [name, text] of Object.entries(appFiles)) await writeFile(join(machine.root, repository, name), text)
    const settings = ['-C', repository, '-c', 'user.name=Test', '-c', 'user.email=test@example.com']
    for (const args of [
      ['init', '-q', '-b', 'main'],
      ['add', '.'],
      ['commit', '-q', '-m', 'app'],
    ]) {
      expect(await machine.run(['git', ...settings, ...args])).toMatchObject({ code: 0 })
    }
    const flags = ['--name', 'test', '--data-dir', '/var/lib/fairlead']
    const key = (await machine.fairlead(['keys', 'create', ...flags])).stdout.trim()
    const api = async (operation: string, ...args: string[]) => {
      const environment = { FAIRLEAD_URL: url, FAIRLEAD_API_KEY: key }
      const { stdout, stderr } = await machine.fairlead(['api', operation, ...args], environment)
      if (stdout === '') throw new Error(stderr)
      return JSON.parse(stdout) as Record<string, string>
    }
    const project = (await api('projects.create', '--data', '{"name":"Test"}'))['id'] ?? ''
    const body = JSON.stringify({ name: 'web', git_url: `file://${repository}` })
    const made = await api('deployments.create', '--project-id', project, '--data', body)
    const read = () => api('deployments.get', '--project-id', project, '--id', made['id'] ?? '')
    await expect.poll(read, { timeout: 120_000, interval: 500 }).toMatchObject({ status: 'running' })
    appUrl = (await read())['url'] ?? ''
    const seen = JSON.parse(await answerOf(appUrl)) as { instance: string; variables: string[] }
    expect(seen.variables).toContain('PORT')
    expect(
      seen.variables.filter((name) =>
        /NOTIFY|WATCHDOG|LISTEN|INVOCATION|JOURNAL|FAIRLEAD_(CGROUPS|ON_STOP)/.test(name),
      ),
    ).toEqual([])
    instance = seen.instance
  })

  it('returns after a kill, with the same processes of apps', async () => {
    const before = await mainPid()
    await systemctl('kill', '--kill-whom=main', '--signal=SIGKILL', 'fairlead')
    await expect.poll(mainPid, { timeout: 60_000 }).not.toBe(before)
    await answers()
    expect(await property('NRestarts')).toBe('1')
    await expect.poll(instanceOfApp, { timeout: 60_000 }).toBe(instance)
  })

  it('is restarted by the watchdog when its server hangs, with the same processes of apps', async () => {
    await dropIn('watchdog.conf', '[Service]\nWatchdogSec=6\n')
    await systemctl('kill', '--kill-whom=main', '--signal=SIGKILL', 'fairlead')
    await expect.poll(() => property('WatchdogUSec'), { timeout: 60_000 }).toBe('6s')
    await expect.poll(() => property('NRestarts')).toBe('2')
    await answers()
    const before = await mainPid()
    // More than a period without a hang: the signs of life arrive.
    const signs = new Set<string>()
    await expect
      .poll(async () => signs.add(await property('WatchdogTimestampMonotonic')).size, { timeout: 60_000 })
      .toBeGreaterThan(4)
    expect(await mainPid()).toBe(before)
    await systemctl('kill', '--kill-whom=main', '--signal=SIGSTOP', 'fairlead')
    await expect.poll(mainPid, { timeout: 60_000 }).not.toBe(before)
    await answers()
    expect((await machine.run(['journalctl', '-u', 'fairlead', '-o', 'cat'])).stdout).toContain('Watchdog timeout')
    await expect.poll(instanceOfApp, { timeout: 60_000 }).toBe(instance)
  })

  it('is restarted and reloaded by systemd, with the same processes of apps and of PostgreSQL', async () => {
    const postmaster = () => readFile(join(machine.root, 'var/lib/fairlead/postgres/data/postmaster.pid'), 'utf8')
    const pid = (await postmaster()).split('\n')[0]
    const before = await mainPid()
    expect(await systemctl('restart', 'fairlead')).toMatchObject({ code: 0 })
    expect(await mainPid()).not.toBe(before)
    await expect.poll(instanceOfApp, { timeout: 60_000 }).toBe(instance)
    const restarted = await mainPid()
    expect(await systemctl('reload', 'fairlead')).toMatchObject({ code: 0 })
    // Another process serves from now on, and the previous one ends.
    await expect.poll(mainPid, { timeout: 60_000 }).not.toBe(restarted)
    await answers()
    await expect.poll(() => property('ActiveState'), { timeout: 60_000 }).toBe('active')
    await expect
      .poll(() => machine.run(['test', '-d', `/proc/${restarted}`]), { timeout: 60_000 })
      .not.toMatchObject({ code: 0 })
    expect(await instanceOfApp()).toBe(instance)
    expect((await postmaster()).split('\n')[0]).toBe(pid)
  })

  it('is found by the commands of a new shell, and reported to a user who may not use it', async () => {
    expect(await machine.fairlead(['status'])).toMatchObject({
      stdout: expect.stringContaining(`ready leading ${url}`),
      stderr: 'fairlead: using the data directory /var/lib/fairlead (the directory in use on this machine)\n',
    })
    const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', ...command]
    const asNobody = async (name: string) => {
      const { code, stderr } = await machine.run([...nobody, name])
      return { code, message: stderr.split('\n')[1] }
    }
    const closed = /^fairlead: this user may not open \/var\/lib\/fairlead\/.* by root\.$/
    expect(await asNobody('status')).toEqual({ code: 1, message: expect.stringMatching(closed) })
    expect(await asNobody('stop')).toEqual({
      code: 1,
      message: expect.stringMatching(/sudo fairlead stop --data-dir \/var\/lib\/fairlead$/),
    })
    expect(await answerOf(`${url}/readyz`)).toContain('"ready"')
  })

  it('is copied and restored by the documented commands in a new shell, and starts again only by systemd', async () => {
    const [copy, restore] = await backupCommands()
    const define = `fairlead() { ${command.join(' ')} "$@"; }\n`
    const run = (commands = '') => machine.run(['bash', '-e', '-c', `${define}cd /root\n${commands}`])
    const copied = await run(copy)
    expect(copied).toMatchObject({ code: 0, stdout: expect.stringContaining('stopped the service fairlead.service') })
    const list = (await machine.run(['tar', '-tzf', '/root/fairlead-backup.tar.gz'])).stdout
    expect(list).toContain('fairlead/postgres/data/PG_VERSION\n')
    // PostgreSQL had ended before its files were copied.
    expect(list).not.toContain('postmaster.pid')
    await answers()
    expect(await run(restore)).toMatchObject({ code: 0 })
    await answers()
    await expect.poll(instanceOfApp, { timeout: 60_000 }).toMatch(/^[\w-]{36}$/)
    instance = await instanceOfApp()
  })

  it('stays stopped after fairlead stop, which reports when nothing runs', async () => {
    expect((await machine.fairlead(['stop'])).code).toBe(0)
    expect(await property('ActiveState')).toBe('inactive')
    expect(await machine.fairlead(['stop', '--data-dir', '/var/lib/fairlead'])).toMatchObject({
      code: 3,
      stdout: 'nothing was running with the data directory /var/lib/fairlead\n',
    })
    expect((await systemctl('start', 'fairlead')).code).toBe(0)
    await answers()
    await expect.poll(instanceOfApp, { timeout: 60_000 }).toMatch(/^[\w-]{36}$/)
    instance = await instanceOfApp()
  })

  it('does not count as a server of another unit, which fairlead stop also stops through systemd', async () => {
    // Root serves it, and another user owns it.
    await machine.run(['install', '-d', '-o', 'nobody', '/srv/other'])
    const other = ['serve', '--data-dir', '/srv/other', '--port', '3999']
    const unit = ['systemd-run', '--unit=other', '--property=Restart=always', '--property=KillMode=process']
    expect(await machine.run([...unit, ...command, ...other])).toMatchObject({ code: 0 })
    const ready = () => answerOf('http://127.0.0.1:3999/readyz')
    await expect.poll(ready, { timeout: 60_000 }).toContain('"ready"')
    const status = await machine.fairlead(['status'])
    expect(status.code).toBe(1)
    expect(status.stderr).toMatch(/Name one:\n {2}--data-dir \/var\/lib\/fairlead\n {2}--data-dir \/srv\/other\n/)
    expect(await machine.fairlead(['stop', '--data-dir', '/srv/other'])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('stopped the service other.service'),
    })
    expect(await ready()).toBe('')
    expect(await property('ActiveState', 'other')).toBe('inactive')
    expect(await answerOf(`${url}/readyz`)).toContain('"ready"')
  })

  it('is examined by the doctor', async () => {
    const { code, stdout } = await machine.fairlead(['doctor', '--data-dir', '/var/lib/fairlead'])
    expect({ code, stdout }).toMatchObject({ code: 0 })
    for (const subject of ['service', 'unit', 'watchdog', 'version link', 'sockets']) {
      expect(stdout).toMatch(new RegExp(`^ok +${subject} `, 'm'))
    }
    // A container may have no controllers, and the limits of the machine around it.
    for (const subject of ['delegation', 'open files']) {
      expect(stdout).toMatch(new RegExp(`^(ok|missing) +${subject} `, 'm'))
    }
  })

  it('explains a start that failed', async () => {
    await writeFile(join(machine.root, 'etc/fairlead/fairlead.env'), 'FAIRLEAD_PORT=much\n', { mode: 0o600 })
    await systemctl('restart', 'fairlead')
    const shown = async () => (await systemctl('status', 'fairlead', '--lines=50')).stdout
    await expect.poll(shown).toContain('FAIRLEAD_PORT must be a port')
    const { code, stdout } = await machine.fairlead(['service', 'status'])
    expect(code).toBe(3)
    expect(stdout).toContain('FAIRLEAD_PORT must be a port')
    await writeFile(join(machine.root, 'etc/fairlead/fairlead.env'), '# Mine\n', { mode: 0o600 })
    // systemd keeps trying.
    await answers()
  })

  it('keeps a changed unit, shows the difference, and replaces the unit by force', async () => {
    const written = await readFile(join(machine.root, unitFile), 'utf8')
    await writeFile(join(machine.root, unitFile), written.replace('RestartSec=1', 'RestartSec=2'))
    const refused = await machine.fairlead(['service', 'install', '--without-isolation'])
    expect(refused.code).toBe(1)
    expect(refused.stderr).toContain('- RestartSec=2\n+ RestartSec=1')
    expect((await machine.fairlead(['service', 'status'])).stdout).toContain('differs from what this version writes')
    expect((await machine.fairlead(['doctor', '--data-dir', '/var/lib/fairlead'])).stdout).toMatch(/^missing +unit /m)
    expect((await machine.fairlead(['service', 'install', '--without-isolation', '--force'])).code).toBe(0)
    expect(await readFile(join(machine.root, unitFile), 'utf8')).toBe(written)
    // The operator's settings stay.
    expect(await readFile(join(machine.root, 'etc/fairlead/fairlead.env'), 'utf8')).toBe('# Mine\n')
    expect((await machine.fairlead(['service', 'install', '--without-isolation'])).code).toBe(0)
  })

  it('is removed with everything that it started, and its data is kept', async () => {
    const { code, stdout, stderr } = await machine.fairlead(['service', 'uninstall'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain('/var/lib/fairlead')
    const { stdout: processes } = await machine.run(['sh', '-c', 'cat /proc/[0-9]*/cmdline | tr "\\0" " "'])
    for (const program of ['fairlead.js', 'postgres', 'server.js']) expect(processes).not.toContain(program)
    expect(await answerOf(`${url}/healthz`)).toBe('')
    await expect(stat(join(machine.root, unitFile))).rejects.toThrow('ENOENT')
    expect((await stat(join(machine.root, 'var/lib/fairlead/secret.key'))).isFile()).toBe(true)
    expect((await machine.fairlead(['service', 'status'])).code).toBe(4)
  })
})
