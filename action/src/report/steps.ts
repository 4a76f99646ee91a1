import type { Deployment } from '../api/outcome.ts'
import { elapsed } from '../log.ts'

/** A part of the deployment and its duration, formatted. */
export interface Step {
  readonly title: string
  readonly took: string
}

/** The titles of the server's steps. Unknown steps of a newer server are skipped. */
const titles: Readonly<Record<string, string>> = {
  queued: 'Queued',
  fetch: 'Fetch',
  copy: 'Copy',
  plan: 'Plan',
  build: 'Build',
  start: 'Start',
  check: 'Health check',
  switch: 'Switch to the new release',
}

/**
 * Returns the known steps of a deployment. The server's times are compared only with each other, because its clock may
 * differ from this machine's clock.
 *
 * @param acceptedMs until the server accepted the deployment; `undefined` when it did not
 * @param totalMs of the whole step
 */
export function stepsOf(
  deployment: Deployment | undefined,
  acceptedMs: number | undefined,
  totalMs: number,
): readonly Step[] {
  const durations: readonly (readonly [string, number | undefined])[] = [
    ['Accepted by the server', acceptedMs],
    ...serverSteps(deployment),
    ['Whole step', totalMs],
  ]
  return durations.flatMap(([title, ms]) => (ms === undefined ? [] : [{ title, took: format(ms) }]))
}

/** The steps that the server recorded; two sums for servers without steps. The answer is not validated yet. */
function serverSteps(deployment: Deployment | undefined): (readonly [string, number | undefined])[] {
  const recorded: readonly unknown[] = Array.isArray(deployment?.steps) ? deployment.steps : []
  if (recorded.length > 0) {
    return recorded.slice(0, mostSteps).flatMap((step) => {
      const { name, started_at, finished_at }: Record<string, unknown> = Object(step)
      const title = typeof name === 'string' && Object.hasOwn(titles, name) ? titles[name] : undefined
      return title === undefined ? [] : [[title, between(started_at, finished_at)] as const]
    })
  }
  const { created_at, started_at, finished_at, status } = deployment ?? {}
  const work = status === 'running' || status === 'superseded' ? 'Fetched, built and started' : 'Worked on'
  return [
    ['Waited for its turn', between(created_at, started_at)],
    [work, between(started_at, finished_at)],
  ]
}

/** More than a deployment has, because the size of a summary is limited. */
const mostSteps = 20

/** Returns the milliseconds between two times in RFC 3339; `undefined` unless both are known and in order. */
function between(from: unknown, to: unknown): number | undefined {
  const ms = Date.parse(String(to)) - Date.parse(String(from))
  return ms >= 0 ? ms : undefined
}

/** Formats a duration in milliseconds; short ones with one decimal. */
function format(ms: number): string {
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : elapsed(ms)
}
