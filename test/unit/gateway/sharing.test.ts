import { Socket } from 'node:net'
import { expect, it } from 'vitest'
import { createSharing } from '../../../server/src/gateway/program/sharing.ts'

/** A main process with one worker, and the ids of the connections that the main process sent to it. */
function withWorker() {
  const sharing = createSharing()
  const sent: number[] = []
  const receiver = sharing.join(({ id }) => void sent.push(id))
  return { ...sharing, receiver, sent }
}

it('ports with one connection each do not all use the same process', () => {
  const { newShare, sent } = withWorker()
  for (const appId of ['a', 'b', 'c', 'd']) newShare({ appId })(new Socket(), () => {})
  expect(sent).toHaveLength(2)
})

it('a connection that was lost on its way to a worker is answered by the main process', () => {
  const { newShare, receiver, sent } = withWorker()
  const share = newShare({ appId: 'app' })
  const takenBack: Socket[] = []
  const sockets = Array.from({ length: 4 }, () => new Socket())
  const shared = sockets.filter((socket) => share(socket, () => takenBack.push(socket)))
  const [lost, taken] = shared
  expect([shared.length, sent.length]).toEqual([2, 2])
  receiver.taken(sent[1] ?? 0)
  expect(takenBack).toEqual([lost])
  expect([lost?.destroyed, taken?.destroyed]).toEqual([false, true])
  receiver.leave()
  expect(takenBack).toEqual([lost])
})
