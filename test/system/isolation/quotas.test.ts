import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, truncate, writeFile } from 'node:fs/promises'
import { constants } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { shippedPlans } from '../../../server/src/platform/plans.ts'
import { deployAndSettle, settled } from '../../harness/deployments.ts'
import { gitServer } from '../../harness/git-server.ts'
import { skipped } from '../../harness/ordinary-user.ts'
import { fairlead, serverProcess } from '../../harness/process.ts'
import { repository } from '../../harness/repository.ts'
import { isRoot, temporaryDirectory } from '../../harness/temporary.ts'

const environment = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' }
const btrfs = (...args: string[]) => execFileSync('btrfs', args, { env: environment, encoding: 'utf8', stdio: 'pipe' })

function whyNone(): string | null {
  if (!isRoot || !existsSync('/dev/loop-control')) return 'only root can mount a disk'
  if (spawnSync('btrfs', ['--version'], { env: environment }).status !== 0) return 'btrfs-progs is missing'
  spawnSync('modprobe', ['btrfs'], { env: environment })
  return execFileSync('cat', ['/proc/filesystems'], { encoding: 'utf8' }).includes('btrfs')
    ? null
    : 'this kernel has no btrfs'
}
const none = whyNone()
if (none !== null) skipped('quotas of the file system', none)

