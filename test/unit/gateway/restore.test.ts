import { expect, it } from 'vitest'
import type { DesiredState } from '../../../server/src/gateway/desired.ts'
import { type Connection, connectionLost, restore } from '../../../server/src/gateway/link.ts'

/** Apps that a gateway should have, but does not have. */
const desiredApps = (...ids: string[]): DesiredState =>
  ({
    apps: new Map(ids.map((appId) => [appId, { appId, address: { port: 1 }, upstream: null }])),
    names: { all: () => [], of: () => [] },
    certificates: new Map(),
    answers: new Map(),
  }) as unknown as DesiredState

/** A connection whose calls to open an address end as `open` says. */
function connection(open: (appId: string, attempt: number) => void) {
  const calls: string[] = []
  const call = async (name: string, argument: { readonly appId: string } | null) => {
    const told = argument === null ? name : `${name} ${argument.appId}`
    calls.push(told)
    if (argument !== null) open(argument.appId, calls.filter((each) => each === told).length)
  }
  return {
    calls,
    given: { welcome: { apps: [], edge: { names: [], certificates: [], answers: [] } }, call } as unknown as Connection,
  }
}

function log() {
  const lines: string[] = []
  return { lines, given: { error: (_: unknown, message: string) => lines.push(message) } as never }
}

const failure = (code: string) => Object.assign(new Error(code), { code })
const times = (calls: readonly string[], call: string) => calls.filter((each) => each === call).length

it('a taken address is retried until it is free, and nothing else waits for it', async () => {
  let isFree = false
  const { calls, given } = connection((appId) => {
    if (appId === 'taken' && !isFree) throw failure('EADDRINUSE')
  })
  const { lines, given: logger } = log()
  await restore(given, { desired: desiredApps('taken', 'free'), isListening: true }, logger)
  expect(calls).toEqual(['open taken', 'open free', 'listen'])
  expect(lines).toHaveLength(1)
  await expect.poll(() => times(calls, 'open taken')).toBeGreaterThan(2)
  isFree = true
  const { length } = calls
  await expect.poll(() => calls.length).toBeGreaterThan(length)
  expect(lines).toHaveLength(1)
})

it('a taken address is not retried once the connection is lost', async () => {
  const { calls, given } = connection((_, attempt) => {
    throw failure(attempt === 1 ? 'EADDRINUSE' : connectionLost)
  })
  await restore(given, { desired: desiredApps('taken'), isListening: false }, log().given)
  await expect.poll(() => calls).toEqual(['open taken', 'open taken'])
})

it('a broken connection ends the restoring', async () => {
  const { given } = connection(() => {
    throw failure(connectionLost)
  })
  await expect(restore(given, { desired: desiredApps('one'), isListening: false }, log().given)).rejects.toThrow(
    connectionLost,
  )
})
