import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Bench } from './row.ts'
import { median } from './statistics.ts'

const directory = fileURLToPath(new URL('../../action/dist/', import.meta.url))
/** True for the files that a runner loads, which excludes the licences. */
const isCode = (name: string) => /\.(m?js|json|wasm)$/.test(name)

const rounds = 31
const maximumKilobytes = 1_240
const maximumTimes = 3.5

/** Measures the action's size and the time until its first error about an input, compared with the start of bare Node. */
export const benchAction: Bench = async (signal) => {
  const names = (await readdir(directory)).filter(isCode)
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(directory, name))).size))
  const kilobytes = sizes.reduce((sum, size) => sum + size, 0) / 1_000

  const bare: number[] = []
  const action: number[] = []
  for (let round = 0; round < rounds; round++) {
    // Alternating, so that other load on the machine affects both alike.
    bare.push(await untilExit(['-e', '0'], signal))
    action.push(await untilFirstError([join(directory, 'index.js')], signal))
  }
  const [bareMs, actionMs] = [median(bare), median(action)]
  const times = actionMs / bareMs
  return {
    rows: [
      {
        name: 'action: bundle',
        measured: `${kilobytes.toFixed(0)} KB`,
        aim: { text: `< ${maximumKilobytes} KB`, met: kilobytes < maximumKilobytes },
      },
      {
        name: 'action: start to first error',
        measured: `${times.toFixed(2)} × bare Node (${actionMs.toFixed(0)} ms, ${bareMs.toFixed(0)} ms)`,
        aim: { text: `< ${maximumTimes} ×`, met: times < maximumTimes },
      },
    ],
    notes: [
      `action: medians of ${rounds} rounds of each. The bundle is all code in action/dist; 1 KB is 1,000 bytes.`,
      'action: the start is the time from the spawning to the first ::error:: of a run without inputs; bare Node is `node -e 0`',
      'action: from the spawning to its exit.',
    ],
  }
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
    if (text.includes('::error::')) took ??= performance.now() - start
  })
  await exited
  if (took === undefined) throw new Error(`the action reported no error about its inputs: ${text}`)
  return took
}
