import { createHash, randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deployAndSettle } from '../../harness/deployments.ts'
import { nodeApp, repository } from '../../harness/repository.ts'
import { ownServer, type TestServer } from '../../harness/server.ts'

describe('the caches of a server', () => {
  let server: TestServer
  let project: string
  beforeAll(async () => {
    server = await ownServer({ FAIRLEAD_CACHE_MB: '4', FAIRLEAD_ALL_CACHES_MB: '6' })
    project = (await server.client.projects.create({ body: { name: 'caches' } })).id
  })
  afterAll(() => server?.[Symbol.asyncDispose]())

  /** An app whose build caches this many bytes, and reports whether it found earlier ones. */
  const keeping = (bytes: number) => ({
    'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
    'build.js': `const { existsSync, writeFileSync } = require('node:fs')
const file = process.env.FAIRLEAD_CACHE + '/kept'
console.log(existsSync(file) ? 'found' : 'nothing there')
writeFileSync(file, Buffer.alloc(${bytes}))`,
    'server.js': nodeApp('fine')['server.js'] ?? '',
  })

  const deploy = async (name: string, url: string): Promise<string> => {
    const { id, failure } = await deployAndSettle(server.client, project, { name, git_url: url })
    expect(failure).toBeNull()
    const log = await server.client.deployments.logs({
      params: { project_id: project, id },
      query: { stream: 'build' },
    })
    return log.text()
  }

  /** The sizes do not matter, only the presence. */
  const kept = async () => {
    const apps = join(server.dataDirectory, 'apps')
    const inside = await Promise.all(
      (await readdir(apps)).map(async (app) => (await readdir(join(apps, app))).includes('cache')),
    )
    return inside.filter(Boolean).length
  }

  it('a build’s cache is there for the next build, until others need the space or it is too large', async () => {
    await using first = await repository(keeping(3_000_000))
    await using second = await repository(keeping(3_500_000))
    await using large = await repository(keeping(5_000_000))
    expect(await deploy('first', first.url)).toContain('nothing there')
    expect(await deploy('first', first.url)).toContain('found')
    await deploy('second', second.url)
    await expect.poll(kept).toBe(1)
    expect(await deploy('large', large.url)).toContain('nothing there')
    await expect.poll(kept).toBe(1)
    expect(await deploy('large', large.url)).toContain('nothing there')
    expect(await deploy('second', second.url)).toContain('found')
    expect(await deploy('first', first.url)).toContain('nothing there')
  })

  it('a repository that is too large for the cache is fetched again, and deploys all the same', async () => {
    await using source = await repository({ ...nodeApp('fine'), large: randomBytes(5_000_000).toString('latin1') })
    const name = createHash('sha256').update(source.url).digest('hex').slice(0, 32)
    await deploy('repository', source.url)
    await expect.poll(() => readdir(join(server.dataDirectory, 'git', 'caches', project))).not.toContain(name)
    await deploy('repository', source.url)
  })
})
