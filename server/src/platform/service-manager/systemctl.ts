import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { exists } from '../files.ts'

export interface Output {
  /** 0 for success; -1 when the program cannot be run or took too long. */
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const folders = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Returns the folder with the sockets of this process's user, such as the socket of the systemd user manager. */
export const userSockets = (): string => `/run/user/${process.getuid?.()}`

/** Runs a program of systemd to its end. Never rejects. */
export function run(program: string, args: readonly string[], timeoutMs = 30_000): Promise<Output> {
  const env = {
    PATH: folders,
    LC_ALL: 'C.UTF-8',
    XDG_RUNTIME_DIR: userSockets(),
    // A pager or colours would change the output.
    SYSTEMD_PAGER: 'cat',
    SYSTEMD_COLORS: '0',
  }
  return new Promise((done) => {
    execFile(program, args, { env, timeout: timeoutMs, maxBuffer: 16 * 1024 * 1024 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
      done({ code, stdout, stderr: stderr === '' && error !== null ? error.message : stderr })
    })
  })
}

export async function systemctl(args: readonly string[], timeoutMs?: number): Promise<string> {
  const { code, stdout, stderr } = await run('systemctl', args, timeoutMs)
  if (code !== 0) throw new Error(`systemctl ${args.join(' ')} failed: ${stderr.trim()}`)
  return stdout
}

/** True when systemd runs this machine (sd_booted(3)). */
export const hasSystemd = (): Promise<boolean> => exists('/run/systemd/system')

/** True when the user of this process has a systemd user manager (user@.service). */
export const hasUserManager = (): Promise<boolean> => exists(`${userSockets()}/systemd/private`)

/** Returns properties of a unit by their names; a unit that does not exist has defaults. */
export async function propertiesOf(
  unit: string,
  names: readonly string[],
  manager: 'system' | 'user' = 'system',
): Promise<Readonly<Record<string, string>>> {
  const { stdout } = await run('systemctl', [`--${manager}`, 'show', unit, `--property=${names.join(',')}`])
  return Object.fromEntries(
    stdout.split('\n').flatMap((line) => {
      const [, name, value] = /^(\w+)=(.*)$/.exec(line) ?? []
      return name === undefined ? [] : [[name, value ?? '']]
    }),
  )
}

/**
 * Returns the pids in the control group of a unit and in the groups below it, also when systemd counts the unit as
 * stopped.
 */
export async function processesOfUnit(unit: string): Promise<number[]> {
  const pids = (await readdir('/proc')).map(Number).filter(Number.isInteger)
  const groups = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')))
  return pids.filter((_, index) => isInUnit(groups[index] ?? '', unit))
}

/** @param cgroup the text of `/proc/<pid>/cgroup` (cgroups(7)) */
export const isInUnit = (cgroup: string, unit: string): boolean => foldersOf(cgroup).includes(unit)

/** Returns the innermost service that a process is in, by the text of its `/proc/<pid>/cgroup`; `null` for none. */
export const unitIn = (cgroup: string): string | null =>
  foldersOf(cgroup).findLast((folder) => folder.endsWith('.service')) ?? null

function foldersOf(cgroup: string): string[] {
  return cgroup.split('\n').flatMap((line) => {
    const [, controller, ...path] = line.split(':')
    return controller === '' || controller === 'name=systemd' ? path.join(':').split('/') : []
  })
}

/** Returns the last lines of a unit's journal that say what went wrong. */
export async function lastErrors(unit: string, most = 5): Promise<string[]> {
  const { stdout } = await run('journalctl', ['--unit', unit, '--lines', '1000', '--output', 'cat', '--no-pager'])
  return stdout.split('\n').filter(isError).slice(-most)
}

/** The server logs JSON lines with a level (50 for an error), and its command one line with its name. */
function isError(line: string): boolean {
  if (!line.startsWith('{'))
    return /^fairlead: |^ {2}\S|Failed with result|code=exited, status=[^0]|Watchdog timeout/.test(line)
  try {
    return Number((JSON.parse(line) as { level?: unknown }).level) >= 50
  } catch {
    return false
  }
}
