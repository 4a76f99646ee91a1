import { readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isCode, type Layout } from './layout.ts'

const pollMs = 10
const freezeDeadlineMs = 1_000
const killDeadlineMs = 10_000

/**
 * Returns the folder by which the processes of groups are listed. The folders of all controllers hold the same processes;
 * the freezer's is preferred, because its processes are the ones that are frozen.
 */
export function listingFolder({ folders }: Layout): string {
  const [first = ''] = folders.values()
  return folders.get('freezer') ?? first
}

/** Returns the pids of a group's processes; none when there is no such group. */
export async function processesOf(layout: Layout, name: string): Promise<number[]> {
  const text = await readFile(join(listingFolder(layout), name, 'cgroup.procs'), 'utf8').catch(() => '')
  return text.split('\n').filter(Boolean).map(Number)
}

/** Ends every process of a group. They are frozen first, so that none can fork meanwhile. */
export async function killGroup(layout: Layout, name: string): Promise<void> {
  const deadline = performance.now() + killDeadlineMs
  for (;;) {
    if ((await processesOf(layout, name)).length === 0) return
    if (performance.now() > deadline) throw new Error(`the processes of the group ${name} survive SIGKILL`)
    if (layout.version === 2) {
      await writeFile(join(listingFolder(layout), name, 'cgroup.kill'), '1').catch(() => undefined)
    }
    await freeze(layout, name, true)
    for (const pid of await processesOf(layout, name)) sendKill(pid)
    // A frozen process receives the signal when it is thawed.
    await freeze(layout, name, false)
    await sleep(pollMs)
  }
}

/** Freezes or thaws a group of version 1. Version 2 needs no freezer, because it kills a whole group at once. */
async function freeze({ version, folders }: Layout, name: string, frozen: boolean): Promise<void> {
  const folder = folders.get('freezer')
  if (folder === undefined || version === 2) return
  const file = join(folder, name, 'freezer.state')
  const deadline = performance.now() + freezeDeadlineMs
  do {
    await writeFile(file, frozen ? 'FROZEN' : 'THAWED').catch(() => undefined)
    // The state is FREEZING while some process is still inside the kernel.
    if (!frozen || (await readFile(file, 'utf8').catch(() => 'FROZEN')).trim() === 'FROZEN') return
    await sleep(pollMs)
  } while (performance.now() < deadline)
}

/** Deletes a group's folder, which stays busy for a moment after its last process has ended. */
export async function removeGroup(folder: string): Promise<void> {
  const deadline = performance.now() + killDeadlineMs
  for (;;) {
    try {
      return await rmdir(folder)
    } catch (error) {
      if (isCode(error, 'ENOENT')) return
      if (!isCode(error, 'EBUSY') || performance.now() > deadline) throw error
    }
    await sleep(pollMs)
  }
}

function sendKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has just ended.
  }
}
