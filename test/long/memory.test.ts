import { readdir, readFile } from 'node:fs/promises'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Mode } from '../harness/attacks/claim.ts'
import { type HostileServer, hostileServer } from '../harness/attacks/server.ts'
import { deployAndSettle } from '../harness/deployments.ts'
import { noBubblewrap, noOrdinaryUser, skipped } from '../harness/ordinary-user.ts'
import { type Repository, repository } from '../harness/repository.ts'
import { isRoot } from '../harness/temporary.ts'

/* Memory limits without control groups, on the plan `free`: used memory counts, and reserved memory does not. */

/** A script that starts four threads. In Node 24 each reserves some 540 MB and uses about 12. */
const threads = `const { Worker } = require('node:worker_threads')
const started = Array.from({ length: 4 }, () => new Promise((done, fail) => {
  const thread = new Worker("require('node:worker_threads').parentPort.postMessage('ready')", { eval: true })
  thread.once('message', done).once('error', fail)
}))`
const working = {
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'build.js': `${threads}
Promise.all(started).then(() => process.exit())`,
  'server.js': `${threads}
Promise.all(started).then(() => require('node:http').createServer((_, response) => response.end('works')).listen(process.env.PORT))`,
}

/** Fills memory in four processes at full speed, and records in a file how many bytes each has filled. */
const greedy = (wanted: number) => `
import ctypes, mmap, os, struct, sys
step = 4_000_000
counts = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for worker in range(4):
  if os.fork() == 0:
    space = mmap.mmap(-1, ${wanted} // 4, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(space))
    for at in range(0, len(space) - step, step):
      ctypes.memset(start + at, 1, step)
      os.pwrite(counts, struct.pack('q', at + step), worker * 8)
    os._exit(0)
for worker in range(4): os.wait()
`
const greedyFiles = (wanted: number) => ({
  'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
  'fill.py': greedy(wanted),
  'build.js': "require('node:child_process').execFileSync('python3', ['fill.py', process.env.HOME + '/filled'])",
  'server.js': '',
})

const why: Readonly<Record<Mode, string | null>> = {
  root: isRoot ? null : 'the tests do not run as root',
  user: (isRoot ? await noOrdinaryUser() : null) ?? (await noBubblewrap()),
}

for (const mode of ['root', 'user'] as const) {
  const reason = why[mode]
  if (reason !== null) skipped(`memory limits of a server in the mode ${mode}`, reason)
  describe.skipIf(reason !== null)(mode === 'root' ? 'as root' : 'as an ordinary user', () => {
    let server: HostileServer
    beforeAll(async () => {
      const settings = { FAIRLEAD_FILE_SOURCES: tmpdir(), FAIRLEAD_CGROUPS: 'none', FAIRLEAD_BUILD_MEMORY_MB: '300' }
      server = await hostileServer(mode, { settings })
    })
    afterAll(() => server?.[Symbol.asyncDispose]())

    const deploy = async (files: Readonly<Record<string, string>>, name: string) => {
      await using source: Repository = await repository(files)
      const { client, project } = server.attacker
      return await deployAndSettle(client, project, { name, git_url: source.url })
    }

    it('a build and an app that start four threads run', async () => {
      const { failure, url } = await deploy(working, 'threads')
      expect(failure).toBeNull()
      expect(await (await fetch(url)).text()).toBe('works')
    })

    it('a build that fills memory at full speed is ended long before it has taken the machine’s memory', async () => {
      const wanted = Math.max(1.5e9, Math.min(4e9, freemem() / 2))
      const { failure } = await deploy(greedyFiles(wanted), 'greedy')
      expect(failure).toMatchObject({ stage: 'build', code: 'out_of_memory' })
      expect(failure?.message).toMatch(/more than the 300 MB .*: it used \d+ MB .* FAIRLEAD_BUILD_MEMORY_MB/)
      const [file = ''] = (await readdir(join(server.data, 'apps'), { recursive: true })).filter((name) =>
        name.endsWith('/home/filled'),
      )
      const counts = await readFile(join(server.data, 'apps', file))
      const filled = [0, 8, 16, 24].reduce((sum, at) => sum + Number(counts.readBigInt64LE(at)), 0)
      expect(filled).toBeLessThan(wanted / 2)
    })
  })
}
