import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'

export interface StartOptions extends SpawnOptions {
  /**
   * Makes the kernel end the process and its children before others when the machine is out of memory: by this many
   * thousandths of its memory that they seem to use more (oom_score_adj in proc(5)).
   */
  readonly outOfMemoryScore?: number
}

/**
 * Starts a process, as Node's `spawn` does. All processes are started here, because a process that cannot be started, when
 * descriptors or memory are used up, emits `error` later: without a listener that would end the server. Such a child has no
 * pid, and may lack its streams, whatever their types say; whoever waits for the error listens for it, too.
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
