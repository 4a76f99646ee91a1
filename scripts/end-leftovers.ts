import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync, rmdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { namesOf } from '../server/src/runtimes/network/addresses.ts'

/**
 * Ends the processes that a run of tests leaves behind and removes its networks, control groups and folders, after any
 * end of the run: `node scripts/end-leftovers.ts RUN` waits for the end of its standard input, which the runner holds
 * open. The folders of a run have RUN in their names; its processes have such a folder in their command line,
 * environment or working directory, or RUN as their `TEST_RUN`. Networks and control groups have the names of their
 * data directories.
 */

const number = process.argv[2] ?? ''
if (number === '') throw new Error('the run has no number')
const mark = `flt-${number}-`

process.stdin.resume().on('end', () => {
  // A process may start another one during the search.
  let left = processes()
  for (let round = 0; round < 20 && left.length > 0; round += 1) {
    for (const pid of left) signal(pid)
    left = processes()
  }
  const folders = [tmpdir(), '/dev/shm', '/var/tmp'].flatMap((parent) =>
    list(parent)
      .filter((name) => name.startsWith(mark))
      .map((name) => join(parent, name)),
  )
  removeFromKernel(folders.flatMap((folder) => [folder, ...list(folder).map((name) => join(folder, name))]))
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})

/** Removes the networks, nftables tables and control groups of these data directories, and the other machines of the run. */
function removeFromKernel(dataDirectories: readonly string[]): void {
  const names = dataDirectories.map(namesOf)
  const tables = names.map(({ table }) => table)
  const interfaces = names.flatMap((each) => [each.interfaces, each.others])
  for (const name of list('/run/netns')) {
    if (name.startsWith(mark) || tables.some((table) => name.startsWith(`${table}-`)))
      run('ip', 'netns', 'delete', name)
  }
  for (const name of list('/sys/class/net')) {
    if (interfaces.some((each) => name.startsWith(each))) run('ip', 'link', 'delete', name)
  }
  for (const [, table = ''] of run('nft', 'list', 'tables').matchAll(/^table inet (fairlead-\S+)$/gm)) {
    if (tables.includes(table.replace(/-containers$/, ''))) run('nft', 'delete', 'table', 'inet', table)
  }
  const top = '/sys/fs/cgroup'
  for (const hierarchy of [top, ...list(top).map((name) => join(top, name))]) {
    for (const name of list(hierarchy)) {
      if (tables.some((table) => name === table || name.startsWith(`${table}-`))) removeGroup(join(hierarchy, name))
    }
  }
}

/** Removes a control group with the groups inside, unless processes are in them. */
function removeGroup(group: string): void {
  for (const { name } of readdirSync(group, { withFileTypes: true }).filter((entry) => entry.isDirectory())) {
    removeGroup(join(group, name))
  }
  try {
    rmdirSync(group)
  } catch {
    // The kernel keeps the group until its last process is gone.
  }
}

/** Returns the output of a system program; empty when it is missing or fails. */
function run(program: string, ...args: readonly string[]): string {
  try {
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' }
    return execFileSync(program, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 10_000 })
  } catch {
    return ''
  }
}

function processes(): number[] {
  return list('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid && isOfRun(pid))
}

function isOfRun(pid: number): boolean {
  const texts = [read(`/proc/${pid}/cmdline`), read(`/proc/${pid}/environ`), target(`/proc/${pid}/cwd`)]
  return texts.some((text) => text.includes(mark) || text.includes(`TEST_RUN=${number}\0`))
}

function signal(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}

function list(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}

function target(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
