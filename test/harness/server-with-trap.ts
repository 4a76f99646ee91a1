import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { deployAndSettle } from './deployments.ts'
import { type Repository, repository } from './repository.ts'
import { ownServer } from './server.ts'
import { temporaryDirectory } from './temporary.ts'

export type ServerWithTrap = Awaited<ReturnType<typeof serverWithTrap>>

/** The text of a file that only the server may read. */
export const secretText = 'the-secret-of-the-server'

/**
 * Starts a server for hostile requests and commits, with one project and a trap that detects if the server executes
 * them.
 */
export async function serverWithTrap() {
  await using cleanup = new AsyncDisposableStack()
  const folder = cleanup.use(await temporaryDirectory())
  // The server can write there, and so can apps in its memory.
  const trap = join(folder.path, 'trap')
  await mkdir(trap, { mode: 0o700 })
  const secret = join(trap, 'secret.txt')
  await writeFile(secret, secretText, { mode: 0o600 })
  const server = cleanup.use(
    await ownServer({
      FAIRLEAD_UIDS: '52000-52999',
      FAIRLEAD_SOURCE_MB: '20',
      FAIRLEAD_RELEASE_MB: '60',
      FAIRLEAD_START_TIMEOUT: '15',
    }),
  )
  const { id: projectId } = await server.client.projects.create({ body: { name: 'hostile' } })
  const owned = cleanup.move()
  return {
    server,
    projectId,
    /** A folder that contains only the secret, as long as nothing was executed. */
    trap,
    secret,
    /** The file that planted commands try to make. */
    trace: join(trap, 'executed'),
    /** Commits the files that `make` writes into an empty repository, and deploys the repository. */
    async deployRepository(make: (source: Repository) => Promise<unknown>) {
      await using source = await repository({})
      await make(source)
      await source.commit({})
      return await deployAndSettle(server.client, projectId, { name: 'repository', git_url: source.url })
    },
    stop: (id: string) => server.client.deployments.stop({ params: { project_id: projectId, id } }),
    /** Checks that the server executed no planted command, and that it still works. */
    async expectUnharmed(): Promise<void> {
      expect(await readdir(trap)).toEqual(['secret.txt'])
      expect((await fetch(`${server.url}/readyz`)).status).toBe(200)
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
