import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { pollMs, silentMs } from '../../../server/src/platform/leadership/lock.ts'
import { testDatabase } from '../../harness/database.ts'
import { candidate } from '../../harness/platform/fixtures/campaign.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const program = fileURLToPath(new URL('./fixtures/campaign-process.ts', import.meta.url))

/** A leader in a separate process, and a second candidate in this process. */
async function leaderAndFollower() {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const database = cleanup.use(await testDatabase())
  await database.query('create table written (epoch bigint not null)')
  const common = {
    connection: { connectionString: database.url },
    epochDirectory: join(directory.path, 'leader-epoch'),
  }
  const child = spawn(process.execPath, [program, JSON.stringify({ ...common, id: 'child' })], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  cleanup.defer(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const lines: Record<string, unknown>[] = []
  createInterface(child.stdout).on('line', (line) => lines.push(JSON.parse(line)))
  const reported = (key: string) => expect.poll(() => lines.findLast((line) => key in line)).toBeDefined()
  await reported('leads')
  const follower = cleanup.use(candidate({ id: 'follower', ...common }))
  await follower.ready
  const owned = cleanup.move()
  return {
    child,
    follower,
    lines,
    written: async () =>
      (await database.query<{ epoch: string }>('select epoch from written order by 1')).map(({ epoch }) =>
        Number(epoch),
      ),
    /** Resolves when the follower leads. A busy machine may need longer than the 5 s that the timings add up to. */
    async takenOver() {
      const began = performance.now()
      await follower.leading()
      expect(performance.now() - began).toBeLessThan(15_000)
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

it('the times until the replacement of a silent leader add up to less than 5 s', () => {
  expect(silentMs + 2 * pollMs).toBeLessThanOrEqual(3_500)
})

it('another server leads soon after the death of the leader, in the next epoch', async () => {
  await using test = await leaderAndFollower()
  test.child.kill('SIGKILL')
  await test.takenOver()
  expect(test.follower.terms.map(({ epoch }) => epoch)).toEqual([2])
  // The open transaction of the dead leader was rolled back.
  expect(await test.written()).toEqual([])
})

it('a leader that was suspended is replaced, can write nothing afterwards, and can lead again', async () => {
  await using test = await leaderAndFollower()
  test.child.kill('SIGSTOP')
  await test.takenOver()
  const [leadership] = test.follower.terms
  await leadership?.state.pool.query('insert into written values (2)')
  expect(await test.written()).toEqual([2])

  test.child.kill('SIGCONT')
  await expect
    .poll(() => test.lines.find((line) => 'outcomes' in line))
    .toEqual({
      outcomes: {
        fence: 'NotLeading',
        transaction: 'refused',
        idle: 'refused',
        fresh: expect.stringMatching(/NotLeading|refused/),
      },
    })
  await expect.poll(() => test.lines.find((line) => 'ended' in line)).toEqual({ ended: 1, lost: true })
  expect(await test.written()).toEqual([2])
  expect(leadership?.signal.aborted).toBe(false)

  await test.follower.stop()
  await expect.poll(() => test.lines.findLast((line) => 'leads' in line)).toMatchObject({ leads: 3 })
})
