import type { ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { expect, it } from 'vitest'
import { nameFrom } from '../../../server/src/runtimes/process/terminal/terminal.ts'

const host = () => new EventEmitter() as ChildProcess

it('a terminal whose process hangs is given up', async () => {
  await expect(nameFrom(host(), 20)).rejects.toThrow('has not started within 0.02 s')
})

it('a terminal whose process ends early is given up, and a terminal that reports its name is opened', async () => {
  const [ending, speaking] = [host(), host()]
  const [ended, said] = [nameFrom(ending), nameFrom(speaking)]
  ending.emit('exit', 1)
  speaking.emit('message', '/dev/pts/7')
  await expect(ended).rejects.toThrow('has ended')
  expect(await said).toBe('/dev/pts/7')
})
