import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

/** The peak usage of git while something ran. */
export interface GitPeak {
  /** The largest resident memory of one process, as the kernel recorded it. */
  readonly memoryBytes: number
}

/** Runs `work` and watches all processes of git on this machine. */
export async function watchGit(work: () => Promise<unknown>): Promise<GitPeak> {
  let memoryBytes = 0
  let working = true
  const watching = (async () => {
    while (working) {
      for (const status of await statusesOfGit()) {
        memoryBytes = Math.max(memoryBytes, Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024)
      }
      await sleep(5)
    }
  })()
  await work().finally(() => {
    working = false
  })
  await watching
  return { memoryBytes }
}

async function statusesOfGit(): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const statuses = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')))
  return statuses.filter((status) => status.startsWith('Name:\tgit'))
}
