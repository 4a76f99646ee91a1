import type { FileHandle } from 'node:fs/promises'
import type { BuildPlan } from '../../builds/build-plan.ts'
import type { Result } from '../../builds/result.ts'
import type { LogStore } from '../../logs/log-store.ts'
import { isSignOfLife } from '../../platform/alive.ts'
import type { Command } from '../../platform/command.ts'
import type { Slots } from '../../platform/slots.ts'
import { commandLine } from '../../runtimes/command-line.ts'
import {
  type Exit,
  type Images,
  type RegistryCredentials,
  type Release,
  type RunCommand,
  type Runtime,
  RuntimeError,
} from '../../runtimes/runtime.ts'
import { anotherTry, buildAdvice } from './advice.ts'
import type { DiskGuard, DiskLimit, Unmeasured } from './disk-guard.ts'
import { DeploymentError, exceededLimit, seeOutput, withLastLines } from './failure.ts'
import { createQueueNotes, inBuildLog, type LastLines, withBuildLog } from './release-log.ts'
import type { JobTransitions } from './rows.ts'
import { type StepRecorder, within } from './steps.ts'
import type { DeploymentRow } from './tables.ts'

/**
 * Builds a release and runs its release command, with a log, once it has a build slot. The result comes before the
 * build's output is measured. Rejects with a `DeploymentError` that ends in the failed command's last lines.
 */
export type BuildStep = (
  row: DeploymentRow,
  release: Release,
  runtime: BuildRuntime,
  work: BuildWork,
  signal: AbortSignal,
) => Promise<Unmeasured<BuildPlan>>

type BuildRuntime = Pick<Runtime, 'builder' | 'releases' | 'images'>

export interface BuildWork {
  readonly plan: BuildPlan
  /** Returns the plan with the start command for the files that the build has written since a Unix time in ms. */
  readonly finish: (plan: BuildPlan, since: number) => Promise<Result<BuildPlan>>
  readonly steps: Pick<StepRecorder, 'begin'>
  /** Makes the release of another runtime from the build; absent when the building runtime keeps the release. */
  readonly pack?: (
    plan: BuildPlan,
    options: { readonly output: FileHandle; readonly signal: AbortSignal },
  ) => Promise<void>
  /** `kept` for a copy, which already has its programs; absent to use the programs of the plan. */
  readonly toolchain?: 'kept'
}

interface BuildDependencies {
  readonly logs: Pick<LogStore, 'open' | 'record'>
  /** Limits the number of builds that run at once; accounts take turns. */
  readonly slots: Pick<Slots<string>, 'use'>
  readonly jobs: Pick<JobTransitions, 'noteBuildsBefore'>
  readonly lastLines: LastLines
  readonly disk: DiskGuard
  readonly credentialsFor: (projectId: string, registry: string) => Promise<RegistryCredentials | null>
  readonly settings: { readonly buildTimeoutMs: number; readonly mostReleaseBytes: number }
}

export function createBuildStep(dependencies: BuildDependencies): BuildStep {
  const { logs, slots, jobs } = dependencies

  return async (row, release, runtime, work, signal) => {
    try {
      return await withBuildLog(logs, release, async (output) => {
        for (const note of work.plan.notes ?? []) await output.write(`${note}\n`)
        const queue = createQueueNotes(jobs, row, output)
        const wait = (before: number) => {
          work.steps.begin('queued')
          queue.note(before)
        }
        const turn = Promise.withResolvers<void>()
        const waiting = inBuildLog(output, 'waiting for a build slot', () => turn.promise)
        const begin = async () => {
          turn.resolve()
          await waiting
          work.steps.begin('build')
          await queue.end()
          return build(dependencies, release, runtime, { ...work, output }, signal)
        }
        return slots.use(row.account_id, signal, begin, wait).finally(() => {
          turn.resolve()
          return queue.settle()
        })
      })
    } catch (error) {
      if (error instanceof RuntimeError) throw new DeploymentError('build', error.code, error.message)
      throw error
    }
  }
}

/** Builds within the limits of time and space. The caller has waited for a slot. */
function build(
  { lastLines, disk, credentialsFor, settings }: BuildDependencies,
  release: Release,
  { builder, releases, images }: BuildRuntime,
  work: BuildWork & { readonly output: FileHandle },
  signal: AbortSignal,
): Promise<Unmeasured<BuildPlan>> {
  const { plan, output } = work
  const limit: DiskLimit = {
    stage: 'build',
    mostBytes: settings.mostReleaseBytes,
    freeElsewhere: releases.freeElsewhere,
    baseline: () => releases.diskUsage(release, 'shared'),
    measure: (enough) => releases.diskUsage(release, 'all', enough),
  }
  const log: BuildOutput = {
    output,
    async record(command) {
      const { size } = await output.stat()
      return async () => {
        const lines = (await lastLines(release, 'build', { logFrom: size })).filter((line) => !isSignOfLife(line))
        const name = command === null ? [] : `$ ${commandLine(command.argv)}`.split('\n')
        return name.every((line, at) => line === lines[at]) ? lines.slice(name.length) : lines
      }
    },
  }
  const limited = (steps: (guarded: AbortSignal) => Promise<BuildPlan>) =>
    within('build', settings.buildTimeoutMs, signal, (inTime) => disk.guard(limit, inTime, steps))
  if (plan.image !== undefined) {
    const ofProject = (registry: string) => credentialsFor(release.projectId, registry)
    return limited(async (guarded) => {
      const options = { output, lastLines: await log.record(null), signal: guarded, credentialsFor: ofProject }
      return inBuildLog(output, 'building the image', () => buildImage(images, release, work, options))
    })
  }
  return builder.build(release, { output, signal, toolchain: work.toolchain ?? plan.toolchain }, (run) =>
    limited(async (guarded) => {
      const built = await runPlan(run, work, guarded, log)
      await inBuildLog(output, 'making the image', async () => work.pack?.(built, { output, signal: guarded }))
      return built
    }),
  )
}

