import { constants } from 'node:os'
import type { ExceededLimit } from '../../limits.ts'
import type { Exit } from '../../runtime.ts'
import type { Container } from '../calls/types.ts'

/** A shell, the init process and the engine report an end by a signal as this and the number of the signal. */
const signalBase = 128

/** Returns the end of a container, or of a command in one, by its status. */
export function exitOf(status: number, exceeded: ExceededLimit | null = null): Exit {
  const number = status - signalBase
  const signal = Object.entries(constants.signals).find(([, each]) => each === number)?.[0]
  return signal === undefined ? { code: status, signal: null, exceeded } : { code: null, signal, exceeded }
}

/** @param refusedProcesses true when the container was seen to have been refused a process */
export function exitOfContainer({ State, HostConfig }: Container, refusedProcesses: boolean): Exit {
  const { ExitCode, OOMKilled } = State
  if (OOMKilled) {
    return exitOf(ExitCode, { code: 'out_of_memory', allowed: HostConfig.Memory ?? 0, used: null })
  }
  const allowed = HostConfig.PidsLimit ?? 0
  const tooMany = refusedProcesses && ExitCode !== 0
  return exitOf(ExitCode, tooMany ? { code: 'too_many_processes', allowed, used: allowed } : null)
}
