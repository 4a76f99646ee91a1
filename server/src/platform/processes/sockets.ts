import { open } from 'node:fs/promises'
import { SocketAddress } from 'node:net'
import { takingTurns } from './find.ts'
import { list, readLink, unlessShort } from './stat.ts'

export interface ListeningSocket {
  readonly port: number
  /** `0.0.0.0`, `127.0.0.1`, `::`, `::1`, … */
  readonly address: string
  readonly inode: string
  readonly uid: number
}

/**
 * Returns all listening TCP sockets, IPv4 and IPv6, of the network of a process, by default the network of the server.
 * The read is asynchronous, in Node's thread pool: while no connection is open, the kernel searches its whole table,
 * which takes milliseconds.
 */
export async function listeningSockets(pid: number | 'self' = 'self'): Promise<ListeningSocket[]> {
  const sockets: ListeningSocket[] = []
  for (const table of ['tcp', 'tcp6']) {
    for await (const line of linesOf(`/proc/${pid}/net/${table}`)) {
      const [slot, local, , state, , , , uid, , inode] = line.trim().split(/\s+/)
      if (slot === 'sl') continue
      // Listening sockets (state 0A) come first. The others may be very many, and are skipped.
      if (state !== '0A' || local === undefined || inode === undefined) break
      const [address = '', port = ''] = local.split(':')
      sockets.push({ port: Number.parseInt(port, 16), address: parseAddress(address), inode, uid: Number(uid) })
    }
  }
  return sockets
}

/**
 * Returns a name for the network of a process. Processes in the same network get the same name. `null` when it is not
 * visible.
 */
export const networkOf = (pid: number | 'self'): string | null => readLink(`/proc/${pid}/ns/net`)

export async function listeningPorts(pids: readonly number[]): Promise<ListeningSocket[]> {
  const held = new Set([...(await socketsHeldBy(pids)).values()].flatMap((inodes) => inodes ?? []))
  if (held.size === 0) return []
  return (await listeningSockets()).filter((socket) => held.has(socket.inode))
}

/**
 * Returns the inodes of all kinds of sockets that each process holds open. Returns `null` for a process whose sockets
 * are not visible: it is gone, or it belongs to another user and this process lacks CAP_SYS_PTRACE. Takes turns with
 * other work, because an app can have millions of descriptors.
 */
export async function socketsHeldBy(pids: readonly number[]): Promise<Map<number, readonly string[] | null>> {
  const pause = takingTurns()
  const held = new Map<number, readonly string[] | null>()
  for (const pid of pids) held.set(pid, await socketsOf(pid, pause))
  return held
}

async function socketsOf(pid: number, pause: () => Promise<void>): Promise<readonly string[] | null> {
  const folder = `/proc/${pid}/fd`
  const descriptors = list(folder)
  const inodes: string[] = []
  let isVisible = descriptors?.length === 0
  for (const descriptor of descriptors ?? []) {
    await pause()
    const target = readLink(`${folder}/${descriptor}`)
    // Without CAP_SYS_PTRACE, root can list descriptors but not read their targets.
    if (target === null) continue
    isVisible = true
    const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1]
    if (inode !== undefined) inodes.push(inode)
  }
  return isVisible ? inodes : null
}

/** Parses an address, which the kernel writes as 32-bit words in the byte order of the machine (little-endian). */
function parseAddress(hex: string): string {
  const bytes = Buffer.from(hex, 'hex').swap32()
  if (bytes.length === 4) return bytes.join('.')
  const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(index * 2).toString(16))
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address
}

/** Yields the lines of a file, reading it only as far as they are consumed. */
async function* linesOf(path: string): AsyncGenerator<string> {
  const file = await open(path).catch(unlessShort(null))
  if (file === null) return
  try {
    let rest = ''
    for (;;) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(16 * 1024))
      if (bytesRead === 0) return
      const lines = (rest + buffer.toString('latin1', 0, bytesRead)).split('\n')
      rest = lines.pop() ?? ''
      yield* lines
    }
  } finally {
    await file.close()
  }
}
