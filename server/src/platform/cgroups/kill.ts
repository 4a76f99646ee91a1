import { readdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { growingPause } from '../abort.ts'
import { sendSignal } from '../processes/kill.ts'
import { unlessShort } from '../processes/shortage.ts'
import { isCode, type Layout } from './layout.ts'

/** Processes that are killed are mostly gone within a millisecond or two, which a deployment waits for several times. */
const pauses = { firstMs: 1, longestMs: 10 }
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
  const text = await readFile(join(listingFolder(layout), name, 'cgroup.procs'), 'utf8').catch(unlessShort(''))
  return text.split('\n').filter(Boolean).map(Number)
}

/**
 * Ends every process of a group. It freezes them first, so that none can fork.
 *
 * @throws Error when processes survive SIGKILL for ten seconds, because the kernel blocks them or a loaded machine gives them no time
 */
export async function killGroup(layout: Layout, name: string): Promise<void> {
  const deadline = performance.now() + killDeadlineMs
  const pause = growingPause(pauses)
  for (;;) {
    const left = await processesOf(layout, name)
    if (left.length === 0) return
    if (performance.now() > deadline)
      throw new Error(`the processes ${left.join(', ')} of the group ${name} survive SIGKILL`)
    if (layout.version === 2) {
      await writeFile(join(listingFolder(layout), name, 'cgroup.kill'), '1').catch(() => undefined)
    }
    await freeze(layout, name, true)
    for (const pid of await processesOf(layout, name)) sendSignal(pid, 'SIGKILL')
    // A frozen process receives the signal when it is thawed.
    await freeze(layout, name, false)
    await pause()
  }
}

/** Freezes or thaws a group of version 1. Version 2 needs no freezer, because it kills a whole group at once. */
async function freeze({ version, folders }: Layout, name: string, frozen: boolean): Promise<void> {
  const folder = folders.get('freezer')
  if (folder === undefined || version === 2) return
  const file = join(folder, name, 'freezer.state')
  const deadline = performance.now() + freezeDeadlineMs
  const pause = growingPause(pauses)
  do {
    await writeFile(file, frozen ? 'FROZEN' : 'THAWED').catch(() => undefined)
    // The state is FREEZING while some process is still inside the kernel.
    if (!frozen || (await readFile(file, 'utf8').catch(() => 'FROZEN')).trim() === 'FROZEN') return
    await pause()
  } while (performance.now() < deadline)
}

/** Deletes a group's folder with those below, which stay busy for a moment after their last process has ended. */
export async function removeGroup(folder: string): Promise<void> {
  const deadline = performance.now() + killDeadlineMs
  const pause = growingPause(pauses)
  for (;;) {
    try {
      return await rmdir(folder)
    } catch (error) {
      if (isCode(error, 'ENOENT')) return
      if (!isCode(error, 'EBUSY') || performance.now() > deadline) throw error
    }
    // Only an engine that runs in a group makes others below it.
    for (const name of await foldersIn(folder)) await removeGroup(join(folder, name))
    await pause()
  }
}

/** Returns the names of the groups in a folder; none when it does not exist. */
export async function foldersIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(unlessShort([]))
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
}
