import { expect, it } from 'vitest'
import { afterCheck, type CheckHistory, nextCheckAt } from '../../../server/src/features/domains/due.ts'

const minute = 60_000
const start = new Date('2026-03-01T12:00:00Z')
const at = (minutes: number) => new Date(start.getTime() + minutes * minute)
const waiting: CheckHistory = { status: 'pending', asked_at: start, checks: 0, wrong_checks: 0, wrong_since: null }
const served: CheckHistory = { ...waiting, status: 'active', checks: 3 }

/** Returns the minutes after the start at which a domain is checked when all checks have the same result. */
function minutesOfChecks(first: CheckHistory, next: (before: CheckHistory, now: Date) => CheckHistory, most: number) {
  const minutes: number[] = []
  let history = first
  for (let now: Date | null = start; now !== null && minutes.length < most; now = nextCheckAt(history, now)) {
    minutes.push((now.getTime() - start.getTime()) / minute)
    history = next(history, now)
  }
  return minutes
}

it('an unverified domain is checked at growing intervals, at least every hour', () => {
  const again = (before: CheckHistory) => ({ ...before, checks: before.checks + 1 })
  expect(minutesOfChecks(waiting, again, 10)).toEqual([0, 1, 3, 8, 18, 38, 78, 138, 198, 258])
})

it('after a week it is checked only when its owner asks', () => {
  const again = (before: CheckHistory) => ({ ...before, checks: before.checks + 1 })
  const all = minutesOfChecks(waiting, again, 1000)
  expect(all.length).toBeLessThan(200)
  expect((all.at(-1) ?? 0) / 60 / 24).toBeCloseTo(7, 1)
})

it('a domain that is served is checked every six hours', () => {
  expect(minutesOfChecks(served, (before, now) => afterCheck(before, true, now), 3)).toEqual([0, 360, 720])
})

it('a domain with wrong DNS fails after three checks in a row over an hour, and not after two', () => {
  const first = afterCheck(served, false, start)
  const second = afterCheck(first, false, at(30))
  const third = afterCheck(second, false, at(60))
  expect([first.status, second.status, third.status]).toEqual(['active', 'active', 'failing'])
  expect(nextCheckAt(first, start)).toEqual(at(30))
  expect(nextCheckAt(third, at(60))).toEqual(at(120))
})

it('its owner’s repeated checks within an hour do not make it fail', () => {
  const many = Array.from({ length: 10 }).reduce<CheckHistory>(
    (before, _, n) => afterCheck(before, false, at(n)),
    served,
  )
  expect(many.status).toBe('active')
})

it('a single correct check ends a row of wrong checks', () => {
  const wrong = afterCheck(afterCheck(served, false, start), false, at(59))
  const right = afterCheck(wrong, true, at(60))
  expect(afterCheck(right, false, at(90))).toMatchObject({ status: 'active', wrong_checks: 1, wrong_since: at(90) })
})

it('a failing domain is served again as soon as a check finds it correct', () => {
  const failing: CheckHistory = { ...served, status: 'failing', wrong_checks: 5, wrong_since: start }
  expect(afterCheck(failing, true, at(300))).toMatchObject({ status: 'active', wrong_checks: 0, wrong_since: null })
})