interface BuildOutput {
  readonly output: FileHandle
  /** Returns a function that reads the last lines that a command or the build of an image writes from now on. */
  readonly record: (command: Command | null) => Promise<() => Promise<string[]>>
}

/** File times come from a clock that the kernel advances at least a hundred times a second. */
const fileClockMs = 10

async function runPlan(
  run: RunCommand,
  { plan, finish }: BuildWork,
  signal: AbortSignal,
  { output, record }: BuildOutput,
): Promise<BuildPlan> {
  const runAlive = (command: Command) => inBuildLog(output, `running ${aliveName(command)}`, () => run(command, signal))
  const begun = Date.now() - fileClockMs
  let lastLines: () => Promise<string[]> = async () => []
  for (const command of plan.build) {
    lastLines = await record(command)
    const exit = await runAlive(command)
    if (exit.code === 0) continue
    const lines = await lastLines()
    const again = exit.exceeded === null ? anotherTry(command, lines) : null
    if (again === null) throw failure('build_failed', command, exit, lines)
    await output.write(`${again.note}\n`)
    lastLines = await record(again.command)
    const second = await runAlive(again.command)
    if (second.code !== 0) throw failure('build_failed', again.command, second, await lastLines())
  }
  const finished = await finish(plan, begun)
  if (!finished.ok) {
    throw new DeploymentError(
      'build',
      finished.failure.code,
      withLastLines(finished.failure.message, await lastLines()),
    )
  }
  if (plan.outputs !== undefined) await output.write(`The app starts with: ${commandLine(finished.value.start.argv)}\n`)
  if (plan.release === undefined) return finished.value
  lastLines = await record(plan.release)
  const exit = await runAlive(plan.release)
  if (exit.code !== 0) throw failure('release_failed', plan.release, exit, await lastLines())
  return finished.value
}

/** Commands that download packages wait for the network, and most print nothing about it. */
const getsPackages = /^(ci|install|add|sync|restore|fetch|download)$/

const aliveName = ({ argv }: Command): string =>
  commandLine(argv) +
  (argv.some((word) => getsPackages.test(word)) ? ', which may wait for packages from the network' : '')

function failure(
  code: 'build_failed' | 'release_failed',
  { argv }: Command,
  { code: status, signal, exceeded }: Exit,
  lines: readonly string[],
): DeploymentError {
  const end = `${commandLine(argv)} ended ${signal === null ? `with code ${status}` : `by ${signal}`}.`
  if (exceeded !== null) {
    return exceededLimit(exceeded, end, lines)
  }
  const message = [end, seeOutput(lines), buildAdvice(lines)].filter((part) => part !== undefined).join(' ')
  return new DeploymentError('build', code, withLastLines(message, lines))
}

/**
 * Builds the Dockerfile of a plan, and returns the plan. Rejects with a `DeploymentError` that ends in the build's last
 * lines.
 */
async function buildImage(
  images: Images | null,
  release: Release,
  { plan }: { readonly plan: BuildPlan },
  given: {
    readonly output: FileHandle
    readonly signal: AbortSignal
    readonly lastLines: () => Promise<readonly string[]>
    /** Returns the project's credentials for a registry; null when the project has none. */
    readonly credentialsFor: (registry: string) => Promise<RegistryCredentials | null>
  },
): Promise<BuildPlan> {
  const { output, signal, lastLines, credentialsFor } = given
  if (images === null || plan.image === undefined) {
    throw new DeploymentError('build', 'no_docker', 'This server builds no Dockerfiles any more.')
  }
  const { path } = plan.image
  const exit = await images.build(release, plan.image, { output, signal, credentialsFor })
  if (exit.code === 0) return plan
  const lines = await lastLines()
  const end = `The build of ${path} ended ${exit.signal === null ? `with code ${exit.code}` : `by ${exit.signal}`}.`
  if (exit.exceeded !== null) throw exceededLimit(exit.exceeded, end, lines)
  throw new DeploymentError('build', 'build_failed', withLastLines(`${end} ${seeOutput(lines)}`, lines))
}
