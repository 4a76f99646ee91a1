import { appendFileSync } from 'node:fs'

/** These things take most of the time of a run. `docs/testing.md` has the budgets. */
export type Counted = 'server starts' | 'deployments' | 'databases' | 'pages'

const file = process.env['TEST_COUNTS']

/** Counts something that a test made, in the file that the runner names. Processes append whole lines to it. */
export function count(what: Counted): void {
  if (file !== undefined) appendFileSync(file, `${what}\n`)
}

/** Counts what a line of a server's log reports. */
export function countLogLine(line: Readonly<Record<string, unknown>>): void {
  if (line['msg'] === 'ready') count('server starts')
  if (line['msg'] === 'deployment begins') count('deployments')
}
