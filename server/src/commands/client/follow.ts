import { setTimeout as sleep } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import type { Client } from '../../contract/client.ts'
import { ApiError } from '../../contract/errors.ts'
import { withVisible } from '../../contract/invisible.ts'
import type { Deployment } from './apps.ts'

export interface FollowedLog {
  readonly params: { readonly project_id: string; readonly id: string }
  readonly query: { readonly stream?: 'build' | 'runtime'; readonly process?: string; readonly tail?: string }
  /** Called with each line, which is untrusted text. */
  readonly print: (line: string) => void
  readonly signal: AbortSignal
}

const reconnectMs = 1_000

/** Prints the log of a deployment while it is written. Resolves when no more lines will come, or `signal` aborts. */
export function followLog(client: Client, { params, query, print, signal }: FollowedLog): Promise<void> {
  return followLines((headers) => client.deployments.logs({ params, query, headers, signal }), { print, signal })
}

/** Prints the log of an app over its releases while it is written, with a line before those of another release. */
export function followAppLog(
  client: Client,
  params: { readonly project_id: string; readonly app_id: string },
  { query, print, signal }: Omit<FollowedLog, 'params'>,
): Promise<void> {
  return followLines((headers) => client.logs.read({ params, query, headers, signal }), { print, signal })
}

/** Follows server-sent events over lost connections. */
async function followLines(
  open: (headers: Readonly<Record<string, string>>) => Promise<Pick<Response, 'body'>>,
  { print, signal }: Pick<FollowedLog, 'print' | 'signal'>,
): Promise<void> {
  let lastEventId = ''
  let release: string | undefined
  while (!signal.aborted) {
    try {
      const { body } = await open({
        accept: 'text/event-stream',
        ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }),
      })
      const events = (body ?? new ReadableStream())
        .pipeThrough(new TextDecoderStream())
        .pipeThrough(new EventSourceParserStream())
      for await (const { id, event, data } of events) {
        if (event === 'end') return
        lastEventId = id ?? lastEventId
        const line = lineOf(data)
        if (line.release !== release) print(`--- ${line.release} ---`)
        release = line.release
        print(withProcess(line.process, line.text))
      }
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof ApiError && error.status < 500) throw error
    }
    await sleep(reconnectMs, undefined, { signal }).catch(() => undefined)
  }
}

interface Line {
  readonly text: string
  readonly process: string | undefined
  readonly release: string | undefined
}

function lineOf(data: string): Line {
  const { text, process, deployment_id } = Object(JSON.parse(data)) as Readonly<Record<string, unknown>>
  return {
    text: typeof text === 'string' ? text : '',
    process: typeof process === 'string' ? process : undefined,
    release: typeof deployment_id === 'string' ? deployment_id : undefined,
  }
}

/** Returns a line after the name of the instance that wrote it. Those of the build and of `web.1`, the only one of most apps, have none. */
export const withProcess = (process: string | undefined, line: string): string =>
  process === undefined || process === 'web.1' || process === 'build' ? line : `${process} | ${line}`

/** Follows the build of a deployment to its outcome. Resolves to `undefined` when `signal` aborts. */
export async function followDeployment(
  client: Client,
  log: Omit<FollowedLog, 'query'>,
): Promise<Deployment | undefined> {
  const { params, signal } = log
  while (!signal.aborted) {
    await followLog(client, { ...log, query: { stream: 'build', tail: '10000' } })
    if (signal.aborted) break
    const deployment = await client.deployments.get({ params })
    if (deployment.status !== 'building') return deployment
    await sleep(reconnectMs, undefined, { signal }).catch(() => undefined)
  }
  return undefined
}

/**
 * Returns a line without characters that control a terminal, colours included, and with those visible that nobody sees: anybody may
 * have written it.
 */
export const printable = (line: string): string =>
  withVisible(stripVTControlCharacters(line).replace(/[^\P{Cc}\t]/gu, ''))
