import { spawn } from 'node:child_process'
import { buffer } from 'node:stream/consumers'
import type { Confined } from '../../../server/src/platform/sandbox/confined.ts'

/** Runs git without limits. */
export const confined: Confined = {
  isSandboxed: false,
  user: null,
  async run({ argv: [program, ...args], env, onOutput, input }) {
    const child = spawn(program, args, { env: { ...env, PATH: process.env['PATH'] }, stdio: 'pipe' })
    if (onOutput !== undefined) child.stdout.on('data', onOutput)
    void input?.then((text) => child.stdin.end(text))
    if (input === undefined) child.stdin.end()
    const outputs = [onOutput === undefined ? buffer(child.stdout) : Buffer.alloc(0), buffer(child.stderr)]
    const code = new Promise<number | null>((done) => child.once('close', done))
    const [stdout, stderr] = (await Promise.all(outputs)).map(String)
    const end = (text = '') => text.slice(-65_536)
    return { code: await code, stdout: end(stdout), stderr: end(stderr), exceeded: false }
  },
}
