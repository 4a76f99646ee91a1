import { readdir } from 'node:fs/promises'
import { listeningSockets, readStat, socketsHeldBy } from '../platform/processes.ts'

export interface PortHolder {
  readonly pid: number
  readonly command: string
}

/**
 * Finds the program that listens on a TCP port of this machine; `null` when there is none, or it belongs to another
 * user.
 */
export async function findHolder(port: number): Promise<PortHolder | null> {
  const sockets = (await listeningSockets()).filter((socket) => socket.port === port)
  const inodes = new Set(sockets.map(({ inode }) => inode))
  if (inodes.size === 0) return null
  const pids = (await readdir('/proc')).map(Number).filter(Number.isInteger)
  for (const pid of pids) {
    const held = (await socketsHeldBy([pid])).get(pid) ?? []
    const command = held.some((inode) => inodes.has(inode)) ? readStat(pid)?.command : undefined
    if (command !== undefined) return { pid, command }
  }
  return null
}
