import type { ChildProcess } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { join } from 'node:path'
import { startProcess } from '../../platform/processes/spawn.ts'
import type { GatewayHome } from './program.ts'

export const logOf = ({ folder }: GatewayHome): string => join(folder, 'gateway.log')

/** Starts the process of a gateway that outlives this one. What it prints goes to its log; nothing is in its environment. */
export function spawnGateway([program, ...args]: readonly [string, ...string[]], home: GatewayHome): ChildProcess {
  // The folder may be that of a user with less rights, who could put a link there.
  const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW } = constants
  const log = openSync(logOf(home), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600)
  try {
    return startProcess(program, args, { cwd: '/', env: {}, detached: true, stdio: ['ignore', log, log, 'ipc'] })
  } finally {
    closeSync(log)
  }
}
