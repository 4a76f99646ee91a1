import { rm } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { processesAround } from '../harness/process.ts'
import { temporaryDirectory } from '../harness/temporary.ts'
import { type Entry, entries } from './entries.ts'
import { type BenchResult, type Run, table } from './row.ts'
import type { Tool } from './tools.ts'

/*
 * `npm run bench [-- [--short] <name>…]`: runs all benchmarks or the named ones, and prints their results as a table. A
 * missed aim is not a failure. The exit status is 1 when a benchmark fails or exceeds its deadline, 2 for an unknown
 * name and 130 after Ctrl+C. `--short` runs one short round of each, prints a line for each, and no figures.
 */

/** The deadline of a short round, on a busy machine. */
const shortMinutes = 15
/** The time for a benchmark's clean-up after its deadline, before its processes are ended. */
const graceMs = 60_000

process.exit(await main(process.argv.slice(2)))

async function main(args: readonly string[]): Promise<number> {
  const short = args.includes('--short')
  const names = args.filter((arg) => arg !== '--short')
  const unknown = names.find((name) => entries[name] === undefined)
  if (unknown !== undefined) {
    console.error(`There is no row ${unknown}. The rows are: ${Object.keys(entries).join(', ')}.`)
    return 2
  }
  const interrupt = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupt.abort())

  const chosen = Object.entries(entries).filter(([name]) => names.length === 0 || names.includes(name))
  const needsOf = ({ needs, needsInFull }: Entry) => (short ? needs : [...needs, ...needsInFull])
  const missing = await namedMissing(chosen.map(([name, entry]) => ({ name, needs: needsOf(entry), uses: entry.uses })))
  const results: BenchResult[] = []
  let failed = 0
  for (const [name, entry] of chosen) {
    const lacking = needsOf(entry)
      .filter((tool) => missing.has(tool))
      .map((tool) => tool.name)
    if (lacking.length > 0) {
      console.log(`LEFT OUT  ${name}: there is no ${lacking.join(', ')}`)
      continue
    }
    if (!short) console.error(`Measuring ${name} …`)
    const began = performance.now()
    const seconds = () => `${((performance.now() - began) / 1000).toFixed(1)} s`
    try {
      results.push(await measured(entry, { signal: interrupt.signal, short }))
      if (short) console.log(`ok        ${name}: ${seconds()}`)
    } catch (error) {
      // An interruption causes the errors after it.
      if (interrupt.signal.aborted) {
        console.error('Interrupted. Everything was stopped.')
        return 130
      }
      console.log(`FAILED    ${name}: ${seconds()}`)
      console.error(error)
      failed += 1
    }
  }
  if (!short) print(results)
  return failed === 0 ? 0 : 1
}

/** Names the missing programs before the measurements. */
async function namedMissing(
  chosen: readonly (Pick<Entry, 'needs' | 'uses'> & { readonly name: string })[],
): Promise<ReadonlySet<Tool>> {
  const missing = new Set<Tool>()
  for (const tool of new Set(chosen.flatMap(({ needs, uses }) => [...needs, ...uses]))) {
    const why = await tool.missing()
    if (why === null) continue
    missing.add(tool)
    const without = (of: 'needs' | 'uses') => chosen.filter((row) => row[of].includes(tool)).map(({ name }) => name)
    const left = without('needs')
    const poorer = without('uses')
    console.log(
      [
        `MISSING   ${tool.name} (apt-get install ${tool.packages.join(' ')}): ${why}`,
        ...(left.length > 0 ? [`left out: ${left.join(', ')}`] : []),
        ...(poorer.length > 0 ? [`not in: ${poorer.join(', ')}`] : []),
      ].join('; '),
    )
  }
  return missing
}

/**
 * Runs a benchmark with its deadline. At the end everything that it created is removed, even if it did not stop by
 * itself.
 */
async function measured({ bench, minutes }: Entry, { signal, short }: Run): Promise<BenchResult> {
  const folder = await temporaryDirectory()
  // Everything that a benchmark starts has this folder in its arguments, its environment or as its working directory.
  process.env['TMPDIR'] = folder.path
  const limit = short ? shortMinutes : minutes
  const deadline = AbortSignal.timeout(limit * 60_000)
  const ending = AbortSignal.any([signal, deadline])
  const finished = bench({ signal: ending, short })
  try {
    return await Promise.race([finished, unlessStopped(ending)])
  } catch (error) {
    throw deadline.aborted ? new Error(`it exceeded its deadline of ${limit} minutes`, { cause: error }) : error
  } finally {
    delete process.env['TMPDIR']
    await endAll(folder.path)
    await Promise.race([finished.catch(() => undefined), sleep(graceMs)])
    await rm(folder.path, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** Rejects when a benchmark has not ended some time after the request. */
async function unlessStopped(ending: AbortSignal): Promise<never> {
  if (!ending.aborted) await new Promise((resolve) => ending.addEventListener('abort', resolve, { once: true }))
  await sleep(graceMs)
  throw ending.reason
}

async function endAll(folder: string): Promise<void> {
  for (const pid of await processesAround(folder)) {
    if (pid === process.pid) continue
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has just ended.
    }
  }
}

function print(results: readonly BenchResult[]): void {
  if (results.length === 0) return
  console.log(`\n${table(results.flatMap(({ rows }) => rows))}\n`)
  for (const { notes } of results) console.log(`${notes.join('\n')}\n`)
}
