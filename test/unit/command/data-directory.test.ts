import { once } from 'node:events'
import { chmod, chown, mkdir, symlink } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { directoriesInUse } from '../../../server/src/commands/data-directory.ts'
import { isRoot, temporaryDirectory } from '../../harness/temporary.ts'

/** Listens as a server does in a folder. */
async function listenIn(folder: string): Promise<{ readonly socket: string } & AsyncDisposable> {
  await mkdir(join(folder, 'run'), { recursive: true })
  const socket = join(folder, 'run', `${process.pid}-0123abcd.sock`)
  const server = createServer().listen(socket)
  await once(server, 'listening')
  return {
    socket,
    async [Symbol.asyncDispose]() {
      server.close()
      await once(server, 'close')
    },
  }
}

it('a directory is in use when a server of this user listens there, and only by its exact path', async () => {
  await using directory = await temporaryDirectory()
  const [folder, link] = [join(directory.path, 'data'), join(directory.path, 'link')]
  await mkdir(folder)
  await symlink(folder, link)
  await using _ = await listenIn(folder)
  await using _2 = await listenIn(join(link, 'below'))
  const found = await directoriesInUse()
  expect(found).toContain(folder)
  expect(found).not.toContain(join(link, 'below'))
})

it.runIf(isRoot)('a directory that others can change is not in use because another user listens there', async () => {
  await using directory = await temporaryDirectory()
  const [open, below, closed] = ['open', 'open/below', 'closed'].map((name) => join(directory.path, name)) as [
    string,
    string,
    string,
  ]
  await using listening = new AsyncDisposableStack()
  for (const folder of [open, below, closed]) {
    const { socket } = listening.use(await listenIn(folder))
    await chown(socket, 65_534, 65_534)
  }
  await chmod(open, 0o777)
  const found = await directoriesInUse()
  expect([open, below, closed].map((folder) => found.includes(folder))).toEqual([false, false, true])
})
