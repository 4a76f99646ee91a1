import { parseArgs } from 'node:util'
import { temporaryDirectory } from '../test/harness/temporary.ts'
import { tell } from './story.ts'
import { createTerminal } from './terminal.ts'

/**
 * `npm run demo`: the whole story in a temporary directory, until Ctrl+C.
 * `npm run demo -- --once` ends by itself: status 0 when every step was seen, 1 otherwise.
 */
const { values } = parseArgs({ options: { once: { type: 'boolean', default: false } } })
const terminal = createTerminal(process.stdout)
const interrupted = new Promise<void>((done) => {
  // Not `once`: through npm a Ctrl+C comes twice, and the second one must not end the stop half-way.
  process.on('SIGINT', () => done())
  process.on('SIGTERM', () => done())
})
const start = performance.now()

const running = new AsyncDisposableStack()
try {
  const directory = running.use(await temporaryDirectory())
  const url = await Promise.race([tell(terminal, directory.path, running), interrupted])
  if (url !== undefined) {
    terminal.line()
    terminal.line(`  Every step was seen, in ${((performance.now() - start) / 1000).toFixed(1)} s.`)
    if (!values.once) {
      terminal.line(`  The app goes on at ${url}. Press Ctrl+C to stop everything.`)
      await interrupted
    }
  }
} catch {
  // The step itself has said what went wrong.
  process.exitCode = 1
} finally {
  terminal.line()
  terminal.line('  Stopping: the apps, the server, its database; the temporary directory goes with them.')
  await running.disposeAsync()
}
