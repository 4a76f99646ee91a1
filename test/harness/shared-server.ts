import './one-connection.ts'
import { pino } from 'pino'
import { loadConfig } from '../../server/src/platform/config.ts'
import { startServer } from '../../server/src/server.ts'
import { countLogLine } from './counts.ts'
import { freePort, portSettings } from './ports.ts'
import { memoryOptions, memoryRuntime } from './runtimes/memory.ts'
import { Ended } from './runtimes/memory-process.ts'

/*
 * The server that all API tests of a run share, as a program. Its environment variables are its settings. It prints its
 * address. It ends with its standard input, so that it never outlives the run.
 */

const isShown = process.env['SHARED_SERVER_LOG'] !== undefined
const write = (line: string) => {
  countLogLine(JSON.parse(line))
  if (isShown) process.stderr.write(line)
}
process.on('unhandledRejection', (error) => {
  if (!(error instanceof Ended)) throw error
})
const settings = { ...process.env, ...portSettings, FAIRLEAD_PORT: String(await freePort()) }
const config = loadConfig({}, settings)
const memory = await memoryRuntime(config.dataDirectory)
const server = await startServer({
  config,
  logger: pino({ level: 'info' }, { write }),
  strictResponses: true,
  preferredRuntime: memory.runtime,
  ...memoryOptions,
  onFatal(error) {
    throw error
  },
})
process.stdout.write(`${server.url}\n`)
process.stdin.resume().on('end', async () => {
  await server.stop('all')
  await memory[Symbol.asyncDispose]()
  process.exit(0)
})
