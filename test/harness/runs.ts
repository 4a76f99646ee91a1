import { once } from 'node:events'
import { WebSocket } from 'ws'
import { channels, type RunEnd, runProtocol } from '../../server/src/contract/run-protocol.ts'
import type { ServerWithProject } from './project.ts'

/** A client of a task's run: the output so far, and the run's end. */
export interface RunClient {
  readonly socket: WebSocket
  readonly printed: { output: string; errors: string }
  /** Resolves with the last message; `undefined` when the connection closes without a message. */
  readonly ended: Promise<RunEnd | undefined>
  write(text: string): void
  send(message: object): void
}

/** Connects to a run by its ticket. Rejects when the server refuses the ticket. */
export async function connectRun(url: string, { path, ticket }: { path: string; ticket: string }): Promise<RunClient> {
  const socket = new WebSocket(url.replace('http', 'ws') + path, [runProtocol, ticket])
  const printed = { output: '', errors: '' }
  let end: RunEnd | undefined
  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (!isBinary) end = JSON.parse(data.toString()) as RunEnd
    else printed[data[0] === channels.errors ? 'errors' : 'output'] += data.subarray(1).toString()
  })
  const ended = once(socket, 'close').then(() => end)
  ended.catch(() => undefined)
  await once(socket, 'open')
  return {
    socket,
    printed,
    ended,
    write: (text) => socket.send(Buffer.concat([Buffer.of(channels.input), Buffer.from(text)]), { binary: true }),
    send: (message) => socket.send(JSON.stringify(message)),
  }
}

/** Makes a run of an app and connects to it. */
export async function startRun(
  { client, server, projectId }: ServerWithProject,
  app_id: string,
  command: string[],
  terminal?: { columns: number; rows: number },
) {
  const params = { project_id: projectId, app_id }
  const { id, connect } = await client.runs.create({ params, body: { command, ...(terminal ? { terminal } : {}) } })
  return {
    id,
    ...(await connectRun(server.url, connect)),
    read: () => client.runs.get({ params: { ...params, id } }),
  }
}
