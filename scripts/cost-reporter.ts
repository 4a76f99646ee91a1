import { dirname, relative } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'
import { busySeconds, type Counts, counted, readCounts } from './test-counts.ts'

interface Cost {
  readonly cpuSeconds: number
  readonly counts: Counts
}

/**
 * A reporter of vitest that prints what each file of tests costs: the CPU seconds of the whole machine, so nothing else
 * may run, and the file's counts. Files must run one after the other.
 */
export default class CostReporter implements Reporter {
  readonly #files = new Map<string, Cost>()
  readonly #begin = now()
  #last: Cost | null = null

  onTestModuleQueued(): void {
    if (this.#last !== null) return
    this.#last = now()
    process.stdout.write(`${heading}\n${row(difference(this.#last, this.#begin))}  before the first file\n`)
  }

  onTestModuleEnd(module: TestModule): void {
    const current = now()
    const file = relative(process.cwd(), module.moduleId)
    const state = module.ok() ? '' : '  FAILED'
    this.#files.set(`${file}${state}`, difference(current, this.#last ?? this.#begin))
    this.#last = current
    process.stdout.write(`${row(this.#files.get(`${file}${state}`) as Cost)}  ${file}${state}\n`)
  }

  onTestRunEnd(): void {
    const folders = Map.groupBy(this.#files, ([file]) => dirname(file))
    process.stdout.write(`\n${heading}\n`)
    for (const [folder, files] of [...folders].toSorted(([one], [other]) => one.localeCompare(other)))
      process.stdout.write(`${row(sum(files.map(([, cost]) => cost)))}  ${folder}, ${files.length} files\n`)
    process.stdout.write(`${row(sum([...this.#files.values()]))}  ${this.#files.size} files\n`)
  }
}

const heading = ['CPU s', ...counted].map((name) => name.padStart(13)).join(' ')

const row = ({ cpuSeconds, counts }: Cost): string =>
  [cpuSeconds.toFixed(1), ...counted.map((name) => String(counts[name]))].map((cell) => cell.padStart(13)).join(' ')

function now(): Cost {
  return { cpuSeconds: busySeconds(), counts: readCounts(process.env['TEST_COUNTS'] ?? '') }
}

function difference(one: Cost, other: Cost): Cost {
  return combine(one, other, (first, second) => first - second)
}

function sum(costs: readonly Cost[]): Cost {
  const [first, ...rest] = costs
  if (first === undefined) return difference(now(), now())
  return rest.reduce((all, each) => combine(all, each, (one, other) => one + other), first)
}

function combine(one: Cost, other: Cost, by: (one: number, other: number) => number): Cost {
  const counts = counted.map((name) => [name, by(one.counts[name], other.counts[name])])
  return { cpuSeconds: by(one.cpuSeconds, other.cpuSeconds), counts: Object.fromEntries(counts) }
}
