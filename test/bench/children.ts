import { type ChildProcess, execFile } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const pollMs = 20

/** Resolves to the version that a program prints; null when it is not installed. */
export function versionOf(program: string, args: readonly string[]): Promise<string | null> {
  return new Promise((done, fail) => {
    execFile(program, args, { env: programEnvironment(), timeout: 10_000 }, (error, stdout, stderr) => {
      const [version] = /\d+(?:\.\d+)+/.exec(stdout + stderr) ?? []
      if (version !== undefined) done(version)
      else if (error?.code === 'ENOENT') done(null)
      else fail(new Error(`${program} does not print its version: ${stderr}`))
    })
  })
}

/** Returns the environment for system programs. Servers are installed in a folder that is not in every user's PATH. */
export function programEnvironment(): { PATH: string } {
  return { PATH: `${process.env['PATH']}:/usr/sbin` }
}

/** Polls until a response is a success. Rejects when the child exits first. */
export async function untilAnswering(url: string, child: ChildProcess, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted()
    if (hasEnded(child)) throw new Error(`${child.spawnfile} has ended before it answered`)
    const response = await fetch(url, { signal }).catch(() => undefined)
    if (response?.ok) {
      await response.text()
      return
    }
    await sleep(pollMs)
  }
}

/** Waits until a child accepts connections on a port of this machine. */
export async function untilAccepting(port: number, child: ChildProcess, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted()
    if (hasEnded(child)) throw new Error(`${child.spawnfile} has ended before it accepted connections`)
    const socket = connect(port, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (isOpen) return
    await sleep(pollMs)
  }
}

export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (hasEnded(child) || child.pid === undefined) return
  const exited = once(child, 'exit')
  child.kill(signal)
  await exited
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}
