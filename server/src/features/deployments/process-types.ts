import type { BuildPlan } from '../../builds/build-plan.ts'
import type { Command } from '../../platform/command.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { staticServerName } from '../../platform/toolchain.ts'
import type { Handle, Release } from '../../runtimes/runtime.ts'
import { tablesOf } from './tables.ts'

export const web = 'web'

/**
 * Returns the name of a release's first instance, such as `web.1`. The number differs after the instance has replaced
 * an ended instance.
 */
export const firstName = (handle: Pick<Handle, 'process'> | null): string => handle?.process ?? `${web}.1`

export const firstNumber = (handle: Pick<Handle, 'process'> | null): number =>
  Number(firstName(handle).slice(web.length + 1))

/** Returns the numbers of a process type's instances, except the first instance of the release. */
export function numbersOf(
  { type, instances }: Pick<DesiredProcess, 'type' | 'instances'>,
  first: Pick<Handle, 'process'> | null,
): number[] {
  if (type !== web) return Array.from({ length: instances }, (_, index) => index + 1)
  const taken = firstNumber(first)
  const numbers = Array.from({ length: instances }, (_, index) => index + 1).filter((number) => number !== taken)
  return numbers.slice(0, Math.max(0, instances - 1))
}

export const isSite = ({ start }: Pick<BuildPlan, 'start'>): boolean => start.argv.includes(staticServerName)

export interface DesiredProcess {
  readonly type: string
  readonly command: Command
  readonly instances: number
  readonly memoryMb?: number
  readonly cpus?: number
}

export type Scale = ReadonlyMap<string, number>

/**
 * Returns the process types of a release, `web` first. The owner's numbers override the numbers in fairlead.json; by
 * default, there is one instance of `web` and no other. A static site has one instance, without a process.
 */
export function desiredProcesses(plan: BuildPlan, scale: Scale): DesiredProcess[] {
  const { [web]: ofWeb = {}, ...others } = plan.processes ?? {}
  const asked = isSite(plan) ? 1 : (scale.get(web) ?? ofWeb.instances ?? 1)
  return [
    { ...sizes(ofWeb), type: web, command: plan.start, instances: Math.max(1, asked) },
    ...Object.entries(others).flatMap(([type, { command, instances = 0, ...size }]) =>
      command === undefined ? [] : [{ ...sizes(size), type, command, instances: scale.get(type) ?? instances }],
    ),
  ]
}

const sizes = ({ memoryMb, cpus }: { readonly memoryMb?: number; readonly cpus?: number }) => ({
  ...(memoryMb === undefined ? {} : { memoryMb }),
  ...(cpus === undefined ? {} : { cpus }),
})

/** Returns a release with the limits of one of its process types: never more than the plan allows an instance. */
export function withLimits<Of extends Pick<Release, 'limits'>>(
  release: Of,
  { memoryMb, cpus }: Pick<DesiredProcess, 'memoryMb' | 'cpus'>,
): Of {
  const { limits } = release
  return {
    ...release,
    limits: {
      ...limits,
      // The kernel accepts only whole bytes, and 64.1 MB is not a whole number in floating point.
      memoryBytes: Math.min(limits.memoryBytes, Math.floor((memoryMb ?? Number.POSITIVE_INFINITY) * 1_000_000)),
      cpus: Math.min(limits.cpus, cpus ?? Number.POSITIVE_INFINITY),
    },
  }
}

/** Reduces the number of instances to the plan's limit, keeping instances of `web` first. */
export function withinPlan(processes: readonly DesiredProcess[], most: number): DesiredProcess[] {
  let left = most
  return processes.map((process) => {
    const instances = Math.min(process.instances, left)
    left -= instances
    return { ...process, instances }
  })
}

export const instancesOf = (processes: readonly DesiredProcess[]): number =>
  processes.reduce((sum, { instances }) => sum + instances, 0)

export interface Scales {
  of(on: Database | Transaction, appId: string): Promise<Scale>
  all(): Promise<ReadonlyMap<string, Scale>>
  /** Sets the number for a process type; null means the number in fairlead.json. */
  set(transaction: Transaction, appId: string, type: string, instances: number | null): Promise<void>
}

export function createScales({ database }: { readonly database: Database }): Scales {
  return {
    async of(on, appId) {
      const rows = await tablesOf(on).selectFrom('app_processes').selectAll().where('app_id', '=', appId).execute()
      return new Map(rows.map(({ type, instances }) => [type, instances]))
    },

    async all() {
      const scales = new Map<string, Map<string, number>>()
      for (const { app_id, type, instances } of await tablesOf(database)
        .selectFrom('app_processes')
        .selectAll()
        .execute()) {
        scales.set(app_id, (scales.get(app_id) ?? new Map()).set(type, instances))
      }
      return scales
    },

    async set(transaction, appId, type, instances) {
      const trx = tablesOf(transaction)
      if (instances === null) {
        await trx.deleteFrom('app_processes').where('app_id', '=', appId).where('type', '=', type).execute()
        return
      }
      await trx
        .insertInto('app_processes')
        .values({ app_id: appId, type, instances })
        .onConflict((conflict) => conflict.columns(['app_id', 'type']).doUpdateSet({ instances }))
        .execute()
    },
  }
}
