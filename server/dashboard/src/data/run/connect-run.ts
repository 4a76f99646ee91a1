import { channels, type RunEnd, type RunRequest, readMessage, runProtocol } from '@fairlead/server/dashboard-client'

/** The connection to a command of an app. The command ends with the connection, and so with the tab. */
export interface RunConnection {
  /** Writes to the standard input. */
  write(text: string): void
  resize(columns: number, rows: number): void
  /** Ends the command. */
  close(): void
}

interface RunTarget {
  /** The path of the WebSocket, and the ticket that opens it once. */
  readonly path: string
  readonly ticket: string
  /** False for a command that gets no input. */
  readonly interactive: boolean
  /** Takes the command's output, and calls `taken` when it is shown. */
  readonly onOutput: (bytes: Uint8Array, taken: () => void) => void
  readonly onEnd: (end: RunEnd) => void
}

/**
 * A browser reads a WebSocket as fast as it can. When more output than this waits, the client asks the server for a
 * pause.
 */
const mostWaiting = 512 * 1024
const fewWaiting = 64 * 1024
/** Below the server's limit of a message. */
const mostWritten = 64 * 1024

const lost: RunEnd = {
  type: 'exit',
  code: null,
  signal: null,
  problem: 'The connection to the server was lost, and the command was ended.',
}

export function connectRun({ path, ticket, interactive, onOutput, onEnd }: RunTarget): RunConnection {
  const address = new URL(path, location.href)
  address.protocol = address.protocol.replace('http', 'ws')
  const socket = new WebSocket(address, [runProtocol, ticket])
  socket.binaryType = 'arraybuffer'
  const send = (request: RunRequest) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(request))
  }
  const opened = new Promise<void>((resolve) => socket.addEventListener('open', () => resolve()))
  let end: RunEnd | undefined
  let waiting = 0
  let isPaused = false
  const pace = (change: number) => {
    waiting += change
    const pause = isPaused ? waiting > fewWaiting : waiting > mostWaiting
    if (pause !== isPaused) send({ type: pause ? 'pause' : 'resume' })
    isPaused = pause
  }
  socket.addEventListener('message', ({ data }: MessageEvent<string | ArrayBuffer>) => {
    if (typeof data === 'string') {
      const message = readMessage(data)
      if (message?.type === 'exit') end = message as unknown as RunEnd
      return
    }
    const bytes = new Uint8Array(data, 1)
    pace(bytes.length)
    onOutput(bytes, () => pace(-bytes.length))
  })
  socket.addEventListener('close', () => onEnd(end ?? lost))
  if (!interactive) void opened.then(() => send({ type: 'end' }))
  return {
    write(text) {
      const bytes = new TextEncoder().encode(text)
      if (socket.readyState !== WebSocket.OPEN) return
      for (let from = 0; from < bytes.length; from += mostWritten) {
        socket.send(new Uint8Array([channels.input, ...bytes.subarray(from, from + mostWritten)]))
      }
    },
    resize: (columns, rows) => void opened.then(() => send({ type: 'resize', columns, rows })),
    close: () => socket.close(),
  }
}
