import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { exists } from '../files.ts'
import type { Finding } from '../finding.ts'
import { currentLink, versionAt } from '../versions/versions.ts'
import { hasSystemd, lastErrors, propertiesOf } from './systemctl.ts'
import { appsUnitName, installedSettings, serverUnitName, type UnitSettings, unitDrift } from './units.ts'

/** Below this limit, a gateway with a few thousand visitors, and the releases behind it, run out of sockets. */
const leastOpenFiles = 65_536

/** Checks the service of this machine, if there is one, the limit of open files, and the folders of sockets. */
export async function serviceFindings(dataDirectory: string): Promise<Finding[]> {
  const settings = (await hasSystemd()) ? await installedSettings(serverUnitName) : undefined
  if (settings === undefined) {
    const found = 'not installed; see: fairlead service install'
    return [{ subject: 'service', state: 'ok', found }, await openFiles('self'), ...(await sockets(dataDirectory))]
  }
  const names = ['ActiveState', 'SubState', 'MainPID', 'WatchdogUSec', 'UnitFileState']
  const properties = await propertiesOf(serverUnitName, names)
  const isActive = properties['ActiveState'] === 'active'
  return [
    await service(properties),
    watchdog(properties['WatchdogUSec'] ?? ''),
    await openFiles(isActive ? (properties['MainPID'] ?? 'self') : 'self'),
    ...(await sockets(dataDirectory)),
    ...(settings === null
      ? [
          {
            subject: 'unit',
            state: 'missing',
            found: 'not written by fairlead service install',
            cost: 'nothing is known about it.',
          } as const,
        ]
      : [await unit(settings), await versionLink(settings), await delegation(settings)]),
  ]
}

async function service(properties: Readonly<Record<string, string>>): Promise<Finding> {
  const subject = 'service'
  const { ActiveState, SubState, UnitFileState } = properties
  const found = `${ActiveState} (${SubState}), ${UnitFileState}`
  if (ActiveState !== 'active') {
    const [error = 'see: journalctl -u fairlead'] = (await lastErrors(serverUnitName, 1)).slice(-1)
    return { subject, state: 'missing', found, cost: `the service does not run: ${error}` }
  }
  if (UnitFileState === 'enabled') return { subject, state: 'ok', found }
  return { subject, state: 'missing', found, cost: 'it does not start with this machine: systemctl enable fairlead' }
}

function watchdog(period: string): Finding {
  const subject = 'watchdog'
  if (period !== '' && period !== '0' && period !== 'infinity') return { subject, state: 'ok', found: period }
  const cost = 'a server that hangs is not restarted. Set WatchdogSec= in the unit.'
  return { subject, state: 'missing', found: 'off', cost }
}

async function unit(settings: UnitSettings): Promise<Finding> {
  const subject = 'unit'
  const drift = Object.keys(await unitDrift(settings))
  if (drift.length === 0) return { subject, state: 'ok', found: 'as this version writes it' }
  const cost = 'fairlead service status shows the difference, fairlead service install --force replaces it.'
  return { subject, state: 'missing', found: `${drift.join(' and ')} differ from what this version writes`, cost }
}

async function versionLink({ dataDirectory }: UnitSettings): Promise<Finding> {
  const subject = 'version link'
  const link = currentLink(dataDirectory)
  const linked = await versionAt(link)
  if (linked !== null) return { subject, state: 'ok', found: `${linked.version} in ${linked.root}` }
  const cost = 'the service cannot start. Remove the link if it is there, and run: fairlead service install'
  return { subject, state: 'broken', found: `${link} leads to no version`, cost }
}

const needed = ['memory', 'cpu', 'pids'] as const

/** Limits of apps need the controllers in the unit that was delegated for them. */
async function delegation({ user }: UnitSettings): Promise<Finding> {
  const subject = 'delegation'
  const cost = 'memory, CPU and processes of apps are limited by checks from outside, or not at all.'
  if (user !== null) return { subject, state: 'missing', found: `not possible for ${user}`, cost }
  const { ControlGroup = '' } = await propertiesOf(appsUnitName, ['ControlGroup'])
  const found = ControlGroup === '' ? `${appsUnitName} does not run` : ''
  const usable = ControlGroup === '' ? [] : await controllersOf(ControlGroup)
  if (needed.every((each) => usable.includes(each))) return { subject, state: 'ok', found: usable.join(', ') }
  return {
    subject,
    state: 'missing',
    found: found || `${appsUnitName} has ${usable.join(', ') || 'no controllers'}`,
    cost,
  }
}

async function controllersOf(group: string): Promise<string[]> {
  const second = await readFile(join('/sys/fs/cgroup', group, 'cgroup.controllers'), 'utf8').catch(() => null)
  if (second !== null)
    return second
      .trim()
      .split(' ')
      .filter((each) => needed.some((one) => one === each))
  const first = await Promise.all(needed.map((each) => exists(join('/sys/fs/cgroup', each, group))))
  return needed.filter((_, index) => first[index])
}

/** @param pid of the server, or `self` for the limit that a server started from here would have */
async function openFiles(pid: string): Promise<Finding> {
  const subject = 'open files'
  const limits = await readFile(`/proc/${pid}/limits`, 'utf8').catch(() => '')
  const hard = /^Max open files +\S+ +(\S+)/m.exec(limits)?.[1] ?? 'unlimited'
  if (hard === 'unlimited' || Number(hard) >= leastOpenFiles) return { subject, state: 'ok', found: `at most ${hard}` }
  const cost = `the server, and each app, gets no more than that, and connections fail when they are used up. Raise the limit to ${leastOpenFiles} or more (LimitNOFILE=, ulimit -Hn).`
  return { subject, state: 'missing', found: `at most ${hard}`, cost }
}

/**
 * Checks that only their owner may enter the folders of sockets: any user who can open such a socket can act for the
 * server.
 */
async function sockets(dataDirectory: string): Promise<Finding[]> {
  const subject = 'sockets'
  const folders = ['run', 'gateway', join('edge', 'caddy'), join('postgres', 'socket')].map((folder) =>
    join(dataDirectory, folder),
  )
  const modes = await Promise.all(
    folders.map((folder) =>
      stat(folder).then(
        ({ mode }) => mode & 0o777,
        () => null,
      ),
    ),
  )
  const open = folders.filter((_, index) => ((modes[index] ?? 0) & 0o077) !== 0)
  if (modes.every((mode) => mode === null)) return []
  if (open.length === 0) return [{ subject, state: 'ok', found: 'in folders that only their owners can enter' }]
  const cost = `other users can reach the server's sockets: chmod 700 ${open.join(' ')}`
  return [{ subject, state: 'missing', found: `${open.join(' and ')}: others may enter`, cost }]
}
