import { appendFileSync } from 'node:fs'
import type { Counts } from '../../scripts/test-counts.ts'

const file = process.env['TEST_COUNTS']

/** Counts what tests start, in the file that the runner names. Processes append whole lines. */
export function count(what: keyof Counts): void {
  if (file !== undefined) appendFileSync(file, `${what}\n`)
}

/** Counts what a line of a server's log reports. */
export function countLogLine(line: Readonly<Record<string, unknown>>): void {
  if (line['msg'] === 'ready') count('server starts')
  if (line['msg'] === 'deployment begins') count('deployments')
}
