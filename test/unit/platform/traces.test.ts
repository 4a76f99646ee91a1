import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { hasEnded, traceOfThisProcess } from '../../../server/src/platform/processes.ts'

const source = fileURLToPath(new URL('../../../server/src/platform/processes.ts', import.meta.url))
const program = `const { traceOfThisProcess } = await import(${JSON.stringify(source)})
process.stdout.write(traceOfThisProcess())
setInterval(() => {}, 60000)`

it('the trace of a process shows other processes when the process has ended', async () => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  const [output] = (await once(child.stdout, 'data')) as [Buffer]
  const trace = output.toString()
  expect(hasEnded(trace)).toBe(false)
  child.kill('SIGSTOP')
  expect(hasEnded(trace)).toBe(false)
  child.kill('SIGKILL')
  await exited
  expect(hasEnded(trace)).toBe(true)
})

it('a trace proves nothing about another machine, another boot or another container, or when it is malformed', () => {
  const own = traceOfThisProcess() ?? ''
  const [boot, namespace, pid, startTime] = own.split(' ')
  expect(hasEnded(own)).toBe(false)
  expect(hasEnded(`${boot} ${namespace} ${pid} ${Number(startTime) - 1}`)).toBe(true)
  expect(hasEnded(`another-boot ${namespace} ${pid} 1`)).toBe(false)
  expect(hasEnded(`${boot} pid:[1] ${pid} 1`)).toBe(false)
  for (const malformed of ['', 'x', `${boot} ${namespace}`, `${boot} ${namespace} -1 1`, `${boot} ${namespace} 0 1`]) {
    expect(hasEnded(malformed)).toBe(false)
  }
})
