import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deployAndSettle, settled } from '../../harness/deployments.ts'
import { repository } from '../../harness/repository.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

/* Apps that run on programs from the package registry, in the sandbox and with the limits of the smallest plan. */

const long = { timeout: 300_000 }

describe('programs that apps ask for', () => {
  let server: TestServer
  let project: string
  beforeAll(async () => {
    server = await testServer()
    project = (await server.client.projects.create({ body: { name: 'toolchains' } })).id
  })
  afterAll(() => server?.[Symbol.asyncDispose]())

  const deploy = async (name: string, files: Record<string, string>) => {
    await using source = await repository(files)
    const { id, failure, url } = await deployAndSettle(server.client, project, { name, git_url: source.url })
    expect(failure).toBeNull()
    const answer = await server.client.deployments.logs({
      params: { project_id: project, id },
      query: { stream: 'build' },
    })
    return {
      id,
      params: { project_id: project, id },
      log: await answer.text(),
      page: async () => (await fetch(url)).text(),
    }
  }

  it('an older Node builds, releases, runs, is restarted and rolled back to', long, async () => {
    const files = {
      'package.json': JSON.stringify({ scripts: { build: 'node --version' }, engines: { node: '20.x' } }),
      'server.js': `require('node:http').createServer((_, response) => response.end(process.version)).listen(process.env.PORT)`,
      Procfile: 'web: node server.js\nrelease: echo released by $(node --version)\n',
    }
    const first = await deploy('old', files)
    expect(first.log).toMatch(/^Node 20\.\d+\.\d+ is used: "engines.node" in package.json asks for Node 20.x.$/m)
    expect(first.log).toMatch(/^Warning: Node 20 has had no security fixes since 2026-04-30/m)
    expect(first.log).toMatch(/^v20\./m)
    expect(first.log).toMatch(/^released by v20\./m)
    expect(await first.page()).toMatch(/^v20\./)

    const second = await deploy('old', { ...files, 'package.json': '{}' })
    expect(await second.page()).toBe(process.version)

    await server.client.deployments.rollback({ params: first.params })
    expect(await settled(server.client, project, first.id)).toMatchObject({ status: 'running', failure: null })
    expect(await first.page()).toMatch(/^v20\./)
    await server.client.deployments.restart({ params: first.params })
    expect(await settled(server.client, project, first.id)).toMatchObject({ status: 'running', failure: null })
    expect(await first.page()).toMatch(/^v20\./)
  })

  it('Bun installs, builds and runs', long, async () => {
    const dependencies = { 'left-pad': '1.3.0' }
    const leftPad = 'sha512-XI5MPzVNApjAyhQzphX8BkmKsKUxD4LdyK24iZeQGinBN9yTQT3bFlCBy/aVx2HrNcqQGsdot8ghrjyrvMCoEA=='
    const { log, page } = await deploy('bun', {
      'package.json': JSON.stringify({ scripts: { build: 'bun build.ts', start: 'bun src/app.ts' }, dependencies }),
      'bun.lock': JSON.stringify({
        lockfileVersion: 1,
        workspaces: { '': { dependencies } },
        packages: { 'left-pad': ['left-pad@1.3.0', '', {}, leftPad] },
      }),
      'build.ts': "console.log('built by', Bun.version)",
      'src/app.ts': `const version: string = Bun.version
new Worker(URL.createObjectURL(new Blob(['postMessage(1)']))).onmessage = () =>
  Bun.serve({ port: process.env.PORT, fetch: () => new Response('Bun ' + version) })`,
    })
    expect(log).toMatch(/^Bun \S+ is used, because of the lock file\.$/m)
    expect(log).toContain('built by 1.')
    expect(await page()).toMatch(/^Bun 1\./)
  })

  it('Deno installs and runs a task', long, async () => {
    const { log, page } = await deploy('deno', {
      'deno.jsonc': '{ // tasks\n "tasks": { "start": "deno run --allow-net --allow-env main.ts" } }',
      'main.ts': `const version: string = Deno.version.deno
Deno.serve({ port: Number(Deno.env.get('PORT')) }, () => new Response('Deno ' + version))`,
    })
    expect(log).toMatch(/^Deno \S+ is used, because of deno\.jsonc\.$/m)
    expect(await page()).toMatch(/^Deno 2\./)
  })
})
