import { text } from 'node:stream/consumers'
import { nameSourceLines } from '../platform/source-lines.ts'
import type { PlanRequest } from './build-plan.ts'
import { planSource } from './plan-source.ts'

/*
 * Plans the repository in a folder. `planner.ts` starts this program as a separate process. The input is a JSON array
 * of the folder and the request. The output is the plan as JSON, or the reason why there is none. A process that is not
 * needed, or whose server has ended, gets an empty input.
 */

nameSourceLines()
const input = await text(process.stdin)
if (input !== '') {
  const [directory, request] = JSON.parse(input) as [string, PlanRequest]
  process.stdout.write(JSON.stringify(await planSource(directory, request)))
}
