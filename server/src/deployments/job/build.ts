import type { BuildPlan } from '../../builds/build-plan.ts'
import type { LogName, LogStore } from '../../logs/log-store.ts'
import type { Command } from '../../platform/command.ts'
import type { Exit, Release, RunCommand, Runtime } from '../../runtimes/runtime.ts'
import { DeploymentError, limitMessage, withLastLines } from '../state/failure.ts'
import type { DiskGuard, DiskLimit } from './disk.ts'
import type { LastLines } from './log-lines.ts'
import { within } from './within.ts'

/**
 * Builds a release and runs its release command, with a log. Rejects with a `DeploymentError` that ends in the last lines
 * of what failed.
 */
export type BuildStep = (
  release: Release,
  runtime: Pick<Runtime, 'builder' | 'releases'>,
  plan: BuildPlan,
  signal: AbortSignal,
) => Promise<void>

export function createBuildStep(dependencies: {
  readonly logs: Pick<LogStore, 'open' | 'record'>
  readonly lastLines: LastLines
  readonly disk: Pick<DiskGuard, 'guard'>
  readonly settings: { readonly buildTimeoutMs: number; readonly mostReleaseBytes: number }
}): BuildStep {
  const { logs, lastLines, disk, settings } = dependencies

  return async (release, { builder, releases }, plan, signal) => {
    const log: LogName = { appId: release.appId, deploymentId: release.id, stream: 'build' }
    const limit: DiskLimit = {
      stage: 'build',
      mostBytes: settings.mostReleaseBytes,
      baseline: () => releases.diskUsage(release, 'shared'),
      async measure(enough) {
        const parts = (['release', 'shared'] as const).map((part) => releases.diskUsage(release, part, enough))
        return (await Promise.all(parts)).reduce((sum, bytes) => sum + bytes, 0)
      },
    }
    const output = await logs.open(log)
    const ended = Promise.withResolvers<void>()
    try {
      await logs.record(log, ended.promise)
      await builder.build(release, { output, signal }, (run) =>
        within('build', settings.buildTimeoutMs, signal, (limited) =>
          disk.guard(limit, limited, (guarded) => runPlan(run, plan, guarded, () => lastLines(release, 'build'))),
        ),
      )
    } finally {
      ended.resolve()
      await output.close()
    }
  }
}

async function runPlan(
  run: RunCommand,
  plan: BuildPlan,
  signal: AbortSignal,
  lastLines: () => Promise<string[]>,
): Promise<void> {
  for (const command of plan.build) {
    const exit = await run(command, signal)
    if (exit.code !== 0) throw failure('build_failed', command, exit, await lastLines())
  }
  if (plan.release === undefined) return
  const exit = await run(plan.release, signal)
  if (exit.code !== 0) throw failure('release_failed', plan.release, exit, await lastLines())
}

function failure(
  code: 'build_failed' | 'release_failed',
  { argv }: Command,
  { code: status, signal, exceeded }: Exit,
  lines: readonly string[],
): DeploymentError {
  const end = `${argv.join(' ')} ended ${signal === null ? `with code ${status}` : `by ${signal}`}.`
  if (exceeded !== null) {
    const message = withLastLines(`${limitMessage(exceeded, 'build')} ${end}`, lines)
    return new DeploymentError('build', exceeded.code, message)
  }
  return new DeploymentError('build', code, withLastLines(`${end} Put right what its output says.`, lines))
}
