import { open } from 'node:fs/promises'
import { SocketAddress } from 'node:net'
import { list, readLink } from './proc-files.ts'

/** A TCP socket in LISTEN state. */
export interface ListeningSocket {
  readonly port: number
  /** `0.0.0.0`, `127.0.0.1`, `::`, `::1`, … */
  readonly address: string
  readonly inode: string
  /** The owner of the socket. */
  readonly uid: number
}

/**
 * Returns all listening TCP sockets of this machine, IPv4 and IPv6. The read is asynchronous, in Node's thread pool: while
 * no connection is open, the kernel searches its whole table, which takes milliseconds.
 */
export async function listeningSockets(): Promise<ListeningSocket[]> {
  const sockets: ListeningSocket[] = []
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    for await (const line of linesOf(table)) {
      const [slot, local, , state, , , , uid, , inode] = line.trim().split(/\s+/)
      if (slot === 'sl') continue
      // Listening sockets (state 0A) come first. All others, of which there may be very many, are skipped.
      if (state !== '0A' || local === undefined || inode === undefined) break
      const [address = '', port = ''] = local.split(':')
      sockets.push({ port: Number.parseInt(port, 16), address: parseAddress(address), inode, uid: Number(uid) })
    }
  }
  return sockets
}

/** Returns the listening TCP sockets that these processes hold open. */
export async function listeningPorts(pids: readonly number[]): Promise<ListeningSocket[]> {
  const held = new Set(pids.flatMap((pid) => socketsHeldBy(pid) ?? []))
  if (held.size === 0) return []
  return (await listeningSockets()).filter((socket) => held.has(socket.inode))
}

/**
 * Returns the inodes of the sockets, of any kind, that a process holds open. Returns `null` when they are not visible: the
 * process is gone, or it belongs to another user and this process lacks CAP_SYS_PTRACE.
 */
export function socketsHeldBy(pid: number): string[] | null {
  const folder = `/proc/${pid}/fd`
  const targets = list(folder)?.map((descriptor) => readLink(`${folder}/${descriptor}`))
  // Root can list the descriptors without that capability, but not read what they refer to.
  if (targets === undefined || (targets.length > 0 && targets.every((target) => target === null))) return null
  return targets.flatMap((target) => /^socket:\[(\d+)\]$/.exec(target ?? '')?.[1] ?? [])
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
  const file = await open(path).catch(() => null)
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
