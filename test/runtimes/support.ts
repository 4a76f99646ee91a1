import { randomUUID } from 'node:crypto'
import { chmod, chown, cp, mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { vi } from 'vitest'
import { findProcesses, killAll } from '../../server/src/platform/processes.ts'
import type { OsUser } from '../../server/src/platform/users.ts'
import { createConfinement, noMeans } from '../../server/src/runtimes/process/confinement.ts'
import type { Limits } from '../../server/src/runtimes/process/limits.ts'
import { createProcessRunner } from '../../server/src/runtimes/process/process-runtime.ts'
import { enterProgram } from '../../server/src/runtimes/process/programs.ts'
import { prepareBin } from '../../server/src/runtimes/process/toolchain.ts'
import type { Instance, InstanceState, Plan, Release, Runner } from '../../server/src/runtimes/runtime.ts'
import { releasePorts } from '../harness/ports.ts'

/** Whom apps can run as in this test run: another user, too, when the tests are root. */
export const identities: { name: string; user: OsUser | null }[] = [
  ...(process.getuid?.() === 0 ? [{ name: 'a user of its own', user: { uid: 41001, gid: 41001 } }] : []),
  { name: "the server's user", user: null },
]

const limits: Limits = { memoryBytes: 512_000_000, cpus: 1 }

/** A folder with a toolchain and releases in it; everything that it starts ends with it. */
export interface Bench {
  readonly directory: string
  readonly node: string
  /** As a server after a restart would have it: it knows nothing of what the one before has started. */
  newRunner(): Runner
  release(fixture: string, options?: { user?: OsUser | null; variables?: Record<string, string> }): Promise<Release>
  processesOf(release: Release): Promise<number[]>
  dispose(): Promise<void>
}

export async function createBench(): Promise<Bench> {
  const directory = await mkdtemp(join(tmpdir(), 'fairlead-runner-'))
  await chmod(directory, 0o711)
  const { node, npmCli } = await provideToolchain(directory)
  const unused = '/nowhere.js'
  const bin = join(directory, 'bin')
  await prepareBin({
    directory: bin,
    node,
    npmCli,
    pnpmCli: unused,
    yarnCli: unused,
    modernYarnCli: unused,
    staticServer: unused,
  })
  const releases: Release[] = []
  return {
    directory,
    node,
    newRunner: () =>
      createProcessRunner({
        node,
        bin,
        buildEnvironment: { OPERATOR_SETTING: 'a mirror' },
        ports: releasePorts,
        confinement: createConfinement(noMeans),
        enter: enterProgram,
        logger: { info: () => undefined },
      }),
    release: async (fixture, { user = null, variables = {} } = {}) => {
      const id = `dep_${randomUUID()}`
      const appDirectory = join(directory, id)
      const logDirectory = join(directory, 'logs', id)
      const release = {
        id,
        directory: join(appDirectory, 'release'),
        logDirectory,
        appDirectory,
        user,
        limits,
        variables,
      }
      const source = join(release.directory, 'source')
      await mkdir(release.directory, { recursive: true, mode: 0o711 })
      await cp(fixturePath(fixture), source, { recursive: true })
      if (user !== null) await chownTree(source, user)
      releases.push(release)
      return release
    },
    processesOf: (release) => findProcesses(markerOf(release)),
    dispose: async () => {
      for (const release of releases) await killAll({ marker: markerOf(release) }, { graceMs: 0 })
      await rm(directory, { recursive: true, force: true })
    },
  }
}

export const fixturePath = (name: string): string => fileURLToPath(new URL(`../fixtures/apps/${name}`, import.meta.url))

export const plan = (start: Plan['start']['argv'], build: Plan['start']['argv'][] = []): Plan => ({
  kind: 'node',
  build: build.map((argv) => ({ argv })),
  start: { argv: start },
})

/** Waits until the instance is in this state. */
export function untilState<S extends InstanceState['state']>(
  runner: Runner,
  instance: Instance,
  state: S,
): Promise<Extract<InstanceState, { state: S }>> {
  return vi.waitFor(
    async () => {
      const seen = await runner.inspect(instance)
      if (seen.state !== state) throw new Error(`still ${JSON.stringify(seen)}`)
      return seen as Extract<InstanceState, { state: S }>
    },
    { timeout: 30_000, interval: 10 },
  )
}

const markerOf = (release: Release) => ({ name: 'FAIRLEAD_DEPLOYMENT_ID', value: release.id })

async function chownTree(path: string, user: OsUser): Promise<void> {
  await chown(path, user.uid, user.gid)
  for (const entry of await readdir(path, { recursive: true })) await chown(join(path, entry), user.uid, user.gid)
}

/** Node and npm where every user can read them: as installed, or copied when the checkout is private. */
async function provideToolchain(directory: string): Promise<{ node: string; npmCli: string }> {
  const npm = dirname(createRequire(import.meta.url).resolve('npm/package.json'))
  const node = process.execPath
  if ((await isPublic(node)) && (await isPublic(npm))) return { node, npmCli: join(npm, 'bin', 'npm-cli.js') }
  await cp(node, join(directory, 'toolchain', 'node'))
  await cp(npm, join(directory, 'toolchain', 'npm'), { recursive: true, dereference: true })
  return {
    node: join(directory, 'toolchain', 'node'),
    npmCli: join(directory, 'toolchain', 'npm', 'bin', 'npm-cli.js'),
  }
}

async function isPublic(path: string): Promise<boolean> {
  for (let at = path; ; at = dirname(at)) {
    if (((await stat(at)).mode & 0o1) === 0) return false
    if (at === dirname(at)) return true
  }
}
