import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Bench } from './row.ts'
import { median } from './statistics.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const directory = join(root, 'action/dist')
/** True for the files that a runner loads. Licences are excluded. */
const isCode = (name: string) => /\.(m?js|json|wasm)$/.test(name)

const full = { rounds: 31 }
const brief: typeof full = { rounds: 1 }
const maximumKilobytes = 1_450
const maximumTimes = 3.5

/**
 * Measures the action's size and the time until its first error about an input, compared with the start of bare Node
 * and with a bundle of only GitHub's two packages.
 */
export const benchAction: Bench = async ({ signal, short }) => {
  const { rounds } = short ? brief : full
  await using packages = await bundleOfPackages(signal)
  const [kilobytes, packagesKilobytes] = [await kilobytesOf(directory), await kilobytesOf(packages.directory)]

  const bare: number[] = []
  const alone: number[] = []
  const action: number[] = []
  for (let round = 0; round < rounds; round++) {
    // Alternating, so that other load on the machine affects all alike.
    bare.push(await untilExit(['-e', '0'], signal))
    alone.push(await untilFirstError([join(packages.directory, 'index.mjs')], signal))
    action.push(await untilFirstError([join(directory, 'index.js')], signal))
  }
  const [bareMs, aloneMs, actionMs] = [median(bare), median(alone), median(action)]
  const times = actionMs / bareMs
  return {
    rows: [
      {
        name: 'action: bundle',
        measured: `${kilobytes.toFixed(0)} KB (${packagesKilobytes.toFixed(0)} KB the two packages alone)`,
        aim: { text: `≤ ${maximumKilobytes} KB`, met: kilobytes <= maximumKilobytes },
      },
      {
        name: 'action: start to first error',
        measured: `${times.toFixed(2)} × bare Node (${actionMs.toFixed(0)} ms, ${bareMs.toFixed(0)} ms; the two packages alone ${(aloneMs / bareMs).toFixed(2)} ×)`,
        aim: { text: `≤ ${maximumTimes} ×`, met: times <= maximumTimes },
      },
    ],
    notes: [
      `action: medians of ${rounds} rounds of each. The bundle is all code in action/dist; 1 KB is 1,000 bytes.`,
      'action: the start is the time from the spawning to the first error of a run without inputs; bare Node is `node -e 0`',
      'action: from the spawning to its exit.',
    ],
  }
}

/** Bundles a program that loads `@actions/core` and `@actions/github` and fails, as the action is bundled. */
async function bundleOfPackages(signal: AbortSignal): Promise<{ readonly directory: string } & AsyncDisposable> {
  // Inside the repository, where the packages are found.
  const made = await mkdtemp(join(root, 'action/packages-'))
  const entry = join(made, 'entry.mjs')
  const program = `import { setFailed } from '@actions/core'
import { context, getOctokit } from '@actions/github'
setFailed([context.eventName, getOctokit.name].join())
`
  await writeFile(entry, program)
  const bundler = join(root, 'node_modules/.bin/ncc')
  await promisify(execFile)(bundler, ['build', entry, '-o', join(made, 'dist'), '--quiet'], { signal }).catch(
    async (error: unknown) => {
      await rm(made, { recursive: true, force: true })
      throw error
    },
  )
  return {
    directory: join(made, 'dist'),
    [Symbol.asyncDispose]: () => rm(made, { recursive: true, force: true }),
  }
}

async function kilobytesOf(folder: string): Promise<number> {
  const names = (await readdir(folder)).filter(isCode)
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size))
  return sizes.reduce((sum, size) => sum + size, 0) / 1_000
}

async function untilExit(args: readonly string[], signal: AbortSignal): Promise<number> {
  const start = performance.now()
  const child = spawn(process.execPath, args, { env: {}, stdio: 'ignore', signal })
  await once(child, 'exit')
  return performance.now() - start
}

async function untilFirstError(args: readonly string[], signal: AbortSignal): Promise<number> {
  const start = performance.now()
  const child = spawn(process.execPath, args, { env: {}, stdio: ['ignore', 'pipe', 'ignore'], signal })
  const exited = once(child, 'exit')
  let text = ''
  let took: number | undefined
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    text += chunk
    if (text.includes('::error')) took ??= performance.now() - start
  })
  await exited
  if (took === undefined) throw new Error(`the action reported no error about its inputs: ${text}`)
  return took
}
