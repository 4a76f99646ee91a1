import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { createWaitingQuestions, type Outcome } from '../../server/src/gateway/program/waiting-questions.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

/** Questions for the one name that is served, `a.test`. */
function start() {
  const told: string[] = []
  const certificates = new Map<string, Buffer>()
  const state = { isServerThere: true }
  const questions = createWaitingQuestions({
    edge: {
      servedAs: (hostname) => (hostname === 'a.test' ? hostname : null),
      certificateOf: (hostname) => certificates.get(hostname) ?? null,
    },
    tell(hostname) {
      if (state.isServerThere) told.push(hostname)
      return state.isServerThere
    },
  })
  const outcomes: Outcome[] = []
  const ask = (hostname = 'a.test') => questions.ask(hostname, (outcome) => outcomes.push(outcome))
  return { ...questions, ask, told, certificates, outcomes, state }
}

it('a question waits for 30 seconds, and is answered that there is none then', () => {
  const { ask, outcomes, recheck } = start()
  ask()
  vi.advanceTimersByTime(29_999)
  recheck()
  expect(outcomes).toEqual([])
  vi.advanceTimersByTime(1)
  expect(outcomes).toEqual(['none'])
  vi.advanceTimersByTime(60_000)
  recheck()
  expect(outcomes).toEqual(['none'])
})

it('a server is told of a name once in ten seconds, and when it was not there as soon as it is', () => {
  const { ask, told, state, retell } = start()
  state.isServerThere = false
  ask()
  state.isServerThere = true
  retell()
  expect(told).toEqual(['a.test'])
  vi.advanceTimersByTime(9_999)
  ask()
  expect(told).toEqual(['a.test'])
  vi.advanceTimersByTime(1)
  ask()
  expect(told).toEqual(['a.test', 'a.test'])
})

it('one that was given up, or that was left to another gateway, is not answered any more', () => {
  const { ask, outcomes, endAll, certificates, recheck } = start()
  const giveUp = ask()
  ask()
  giveUp()
  endAll('elsewhere')
  certificates.set('a.test', Buffer.from('pem'))
  recheck()
  vi.advanceTimersByTime(60_000)
  expect(outcomes).toEqual(['elsewhere'])
})
