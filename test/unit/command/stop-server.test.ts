import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { stopServer } from '../../../server/src/commands/stop-everything.ts'

/** A server that ends right after the nth check that it runs. */
async function endsAfterLook(nth: number, answers: boolean) {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)'], { stdio: 'ignore' })
  await once(child, 'spawn')
  let looks = 0
  return {
    record: { pid: child.pid ?? 0, version: '1.0.0' },
    async stop() {
      if (!answers) throw new Error('connect ECONNREFUSED')
    },
    async isRunning() {
      looks += 1
      if (looks < nth) return true
      if (looks > nth) return false
      child.kill('SIGKILL')
      await once(child, 'exit')
      return true
    },
  }
}

const told: string[] = []
const report = (line: string) => void told.push(line)

it('a server that does not answer, and ends before its signal, is stopped', async () => {
  await stopServer(await endsAfterLook(1, false), 1_000, report)
  expect(told.splice(0)).toEqual([expect.stringMatching(/^stopped server 1\.0\.0 /)])
})

it('a server that misses its deadline, and ends before it is killed, is stopped', async () => {
  await stopServer(await endsAfterLook(1, true), -1, report)
  expect(told.splice(0)).toEqual([expect.stringMatching(/^ended server 1\.0\.0 .* by force/)])
})
