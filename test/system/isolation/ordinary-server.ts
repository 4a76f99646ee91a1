import { ordinaryDirectory, ordinaryUser } from '../../harness/ordinary-user.ts'
import { fairlead, serverProcess } from '../../harness/process.ts'

/** Starts a server of the ordinary user with a project, on a new data directory. */
export async function ordinaryServer(environment: Readonly<Record<string, string>> = {}) {
  await using cleanup = new AsyncDisposableStack()
  const data = cleanup.use(await ordinaryDirectory()).path
  const server = cleanup.use(await serverProcess(data, environment, ordinaryUser))
  const made = await fairlead(
    ['keys', 'create', '--new', '--name', 'test', '--data-dir', data],
    {},
    { user: ordinaryUser },
  )
  if (made.code !== 0) throw new Error(made.stderr)
  const key = made.stdout.trim()
  const client = server.clientFor(key)
  const { id: project } = await client.projects.create({ body: { name: 'p' } })
  const owned = cleanup.move()
  return { data, key, server, client, project, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}
