import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'

export interface StartOptions extends SpawnOptions {
  /**
   * Makes the kernel end the process and its children before others when the machine is out of memory: they seem to use
   * this many thousandths of its memory more (oom_score_adj in proc(5)).
   */
  readonly outOfMemoryScore?: number
}

/**
 * Starts a process as Node's `spawn` does. All processes are started here: when descriptors or memory run out, a
 * process that cannot start emits `error` later, and without a listener this would end the server. Such a child has no
 * pid, and may lack its streams despite their types. A caller that needs the error adds another listener.
 */
export function startProcess(program: string, args: readonly string[], options: StartOptions): ChildProcess {
  const { outOfMemoryScore, ...others } = options
  const child = spawn(program, args, others).on('error', () => undefined)
  if (outOfMemoryScore !== undefined && child.pid !== undefined) setScore(child.pid, outOfMemoryScore)
  return child
}

function setScore(pid: number, score: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(score))
  } catch {
    // It has already ended, or this machine does not allow it.
  }
}
