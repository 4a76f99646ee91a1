import type { FileHandle } from 'node:fs/promises'
import { expect, it } from 'vitest'
import type { BuildPlan } from '../../../server/src/builds/build-plan.ts'
import { failed } from '../../../server/src/builds/result.ts'
import { createBuildStep } from '../../../server/src/features/deployments/build.ts'
import type { DeploymentError } from '../../../server/src/features/deployments/failure.ts'
import { createInstanceControl } from '../../../server/src/features/deployments/instances.ts'
import { createLastLines } from '../../../server/src/features/deployments/release-log.ts'
import { createLogStore } from '../../../server/src/logs/log-store.ts'
import type { Command } from '../../../server/src/platform/command.ts'
import type { Builder, Exit, Release, Runtime } from '../../../server/src/runtimes/runtime.ts'
import { createRuntimes } from '../../../server/src/runtimes/runtimes.ts'
import { deploymentRow } from '../../harness/deployment-row.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const release = { id: 'dep_1', appId: 'app_1', projectId: 'proj_1', variables: {} } as unknown as Release
const signal = new AbortController().signal

interface Story {
  /** The numbers of builds before this build, as reported while it waits for a slot. */
  readonly waits?: readonly number[]
  /** The lines that each command prints, in order, with its exit code. */
  readonly runs: readonly (readonly [printed: readonly string[], code: number])[]
  readonly plan?: Partial<BuildPlan>
  readonly finishes?: boolean
}

const command = (...argv: Command['argv']): Command => ({ argv })

/** Lets a build fail with a real log, and returns its message. */
async function failureOf({ waits = [], runs, plan = {}, finishes = true }: Story): Promise<string> {
  await using directory = await temporaryDirectory()
  const logs = createLogStore({ directory: directory.path })
  const left = [...runs]
  const builder = {
    async build(_, { output }: { readonly output: FileHandle }, steps) {
      await output.write('warning: a sentence about the machine\n')
      return steps(async ({ argv }): Promise<Exit> => {
        const [printed = [], code = 0] = left.shift() ?? []
        await output.write([`$ ${argv.join(' ')}`, ...printed, ''].join('\n'))
        return { code, signal: null, exceeded: null }
      })
    },
  } as Pick<Builder, 'build'> as Builder
  const build = createBuildStep({
    logs,
    slots: {
      async use(_owner, _signal, work, onWait) {
        for (const before of waits) onWait?.(before)
        return work()
      },
    },
    jobs: { noteBuildsBefore: async () => undefined } as never,
    lastLines: createLastLines(logs),
    disk: {
      guard: async (_limit, guarded, step) => ({ value: await step(guarded), withinLimit: async () => undefined }),
    },
    credentialsFor: async () => null,
    settings: { buildTimeoutMs: 60_000, mostReleaseBytes: 1 },
  })
  const whole: BuildPlan = {
    kind: 'node',
    build: [command('npm', 'ci'), command('npm', 'run', 'build')],
    start: command('node', 'a.js'),
    notes: ['The Dockerfile is not used.', 'warning: another note'],
    ...plan,
  }
  const work = {
    plan: whole,
    finish: async () => (finishes ? { ok: true as const, value: whole } : failed('no_build_output', 'Nothing.')),
    steps: { begin: () => undefined },
  }
  const runtime = { builder, releases: { diskUsage: async () => 0 }, images: null } as never
  const error: unknown = await build(deploymentRow(), release, runtime, work, signal).catch((reason: unknown) => reason)
  return (error as DeploymentError).failure.message
}

const lines = (count: number, text = 'line') => Array.from({ length: count }, (_, at) => `${text} ${at}`)
const waits = [0, 1, 10, 150]
const outputs: readonly (readonly string[])[] = [[], ['the reason'], lines(20), lines(200)]
const ways: [string, (printed: readonly string[]) => Story][] = [
  ['the first command', (printed) => ({ runs: [[printed, 1]] })],
  [
    'a later command',
    (printed) => ({
      runs: [
        [lines(30, 'installed'), 0],
        [printed, 1],
      ],
    }),
  ],
  [
    'a second try',
    (printed) => ({
      runs: [
        [['npm error ERR_OSSL_EVP_UNSUPPORTED'], 1],
        [printed, 1],
      ],
    }),
  ],
  [
    'the release command',
    (printed) => ({
      runs: [
        [lines(9, 'installed'), 0],
        [lines(9, 'built'), 0],
        [printed, 1],
      ],
      plan: { release: command('migrate') },
    }),
  ],
  [
    'a build without output',
    (printed) => ({
      runs: [
        [['added'], 0],
        [printed, 0],
      ],
      finishes: false,
    }),
  ],
]
const cases = ways.flatMap(([name, story]) =>
  waits.flatMap((count) => outputs.map((printed) => [name, printed.length, count, story(printed), printed] as const)),
)

it.each(cases)(
  '%s that printed %i lines shows only these lines after %i notes of the queue',
  async (_, __, count, story, printed) => {
    const message = await failureOf({ ...story, waits: lines(count).map((_line, at) => count - at) })
    const [told, shown = ''] = message.split('\nIts last output:\n')
    expect(shown).toBe(printed.slice(-20).join('\n'))
    if (printed.length === 0 && story.finishes !== false) expect(told).toContain('It printed nothing.')
  },
)

it('a restarted instance shows no lines of its predecessor', async () => {
  await using directory = await temporaryDirectory()
  const logs = createLogStore({ directory: directory.path })
  const prints = ['before\n', '', 'after\n']
  const instances = {
    async start(_release: unknown, _command: unknown, output: FileHandle) {
      await output.write(prints.shift() ?? '')
      return { runtime: 'process', data: {} }
    },
    watch: (_handle: unknown, onExit: () => void) => onExit(),
    serveAt: async (handle: object) => ({ ...handle, data: { port: 1 } }),
  }
  const runtimes = createRuntimes({ name: 'process', instances, images: null } as unknown as Runtime, [])
  const control = createInstanceControl({ runtimes, logs })
  const lastLines = createLastLines(logs)
  const shown: string[][] = []
  for (let run = 0; run < 3; run += 1) {
    const handle = await control.start(release, 'process', command('node', 'a.js'))
    shown.push(await lastLines(release, 'runtime', await control.serveAt(handle, 1)))
  }
  expect(shown).toEqual([['before'], [], ['after']])
})
