import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { processesIn } from '../../harness/process.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const main = fileURLToPath(new URL('../../../demo/main.ts', import.meta.url))

const demo = (args: string[], temporary: string): ChildProcess =>
  spawn(process.execPath, [main, ...args], {
    env: { ...process.env, TMPDIR: temporary, FORCE_COLOR: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })

const textOf = async (child: ChildProcess): Promise<string> => {
  let text = ''
  for await (const chunk of child.stdout ?? []) text += chunk
  return text
}

const leftIn = async (temporary: string): Promise<string[]> =>
  (await readdir(temporary)).filter((name) => name.startsWith('fairlead'))

describe('the demo', () => {
  it('runs all steps once and leaves nothing behind', async () => {
    await using directory = await temporaryDirectory()
    const child = demo(['--once'], directory.path)
    const exit = once(child, 'exit')
    const text = await textOf(child)
    expect(text).not.toContain('✗')
    expect(text.match(/^ {2}✓ .*$/gm)).toHaveLength(14)
    expect(text).toMatch(/✓ receive the signed webhook .* deployment\.succeeded/)
    expect(text).toMatch(/ask the address again .*"version":2/)
    expect(text).toMatch(/[1-9]\d* requests, none failed, one change of the answer/)
    expect(text).not.toContain('\u001b')
    expect((await exit)[0]).toBe(0)
    expect(await leftIn(directory.path)).toEqual([])
    expect(await processesIn(directory.path)).toEqual([])
  })

  it('keeps running until Ctrl+C and then cleans up', async () => {
    await using directory = await temporaryDirectory()
    const child = demo([], directory.path)
    const exit = once(child, 'exit')
    let text = ''
    for await (const chunk of child.stdout ?? []) {
      text += chunk
      if (String(chunk).includes('Press Ctrl+C')) {
        const url = /keeps running at (\S+)\./.exec(text)?.[1] ?? ''
        expect((await fetch(url)).status).toBe(200)
        // Sent twice, as by a terminal through npm.
        child.kill('SIGINT')
        child.kill('SIGINT')
      }
    }
    expect((await exit)[0]).toBe(0)
    expect(await leftIn(directory.path)).toEqual([])
    expect(await processesIn(directory.path)).toEqual([])
  })
})
