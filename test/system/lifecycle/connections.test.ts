import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { freePort, portSettings } from '../../harness/ports.ts'
import { command } from '../../harness/process.ts'
import { serverProcesses } from '../../harness/server-processes.ts'

it('clients that open as many connections to the server as they can block no command', async () => {
  await using servers = await serverProcesses()
  const { data } = servers
  const port = await freePort()
  const env = { PATH: process.env['PATH'], FAIRLEAD_PORT: String(port), ...portSettings, ...servers.environment }
  const limited = ['-c', 'ulimit -n 600; exec "$@"', 'sh', process.execPath, command, 'serve', '--data-dir', data]
  const server = spawn('bash', limited, { env, stdio: ['ignore', 'pipe', 'inherit'], detached: true })
  const exited = once(server, 'exit')
  const clients: Socket[] = []
  try {
    let log = ''
    server.stdout.on('data', (text) => {
      log += text
    })
    await expect.poll(() => log, { timeout: 60_000 }).toContain('"msg":"ready"')
    for (let at = 0; at < 700; at += 1) clients.push(connect(port, '127.0.0.1').on('error', () => undefined))
    await expect.poll(() => clients.filter((socket) => socket.destroyed).length).toBeGreaterThan(350)
    const { stdout } = await servers.command('status', '--json')
    expect(JSON.parse(stdout)).toMatchObject({ servers: [{ state: 'ready' }] })
  } finally {
    for (const socket of clients) socket.destroy()
    server.kill('SIGINT')
    await exited
  }
})
