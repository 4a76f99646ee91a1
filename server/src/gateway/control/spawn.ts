import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { GatewayHome } from './program.ts'

export const logOf = ({ folder }: GatewayHome): string => join(folder, 'gateway.log')

/** Starts the process of a gateway that outlives this one. What it prints goes to its log; nothing is in its environment. */
export function spawnGateway([program, ...args]: readonly [string, ...string[]], home: GatewayHome): ChildProcess {
  const log = openSync(logOf(home), 'a', 0o600)
  try {
    return spawn(program, args, { cwd: '/', env: {}, detached: true, stdio: ['ignore', log, log, 'ipc'] })
  } finally {
    closeSync(log)
  }
}
