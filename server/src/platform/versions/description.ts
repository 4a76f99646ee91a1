import { execFile } from 'node:child_process'
import { z } from 'zod'
import { lastLines } from '../machine/last-lines.ts'
import { newestMigration, oldestServerAfter } from '../migrations/schema.ts'
import { type InstalledVersion, programOf } from './installed.ts'

/** A version's answer to what it needs, with the settings of this environment. Fields are only ever added. */
export const versionDescription = z.object({
  version: z.string(),
  migrations: z.array(z.object({ name: z.string(), oldestServer: z.string().optional() })),
  /** The names of all settings that it knows. */
  settings: z.array(z.string()),
  /** Why it could not start here, such as a setting that it does not know. */
  problems: z.array(z.string()),
})

export type VersionDescription = Readonly<z.output<typeof versionDescription>>

/** The hidden command that prints the description; later versions keep it. */
export const describeCommandName = 'self-check'

const deadlineMs = 60_000

/** Starts a version as far as it takes to ask what it needs. Rejects with its last words when it cannot even do that. */
export function describeVersion(
  { root, version }: InstalledVersion,
  dataDirectory: string,
): Promise<VersionDescription> {
  const args = [programOf(root), describeCommandName, '--data-dir', dataDirectory]
  return new Promise((done, fail) => {
    execFile(process.execPath, args, { timeout: deadlineMs, maxBuffer: 16_000_000 }, (error, stdout, stderr) => {
      const text = lastLines(stderr.replace(/^\s+at .*$/gm, ''))
      if (error !== null) {
        const reason = error.killed ? `it did not answer within ${deadlineMs / 1000} s` : text || error.message
        return fail(new Error(`Version ${version} does not start on this machine:\n${reason}`))
      }
      try {
        done(versionDescription.parse(JSON.parse(stdout)))
      } catch {
        fail(new Error(`Version ${version} does not say what it needs; it is older than updates of this kind.`))
      }
    })
  })
}

/** The differences between two versions, as an operator sees them. */
export interface VersionChange {
  readonly from: string
  readonly to: string
  /** The migrations that the other version runs. */
  readonly migrations: readonly string[]
  /** False when servers of the two versions cannot run beside each other, so that the update needs a stop. */
  readonly besideEachOther: boolean
  /** True when this version still works after the other has run. */
  readonly wayBack: boolean
  readonly newSettings: readonly string[]
  readonly removedSettings: readonly string[]
  readonly problems: readonly string[]
}

/** Compares two versions. */
export function compareVersions(own: VersionDescription, other: VersionDescription): VersionChange {
  const known = own.migrations.map(({ name }) => name)
  const otherNames = other.migrations.map(({ name }) => name)
  const [newest, otherNewest] = [newestMigration(tableOf(own)), newestMigration(tableOf(other))]
  const isNewer = otherNewest >= newest
  // The schema is that of the newer of the two; the older has to work on it.
  const oldest = oldestServerAfter(tableOf(isNewer ? other : own)) ?? (isNewer ? otherNewest : newest)
  const works = (isNewer ? newest : otherNewest) >= oldest
  return {
    from: own.version,
    to: other.version,
    migrations: otherNames.filter((name) => !known.includes(name)),
    besideEachOther: works,
    wayBack: !isNewer || works,
    newSettings: other.settings.filter((name) => !own.settings.includes(name)),
    removedSettings: own.settings.filter((name) => !other.settings.includes(name)),
    problems: other.problems,
  }
}

const tableOf = ({ migrations }: VersionDescription) =>
  Object.fromEntries(
    migrations.map(({ name, oldestServer }) => [
      name,
      { up: async () => undefined, ...(oldestServer === undefined ? {} : { oldestServer }) },
    ]),
  )
