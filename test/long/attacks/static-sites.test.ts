import { mkdir, writeFile } from 'node:fs/promises'
import { get } from 'node:http'
import { join } from 'node:path'
import { expect } from 'vitest'
import { attacks } from '../../harness/attacks/attack.ts'
import type { HostileServer } from '../../harness/attacks/server.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/** Requests a literal path, which `fetch` would normalise. */
const ask = (url: string, path: string): Promise<{ status: number; body: string }> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url)
    get({ hostname, port, path, agent: false, timeout: 20_000 }, (response) => {
      let body = ''
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, body }))
    }).on('error', reject)
  })

/** Deploys a static site whose build runs a script. */
async function siteOf(
  { operator: { client } }: HostileServer,
  name: string,
  script: string,
  start: readonly string[] = ['fairlead-static', 'dist'],
) {
  await using source = await repository({
    'build.js': `const fs = require('node:fs')
const { execFileSync } = require('node:child_process')
const attempt = (work) => { try { work() } catch {} }
fs.mkdirSync('dist')
fs.writeFileSync('dist/index.html', 'page')
${script}`,
    'fairlead.json': JSON.stringify({ build: ['node', 'build.js'], start }),
  })
  const project = await client.projects.create({ body: { name, plan: 'enterprise' } })
  return await deployAndSettle(client, project.id, { name, git_url: source.url })
}

attacks({}, (attack) => {
  attack(
    { id: 'site-links', topic: 'Files', held: 'A static site shows no file outside of its folder' },
    async (server) => {
      const secret = join(server.data, 'secret.key')
      const theirs = await siteOf(server, 'theirs', "fs.writeFileSync('dist/own.txt', 'not for others')")
      expect(theirs.status).toBe('running')
      const release = join(server.data, 'apps')
      const site = await siteOf(
        server,
        'links',
        `const [secret, apps] = ${JSON.stringify([secret, release])}
fs.writeFileSync('outside.txt', 'outside')
for (const [name, target] of Object.entries({ key: secret, apps, root: '/', etc: '/etc', proc: '/proc/self', up: '..', zero: '/dev/zero', loop: 'loop' }))
  fs.symlinkSync(target, 'dist/' + name)
for (const [name, target] of Object.entries({ hardkey: secret, hardpasswd: '/etc/passwd', hardoutside: 'outside.txt' }))
  attempt(() => fs.linkSync(target, 'dist/' + name))`,
      )
      expect(site).toMatchObject({ status: 'running', failure: null })
      const paths = [
        '/key',
        '/apps/',
        '/root/etc/passwd',
        '/etc/passwd',
        '/proc/environ',
        '/proc/root/etc/passwd',
        '/up/outside.txt',
      ]
      const encoded = [
        '/../outside.txt',
        '/%2e%2e/outside.txt',
        '/..%2foutside.txt',
        '/.%2e/outside.txt',
        '/..%5coutside.txt',
        '//../outside.txt',
      ]
      const more = ['/zero', '/loop', '/hardkey', '/hardpasswd', '/%00', '/dist/../../outside.txt']
      for (const path of [...paths, ...encoded, ...more]) {
        const { status, body } = await ask(site.url, path)
        expect({ path, isRefused: status === 404 || status === 400, body }).toMatchObject({ path, isRefused: true })
      }
      expect((await ask(site.url, '/')).body).toBe('page')
    },
  )

  attack(
    { id: 'site-folder', topic: 'Files', held: 'A static site cannot name a folder outside of its sources' },
    async (server) => {
      for (const [index, folder] of ['/etc', '../../..', server.data, 'linked'].entries()) {
        const script = `fs.symlinkSync(${JSON.stringify(server.data)}, 'linked')`
        const site = await siteOf(server, `folder ${index}`, script, ['fairlead-static', folder])
        expect(site.failure?.message).toContain('there is no such folder in the sources of the app')
      }
    },
  )

  attack(
    {
      id: 'site-oracle',
      topic: 'Files',
      held: 'A static site with several folders tells nothing about folders outside of its sources',
    },
    async (server) => {
      await using outside = await temporaryDirectory()
      await mkdir(join(outside.path, 'without'))
      await mkdir(join(outside.path, 'with'))
      await writeFile(join(outside.path, 'with', 'index.html'), 'of somebody')
      const told: unknown[] = []
      for (const name of ['with', 'without']) {
        const script = `fs.symlinkSync(${JSON.stringify(join(outside.path, name))}, 'linked')`
        const site = await siteOf(server, name, script, ['fairlead-static', 'linked', 'other'])
        expect(site.status).toBe('failed')
        told.push(site.failure)
      }
      expect(told[0]).toEqual(told[1])
    },
  )

  attack(
    { id: 'site-pipes', topic: 'Recovery', held: 'Pipes and large folders in a static site hold up no other app' },
    async (server) => {
      const site = await siteOf(
        server,
        'pipes',
        `for (let pipe = 0; pipe < 20; pipe += 1) attempt(() => execFileSync('mkfifo', ['dist/pipe' + pipe]))
fs.mkdirSync('dist/many')
for (let file = 0; file < 5000; file += 1) fs.writeFileSync('dist/many/' + file, '')`,
      )
      expect(site).toMatchObject({ status: 'running', failure: null })
      const pipes = await Promise.all(Array.from({ length: 40 }, (_, pipe) => ask(site.url, `/pipe${pipe % 20}`)))
      expect(new Set(pipes.map(({ status }) => status))).toEqual(new Set([404]))
      expect([(await ask(site.url, '/many/')).status, (await ask(site.url, '/many/4999')).status]).toEqual([404, 200])
      expect((await ask(site.url, '/')).body).toBe('page')
    },
  )
})
