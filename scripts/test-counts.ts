import { existsSync, readFileSync, writeFileSync } from 'node:fs'

/**
 * These things take most of the time of a run: `test/harness/counts.ts` adds a line to a file for each. `docs/testing.md` has the
 * numbers of whole runs.
 */
export const counted = ['server starts', 'deployments', 'databases', 'pages'] as const

export type Counts = Readonly<Record<(typeof counted)[number], number>>

/** A run may have this many times the numbers in the docs. */
const tolerance = 1.05

/** Reads the file of a run. */
export function readCounts(file: string): Counts {
  const lines = readFileSync(file, 'utf8').split('\n')
  const of = (name: string) => lines.filter((line) => line === name).length
  return Object.fromEntries(counted.map((name) => [name, of(name)])) as Record<(typeof counted)[number], number>
}

/** Returns the row of the docs about a command: `| \`npm test\` | 1 | 2 | 3 | 4 |`. Throws an error when there is none. */
export function budgetOf(command: string, docs: string): Counts {
  const row = docs
    .split('\n')
    .find((line) => line.startsWith(`| \`${command}\` |`) && /(\| *[\d,]+ *){4}\|$/.test(line))
  if (row === undefined) throw new Error(`docs/testing.md has no row of numbers for ${command}`)
  const numbers = row
    .split('|')
    .slice(2, -1)
    .map((cell) => Number(cell.replaceAll(',', '')))
  return Object.fromEntries(counted.map((name, at) => [name, numbers[at] ?? 0])) as Record<
    (typeof counted)[number],
    number
  >
}

/** Returns a sentence for each number that is above its budget. */
export function exceeded(counts: Counts, budget: Counts): string[] {
  return counted
    .filter((name) => counts[name] > budget[name] * tolerance)
    .map(
      (name) =>
        `${counts[name]} ${name} are more than the ${budget[name]} of docs/testing.md. Share them, or write why there are more.`,
    )
}

/** Formats numbers for a reader. */
export const describe = (counts: Counts): string => counted.map((name) => `${counts[name]} ${name}`).join(', ')

/** Makes an empty file of counts. */
export const startCounting = (file: string): void => writeFileSync(file, '')

/**
 * Returns how long the processors of the machine have worked, in seconds, from proc(5): user, nice, system, irq and softirq. Zero on
 * systems without this file.
 */
export function busySeconds(): number {
  if (!existsSync('/proc/stat')) return 0
  const [, user, nice, system, , , irq, softirq] = readFileSync('/proc/stat', 'utf8').split(/\s+/, 8)
  return [user, nice, system, irq, softirq].reduce((all, ticks) => all + Number(ticks) / 100, 0)
}
