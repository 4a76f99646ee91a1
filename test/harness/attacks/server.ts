import { chmod, chown, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from '@fairlead/server/client'
import { expect } from 'vitest'
import type { Plans } from '../../../server/src/platform/plans.ts'
import { ordinaryUser } from '../ordinary-user.ts'
import { fairlead, type ServerProcess, serverProcess } from '../process.ts'
import { temporaryDirectory } from '../temporary.ts'
import type { Mode } from './claim.ts'

/** A customer with an account, a key with all rights, and a project. */
export interface Tenant {
  readonly account: string
  readonly key: string
  readonly client: Client
  readonly project: string
}

type Settings = Readonly<Record<string, string>>

export interface HostileOptions {
  /** The server's settings. A function runs before the first attack, so that it can start what the settings need. */
  readonly settings?: Settings | (() => Promise<Settings>)
  /** The server's limit of open files and connections; `null` for the limit of the tests. */
  readonly descriptors?: number | null
  /** Replaces the shipped plans. */
  readonly plans?: Plans
  /** Makes the folder for the data directory; by default a temporary folder. */
  readonly folder?: () => Promise<{ path: string } & AsyncDisposable>
}

export interface HostileServer extends AsyncDisposable {
  readonly mode: Mode
  readonly data: string
  /** The server's process; a restart replaces it. */
  readonly server: ServerProcess
  readonly attacker: Tenant
  readonly victim: Tenant
  readonly operator: Tenant
  /** Runs `fairlead` with this data directory, as the user of the server. */
  command(...args: string[]): ReturnType<typeof fairlead>
  /** Creates another customer, by default of the tier `free`. */
  tenant(name: string, tier?: string): Promise<Tenant>
  /** Stops the server and everything that runs; `restart` starts it again. */
  stop(): Promise<void>
  /** Kills the server (`kill -9`) and starts it again. */
  restart(): Promise<void>
}

/** Starts a server in a mode with an attacker, a victim and the operator. Stops everything at the end. */
export async function hostileServer(
  mode: Mode,
  { settings: given = {}, descriptors = null, plans, folder = temporaryDirectory }: HostileOptions = {},
): Promise<HostileServer> {
  await using cleanup = new AsyncDisposableStack()
  const user = mode === 'root' ? null : ordinaryUser
  const directory = cleanup.use(await folder())
  const data = join(directory.path, 'data')
  if (mode === 'user') {
    await mkdir(data, { mode: 0o700 })
    if (user !== null) await chown(data, user.uid, user.gid)
  }
  const settings = {
    ...(typeof given === 'function' ? await given() : given),
    ...(plans === undefined ? {} : { FAIRLEAD_PLANS_FILE: await plansFile(directory.path, plans) }),
  }
  const command = (...args: string[]) => fairlead([...args, '--data-dir', data], {}, { user })
  const output = async (...args: string[]) => {
    const { code, stdout, stderr } = await command(...args)
    expect(code, stderr).toBe(0)
    return stdout.trim()
  }
  let server = await serverProcess(data, settings, user, undefined, descriptors)
  cleanup.defer(async () => {
    await server[Symbol.asyncDispose]()
    await command('stop')
  })
  const withKey = async (account: string | null): Promise<Omit<Tenant, 'account'>> => {
    const key = await output(
      'keys',
      'create',
      '--new',
      '--name',
      'test',
      ...(account === null ? [] : ['--account', account]),
    )
    const client = server.clientFor(key)
    const { id: project } = await client.projects.create({ body: { name: 'p' } })
    return { key, client, project }
  }
  const tenant: HostileServer['tenant'] = async (name, tier = 'free') => {
    const account = await output('accounts', 'create', '--name', name, '--plan', tier)
    return { account, ...(await withKey(account)) }
  }
  const [attacker, victim, ofOperator] = await Promise.all([tenant('attacker'), tenant('victim'), withKey(null)])
  const operator = { account: 'operator', ...ofOperator }
  const port = new URL(server.url).port
  const owned = cleanup.move()
  return {
    mode,
    data,
    get server() {
      return server
    },
    attacker,
    victim,
    operator,
    command,
    tenant,
    async stop() {
      await server.stop()
      await output('stop')
    },
    async restart() {
      await server.kill()
      server = await serverProcess(data, { ...settings, FAIRLEAD_PORT: port }, user, undefined, descriptors)
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Writes the plans to a file that every user of the machine can read, and returns its path. */
async function plansFile(folder: string, plans: Plans): Promise<string> {
  const path = join(folder, 'plans.json')
  await writeFile(path, JSON.stringify(plans))
  await chmod(path, 0o644)
  return path
}
