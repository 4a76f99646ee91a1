import { spawn } from 'node:child_process'
import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import type { Container } from '../../../../server/src/runtimes/docker/calls.ts'
import type { EngineRequest } from '../../../../server/src/runtimes/docker/client.ts'
import { createOwnCheck } from '../../../../server/src/runtimes/docker/observe.ts'

const container = {
  Id: 'c',
  State: { Health: { Status: 'starting' } },
  Config: { Healthcheck: { Test: ['CMD', 'check'], Timeout: 50e6 } },
} as unknown as Container

/** An engine whose commands in containers hang as processes of this machine. */
function hangingEngine(canBeEnded: boolean) {
  let looks = 0
  const started: { pid: number; running: boolean; child: ReturnType<typeof spawn> }[] = []
  const engine = {
    async call({ path }: EngineRequest) {
      if (path[2] === 'exec') {
        const child = spawn('/bin/sh', ['-c', 'sleep 600 & wait'], {
          detached: true,
          stdio: ['ignore', 'pipe', 'ignore'],
        })
        const one = { pid: child.pid ?? 0, running: true, child }
        // Only when the children have ended, too: they hold its output.
        child.once('close', () => {
          one.running = false
        })
        started.push(one)
        return { Id: String(started.length - 1) }
      }
      looks += 1
      const one = started[Number(path[1])]
      // Like a process of another user: no process has this number.
      return { Running: one?.running, ExitCode: null, Pid: canBeEnded ? one?.pid : 2 ** 30 }
    },
    async open({ signal }: EngineRequest) {
      const output = new PassThrough()
      signal?.addEventListener('abort', () => output.end())
      return output
    },
  }
  return { engine: engine as never, started, looks: () => looks }
}

const longerThan = 'the HEALTHCHECK of its image takes longer than 0.05 s'

it('a hanging check of an image is ended at its deadline, with its children', async () => {
  const { engine, started } = hangingEngine(true)
  const check = createOwnCheck(engine, () => undefined)
  expect(await check.problemOf(container)).toBe(longerThan)
  await expect.poll(() => started[0]?.running).toBe(false)
  expect(started[0]?.child.signalCode).toBe('SIGKILL')
})

it('a check that cannot be ended prevents a second check', async () => {
  const { engine, started, looks } = hangingEngine(false)
  const check = createOwnCheck(engine, () => undefined)
  try {
    expect(await check.problemOf(container)).toBe(longerThan)
    const before = looks()
    // After the pause.
    await expect.poll(looks).toBeGreaterThan(before)
    expect(await check.problemOf(container)).toBe(longerThan)
    expect(started).toHaveLength(1)
  } finally {
    process.kill(-(started[0]?.pid ?? 0), 'SIGKILL')
  }
})
