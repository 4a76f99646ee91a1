import { text } from 'node:stream/consumers'
import { nameSourceLines } from '../platform/machine/source-lines.ts'
import type { PlanRequest } from './build-plan.ts'
import { planSource } from './plan-source.ts'

/*
 * Plans the repository in a folder, for `planner.ts`, which starts this as a process of its own. The input is a JSON array
 * of the folder and the request. The plan, or why there is none, is printed as JSON. A process that was
 * started ahead and is not needed, or whose server has ended, gets an empty input.
 */

nameSourceLines()
const input = await text(process.stdin)
if (input !== '') {
  const [directory, request] = JSON.parse(input) as [string, PlanRequest]
  process.stdout.write(JSON.stringify(await planSource(directory, request)))
}
