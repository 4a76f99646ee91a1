import { setTimeout as sleep } from 'node:timers/promises'
import type { Followers } from './followers.ts'
import type { RequestLoad } from './requests.ts'
import type { SocketLoad } from './sockets.ts'
import { type UploadOutcome, upload } from './upload.ts'

/** The additional guarantees of a phase. Requests to apps and processes of apps may never be lost. */
export interface Expectation {
  /** No request to the API fails. */
  readonly api: boolean
  /** The running upload becomes a complete file. */
  readonly upload: boolean
  /** No WebSocket closes. */
  readonly sockets: boolean
}

export interface Phase {
  readonly name: string
  readonly expects: Expectation
  run(): Promise<void>
}

export interface Subject {
  readonly loads: {
    readonly apps: RequestLoad
    readonly api: RequestLoad
    readonly sockets: SocketLoad
    readonly followers: Followers
  }
  /** The processes of the apps. */
  pids(): Promise<number[]>
  readonly storage: string
  readonly apiKey: string
}

const uploadBytes = 1024 ** 3
const uploadMs = 25_000
const beforeMs = 3_000

/** Runs one phase after another, each in the middle of an upload, and prints a line for it. Returns the exit status. */
export async function runPhases(subject: Subject, phases: readonly Phase[]): Promise<number> {
  let problems = 0
  for (const phase of phases) {
    for (const problem of await runPhase(subject, phase)) {
      problems += 1
      console.log(`  ${problem}`)
    }
  }
  console.log(problems === 0 ? 'Nothing was lost.' : `${problems} problems.`)
  return problems === 0 ? 0 : 1
}

async function runPhase({ loads, pids, storage, apiKey }: Subject, { name, expects, run }: Phase): Promise<string[]> {
  await loads.sockets.reopen()
  for (const load of Object.values(loads)) load.take()
  const before = await pids()
  const uploading = upload({ storage, apiKey, bytes: uploadBytes, ms: uploadMs })
  await sleep(beforeMs)
  const startedAt = performance.now()
  await run()
  const ms = performance.now() - startedAt
  const outcome = await uploading
  const after = await pids()

  const apps = loads.apps.take()
  const api = loads.api.take()
  const sockets = loads.sockets.take()
  const followers = loads.followers.take()
  const samePids = JSON.stringify(before) === JSON.stringify(after)
  console.log(
    `${name}: ${(ms / 1000).toFixed(1)} s. Apps: ${apps.count} requests, ${apps.failed} failed, slowest ${Math.round(apps.slowestMs)} ms, ` +
      `${before.length} processes ${samePids ? 'the same' : 'others'}. WebSockets: ${sockets.closed} closed, ${sockets.echoed} echoes. ` +
      `API: ${api.count} requests, ${api.failed} failed, slowest ${Math.round(api.slowestMs)} ms. ` +
      `Logs: ${followers.lines} lines, ${followers.wrong.length} wrong, ${followers.reopened} opened again. Upload: ${describe(outcome)}.`,
  )
  return [
    ...apps.failures.map((failure) => `a request to an app failed: ${failure}`),
    ...(samePids ? [] : [`the apps have other processes: ${before} before, ${after} after`]),
    ...(expects.sockets && sockets.closed > 0 ? [`${sockets.closed} WebSockets were closed`] : []),
    ...(expects.api ? api.failures.map((failure) => `a request to the API failed: ${failure}`) : []),
    ...(expects.upload && !outcome.whole ? [`the upload is not whole: ${outcome.reason}`] : []),
    ...followers.wrong.map((line) => `a follower of a log read a wrong line: ${line}`),
  ]
}

function describe(outcome: UploadOutcome): string {
  return outcome.whole ? 'whole' : `not whole (${outcome.reason})`
}
