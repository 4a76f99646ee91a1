import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { createWaitingQuestions, type Outcome } from '../../../server/src/gateway/program/waiting-questions.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const served: Record<string, { name: string; owner: object }> = {
  'a.test': { name: 'a.test', owner: { app: 'a' } },
  'b.test': { name: 'b.test', owner: { app: 'b' } },
}
const wild = { name: '*.wild.test', owner: { app: 'wild' } }

/** Questions for the names of three apps: `a.test`, `b.test`, and all below `wild.test` and `wild<number>.test`. */
function start() {
  const told: string[] = []
  const certificates = new Map<string, Buffer>()
  const state = { isServerThere: true }
  const questions = createWaitingQuestions({
    edge: {
      servedAs(hostname) {
        const [, name] = /\.(wild\d*\.test)$/.exec(hostname) ?? []
        return name === undefined ? (served[hostname] ?? null) : { ...wild, name: `*.${name}` }
      },
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

it('a question waits for 30 seconds, and then gets a negative answer', () => {
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

it('a server hears of a name once in ten seconds, and of a missed name as soon as the server is there', () => {
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

it('a question that was aborted or left to another gateway is not answered any more', () => {
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

it('an app leaves room for the others, however many of its names are asked for', () => {
  const { ask, outcomes } = start()
  const labels = Array.from({ length: 1_024 }, (_, index) => `x${index}`)
  for (const label of labels) ask(`${label}.wild.test`)
  expect(outcomes).toHaveLength(1_024 - 128)
  for (const label of labels) ask(`${label}.wild${label.length}.test`)
  expect(outcomes).toHaveLength(2 * 1_024 - 128)
  const giveUp = ask('a.test')
  ask('b.test')
  expect(outcomes).toHaveLength(2 * 1_024 - 128)
  giveUp()
  ask('x.wild.test')
  expect(outcomes).toHaveLength(2 * 1_024 - 127)
})