/** Mounts a btrfs of two gigabytes from a sparse file. */
async function btrfsDisk() {
  await using cleanup = new AsyncDisposableStack()
  const { path } = cleanup.use(await temporaryDirectory())
  const image = join(path, 'image')
  const mounted = join(path, 'disk')
  await mkdir(mounted)
  await writeFile(image, '')
  await truncate(image, 2_000_000_000)
  execFileSync('mkfs.btrfs', ['-q', image], { env: environment })
  execFileSync('mount', ['-o', 'loop', image, mounted], { env: environment })
  cleanup.defer(() => void execFileSync('umount', ['--lazy', mounted], { env: environment }))
  await chmod(mounted, 0o711)
  const owned = cleanup.move()
  return { path: mounted, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

/** An app that writes and removes files of this many megabytes, and answers with the error number on failure. */
const writer = {
  'package.json': JSON.stringify({ name: 'app', scripts: { start: 'node server.js' } }),
  'server.js': `const fs = require('node:fs')
    const folders = { home: process.env.HOME, tmp: process.env.TMPDIR, release: process.cwd() }
    require('node:http').createServer((request, response) => {
      const [, what, folder, size] = request.url.split('/')
      try {
        const file = (folders[folder] ?? '') + '/' + what
        if (size === '0') fs.rmSync(file, { force: true })
        else if (what) fs.writeFileSync(file, Buffer.alloc(size * 1e6, 1))
        response.end('done')
      } catch (error) { response.end(String(error.errno)) }
    }).listen(process.env.PORT)\n`,
}

/** Node has no name for EDQUOT. */
const beyondQuota = String(-constants.errno.EDQUOT)

/** Returns the groups of more than one folder, as btrfs lists them. */
const groupsOn = (disk: string): string[] =>
  btrfs('qgroup', 'show', '--raw', '-r', disk)
    .split('\n')
    .filter((line) => line.startsWith('1/'))

const settings = { FAIRLEAD_RELEASE_MB: '50', FAIRLEAD_RESERVE_MB: '100' }
const free = { ...shippedPlans.free, app_gb: 0.06 }
const plans = { ...shippedPlans, free, large: { ...free, app_gb: 0.1 } }

describe.skipIf(none !== null)('where the data directory is on btrfs with quotas', () => {
  it('an app gets no more space than its plan or FAIRLEAD_APP_MB allows, and keeps running', {
    timeout: 300_000,
  }, async () => {
    await using disk = await btrfsDisk()
    const data = join(disk.path, 'data')
    const { stdout: key } = await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', data])
    await using cleanup = new AsyncDisposableStack()
    cleanup.defer(async () => void (await fairlead(['stop', '--data-dir', data])))
    const withPlans = { ...settings, FAIRLEAD_PLANS_FILE: join(disk.path, 'plans.json') }
    await writeFile(withPlans.FAIRLEAD_PLANS_FILE, JSON.stringify(plans))
    let server = await serverProcess(data, withPlans)
    cleanup.defer(() => server[Symbol.asyncDispose]())
    const client = server.clientFor(key.trim())
    const { id: project } = await client.projects.create({ body: { name: 'p' } })
    await using source = await repository(writer)
    await using git = await gitServer(source)
    const deploy = (name: string) => deployAndSettle(client, project, { name, git_url: git.url })
    const doctor = async () => {
      const { stdout } = await fairlead(['doctor', '--data-dir', data], { FAIRLEAD_PORT: '0' })
      return stdout.split('\n').find((line) => / quotas /.test(line))
    }

    // Folders from before the quotas are plain, and stay plain.
    expect(await doctor()).toMatch(/^missing /)
    const plain = await deploy('plain')
    btrfs('quota', 'enable', disk.path)
    expect(await doctor()).toMatch(/^ok /)
    expect((await deploy('plain')).status).toBe('running')
    expect(groupsOn(disk.path)).toEqual([])

    const first = await deploy('app')
    expect(first.failure).toBeNull()
    const ask = async (path: string, of = first) => (await fetch(`${of.url}${path}`)).text()
    expect(await ask('/a/home/30')).toBe('done')
    expect(await ask('/a/tmp/20')).toBe('done')
    expect(await ask('/a/release/20')).toBe(beyondQuota)
    expect(await ask('/b/home/20')).toBe(beyondQuota)
    for (const path of ['/b/home/0', '/a/tmp/0', '/a/home/0']) expect(await ask(path)).toBe('done')
    // The file system counts a removed file until it has written the removal.
    await expect.poll(() => ask('/a/release/40'), { timeout: 60_000 }).toBe('done')
    expect(await ask('/c/home/10', plain)).toBe('done')

    // Files in the first release's folder do not count for the second, once only the second runs.
    const second = await deploy('app')
    expect(second.status).toBe('running')
    const limits = () => groupsOn(disk.path).map((line) => line.trim().split(/\s+/)[3])
    await expect.poll(limits, { timeout: 60_000 }).toEqual(['none', '60000000'])
    await expect.poll(() => ask('/a/home/40'), { timeout: 60_000 }).toBe('done')
    expect(await ask('/b/home/20')).toBe(beyondQuota)

    // Another plan of the project applies from the next start of the app.
    await client.projects.update({ params: { project_id: project }, body: { plan: 'large' } })
    expect(await ask('/b/home/20')).toBe(beyondQuota)
    await client.deployments.restart({ params: { project_id: project, id: second.id } })
    expect((await settled(client, project, second.id)).status).toBe('running')
    await expect.poll(limits, { timeout: 60_000 }).toEqual(['none', '100000000'])
    expect(await ask('/b/home/20')).toBe('done')

    // A server with another setting applies it to adopted apps.
    await server.kill()
    const port = new URL(server.url).port
    server = await serverProcess(data, { ...withPlans, FAIRLEAD_APP_MB: '80', FAIRLEAD_PORT: port })
    await expect.poll(limits, { timeout: 120_000 }).toEqual(['none', '80000000'])
    expect(await ask('/c/home/30')).toBe(beyondQuota)

    const { apps } = await client.apps.list({ params: { project_id: project } })
    const app = apps.find(({ name }) => name === 'app')
    await client.apps.delete({ params: { project_id: project, id: app?.id ?? '' } })
    await expect.poll(() => groupsOn(disk.path), { timeout: 60_000 }).toEqual([])
    await expect.poll(() => readdir(join(data, 'apps')), { timeout: 60_000 }).toHaveLength(1)
  })
})
