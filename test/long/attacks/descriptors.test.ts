import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { attacks } from '../../harness/attacks/attack.ts'
import type { HostileServer, Tenant } from '../../harness/attacks/server.ts'
import { deployAndSettle, processesOf } from '../../harness/deployments.ts'
import { gitServer } from '../../harness/git-server.ts'
import { ordinaryUser } from '../../harness/ordinary-user.ts'
import { nodeApp, repository } from '../../harness/repository.ts'

const site = { 'index.html': 'a site' }

const pidOf = ({ server }: HostileServer): number => server.child.pid ?? 0
const descriptorsOf = (server: HostileServer): number => readdirSync(`/proc/${pidOf(server)}/fd`).length

/** Fewer than the server constantly holds: whatever it closes, it can open nothing. */
const tooFew = 16

/** Limits the descriptors of the server, as its user: `soft:hard`, either of which may be omitted. */
function limit(server: HostileServer, limits: string): void {
  const user = server.mode === 'user' && ordinaryUser !== null ? ordinaryUser : {}
  execFileSync('prlimit', ['--pid', String(pidOf(server)), `--nofile=${limits}`], user)
}
const usual = 8_192

async function deploy({ client, project }: Tenant, name: string, files: Record<string, string>) {
  await using source = await repository(files)
  await using remote = await gitServer(source)
  const made = await deployAndSettle(client, project, { name, git_url: remote.url })
  expect(made.failure).toBeNull()
  return made
}

/** Resolves when the address answers with the text. */
async function answers(url: string, text: string): Promise<void> {
  for (;;) {
    const got = await fetch(url).then(
      async (answer) => (answer.ok ? answer.text() : null),
      () => null,
    )
    if (got === text) return
    await sleep(100)
  }
}

const statusOf = async ({ client, project }: Tenant, id: string) =>
  (await client.deployments.get({ params: { project_id: project, id } })).status

attacks({}, (attack) => {
  attack(
    { id: 'descriptors', topic: 'Recovery', held: 'A server without descriptors goes on, and so do its apps' },
    async (server) => {
      const { victim } = server
      const still = await deploy(victim, 'site', site)
      const app = await deploy(victim, 'app', nodeApp('an app'))
      const before = server.server.log.length
      const logged = (message: string) =>
        server.server.waitForLog((line) => line['msg'] === message && server.server.log.indexOf(line) >= before)
      const refused = logged('the release could not be started again')
      try {
        // The server closes connections, which may free enough descriptors to restart the app.
        do {
          limit(server, `${descriptorsOf(server)}:`)
          for (const pid of await processesOf(app.id)) process.kill(pid, 'SIGKILL')
        } while ((await Promise.race([refused, sleep(1_000, 'again')])) === 'again')
        limit(server, `${tooFew}:`)
        await logged('the disk usage of an app could not be measured')
      } finally {
        limit(server, `${usual}:`)
      }
      await answers(app.url, 'an app')
      await answers(still.url, 'a site')
      for (const each of [app, still]) expect(await statusOf(victim, each.id)).toBe('running')
    },
  )

  attack(
    { id: 'closed-folder', topic: 'Recovery', held: 'A server that takes an app over mends what the app needs to run' },
    async (server) => {
      const { victim } = server
      const { id, url } = await deploy(victim, 'closed', site)
      const apps = join(server.data, 'apps')
      const folders = readdirSync(apps).map((each) => join(apps, each, 'releases', id))
      await chmod(folders.find((path) => existsSync(path)) ?? '', 0o000)
      await server.restart()
      await answers(url, 'a site')
    },
  )

  attack(
    { id: 'low-limit', topic: 'Recovery', held: 'A low hard limit on open files makes no app fail' },
    async (server) => {
      const { victim } = server
      limit(server, '2048:2048')
      const { id, url } = await deploy(victim, 'low', nodeApp('low'))
      for (const pid of await processesOf(id)) process.kill(pid, 'SIGKILL')
      await answers(url, 'low')
      expect(await statusOf(victim, id)).toBe('running')
    },
  )
})
