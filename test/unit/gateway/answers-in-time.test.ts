import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import type { ToEngine } from '../../../server/src/gateway/protocol/calls.ts'
import { callOverdue, createCalls, startDeadline } from '../../../server/src/gateway/protocol/rpc.ts'
import { watchAnswers } from '../../../server/src/gateway/protocol/watch.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Calls to another process, with the unanswered calls. */
function asked() {
  const open: Extract<ToEngine, { type: 'request' }>[] = []
  const canceled: number[] = []
  const calls = createCalls(
    (message) => void (message.type === 'cancel' ? canceled.push(message.id) : open.push(message)),
  )
  let messages = 0
  const answer = (result: number | null = null) => {
    messages += 1
    const [call] = open.splice(0, 1)
    if (call !== undefined) calls.settle({ type: 'reply', id: call.id, result })
  }
  const notice = () => {
    messages += 1
  }
  return { calls, open, canceled, answer, notice, received: () => messages }
}

it('a call without a reply fails, and is canceled', async () => {
  const { calls, canceled } = asked()
  const failed = vi.fn()
  calls.call('listen', null).catch(failed)
  await vi.advanceTimersByTimeAsync(29_000)
  expect(failed).not.toHaveBeenCalled()
  await vi.advanceTimersByTimeAsync(3_000)
  expect(failed).toHaveBeenCalledWith(expect.objectContaining({ code: callOverdue }))
  expect(canceled).toEqual([1])
})

it('a call may take as long as its parameters allow', async () => {
  const { calls, answer } = asked()
  const replied = calls.call('stop', { timeoutMs: 60_000 })
  await vi.advanceTimersByTimeAsync(80_000)
  answer()
  expect(await replied).toBeNull()
})

it('a deadline that passed while the process was suspended leaves time to read the replies', () => {
  const expired = vi.fn()
  startDeadline(10_000, expired)
  // When Node continues, due timers run before it reads anything.
  vi.advanceTimersToNextTimer()
  expect(expired).not.toHaveBeenCalled()
  vi.advanceTimersToNextTimer()
  expect(expired).toHaveBeenCalledOnce()
})

function watched() {
  const other = asked()
  const onSilent = vi.fn()
  return {
    ...other,
    onSilent,
    watch: watchAnswers({ ...other.calls, received: other.received }, { silentMs: 5_000, onSilent }),
  }
}

it('a process without answers for the whole period is reported once', async () => {
  const { open, watch, onSilent } = watched()
  await vi.advanceTimersByTimeAsync(5_900)
  expect([open.length, watch.silentForMs(), onSilent.mock.calls.length]).toEqual([1, 4_000, 0])
  await vi.advanceTimersByTimeAsync(60_000)
  expect(onSilent).toHaveBeenCalledOnce()
})

it('a process that answers is asked again, and says how many of its processes do not', async () => {
  const { open, answer, watch, onSilent } = watched()
  for (let second = 0; second < 20; second += 1) {
    await vi.advanceTimersByTimeAsync(1_000)
    expect(open).toHaveLength(1)
    answer(2)
  }
  expect(watch.silentOthers()).toBe(2)
  expect(onSilent).not.toHaveBeenCalled()
})

it('a process that sends anything does not hang, although the question waits behind connections in its queue', async () => {
  const { open, notice, onSilent } = watched()
  for (let second = 0; second < 20; second += 1) {
    await vi.advanceTimersByTimeAsync(1_000)
    notice()
  }
  expect(open).toHaveLength(1)
  expect(onSilent).not.toHaveBeenCalled()
})

it('a process that cannot be asked does not hang', async () => {
  const onSilent = vi.fn()
  watchAnswers({ call: () => Promise.reject(new Error('lost')), received: () => 0 }, { silentMs: 5_000, onSilent })
  await vi.advanceTimersByTimeAsync(60_000)
  expect(onSilent).not.toHaveBeenCalled()
})
