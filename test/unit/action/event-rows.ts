import { expect } from 'vitest'
import { readEvent, type WorkflowEvent } from '../../../action/src/event.ts'
import { pushEnvironment } from '../../harness/run-action.ts'
import type { Recorded } from './recorded.ts'

type Expected = Omit<WorkflowEvent, 'name' | 'repository'>
/** The event's name, its payload, GITHUB_REF, GITHUB_SHA, and the code to deploy. */
export type Row = readonly [
  title: string,
  event: string,
  payload: unknown,
  ref: string,
  sha: string,
  expected: Expected,
]

export const environmentOf = (event: string, payload: unknown, ref: string, sha: string) => ({
  ...pushEnvironment,
  GITHUB_REPOSITORY: (payload as Recorded | undefined)?.repository?.full_name ?? 'acme/shop',
  GITHUB_EVENT_NAME: event,
  GITHUB_REF: ref,
  GITHUB_SHA: sha,
})

/** Expects that the event of a row gives the row's result. */
export function expectEvent([, name, payload, ref, sha, expected]: Row): void {
  const env = environmentOf(name, payload, ref, sha)
  const { repository, ...event } = readEvent(env, payload)
  expect(event).toEqual({ name, ...expected })
  expect(repository?.fullName).toBe(env.GITHUB_REPOSITORY)
  expect(repository?.gitUrl).toBe(`https://github.com/${env.GITHUB_REPOSITORY}.git`)
}
