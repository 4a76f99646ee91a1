import { readdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { findProgram } from '../../../../server/src/platform/programs.ts'
import { noCaddy } from '../../../harness/edge.ts'
import { edgeSettings } from '../../../harness/edge-server.ts'
import { skipped } from '../../../harness/ordinary-user.ts'
import { ownServer } from '../../../harness/server.ts'
import { temporaryDirectory } from '../../../harness/temporary.ts'

const why = await noCaddy()
if (why !== null) skipped('a server whose Caddy is installed later', why)

/** Fills a folder with links to all programs of the machine except Caddy. */
async function programsWithoutCaddy(folder: string): Promise<void> {
  for (const source of (process.env['PATH'] ?? '').split(':')) {
    const names = await readdir(source).catch(() => [])
    // The first match on the PATH counts.
    for (const name of names.filter((each) => each !== 'caddy')) {
      await symlink(join(source, name), join(folder, name)).catch(() => undefined)
    }
  }
}

it.skipIf(why !== null)(
  'a server without Caddy says how to install it, works, and uses it once it is there',
  async () => {
    await using programs = await temporaryDirectory()
    await programsWithoutCaddy(programs.path)
    const { environment, httpPort } = await edgeSettings()
    await using server = await ownServer({ ...environment, PATH: programs.path })
    const readiness = async () => (await (await fetch(`${server.url}/readyz`)).json()) as object
    const problem =
      'the edge does not run, so there is no HTTPS: There is no program caddy on the PATH. Install Caddy 2.6 or newer: apt-get install caddy'
    expect(await readiness()).toMatchObject({ status: 'ready', problems: [problem] })
    expect(server.log.filter(({ msg }) => msg === problem)).toHaveLength(1)

    expect(await server.client.projects.list({})).toMatchObject({ projects: [] })
    const gateway = await fetch(`http://127.0.0.1:${environment['FAIRLEAD_GATEWAY_PORT']}/`)
    expect(gateway.status).toBe(404)

    const caddy = await findProgram('caddy', process.env['PATH'] ?? '')
    await symlink(caddy ?? '', join(programs.path, 'caddy'))
    await expect.poll(readiness).not.toHaveProperty('problems')
    expect((await fetch(`http://127.0.0.1:${httpPort}/`, { redirect: 'manual' })).status).toBe(308)
  },
)
